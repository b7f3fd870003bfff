# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from karpenter.api.core import Taint
from karpenter.api.ec2nodeclass import AMISelectorTerm, EC2NodeClass, EC2NodeClassSpec, KubeletConfiguration
from karpenter.api.meta import ObjectMeta
from karpenter.cloud.aws.userdata import Cluster, user_data
from tests.component.aws.stand import Model, running_model
from tests.e2e.controlplane import ControlPlane, eventually

TEAM = Taint(key="team", value="a", effect="NoSchedule")
UNREGISTERED = "karpenter.sh/unregistered"
IMAGE = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
SUBNETS = [{"Name": "tag:karpenter.sh/discovery", "Values": ["sandbox"]}]
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: sums}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {sandbox.karpenter.sh/complete-after: 300ms}}
    spec:
      restartPolicy: Never
      tolerations: [{operator: Exists}]
      initContainers: [{name: fetch, image: "registry.invalid/fetch"}]
      containers: [{name: sum, image: "registry.invalid/sum"}]
"""


@dataclass
class Stand:
    """A control plane, an EC2 model and the kubelets between them."""

    plane: ControlPlane
    model: Model
    # Nodes are named by their addresses, so two models at one control plane need subnets of their own.
    subnet: int = 0

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.model.url,
            region_name=self.model.region,
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )

    def launch(
        self, *, cluster: str = "sandbox", behaviour: str = "", kind: str = "m5.large", count: int = 1
    ) -> list[str]:
        """Launches machines with the user data that the provider would give them."""
        told = user_data(
            Cluster(cluster, "https://sandbox.invalid", "Q0E=", "10.100.0.0/16", "10.100.0.10"),
            EC2NodeClass(
                metadata=ObjectMeta(name="default"),
                spec=EC2NodeClassSpec(
                    ami_selector_terms=(AMISelectorTerm(alias="al2023@latest"),),
                    kubelet=KubeletConfiguration(system_reserved={"memory": "200Mi"}),
                ),
            ),
            labels={"karpenter.sh/nodepool": "default", "team": "a"},
            taints=(TEAM,),
            max_pods=29,
        )
        ec2, ssm = self.client("ec2"), self.client("ssm")
        try:
            tags = [{"Key": "sandbox.karpenter.sh/kubelet", "Value": behaviour}] if behaviour else []
            made = ec2.run_instances(
                ImageId=ssm.get_parameter(Name=IMAGE)["Parameter"]["Value"],
                InstanceType=kind,
                SubnetId=ec2.describe_subnets(Filters=SUBNETS)["Subnets"][self.subnet]["SubnetId"],
                MinCount=count,
                MaxCount=count,
                UserData=told.data.decode(),
                TagSpecifications=[
                    {"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "n"}, *tags]}
                ],
            )
        finally:
            ec2.close()
            ssm.close()
        return [each["InstanceId"] for each in made["Instances"]]

    def terminate(self, machine_id: str) -> None:
        ec2 = self.client("ec2")
        ec2.terminate_instances(InstanceIds=[machine_id])
        ec2.close()

    def node(self, machine_id: str) -> dict[str, Any] | None:
        items = self.plane.request("GET", "/api/v1/nodes").json()["items"]
        return next((each for each in items if each["spec"].get("providerID", "").endswith(machine_id)), None)

    def ready(self, machine_id: str) -> dict[str, Any]:
        """Waits for the machine's Node to be Ready."""
        found = eventually(
            lambda: self.node(machine_id),
            f"a ready node of {machine_id}",
            holds=lambda node: node is not None and _condition(node, "Ready") == "True",
        )
        assert found is not None
        return found

    def register(self, name: str) -> None:
        """Takes the taint away that Karpenter takes away when it has registered the node."""
        spec = self.plane.request("GET", f"/api/v1/nodes/{name}").json()["spec"]
        taints = [each for each in spec.get("taints", []) if each["key"] != UNREGISTERED]
        change = {"spec": {"taints": taints}}
        self.plane.request(
            "PATCH", f"/api/v1/nodes/{name}", change, content_type="application/merge-patch+json"
        )

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.plane.request(
            "GET", f"/api/v1/namespaces/{namespace}/pods"
        ).json()["items"]
        return items


@contextlib.contextmanager
def kubelets(plane: ControlPlane, model: Model, log: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Runs ``karpenter sandbox kubelets`` for the length of a block."""
    start = "import sys; from karpenter.cli import main; sys.exit(main())"
    arguments = ["sandbox", "kubelets", "--kubeconfig", str(plane.kubeconfig), "--ec2", model.url, *options]
    with (
        log.open("a", encoding="utf-8") as said,
        subprocess.Popen([sys.executable, "-c", start, *arguments], stderr=said, text=True) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=15)


@pytest.fixture(scope="module")
def stand(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    log = tmp_path_factory.mktemp("kubelets") / "log"
    options = ("--join-delay", "1s", "--cloud-delete-delay", "3s")
    with running_model("--no-throttling") as model, kubelets(control_plane, model, log, *options):
        # Seconds of boots and ends add nothing to these tests.
        model.do("settings", {"pendingSeconds": [0.2, 0.2], "shuttingDownSeconds": [0.2, 0.2]})
        yield Stand(control_plane, model)
        for each in model.living():
            model.do("terminate", {"instanceIds": [each["id"]]})
        eventually(
            lambda: [
                each
                for each in _nodes(control_plane)
                if each["spec"].get("providerID", "").startswith("aws:")
            ],
            "no node of the model",
            holds=lambda left: not left,
        )


def test_a_machine_becomes_a_ready_node_with_what_its_user_data_says(stand: Stand) -> None:
    (machine_id,) = stand.launch()

    node = stand.ready(machine_id)

    labels, taints = node["metadata"]["labels"], node["spec"]["taints"]
    assert node["metadata"]["name"].endswith(".us-west-2.compute.internal")
    assert node["spec"]["providerID"] == f"aws:///us-west-2a/{machine_id}"
    assert (labels["team"], labels["karpenter.sh/nodepool"]) == ("a", "default")
    assert labels["node.kubernetes.io/instance-type"] == "m5.large"
    assert labels["topology.kubernetes.io/zone"] == "us-west-2a"
    assert {(each["key"], each["effect"]) for each in taints} >= {
        ("team", "NoSchedule"),
        (UNREGISTERED, "NoExecute"),
    }
    assert node["status"]["capacity"]["pods"] == "29"
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.33.")
    eventually(
        lambda: [each["key"] for each in (stand.node(machine_id) or {})["spec"]["taints"]],
        "the control plane takes its taint away",
        holds=lambda keys: "node.kubernetes.io/not-ready" not in keys,
    )
    name = node["metadata"]["name"]
    lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
    assert stand.plane.request("GET", lease).json()["spec"]["holderIdentity"] == name
    driver = stand.plane.request("GET", f"/apis/storage.k8s.io/v1/csinodes/{name}").json()["spec"]["drivers"][
        0
    ]
    assert (driver["name"], driver["allocatable"]["count"]) == ("ebs.csi.aws.com", 26)
    eventually(
        lambda: (stand.node(machine_id) or {})["status"]["allocatable"].get("vpc.amazonaws.com/pod-eni"),
        "devices are reported a little later",
        holds=lambda count: count == "9",
    )


def test_pods_of_a_deployment_run_and_end_gracefully(stand: Stand, namespace: str) -> None:
    (machine_id,) = stand.launch()
    name = stand.ready(machine_id)["metadata"]["name"]
    stand.register(name)
    manifest = _workload("Deployment", annotations={"sandbox.karpenter.sh/shutdown-after": "1s"})
    manifest["spec"]["replicas"] = 3
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": name}

    stand.plane.kubectl("apply", "--namespace", namespace, "-f", "-", input=json.dumps(manifest))
    stand.plane.kubectl("rollout", "status", "deployment/web", "--namespace", namespace, "--timeout=30s")
    running = stand.pods(namespace)
    began = time.monotonic()
    stand.plane.kubectl("delete", "deployment", "web", "--namespace", namespace, "--wait=false")
    eventually(lambda: stand.pods(namespace), "no pod", holds=lambda left: not left)
    took_s = time.monotonic() - began

    assert [each["status"]["phase"] for each in running] == ["Running"] * 3
    assert {each["spec"]["nodeName"] for each in running} == {name}
    assert len({each["status"]["podIP"] for each in running}) == 3
    assert all(each["status"]["containerStatuses"][0]["ready"] for each in running)
    assert took_s >= 0.9


def test_a_job_completes_after_its_init_container(stand: Stand, namespace: str) -> None:
    (machine_id,) = stand.launch()
    stand.register(stand.ready(machine_id)["metadata"]["name"])

    stand.plane.kubectl("apply", "--namespace", namespace, "-f", "-", input=JOB)
    stand.plane.kubectl(
        "wait", "--for=condition=complete", "job/sums", "--namespace", namespace, "--timeout=30s"
    )

    (pod,) = stand.pods(namespace)
    assert pod["status"]["phase"] == "Succeeded"
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    stand.plane.kubectl("delete", "job", "sums", "--namespace", namespace)
    eventually(lambda: stand.pods(namespace), "no pod", holds=lambda left: not left)


def test_a_daemon_set_has_a_pod_on_every_node_and_is_left_by_a_forced_delete(
    stand: Stand, namespace: str
) -> None:
    names = [stand.ready(each)["metadata"]["name"] for each in stand.launch(count=2)]
    for name in names:
        stand.register(name)
    manifest = _workload("DaemonSet", annotations={"sandbox.karpenter.sh/shutdown-after": "1h"})

    stand.plane.kubectl("apply", "--namespace", namespace, "-f", "-", input=json.dumps(manifest))
    stand.plane.kubectl("rollout", "status", "daemonset/web", "--namespace", namespace, "--timeout=30s")
    running = stand.pods(namespace)
    stand.plane.kubectl("delete", "daemonset", "web", "--namespace", namespace, "--cascade=orphan")
    stand.plane.kubectl(
        "delete", "pods", "--all", "--namespace", namespace, "--grace-period=1", "--timeout=20s"
    )

    assert {each["spec"]["nodeName"] for each in running} >= set(names)
    assert {each["status"]["phase"] for each in running} == {"Running"}
    assert stand.pods(namespace) == []


def test_a_pod_that_does_not_fit_is_refused_as_kubelets_do(stand: Stand, namespace: str) -> None:
    (machine_id,) = stand.launch()
    name = stand.ready(machine_id)["metadata"]["name"]
    stand.register(name)
    container = {"name": "c", "image": "registry.invalid/c", "resources": {"requests": {"cpu": "8"}}}
    spec = {"nodeName": name, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "big"}, "spec": spec}

    stand.plane.kubectl("create", "--namespace", namespace, "-f", "-", input=json.dumps(pod))

    status = eventually(
        lambda: stand.pods(namespace)[0]["status"], "refused", holds=lambda seen: seen["phase"] == "Failed"
    )
    assert status["reason"] == "OutOfcpu"
    assert "requested: 8000" in status["message"]


def test_a_machine_of_another_cluster_never_joins(stand: Stand) -> None:
    (stranger,) = stand.launch(cluster="other")
    (never,) = stand.launch(behaviour="never-joins")
    (last,) = stand.launch()

    stand.ready(last)

    assert stand.node(stranger) is None
    assert stand.node(never) is None


def test_a_node_fails_on_demand_and_heals(stand: Stand) -> None:
    (machine_id,) = stand.launch(behaviour="disk-pressure@500ms")
    name = stand.ready(machine_id)["metadata"]["name"]
    eventually(
        lambda: _condition(stand.node(machine_id) or {}, "DiskPressure"),
        "disk pressure after half a second",
        holds=lambda status: status == "True",
    )

    stand.plane.kubectl("annotate", "node", name, "sandbox.karpenter.sh/kubelet=not-ready")
    eventually(
        lambda: _condition(stand.node(machine_id) or {}, "Ready"),
        "not ready",
        holds=lambda status: status == "False",
    )
    stand.plane.kubectl("annotate", "--overwrite", "node", name, "sandbox.karpenter.sh/kubelet=joins")

    stand.ready(machine_id)
    assert _condition(stand.node(machine_id) or {}, "DiskPressure") == "False"


def test_the_node_of_a_terminated_machine_is_deleted_by_the_cloud(stand: Stand) -> None:
    (machine_id,) = stand.launch()
    stand.ready(machine_id)

    stand.terminate(machine_id)

    eventually(lambda: stand.node(machine_id), "no node", holds=lambda node: node is None)


def test_without_leases_nodes_are_given_up_and_what_comes_back_is_ready_again(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    options = ("--join-delay", "0s", "--no-cloud-node-lifecycle")
    with running_model("--no-throttling", "--seed", "7") as model:
        model.do("settings", {"pendingSeconds": [0, 0]})
        stand = Stand(control_plane, model, subnet=1)
        with kubelets(control_plane, model, tmp_path / "log", *options):
            ended, stays, hangs = stand.launch(count=3)
            names = {each: stand.ready(each)["metadata"]["name"] for each in (ended, stays, hangs)}
            stand.register(names[hangs])
            manifest = _workload("Deployment", annotations={})
            manifest["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": names[hangs]}
            control_plane.kubectl("apply", "--namespace", namespace, "-f", "-", input=json.dumps(manifest))
            control_plane.kubectl(
                "rollout", "status", "deployment/web", "--namespace", namespace, "--timeout=30s"
            )
        with kubelets(control_plane, model, tmp_path / "log", *options):
            stand.terminate(ended)
            control_plane.kubectl("annotate", "node", names[hangs], "sandbox.karpenter.sh/kubelet=silent")
            # The control plane waits for 40 to 50 seconds without a lease.
            eventually(
                lambda: [_condition(stand.node(each) or {}, "Ready") for each in (ended, stays, hangs)],
                "given up",
                holds=lambda seen: seen == ["Unknown", "True", "Unknown"],
                timeout_s=80,
            )
            eventually(
                lambda: _condition(stand.pods(namespace)[0], "Ready"),
                "the pod is called unready",
                holds=lambda status: status == "False",
            )

            control_plane.kubectl("annotate", "node", names[hangs], "sandbox.karpenter.sh/kubelet-")

            stand.ready(hangs)
            eventually(
                lambda: _condition(stand.pods(namespace)[0], "Ready"),
                "the pod is ready again",
                holds=lambda status: status == "True",
            )
        for name in names.values():
            control_plane.request("DELETE", f"/api/v1/nodes/{name}")


def _nodes(plane: ControlPlane) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = plane.request("GET", "/api/v1/nodes").json()["items"]
    return items


def _condition(thing: dict[str, Any], kind: str) -> str:
    conditions = thing.get("status", {}).get("conditions", [])
    return next((str(each["status"]) for each in conditions if each["type"] == kind), "")


def _workload(kind: str, *, annotations: dict[str, str]) -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "web", "image": "registry.invalid/web"}],
                },
            },
        },
    }
