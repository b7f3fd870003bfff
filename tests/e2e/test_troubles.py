# SPDX-License-Identifier: Apache-2.0
"""Troubles that people had, on the real control plane and the EC2 model: what must happen instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for
from tests.e2e.scenes import conditions, deployment, events, running, tell_model, working

CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """The product at work, with a pool that is ready."""
    with ControlPlane() as plane, working(plane, tmp_path / "product") as product:
        yield product


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One product for troubles that do not get in each other's way: each has a pool of its own."""
    with ControlPlane() as plane, working(plane, tmp_path_factory.mktemp("troubles")) as product:
        yield product


def types(*names: str) -> dict[str, Any]:
    """A requirement on the instance type."""
    return {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(names)}


def make_pool(product: Product, name: str, *requirements: dict[str, Any], **spec: Any) -> None:
    """A pool whose nodes are told apart by their label type."""
    template = {"requirements": [ON_DEMAND, *requirements], "nodeClassRef": CLASS, **spec.pop("template", {})}
    whole = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": {"type": name}}, "spec": template},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
            **spec,
        },
    }
    product.apply(json.dumps(whole))
    wait_for(lambda: product.ready("nodepool", name), f"pool {name} is ready")


def claims_of(product: Product, pool: str) -> list[dict[str, Any]]:
    """The claims of a pool."""
    return product.get("nodeclaims", "-l", f"karpenter.sh/nodepool={pool}")


def type_of(claim: dict[str, Any]) -> str:
    """The instance type of a claim."""
    return str(claim["metadata"]["labels"]["node.kubernetes.io/instance-type"])


def refusals(product: Product, app: str) -> list[str]:
    """What our events say to the pods of an app."""
    names = {pod["metadata"]["name"] for pod in product.get("pods", "-l", f"app={app}")}
    return [words for name in names for words in events(product, "FailedScheduling", name)]


@pytest.mark.timeout(300)
def test_an_instance_that_dies_for_its_kms_key_is_told_and_launches_back_off(product: Product) -> None:
    reason = "Client.InvalidKMSKey.InvalidState"
    tell_model(product, "failures", {"kind": "dies", "instanceType": "*", "code": reason, "afterSeconds": 1})

    product.apply(deployment("inflate", 1))

    said = wait_for(lambda: events(product, "InstanceDied"), "an event tells how the instance died", 90)
    assert reason in said[0]
    wait_for(lambda: events(product, "LaunchesPaused"), "the pool pauses", 120)
    made = product.messages().count("created nodeclaim")
    assert made == 3


@pytest.mark.timeout(300)
def test_a_leader_killed_while_it_launches_leaves_no_double_and_no_leak(product: Product) -> None:
    standby = product.start_controller("standby")
    wait_for(lambda: "starting" in product.messages("standby"), "the standby runs")

    product.apply(deployment("inflate", 40, requests="{memory: 1Gi}"))
    wait_for(lambda: "created nodeclaim" in product.messages(), "the leader has ordered nodes", 30)
    product.kill("controller")

    wait_for(lambda: running(product, "inflate") == 40, "all pods run", 150)
    assert standby.poll() is None
    claims = {claim["status"]["providerID"].rpartition("/")[2] for claim in product.get("nodeclaims")}

    def equal() -> bool:
        return {each["InstanceId"] for each in product.instances()} == claims

    wait_for(equal, "every instance has its claim, and every claim one instance", 90)
    uids = [
        tag["Value"]
        for each in product.instances()
        for tag in each["Tags"]
        if tag["Key"] == "karpenter.sh/nodeclaim-uid"
    ]
    assert len(uids) == len(set(uids))


@pytest.mark.timeout(300)
def test_without_a_queue_a_warning_is_logged_and_a_lost_instance_is_still_noticed(tmp_path: Path) -> None:
    settings = {"interruption-queue": ""}
    with ControlPlane() as plane, working(plane, tmp_path / "product", **settings) as product:
        [warning] = [line for line in product.log() if "interruption handling is off" in line["message"]]
        assert warning["level"] == "WARN"
        assert "set --interruption-queue" in warning["hint"]
        product.apply(deployment("inflate", 2))
        wait_for(lambda: running(product, "inflate") == 2, "the pods run", 90)
        [lost, *_] = product.get("nodeclaims")

        instance = lost["status"]["providerID"].rpartition("/")[2]
        with_notice = product.messages().count("initiating delete from interruption message")
        tell_model(product, "terminate", {"instanceIds": [instance]})

        name = lost["metadata"]["name"]
        wait_for(
            lambda: name not in {each["metadata"]["name"] for each in product.get("nodeclaims")},
            "the claim of the lost instance is gone",
            150,
        )
        wait_for(lambda: running(product, "inflate") == 2, "the pods run again", 90)
        assert with_notice == 0


def test_a_pod_that_wants_an_interface_of_its_own_is_told_what_no_type_offers(shared: Product) -> None:
    make_pool(shared, "eni", types("t3.large", "t3.xlarge"))

    shared.apply(
        deployment("eni", 1, selector="{type: eni}", requests="{cpu: 500m}").replace(
            "requests: {cpu: 500m}",
            'requests: {cpu: 500m, vpc.amazonaws.com/pod-eni: "1"}, limits: {vpc.amazonaws.com/pod-eni: "1"}',
        )
    )

    said = wait_for(lambda: refusals(shared, "eni"), "the pod is told", 60)
    assert "eni: no instance type offers vpc.amazonaws.com/pod-eni" in said[0]
    assert claims_of(shared, "eni") == []
    shared.plane.kubectl("delete", "deployment", "eni")


FAMILIES = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: families}
spec:
  labels: {type: families}
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [c, t, m]}]
  providerRef: {name: default}
"""


def test_families_where_types_belong_are_told_on_the_provisioner_and_on_the_pod(shared: Product) -> None:
    shared.apply(FAMILIES)
    shared.apply(deployment("families", 1, selector="{type: families}"))

    meant = "did you mean karpenter.k8s.aws/instance-category"
    [said] = wait_for(
        lambda: events(shared, "NoCompatibleInstanceTypes", "families")[:1],
        "the Provisioner has an event",
        60,
    )
    assert "is called c, m, t" in said
    assert meant in said
    found = wait_for(
        lambda: conditions(shared, "provisioner", "families").get("InstanceTypesFound"),
        "the Provisioner has a condition",
    )
    assert (found["status"], found["reason"]) == ("False", "NoCompatibleInstanceTypes")
    assert meant in found["message"]

    def told() -> bool:
        return any(
            "NodePool families makes no node: " in each and "is called c, m, t" in each and meant in each
            for each in refusals(shared, "families")
        )

    wait_for(told, "the pod is told too", 60)
    shared.plane.kubectl("delete", "deployment", "families")
    shared.plane.kubectl("delete", "provisioner", "families")


def foreign_node(name: str, labels: dict[str, str], cpu: str, pods: str, *taints: dict[str, str]) -> str:
    """A node that somebody else made, as it looks when its kubelet is well."""
    size = {"cpu": cpu, "memory": "8Gi", "pods": pods}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "spec": {"providerID": f"aws:///us-west-2a/i-{name}", "taints": list(taints)},
            "status": {
                "capacity": size,
                "allocatable": size,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }
    )


AGENT = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {eks.amazonaws.com/compute-type: fargate}
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: "1"}}}]
"""


def test_pods_of_a_daemon_set_on_fargate_are_told_how_to_stay_away_and_bring_no_node(shared: Product) -> None:
    before = len(shared.get("nodeclaims"))
    taint = {"key": "eks.amazonaws.com/compute-type", "value": "fargate", "effect": "NoSchedule"}
    labels = {"eks.amazonaws.com/compute-type": "fargate"}
    make_node(shared, foreign_node("fargate-1", labels, "250m", "1", taint))
    shared.apply(AGENT)

    [on_set] = wait_for(lambda: events(shared, "DaemonSetOnFargate", "agent"), "the DaemonSet is told", 60)

    assert "add the node affinity eks.amazonaws.com/compute-type NotIn [fargate]" in on_set
    on_pod = [words for words in events(shared, "DaemonSetOnFargate") if "fargate-1" in words]
    assert on_pod
    assert len(shared.get("nodeclaims")) == before
    shared.plane.kubectl("delete", "-n", "kube-system", "daemonset", "agent")
    untouched(shared, "fargate-1")


def make_node(product: Product, manifest: str) -> None:
    """Let a foreign node join; its status is written apart, as kubelets do."""
    product.plane.kubectl("create", "-f", "-", input=manifest)
    node = json.loads(manifest)
    product.plane.kubectl(
        "patch", "node", node["metadata"]["name"], "--subresource=status", "--type=merge",
        "-p", json.dumps({"status": node["status"]}),
    )  # fmt: skip
    # The node lifecycle controller takes the taint of new nodes off when it has seen the condition.
    wait_for(lambda: not not_ready(product, node["metadata"]["name"]), "the node is ready", 30)


def not_ready(product: Product, name: str) -> list[str]:
    """The taints of a node that Kubernetes itself puts on."""
    [node] = product.get("node", name)
    taints = node["spec"].get("taints", [])
    return [each["key"] for each in taints if each["key"].startswith("node.kubernetes.io/")]


def untouched(product: Product, name: str) -> None:
    """See that nothing of ours is on a node, and that it goes when its owner deletes it."""
    [node] = product.get("node", name)
    ours = [*node["metadata"].get("finalizers", []), *node["metadata"]["labels"]]
    ours += [
        *node["metadata"].get("annotations", {}),
        *(each["key"] for each in node["spec"].get("taints", [])),
    ]
    assert [each for each in ours if "karpenter" in each] == []
    product.plane.kubectl("delete", "node", name, "--timeout=10s")


def test_a_node_of_a_node_group_is_used_first_and_never_touched(shared: Product) -> None:
    make_pool(shared, "mixed", types("m5.xlarge"))
    labels = {
        "eks.amazonaws.com/nodegroup": "ng",
        "type": "mixed",
        "topology.kubernetes.io/zone": "us-west-2a",
    }
    make_node(shared, foreign_node("group-1", labels, "4", "10"))

    shared.apply(deployment("mixed", 2, selector="{type: mixed}", requests="{cpu: 3500m}"))
    wait_for(lambda: all(bound(shared, "mixed")), "both pods have a node", 90)

    hosts = bound(shared, "mixed")
    assert "group-1" in hosts
    assert len(set(hosts)) == 2
    assert len(claims_of(shared, "mixed")) == 1
    shared.plane.kubectl("delete", "deployment", "mixed")
    untouched(shared, "group-1")


def bound(product: Product, app: str) -> list[str]:
    """The nodes of an app's pods, empty where there is none yet."""
    return [str(pod["spec"].get("nodeName", "")) for pod in product.get("pods", "-l", f"app={app}")]


VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: anchored}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  hostPath: {path: /data}
  claimRef: {namespace: default, name: anchored}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [us-west-2b]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: anchored, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  volumeName: anchored
  resources: {requests: {storage: 1Gi}}
"""


def test_a_pod_with_a_volume_gets_a_node_in_the_zone_of_the_volume(shared: Product) -> None:
    make_pool(shared, "anchored")
    shared.apply(VOLUME)

    volume = "volumes: [{name: data, persistentVolumeClaim: {claimName: anchored}}]"
    shared.apply(deployment("anchored", 1, selector="{type: anchored}", more=volume))
    wait_for(lambda: running(shared, "anchored") == 1, "the pod runs", 90)

    [claim] = claims_of(shared, "anchored")
    assert claim["metadata"]["labels"]["topology.kubernetes.io/zone"] == "us-west-2b"
    shared.plane.kubectl("delete", "deployment", "anchored")


WATCHER = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: watcher, namespace: kube-system}
spec:
  selector: {matchLabels: {app: watcher}}
  template:
    metadata: {labels: {app: watcher}}
    spec:
      nodeSelector: {type: watched}
      containers: [{name: main, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: "1"}}}]
"""


def test_new_nodes_have_room_for_their_daemon_sets(shared: Product) -> None:
    make_pool(shared, "watched", types("m5.large", "m5.xlarge"))
    shared.apply(WATCHER)

    shared.apply(deployment("watched", 1, selector="{type: watched}", requests="{cpu: 1200m}"))
    wait_for(lambda: running(shared, "watched") == 1, "the pod runs", 90)

    [claim] = claims_of(shared, "watched")
    assert type_of(claim) == "m5.xlarge"
    wait_for(lambda: _watchers(shared) == 1, "the DaemonSet's pod runs beside it", 60)
    shared.plane.kubectl("delete", "deployment", "watched")
    shared.plane.kubectl("delete", "-n", "kube-system", "daemonset", "watcher")


def _watchers(product: Product) -> int:
    pods = product.get("pods", "-n", "kube-system", "-l", "app=watcher")
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def test_a_pool_at_its_limit_makes_no_more_nodes_and_says_so_until_it_is_raised(shared: Product) -> None:
    make_pool(shared, "limited", types("m5.large"), limits={"cpu": "4"})

    shared.apply(deployment("limited", 3, selector="{type: limited}", alone=True))
    said = wait_for(lambda: refusals(shared, "limited"), "the pod that is left is told", 60)
    wait_for(lambda: running(shared, "limited") == 2, "two pods run", 90)

    assert "limit" in said[0]
    assert "cpu" in said[0]
    assert len(claims_of(shared, "limited")) == 2
    raised = '{"spec": {"limits": {"cpu": "6"}}}'
    shared.plane.kubectl("patch", "nodepool", "limited", "--type=merge", "-p", raised)
    wait_for(lambda: running(shared, "limited") == 3, "the third runs", 90)
    shared.plane.kubectl("delete", "deployment", "limited")


@pytest.mark.timeout(240)
def test_a_node_that_is_older_than_its_pool_allows_is_replaced(shared: Product) -> None:
    make_pool(shared, "brief", template={"expireAfter": "40s"})

    shared.apply(deployment("brief", 1, selector="{type: brief}"))
    wait_for(lambda: running(shared, "brief") == 1, "the pod runs", 90)
    [first, *_] = claims_of(shared, "brief")
    name = first["metadata"]["name"]
    wait_for(
        lambda: name not in [each["metadata"]["name"] for each in claims_of(shared, "brief")],
        "it is gone",
        90,
    )
    wait_for(lambda: running(shared, "brief") == 1, "the pod runs on its successor", 90)

    expired = [line for line in shared.log() if line.get("reason") == "expired"]
    assert any(line["NodeClaim"]["name"] == name for line in expired)
    shared.plane.kubectl("delete", "deployment", "brief")
    shared.plane.kubectl("delete", "nodepool", "brief", "--wait=false")
