# SPDX-License-Identifier: Apache-2.0
"""W8: an existing cluster prepared by `karpenter install aws`, and by hand as old notes did: both end alike."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from tests.component.aws.stand import Model, running_model
from tests.e2e.awscli import find_aws
from tests.e2e.controlplane import ControlPlane, find_binaries
from tests.e2e.helm import CHARTS, Helm, find_helm
from tests.e2e.product import wait_for
from tests.e2e.scenes import OLD_KINDS

pytestmark = pytest.mark.timeout(1500)  # the first run builds helm and installs the aws command

_CLUSTER = "prod"
_W8 = Path(__file__).parent / "scenarios" / "commands" / "w8.sh"
_NODE_ROLE = f"KarpenterNodeRole-{_CLUSTER}"
_CONTROLLER_ROLE = f"KarpenterControllerRole-{_CLUSTER}"
_OTHERS = """\
# written by the platform team
- rolearn: arn:aws:iam::123456789012:role/EKSNodeRole-prod
  username: system:node:{{EC2PrivateDNSName}}
  groups: [system:bootstrappers, system:nodes]
"""


@pytest.fixture
def bare() -> Iterator[Model]:
    """An account with a cluster in which nobody has installed anything, and which lets nodes in by aws-auth."""
    with running_model("--bare", "--cluster-name", _CLUSTER, "--cluster-version", "1.32") as model:
        model.do("cluster", {"authenticationMode": "CONFIG_MAP"})
        yield model


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The real control plane with an aws-auth that others wrote."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "aws-auth", "namespace": "kube-system"},
        "data": {"mapRoles": _OTHERS},
    }
    control_plane.kubectl("apply", "-f", "-", input=json.dumps(manifest))
    yield control_plane
    control_plane.kubectl("-n", "kube-system", "delete", "configmap", "aws-auth")


def _karpenter(
    model: Model, plane: ControlPlane, verb: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    helm = find_helm(os.environ)
    environ = {
        **os.environ,
        **model.environment,
        "AWS_ACCESS_KEY_ID": "admin",
        "KUBECONFIG": str(plane.kubeconfig),
        "PATH": f"{helm.parent}:{os.environ['PATH']}",
    }
    return subprocess.run(
        [sys.executable, "-m", "karpenter", verb, "aws", "--cluster-name", _CLUSTER, "--yes", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def _by_hand(model: Model, plane: ControlPlane, home: Path) -> None:
    """Type what old notes type, with our policies where they name a file."""
    written = _karpenter(model, plane, "install", "--emit", "cloudformation").stdout
    roles = [each["Properties"] for each in json.loads(written)["Resources"].values()]
    policies = home / "policies"
    policies.mkdir()
    for policy in next(each for each in roles if each.get("RoleName") == _CONTROLLER_ROLE)["Policies"]:
        text = json.dumps(policy["PolicyDocument"])
        (policies / f"{policy['PolicyName']}.json").write_text(text, encoding="utf-8")
    aws, helm = find_aws(os.environ), find_helm(os.environ)
    kubectl = find_binaries(os.environ).path("kubectl")
    environ = {
        **model.environment,
        "PATH": f"{aws.parent}:{helm.parent}:{kubectl.parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "KUBECONFIG": str(plane.kubeconfig),
        "AWS_ACCESS_KEY_ID": "admin",
        "AWS_DEFAULT_REGION": model.region,
        "CLUSTER_NAME": _CLUSTER,
        "CHARTS": str(CHARTS),
        "POLICIES": str(policies),
    }
    done = subprocess.run(
        ["sh", _W8], cwd=home, env=environ, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr


def _end_state(model: Model, plane: ControlPlane) -> dict[str, Any]:
    """Give what both ways must agree on: W8's list."""
    keys: dict[str, Any] = {"aws_access_key_id": "admin", "aws_secret_access_key": "admin"}
    iam = boto3.client("iam", endpoint_url=model.url, region_name=model.region, **keys)
    ec2 = boto3.client("ec2", endpoint_url=model.url, region_name=model.region, **keys)
    roles = {}
    for name in (_NODE_ROLE, _CONTROLLER_ROLE):
        inline = iam.list_role_policies(RoleName=name)["PolicyNames"]
        attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
        roles[name] = {
            "trust": iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"],
            "attached": sorted(each["PolicyName"] for each in attached),
            "inline": {
                each: iam.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"]
                for each in sorted(inline)
            },
        }
    profile = iam.get_instance_profile(InstanceProfileName=f"KarpenterNodeInstanceProfile-{_CLUSTER}")
    filters = [{"Name": "key", "Values": ["karpenter.sh/discovery"]}]
    tags = ec2.describe_tags(Filters=filters)["Tags"]
    mapped = _kubectl_json(plane, "-n", "kube-system", "get", "configmap", "aws-auth")["data"]["mapRoles"]
    account = _kubectl_json(plane, "-n", "karpenter", "get", "serviceaccount", "karpenter")
    deployment = _kubectl_json(plane, "-n", "karpenter", "get", "deployment", "karpenter")
    return {
        "roles": roles,
        "profile": [each["RoleName"] for each in profile["InstanceProfile"]["Roles"]],
        "tags": sorted((each["ResourceId"], each["Value"]) for each in tags),
        "aws-auth": yaml.safe_load(mapped),
        "role of the pods": account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"],
        "replicas": deployment["spec"]["replicas"],
    }


def _kubectl_json(plane: ControlPlane, *arguments: str) -> Any:
    return json.loads(plane.kubectl(*arguments, "-o", "json").stdout)


@contextlib.contextmanager
def _controller(model: Model, plane: ControlPlane, directory: Path) -> Iterator[None]:
    """Run the controller and kubelets as the installed release would: its account, its role's rights."""
    token = plane.kubectl("-n", "karpenter", "create", "token", "karpenter").stdout.strip()
    config = yaml.safe_load(plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    mine = directory / "kubeconfig"
    mine.write_text(yaml.safe_dump(config), encoding="utf-8")
    model.do("enforce", {"accessKey": "model", "role": _CONTROLLER_ROLE})
    environ = {**os.environ, **model.environment, "KUBECONFIG": str(mine)}
    flags = {
        "cluster-name": _CLUSTER,
        "metrics-port": "0",
        "health-probe-port": "0",
        "leader-election-namespace": "karpenter",
        "default-instance-profile": f"KarpenterNodeInstanceProfile-{_CLUSTER}",
    }
    commands = {
        "controller": ["controller", *(f"--{key}={value}" for key, value in flags.items())],
        "kubelets": ["sandbox", "kubelets", "--kubeconfig", str(plane.kubeconfig), "--ec2", model.url],
    }
    running = []
    for name, arguments in commands.items():
        with (directory / f"{name}.log").open("w", encoding="utf-8") as log:
            command = [sys.executable, "-m", "karpenter", *arguments]
            running.append(subprocess.Popen(command, env=environ, stdout=log, stderr=log))
    try:
        yield
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(20)


def test_both_ways_end_alike_and_an_old_provisioner_works_within_the_rights(
    bare: Model, cluster: ControlPlane, tmp_path: Path
) -> None:
    installed = _karpenter(bare, cluster, "install", "--charts", str(CHARTS))
    assert installed.returncode == 0, installed.stderr
    by_command = _end_state(bare, cluster)
    pods = wait_for(
        lambda: _two(_kubectl_json(cluster, "-n", "karpenter", "get", "pods")["items"]), "two pods", 30
    )
    assert all(each["spec"]["serviceAccountName"] == "karpenter" for each in pods)
    again = _karpenter(bare, cluster, "install", "--charts", str(CHARTS))
    assert "nothing to do" in again.stderr

    with _controller(bare, cluster, tmp_path):
        cluster.kubectl("apply", "-f", "-", input=OLD_KINDS)
        wait_for(lambda: _phase(cluster) == "Running", "the pod runs on a node of the old Provisioner", 90)
        assert len(bare.living()) == 1
        cluster.kubectl("delete", "pod", "waiting", "--now")
        cluster.kubectl("delete", "provisioners,awsnodetemplates", "--all", "--wait=false")
        cluster.kubectl("delete", "nodepools,nodeclaims", "--all", "--timeout=90s", timeout_s=100)
        wait_for(lambda: not bare.living(), "the instance goes", 60)
        cluster.kubectl("delete", "ec2nodeclasses", "--all", "--timeout=60s", timeout_s=70)
    assert bare.see("rights")["refused"] == []

    Helm(find_helm(os.environ), tmp_path, cluster.kubeconfig)("uninstall", "karpenter", "-n", "karpenter")
    removed = _karpenter(bare, cluster, "uninstall")
    assert removed.returncode == 0, removed.stderr
    left = _kubectl_json(cluster, "-n", "kube-system", "get", "configmap", "aws-auth")["data"]["mapRoles"]
    assert left == _OTHERS

    _by_hand(bare, cluster, tmp_path)
    assert _end_state(bare, cluster) == by_command
    Helm(find_helm(os.environ), tmp_path, cluster.kubeconfig)("uninstall", "karpenter", "-n", "karpenter")


def test_a_broken_aws_auth_is_left_as_it_is(bare: Model, cluster: ControlPlane) -> None:
    broken = json.dumps({"data": {"mapRoles": "- rolearn: ["}})
    cluster.kubectl("-n", "kube-system", "patch", "configmap", "aws-auth", "--type", "merge", "-p", broken)

    done = _karpenter(bare, cluster, "install")

    assert done.returncode == 1
    assert "is left as it is" in done.stderr
    found = _kubectl_json(cluster, "-n", "kube-system", "get", "configmap", "aws-auth")["data"]["mapRoles"]
    assert found == "- rolearn: ["
    assert bare.see("calls?mutating=1&service=iam")["calls"] == []


def _two(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return found if len(found) == 2 else []


def _phase(plane: ControlPlane) -> str:
    return plane.kubectl("get", "pod", "waiting", "-o", "jsonpath={.status.phase}").stdout
