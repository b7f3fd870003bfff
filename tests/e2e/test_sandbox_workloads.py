# SPDX-License-Identifier: Apache-2.0
"""The sandbox's scheduler says what Kubernetes' own says, and its controllers work at a real API server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from karpenter.sandbox.scheduler import Cluster, Decider, Placed, read_pod
from karpenter.sandbox.scheduler.filters import Attempt
from karpenter.scheduling import solve
from tests.e2e.agreement import Api
from tests.e2e.agreement.client import Wire
from tests.e2e.agreement.nominating import Nominating
from tests.e2e.agreement.running import _clean_up, _make_cluster, _refusal, _Run, _until_there
from tests.e2e.agreement.translation import ASIDE, Case, key_of, translate
from tests.e2e.controlplane import ControlPlane, eventually
from tests.strategies import random_problem

# A hundred take three minutes; this many in every run, more when asked for.
CASES = int(os.environ.get("KARPENTER_AGREEMENT_CASES", "30"))
_ANSWER_S = 15.0


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    """A control plane without anybody else's nodes."""
    with ControlPlane() as plane:
        yield plane


@dataclass
class Comparison:
    """What both said of many pods."""

    placed: int = 0
    refused: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        asked = self.placed + self.refused
        return (
            f"{asked} pods asked of both schedulers: {self.placed} placed, {self.refused} refused, "
            f"{asked - len(self.differences)} alike ({1 - len(self.differences) / max(asked, 1):.2%})"
        )


class _Ask(_Run):
    minor = 0


@pytest.mark.timeout(900)
async def test_verdicts_and_messages_equal_those_of_kubernetes_scheduler(
    own_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Comparison()

    async with Api(own_plane) as api:
        await _prepare(api)
        for seed in range(CASES):
            problem = random_problem(seed)
            case = translate(f"s{seed}", problem, solve(problem.snapshot(), problem.pods))
            await _compare(api, case, found)

    with capsys.disabled():
        sys.stderr.write(f"\n{found}\n")
        sys.stderr.writelines(f"  {each}\n" for each in found.differences)
    assert found.refused > CASES
    assert found.placed > CASES
    assert not found.differences


async def _prepare(api: Api) -> None:
    known = {each["metadata"]["name"] for each in await api.items("/api/v1/namespaces")}
    for name, labels in random_problem(0).namespaces.items():
        if name not in known:
            metadata = {"name": name, "labels": dict(labels)}
            await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for name in (*random_problem(0).namespaces, ASIDE):
        await _until_there(api, f"/api/v1/namespaces/{name}/serviceaccounts/default")


async def _compare(api: Api, case: Case, found: Comparison) -> None:
    try:
        await _make_cluster(api, case)
        await asyncio.sleep(0.1)
        run = _Ask(api, case, Nominating.NEVER)
        run.minor = int("".join(filter(str.isdigit, (await api.request("GET", "/version"))["minor"])))
        for pod in case.pending:
            if pod["spec"].get("resourceClaims") or pod["spec"].get("schedulingGates"):
                continue
            difference = await _ask_both(api, run, pod, found)
            if difference:
                # Kubernetes' scheduler may have looked before it had heard of everything.
                await asyncio.sleep(0.5)
                difference = await _ask_both(api, run, pod, Comparison())
            if difference:
                found.differences.append(f"{case.name} {'/'.join(key_of(pod))}: {difference}")
    finally:
        await _clean_up(api, case, ())


async def _ask_both(api: Api, run: _Ask, pod: Wire, found: Comparison) -> str:
    cluster = await _cluster(api)
    await api.delete(pod)
    made = await api.create(pod)
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    deadline = time.monotonic() + _ANSWER_S
    while True:
        await run.provision()
        seen = await api.request("GET", path)
        node = seen["spec"].get("nodeName")
        words = "" if node else _refusal(seen)
        if node or words or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.02)
    info = read_pod(made)
    if node:
        found.placed += 1
        verdict = Attempt(cluster, info).check(cluster.nodes[node])
        return f"is bound to {node}, refused here: {verdict}" if verdict else ""
    found.refused += 1
    ours = Decider(cluster, minor=run.minor).decide(info)
    await api.delete(pod)
    if isinstance(ours, Placed):
        return f"is placed on {ours.node} here, refused there: {words}"
    if ours.room is not None:
        return "" if "nominatedNodeName" in seen["status"] else f"makes room here, there not: {words}"
    return "" if ours.message == words else f"\n    here:  {ours.message}\n    there: {words}"


async def _cluster(api: Api) -> Cluster:
    cluster = Cluster()
    storage = cluster.storage
    for each in await api.items("/api/v1/namespaces"):
        cluster.set_namespace(each["metadata"]["name"], each["metadata"].get("labels", {}))
    for each in await api.items("/api/v1/nodes"):
        cluster.set_node(each)
    for each in await api.items("/api/v1/pods"):
        if each["spec"].get("nodeName"):
            cluster.set_pod(read_pod(each))
    for each in await api.items("/api/v1/persistentvolumeclaims"):
        storage.claims[key_of(each)] = each
    for each in await api.items("/api/v1/persistentvolumes"):
        storage.volumes[each["metadata"]["name"]] = each
    for each in await api.items("/apis/storage.k8s.io/v1/storageclasses"):
        storage.classes[each["metadata"]["name"]] = each
    for each in await api.items("/apis/storage.k8s.io/v1/csinodes"):
        storage.set_csi_node(each["metadata"]["name"], each)
    return cluster


class BarePlane(ControlPlane):
    """etcd and the API server alone."""

    def _start_clients(self, layout: object, startup: object, api: object) -> None:
        """Starts neither controller manager nor scheduler."""


@pytest.fixture(scope="module")
def sandboxed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real API server with the sandbox's controllers, scheduler, and kubelets that only pretend; three nodes."""
    directory = tmp_path_factory.mktemp("sandboxed")
    with BarePlane(directory=directory) as plane, (directory / "workloads.log").open("w") as log:
        command = [sys.executable, "-m", "karpenter", "sandbox", "workloads", "--kubeconfig"]
        options = ["--node-grace", "1h", "--gone-node-grace", "1s"]
        working = subprocess.Popen([*command, plane.kubeconfig, *options], stdout=log, stderr=log)
        stop = threading.Event()
        kubelets = threading.Thread(target=_pretend, args=(plane, stop))
        kubelets.start()
        try:
            for index in range(3):
                _add_node(plane, f"n{index}", "abc"[index])
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            eventually(lambda: plane.request("GET", account).is_success, "the default account", timeout_s=30)
            yield plane
        finally:
            stop.set()
            kubelets.join()
            working.send_signal(signal.SIGINT)
            assert working.wait(20) == 0


def _add_node(plane: ControlPlane, name: str, zone: str) -> None:
    room = {"cpu": "4", "memory": "16Gi", "pods": "30"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": room, "capacity": room, "conditions": [ready]},
    }
    assert plane.request("POST", "/api/v1/nodes", body).is_success


def _pretend(plane: ControlPlane, stop: threading.Event) -> None:
    """Lets bound pods run, or end as their annotation says, and deleted ones go."""
    while not stop.wait(0.15):
        for pod in plane.request("GET", "/api/v1/pods").json()["items"]:
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            if not pod["spec"].get("nodeName"):
                continue
            if "deletionTimestamp" in metadata:
                plane.request("DELETE", path, {"gracePeriodSeconds": 0})
            elif pod["status"].get("phase") == "Pending":
                end = metadata.get("annotations", {}).get("end")
                kept = [each for each in pod["status"].get("conditions", ()) if each["type"] != "Ready"]
                ready = {"type": "Ready", "status": "False" if end else "True"}
                ready["lastTransitionTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                status = {"status": {"phase": end or "Running", "conditions": [*kept, ready]}}
                merge = "application/merge-patch+json"
                plane.request("PATCH", f"{path}/status", status, content_type=merge)


def _template(name: str, *, end: str = "", cpu: str = "100m") -> str:
    annotations = f", annotations: {{end: {end}}}" if end else ""
    labels = f"{{labels: {{app: {name}}}{annotations}}}"
    container = f"{{name: c, image: a, resources: {{requests: {{cpu: {cpu}}}}}}}"
    ends = ", restartPolicy: Never" if end else ""
    return (
        f"{{metadata: {labels}, spec: {{terminationGracePeriodSeconds: 0, containers: [{container}]{ends}}}}}"
    )


def _apply(plane: ControlPlane, kind: str, name: str, spec: str, *, version: str = "apps/v1") -> None:
    body = f"{{apiVersion: {version}, kind: {kind}, metadata: {{name: {name}}}, spec: {spec}}}"
    plane.kubectl("apply", "-f", "-", input=body)


def _owned(name: str, rest: str = "", **template: str) -> str:
    selector = f"{{matchLabels: {{app: {name}}}}}"
    return f"{{selector: {selector}, template: {_template(name, **template)}{rest}}}"


def _names(plane: ControlPlane, kind: str, label: str) -> list[str]:
    return plane.kubectl("get", kind, "-l", label, "-o", "name").stdout.split()


def test_deployments_roll_come_back_and_go_as_asked(sandboxed: ControlPlane) -> None:
    plane = sandboxed
    _apply(plane, "Deployment", "web", _owned("web", ", replicas: 4"))
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=30s")

    plane.kubectl("set", "image", "deployment/web", "c=b")
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    plane.kubectl("rollout", "undo", "deployment/web")
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=30s")

    history = plane.kubectl("rollout", "history", "deployment/web").stdout.split()
    assert "3" in history
    assert "1" not in history
    plane.kubectl("delete", "deployment/web", "--cascade=orphan", "--timeout=10s")
    assert len(_names(plane, "pods", "app=web")) == 4
    _apply(plane, "Deployment", "web", _owned("web", ", replicas: 4"))
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert len(_names(plane, "pods", "app=web")) == 4
    plane.kubectl("delete", "deployment/web", "--cascade=foreground", "--timeout=20s")
    assert _names(plane, "pods,replicasets", "app=web") == []


def test_daemons_are_everywhere_and_roll(sandboxed: ControlPlane) -> None:
    plane = sandboxed
    _apply(plane, "DaemonSet", "agent", _owned("agent"))
    plane.kubectl("rollout", "status", "ds/agent", "--timeout=30s")
    assert len(_names(plane, "pods", "app=agent")) == 3

    plane.kubectl("rollout", "restart", "ds/agent")
    plane.kubectl("rollout", "status", "ds/agent", "--timeout=30s")

    assert len(_names(plane, "controllerrevisions", "app=agent")) == 2
    plane.kubectl("delete", "ds/agent")
    eventually(lambda: not _names(plane, "pods", "app=agent"), "the daemons to go", timeout_s=20)


def test_stateful_pods_get_volumes_in_their_zone_that_are_attached_and_go_with_the_claim(
    sandboxed: ControlPlane,
) -> None:
    plane = sandboxed
    classes = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: gp3}, "
    plane.kubectl(
        "apply",
        "-f",
        "-",
        input=classes + "provisioner: ebs.csi.aws.com, volumeBindingMode: WaitForFirstConsumer}",
    )
    claim = "{accessModes: [ReadWriteOnce], storageClassName: gp3, resources: {requests: {storage: 1Gi}}}"
    templates = (
        f", replicas: 2, serviceName: db, volumeClaimTemplates: [{{metadata: {{name: d}}, spec: {claim}}}]"
    )

    _apply(plane, "StatefulSet", "db", _owned("db", templates))
    plane.kubectl("rollout", "status", "sts/db", "--timeout=30s")

    attached = "{.items[*].status.attached}"
    eventually(
        lambda: plane.kubectl("get", "volumeattachments", "-o", f"jsonpath={attached}").stdout == "true true",
        "both volumes to be attached",
        timeout_s=20,
    )
    plane.kubectl("delete", "sts/db")
    eventually(lambda: not _names(plane, "pods", "app=db"), "the pods to go", timeout_s=20)
    plane.kubectl("delete", "pvc", "--all", "--timeout=20s")
    eventually(
        lambda: not plane.kubectl("get", "pv,volumeattachments", "-o", "name").stdout,
        "volumes and attachments to go",
        timeout_s=20,
    )


def test_jobs_complete_and_namespaces_are_emptied(sandboxed: ControlPlane) -> None:
    plane = sandboxed
    plane.kubectl("create", "namespace", "shop")
    eventually(
        lambda: plane.request("GET", "/api/v1/namespaces/shop/serviceaccounts/default").is_success,
        "the account",
        timeout_s=20,
    )
    template = _template("j", end="Succeeded")
    body = f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: j, namespace: shop}}, spec: {{completions: 3, parallelism: 2, template: {template}}}}}"  # noqa: E501
    plane.kubectl("apply", "-f", "-", input=body)

    plane.kubectl("wait", "-n", "shop", "--for=condition=Complete", "job/j", "--timeout=30s")
    plane.kubectl("delete", "namespace", "shop", "--timeout=30s")

    assert not plane.request("GET", "/api/v1/namespaces/shop").is_success


def test_what_does_not_fit_is_told_and_a_budget_holds_a_drain_up(sandboxed: ControlPlane) -> None:
    plane = sandboxed
    _apply(plane, "Deployment", "big", _owned("big", ", replicas: 4", cpu="3"))
    words = "0/3 nodes are available: 3 Insufficient cpu."
    eventually(
        lambda: words in plane.kubectl("get", "events", "-o", "jsonpath={.items[*].message}").stdout,
        "the refusal",
        timeout_s=20,
    )
    budget = "{minAvailable: 3, selector: {matchLabels: {app: big}}}"
    _apply(plane, "PodDisruptionBudget", "big", budget, version="policy/v1")
    healthy = "{.status.currentHealthy}/{.status.disruptionsAllowed}"
    eventually(
        lambda: plane.kubectl("get", "pdb/big", "-o", f"jsonpath={healthy}").stdout == "3/0",
        "the budget to be counted",
        timeout_s=20,
    )

    drained = plane.kubectl("drain", "n0", "--timeout=3s", "--ignore-daemonsets", check=False)

    assert drained.returncode != 0
    assert "violate the pod's disruption budget" in drained.stderr
    plane.kubectl("uncordon", "n0")
    plane.kubectl("delete", "deployment/big", "pdb/big")


def test_a_timetable_scales_and_a_deleted_node_gives_its_pods_up(sandboxed: ControlPlane) -> None:
    plane = sandboxed
    _add_node(plane, "extra", "a")
    _apply(plane, "Deployment", "over", _owned("over", ", replicas: 0"))
    always = "{timezone: Asia/Seoul, start: 0 0 1 1 *, end: 59 23 31 12 *, desiredReplicas: '5'}"
    trigger = f"{{scaleTargetRef: {{name: over}}, triggers: [{{type: cron, metadata: {always}}}]}}"
    eventually(
        lambda: plane.request("GET", "/apis/keda.sh/v1alpha1/scaledobjects").is_success,
        "the kind",
        timeout_s=30,
    )

    _apply(plane, "ScaledObject", "s", trigger, version="keda.sh/v1alpha1")
    eventually(lambda: len(_names(plane, "pods", "app=over")) == 5, "five pods", timeout_s=30)
    plane.kubectl("delete", "node", "extra")

    nodes = "{.items[*].spec.nodeName}"
    eventually(
        lambda: "extra" not in plane.kubectl("get", "pods", "-o", f"jsonpath={nodes}").stdout,
        "the pods to leave the node that is gone",
        timeout_s=30,
    )
    plane.kubectl("delete", "scaledobject/s", "deployment/over")
