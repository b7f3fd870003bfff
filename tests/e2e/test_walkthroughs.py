# SPDX-License-Identifier: Apache-2.0
"""What people's notes do, word for word, with the real kubectl: on a real control plane and on the sandbox."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane import KubectlFailedError
from tests.e2e.product import Product, wait_for
from tests.e2e.scenarios import (
    PLANES,
    has_rows_of_describe_node,
    manifest,
    node_types,
    nodes_labelled,
    plane_named,
    rollout,
    scale,
    wait_until_ready,
)

__all__ = ["INFLATE", "W1"]

W1 = manifest("w1")
INFLATE = manifest("inflate")
_PROFILE = "KarpenterNodeInstanceProfile-sandbox"
_SEOUL = "ap-northeast-2"

pytestmark = pytest.mark.timeout(900)


@contextlib.contextmanager
def product_on(name: str, directory: Path, **options: Any) -> Iterator[Product]:
    """The product at work on the plane of a name."""
    with (
        plane_named(name, directory / "plane") as plane,
        Product(plane, directory / "product", **options) as product,
    ):
        yield product


@pytest.mark.parametrize("name", PLANES)
def test_inflate_grows_from_nothing_to_two_m5_large_and_ends_clean(name: str, tmp_path: Path) -> None:
    with product_on(name, tmp_path) as product:
        product.apply(W1)
        product.apply(INFLATE)
        wait_until_ready(product, "ec2nodeclass/default", "nodepool/default")

        scale(product, 5)
        [first] = nodes_labelled(product, "type=karpenter")
        assert node_types([first]) == ["m5.large"]
        launched = [line for line in product.log() if line["message"] == "launched nodeclaim"]
        assert launched[0]["instance-type"] == "m5.large"

        scale(product, 12)
        nodes = nodes_labelled(product, "type=karpenter")
        assert node_types(nodes) == ["m5.large"] * 2
        assert first["metadata"]["name"] in {node["metadata"]["name"] for node in nodes}
        assert len(product.instances()) == 2
        label = "node.kubernetes.io/instance-type"
        shown = product.plane.kubectl("get", "nodes", "-l", "type=karpenter", "-L", label).stdout
        assert shown.splitlines()[0].split()[-1] == "INSTANCE-TYPE"
        assert shown.count("m5.large") == 2

        has_rows_of_describe_node(nodes[0])
        _claim_and_node_know_each_other(product, nodes[0])
        _instance_carries_its_tags(product)

        _a_deleted_node_is_drained_and_replaced(product, nodes[0]["metadata"]["name"])
        _an_instance_killed_by_hand_is_noticed(product)

        product.plane.kubectl("scale", "-n", "other", "deploy/inflate", "--replicas=0")
        product.plane.kubectl("delete", "nodeclaims", "--all", "--timeout=120s", timeout_s=130)
        wait_for(lambda: not product.instances(), "no instance is left in the account", 180)
        assert product.get("nodes") == []


def _claim_and_node_know_each_other(product: Product, node: dict[str, Any]) -> None:
    assert node["metadata"]["finalizers"] == ["karpenter.sh/termination"]
    [owner] = node["metadata"]["ownerReferences"]
    assert owner["kind"] == "NodeClaim"
    [claim] = product.get("nodeclaims", owner["name"])
    assert claim["status"]["providerID"] == node["spec"]["providerID"]
    assert claim["status"]["nodeName"] == node["metadata"]["name"]
    assert claim["metadata"]["ownerReferences"][0]["kind"] == "NodePool"


def _instance_carries_its_tags(product: Product) -> None:
    for instance in product.instances():
        tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
        assert tags["karpenter.sh/nodepool"] == "default"
        assert tags["kubernetes.io/cluster/sandbox"] == "owned"
        assert tags["team"] == "a"

    def are_named() -> bool:
        names = {tag["Value"] for each in product.instances() for tag in each["Tags"] if tag["Key"] == "Name"}
        return names == {node["metadata"]["name"] for node in nodes_labelled(product, "type=karpenter")}

    wait_for(are_named, "instances are named after their nodes", 90)


def _a_deleted_node_is_drained_and_replaced(product: Product, name: str) -> None:
    product.plane.kubectl("delete", "node", name, "--timeout=120s", timeout_s=130)
    rollout(product, "deploy/inflate")
    assert name not in {node["metadata"]["name"] for node in nodes_labelled(product, "type=karpenter")}
    wait_for(lambda: len(product.instances()) == 2, "the instance of the deleted node is gone", 180)
    messages = product.messages()
    assert messages.index("tainted node") < messages.index("deleted node")


def _an_instance_killed_by_hand_is_noticed(product: Product) -> None:
    victim = product.instances()[0]["InstanceId"]
    with contextlib.closing(product.aws()) as client:
        client.terminate_instances(InstanceIds=[victim])

    def is_gone() -> bool:
        claims = product.get("nodeclaims")
        return all(victim not in claim.get("status", {}).get("providerID", "") for claim in claims)

    wait_for(is_gone, "the claim of the dead instance is gone", 180)
    rollout(product, "deploy/inflate")


@pytest.mark.parametrize("name", PLANES)
def test_the_default_provisioner_of_old_makes_a_node_in_seoul(name: str, tmp_path: Path) -> None:
    # Amazon Linux 2 is not published for Kubernetes 1.33 and newer; the cluster's version is what EKS says.
    with product_on(name, tmp_path, region=_SEOUL, cluster_version="1.32") as product:
        _make_profile(product)
        product.apply(manifest("w2"))
        wait_until_ready(product, "provisioner/karpenter-default", "ec2nodeclass/karpenter-default")

        product.apply(manifest("w2-pod"))
        product.plane.kubectl("wait", "--for=condition=Ready", "pod/work", "--timeout=180s", timeout_s=190)

        [node] = product.get("nodes")
        assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] in {f"{_SEOUL}a", f"{_SEOUL}c"}
        assert node["metadata"]["labels"]["karpenter.k8s.aws/instance-hypervisor"] == "nitro"
        has_rows_of_describe_node(node)
        _claim_and_node_know_each_other(product, node)
        _has_the_labels_of_old(product, node)
        _launch_template_carries_everything(product)
        _log_lines_come_in_order(product, node)

        with pytest.raises(KubectlFailedError, match=r"spec\.requirements\[0\]\.requirements"):
            product.apply(manifest("w2-broken"))
        assert [each["metadata"]["name"] for each in product.get("provisioners")] == ["karpenter-default"]


def _make_profile(product: Product) -> None:
    with contextlib.closing(product.aws("iam")) as iam:
        iam.create_instance_profile(InstanceProfileName=_PROFILE)
        iam.add_role_to_instance_profile(InstanceProfileName=_PROFILE, RoleName="KarpenterNodeRole-sandbox")


def _has_the_labels_of_old(product: Product, node: dict[str, Any]) -> None:
    def hydrated() -> dict[str, Any] | None:
        [found] = product.get("nodes", node["metadata"]["name"])
        return found if "karpenter.sh/provisioner-name" in found["metadata"]["labels"] else None

    found = wait_for(hydrated, "the node has the labels of old", 90)
    labels = found["metadata"]["labels"]
    [claim] = product.get("nodeclaims")
    [instance] = product.instances()
    assert labels["karpenter.sh/provisioner-name"] == "karpenter-default"
    assert labels["karpenter.sh/machine-name"] == claim["metadata"]["name"]
    assert labels["karpenter.k8s.aws/instance-pods"] == found["status"]["capacity"]["pods"]
    assert labels["karpenter.k8s.aws/instance-ami-id"] == instance["ImageId"]
    assert found["metadata"]["annotations"]["karpenter.sh/managed-by"] == "sandbox"


def _launch_template_carries_everything(product: Product) -> None:
    [instance] = product.instances()
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    with contextlib.closing(product.aws()) as ec2:
        named = ec2.describe_launch_template_versions(
            LaunchTemplateId=tags["aws:ec2launchtemplate:id"],
            Versions=[tags["aws:ec2launchtemplate:version"]],
        )
    data = named["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert data["BlockDeviceMappings"] == [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {
                "VolumeSize": 30,
                "VolumeType": "gp3",
                "Iops": 3000,
                "Throughput": 125,
                "Encrypted": True,
                "DeleteOnTermination": True,
                "KmsKeyId": "arn:aws:kms:ap-northeast-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
            },
        }
    ]
    assert data["IamInstanceProfile"] == {"Name": _PROFILE}
    assert data["Monitoring"] == {"Enabled": True}
    assert data["ImageId"] == instance["ImageId"]
    assert data["NetworkInterfaces"][0]["Groups"] == [each["GroupId"] for each in instance["SecurityGroups"]]
    told = base64.b64decode(data["UserData"]).decode()
    assert "/etc/eks/bootstrap.sh" in told
    assert "--eviction-max-pod-grace-period=60" in told
    assert tags["team"] == "platform"
    assert tags["environment"] == "example"


def _log_lines_come_in_order(product: Product, node: dict[str, Any]) -> None:
    lines = list(product.log())
    said = [str(line.get("message", "")) for line in lines]
    wanted = [
        "found provisionable pod(s)",
        "computed new nodeclaim(s) to fit pod(s)",
        "created nodeclaim",
        "discovered kubernetes version",
        "discovered ami",
        "created launch template",
        "launched nodeclaim",
        "registered nodeclaim",
    ]
    places = [said.index(each) for each in wanted]
    assert places == sorted(places), said
    by_name = {each: lines[place] for each, place in zip(wanted, places, strict=True)}
    ordered = by_name["created nodeclaim"]
    assert ordered["requests"]["cpu"] == "1475m"
    assert ordered["requests"]["memory"] == "1686Mi"
    assert ordered["instance-types"]
    assert by_name["discovered kubernetes version"]["version"] == "1.32"
    assert by_name["discovered ami"]["query"].startswith("/aws/service/eks/optimized-ami/1.32/amazon-linux-2")
    launched = by_name["launched nodeclaim"]
    [instance] = product.instances()
    assert instance["InstanceId"] in launched["provider-id"]
    assert launched["instance-type"] == instance["InstanceType"]
    assert launched["zone"] == instance["Placement"]["AvailabilityZone"]
    assert launched["capacity-type"] in {"spot", "on-demand"}
    assert by_name["registered nodeclaim"]["Node"]["name"] == node["metadata"]["name"]


@pytest.mark.parametrize("name", PLANES)
def test_a_team_gets_nodes_of_its_own_provisioner_and_weights_decide_for_the_rest(
    name: str, tmp_path: Path
) -> None:
    with product_on(name, tmp_path, cluster_version="1.32") as product:
        _make_profile(product)
        product.apply(manifest("w3"))
        wait_until_ready(product, "provisioner/team1", "provisioner/heavy", "provisioner/tainted")

        # Plain pods first: they may run anywhere, and would take what is left of the team's nodes.
        for each, count in (("plain", 1), ("team1", 5), ("tolerant", 1)):
            scale(product, count, f"deploy/{each}", "default")

        pools = {
            node["metadata"]["name"]: node["metadata"]["labels"]["karpenter.sh/nodepool"]
            for node in product.get("nodes")
        }

        def served_by(app: str) -> set[str]:
            return {pools[pod["spec"]["nodeName"]] for pod in product.get("pods", "-l", f"app={app}")}

        assert served_by("team1") == {"team1"}
        assert served_by("plain") == {"heavy"}
        assert served_by("tolerant") == {"tainted"}
        team = nodes_labelled(product, "team=team1")
        assert {node["metadata"]["labels"]["karpenter.sh/capacity-type"] for node in team} == {"on-demand"}


def test_a_timetable_of_keda_has_five_nodes_stand_before_the_load(tmp_path: Path) -> None:
    with product_on("sandbox", tmp_path, cluster_version="1.32") as product:
        _make_profile(product)
        product.apply(manifest("w3"))
        wait_until_ready(product, "provisioner/team1")
        # The notes' timetable is open from :03 to :10; here it opens now, so that nobody waits for the hour.
        now = datetime.now(UTC)
        start, end = now.minute, (now + timedelta(minutes=7)).minute
        timetable = manifest("w4").replace("START", str(start)).replace("END", str(end))

        product.apply(timetable)
        wait_for(
            lambda: product.get("deploy", "overprovision")[0]["spec"]["replicas"] == 5,
            "the timetable asks for five",
        )
        rollout(product, "deploy/overprovision", "default")

        nodes = nodes_labelled(product, "team=team1")
        assert len(nodes) == 5
        pods = product.get("pods", "-l", "app=overprovision")
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 5


@pytest.mark.parametrize("name", PLANES)
def test_describe_node_shows_the_rows_that_people_noted(name: str, tmp_path: Path) -> None:
    with product_on(name, tmp_path) as product:
        product.apply(manifest("w5"))
        wait_until_ready(product, "nodepool/default")
        product.plane.kubectl("wait", "--for=condition=Ready", "pod/work", "--timeout=180s", timeout_s=190)

        [node] = product.get("nodes")
        has_rows_of_describe_node(node)
        [claim] = product.get("nodeclaims")
        noted = {
            "cpu": "7910m",
            "memory": "14162Mi",
            "pods": "58",
            "ephemeral-storage": "17Gi",
            "vpc.amazonaws.com/pod-eni": "38",
        }
        planned = claim["status"]["allocatable"]
        assert {each: planned[each] for each in noted} == noted

        def offered() -> dict[str, str] | None:
            found: dict[str, str] = product.get("nodes")[0]["status"]["allocatable"]
            return found if "vpc.amazonaws.com/pod-eni" in found else None

        real = wait_for(offered, "the node offers its pod interfaces", 30)
        for each in ("cpu", "pods", "vpc.amazonaws.com/pod-eni"):
            assert real[each] == noted[each]
        # Never less than was planned for: the plan takes a little more of the memory away than machines do.
        assert 14162 <= _mebibytes(real["memory"]) < 14162 * 1.03
        assert _mebibytes(real["ephemeral-storage"]) == pytest.approx(17 * 1024, rel=0.05)
        shown = product.plane.kubectl("describe", "node", node["metadata"]["name"]).stdout
        assert "karpenter.k8s.aws/instance-family=c7i" in shown
        assert "node.kubernetes.io/instance-type=c7i.2xlarge" in shown
        assert "work" in shown.partition("Non-terminated Pods")[2]


def _mebibytes(text: str) -> float:
    for unit, factor in (("Ki", 1 / 1024), ("Mi", 1.0), ("Gi", 1024.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text) / 2**20
