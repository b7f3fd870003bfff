# SPDX-License-Identifier: Apache-2.0
"""The controller on a real control plane, with a cloud on paper: from a pending pod to a node, and to a clean end."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from karpenter.api import labels as names
from karpenter.errors import KarpenterError
from karpenter.kit.clock import SystemClock
from karpenter.kube import Client, NotFoundError, read_kubeconfig
from karpenter.kube.kinds import EVENTS, LEASES, NODE_CLAIMS, NODES, PODS
from karpenter.operator.runtime import CloudParts, Operator, Surroundings
from karpenter.operator.settings import Settings
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS
from tests.e2e.controlplane import ControlPlane
from tests.e2e.papercloud import PaperCloud, make_ready
from tests.patience import patient

NODE_CLASS = {
    "metadata": {"name": "default"},
    "spec": {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "e2e"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "e2e"}}],
        "role": "node",
    },
}
POOL = {
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "metadata": {"labels": {"type": "karpenter"}},
            "spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            },
        },
        "limits": {"cpu": "20"},
    },
}


def settings(**changes: Any) -> Settings:
    """Quick settings on free ports."""
    quick = {"metrics_port": 0, "health_probe_port": 0, "batch_idle_duration": 0.2, "batch_max_duration": 2.0}
    return Settings(cluster_name="e2e", leader_election_namespace="kube-system", **{**quick, **changes})


@pytest.fixture(scope="module")
def plane() -> Any:
    """A control plane of its own: this product acts on all pods that it sees."""
    with ControlPlane() as own:
        own.kubectl("apply", "--server-side", "-f", "src/karpenter/api/crds/")
        yield own


@asynccontextmanager
async def operating(
    plane: ControlPlane, cloud: PaperCloud, identity: str = "one", **changes: Any
) -> AsyncIterator[Operator]:
    """One replica at work."""

    async def make(parts: Surroundings, fence: Callable[[], None]) -> CloudParts:
        del parts, fence
        return CloudParts(cloud)

    operator = Operator(
        settings(**changes), read_kubeconfig([plane.kubeconfig]), make, identity=identity, clock=SystemClock()
    )
    stop = asyncio.Event()
    task = asyncio.ensure_future(operator.run(stop))
    try:
        async with asyncio.timeout(20):
            while operator.problem() and not task.done():  # noqa: ASYNC110 - it happens in another task
                await asyncio.sleep(0.05)
        if task.done():
            await task
        yield operator
    finally:
        stop.set()
        async with asyncio.timeout(10):
            await asyncio.gather(task, return_exceptions=True)


async def eventually(condition: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    """Wait for something and give it."""
    try:
        async with asyncio.timeout(patient(seconds)):
            while not (found := await condition()):  # noqa: ASYNC110 - it happens elsewhere
                await asyncio.sleep(0.1)
    except TimeoutError:
        pytest.fail(f"not within {patient(seconds):g} s: {what}")
    return found


async def prepared(client: Client) -> None:
    """Put the class, ready, and the pool in place."""
    for kind, manifest in ((STORED_NODE_CLASSES, NODE_CLASS), (STORED_NODE_POOLS, POOL)):
        try:
            await client.get(kind, "default")
        except NotFoundError:
            await client.create(kind, manifest)
    await make_ready(client)


def waiting_pod(name: str, cpu: str = "500m") -> dict[str, Any]:
    """A pod for our nodes alone."""
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"type": "karpenter"},
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": cpu}}}
            ],
        },
    }


async def join(client: Client, provider_id: str, name: str) -> None:
    """Let a kubelet join: the node of a machine, ready."""
    manifest = {
        "metadata": {"name": name, "labels": {names.HOSTNAME: name}},
        "spec": {
            "providerID": provider_id,
            "taints": [{"key": names.UNREGISTERED_TAINT.key, "effect": "NoExecute"}],
        },
    }
    await client.create(NODES, manifest)
    status = {
        "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
        "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "29"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    }
    await client.patch(NODES, name, {"status": status}, subresource="status")


async def test_a_pending_pod_gets_a_node_and_the_node_a_clean_end(plane: ControlPlane) -> None:
    cloud = PaperCloud()
    plane.kubectl("create", "namespace", "shop")
    async with Client(read_kubeconfig([plane.kubeconfig])) as client:
        await prepared(client)
        async with operating(plane, cloud) as operator:
            await eventually(lambda: _ready_pool(client), "the pool is ready")
            for name in ("a", "b", "c"):
                made = functools.partial(_created, client, waiting_pod(name), "shop")
                await eventually(made, f"pod {name} is made")

            claim = await eventually(lambda: _one_claim(client), "one claim is launched")
            assert len(cloud.launched) == 1
            assert claim.metadata.labels[names.INSTANCE_TYPE] == "m5.large"

            await join(client, claim.status.provider_id, "ip-10-0-0-1")
            await eventually(lambda: _bound(client, "shop", 3), "three pods are bound")
            claim = await eventually(lambda: _initialized(client), "the claim is initialised")
            node = await client.get(NODES, "ip-10-0-0-1")
            assert node.metadata.labels[names.NODEPOOL] == "default"
            assert node.metadata.labels["type"] == "karpenter"
            assert node.metadata.finalizers == (names.TERMINATION_FINALIZER,)
            assert [taint.key for taint in node.spec.taints] == []

            pool = await client.get(STORED_NODE_POOLS, "default")
            assert pool.status["nodes"] == 1
            async with aiohttp.ClientSession() as session:
                url = f"http://127.0.0.1:{operator.ports['metrics']}/metrics"
                async with session.get(url) as answer:
                    text = await answer.text()
                url = f"http://127.0.0.1:{operator.ports['health']}/readyz"
                async with session.get(url) as answer:
                    assert answer.status == 200
            assert 'karpenter_nodeclaims_created_total{min_values_relaxed="false",nodepool="default"' in text

            for name in ("a", "b", "c"):
                await client.delete(PODS, name, "shop", grace_period_s=0)
            await client.delete(NODES, "ip-10-0-0-1")
            await eventually(lambda: _nothing(client, cloud), "node, claim and machine are gone")
            kinds = [each.kind for each in operator.decisions.since()]
            assert kinds == ["plan", "launch", "register", "initialize", "terminate"]
        events = await client.list(EVENTS, "shop", fields="reason=Nominated")
        assert len(events.items) == 3


async def test_a_pod_that_fits_nothing_is_told_why(plane: ControlPlane) -> None:
    async with Client(read_kubeconfig([plane.kubeconfig])) as client:
        await prepared(client)
        async with operating(plane, PaperCloud()):
            await eventually(lambda: _ready_pool(client), "the pool is ready")
            await client.create(PODS, waiting_pod("huge", "64"), "default")

            event = await eventually(lambda: _refused(client), "the pod has an event")

            assert "cpu" in event.message
        await client.delete(PODS, "huge", "default", grace_period_s=0)


async def test_of_two_replicas_one_acts_and_the_other_takes_over(plane: ControlPlane) -> None:
    cloud = PaperCloud()
    async with Client(read_kubeconfig([plane.kubeconfig])) as client:
        await prepared(client)
        async with operating(plane, cloud, "one"):
            async with operating(plane, cloud, "two") as second:
                await asyncio.sleep(1)
                assert second.metrics.is_leader._value.get() == 0
                first_holder = await _holder(client)
            assert first_holder == "one"
        async with operating(plane, cloud, "three") as third:
            await eventually(lambda: _leads(third), "the third leads at once, for the lease was given up", 5)


async def test_without_our_crds_it_says_how_to_install_them() -> None:
    with ControlPlane() as bare, pytest.raises(KarpenterError, match="our CRDs are not installed") as caught:
        async with operating(bare, PaperCloud()):
            pass

    assert "kubectl apply" in caught.value.hint


async def _created(client: Client, manifest: dict[str, Any], namespace: str) -> bool:
    try:
        await client.create(PODS, manifest, namespace)
    except KarpenterError:
        return False
    return True


async def _ready_pool(client: Client) -> bool:
    pool = await client.get(STORED_NODE_POOLS, "default")
    return any(
        each["type"] == "Ready" and each["status"] == "True" for each in pool.status.get("conditions", ())
    )


async def _one_claim(client: Client) -> Any:
    claims = (await client.list(NODE_CLAIMS)).items
    return claims[0] if len(claims) == 1 and claims[0].status.provider_id else None


async def _initialized(client: Client) -> Any:
    claim = await _one_claim(client)
    done = claim and any(
        each.type == "Initialized" and each.status == "True" for each in claim.status.conditions
    )
    return claim if done else None


async def _bound(client: Client, namespace: str, count: int) -> bool:
    pods = (await client.list(PODS, namespace)).items
    return sum(bool(pod.spec.node_name) for pod in pods) == count


async def _nothing(client: Client, cloud: PaperCloud) -> bool:
    claims, nodes = await client.list(NODE_CLAIMS), await client.list(NODES)
    return not claims.items and not nodes.items and not cloud.machines


async def _refused(client: Client) -> Any:
    events = await client.list(EVENTS, "default", fields="reason=FailedScheduling,involvedObject.name=huge")
    return next((each for each in events.items if each.reporting_component == "karpenter"), None)


async def _holder(client: Client) -> str:
    lease = await client.get(LEASES, "karpenter-leader-election", "kube-system")
    return lease.spec.holder_identity or ""


async def _leads(operator: Operator) -> bool:
    return bool(operator.metrics.is_leader._value.get())
