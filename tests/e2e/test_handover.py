# SPDX-License-Identifier: Apache-2.0
"""A cluster is handed over from the running Go Karpenter, its kwok build, and back: nobody's node is replaced."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any

import pytest
from benchmarks.live.gopeer import GoPeer, build_go_peer, go_environment, node_class
from benchmarks.live.moments import read_audit
from benchmarks.peers.toolchain import PeerUnavailableError

from karpenter.api import labels as names
from karpenter.kit.clock import SystemClock
from karpenter.kube import Client, read_kubeconfig
from karpenter.kube.kinds import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from karpenter.model.hashes import POOL_HASH_VERSION, pool_hash
from karpenter.operator.runtime import CloudParts, Operator, Surroundings
from karpenter.state import STORED_NODE_CLASSES
from tests.e2e.controlplane import ChildProcess, ControlPlane, ProcessGroup
from tests.e2e.controlplane.binaries import OPTIONAL_VARIABLE
from tests.e2e.controlplane.startup import free_port
from tests.e2e.kwok import KwokCloud, attended, write_types
from tests.e2e.papercloud import make_ready
from tests.e2e.scenes import deployment, figure
from tests.e2e.test_operator import NODE_CLASS, eventually, settings

pytestmark = pytest.mark.timeout(2400)  # the first run builds the Go Karpenter

_OUR_CRDS = "src/karpenter/api/crds/"
_WATCHED_S = 30.0
_STAYING = ("Launched", "Registered", "Initialized", "ConsistentStateFound", "Ready")
_REFERENCE = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
# Consolidation, budgets and expiry at their defaults.
_POOL = {
    "template": {
        "metadata": {"labels": {"type": "karpenter"}, "annotations": {"team": "platform"}},
        "spec": {"requirements": [], "nodeClassRef": _REFERENCE},
    }
}
# Pools that make no node, of every shape in which Go's way of reckoning has a corner.
_TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
_SHAPES: dict[str, dict[str, Any]] = {
    "bare": {},
    "empty-lists": {"taints": [], "startupTaints": []},
    "empty-maps": {"metadata": {"labels": {}, "annotations": {}}},
    "empty-metadata": {"metadata": {}},
    "taints": {
        "taints": [_TAINT, {"key": "b", "effect": "NoExecute"}],
        "startupTaints": [{"key": "cni", "effect": "NoSchedule"}],
    },
    "never": {"expireAfter": "Never", "terminationGracePeriod": "1h30m"},
    "no-time": {"expireAfter": "0s", "terminationGracePeriod": "0s"},
    "labels": {"metadata": {"labels": {"a": "", "b": "ü".encode().hex()}, "annotations": {"c": "ü"}}},
    "stamped": {"taints": [{**_TAINT, "timeAdded": "2026-01-02T03:04:05Z"}]},
}


@dataclass(frozen=True)
class Picture:
    """What a hand-over must leave as it is: who is there, where they are, and what they are made from."""

    nodes: dict[str, str]
    claims: dict[str, str]
    pods: dict[str, tuple[str, str]]
    stamps: dict[str, str]
    leaving: tuple[str, ...]
    drifted: tuple[str, ...]
    unsettled: tuple[str, ...]

    def changes_to(self, later: Picture) -> list[str]:
        """What of this is not there any more, or not the same, and who is about to go."""
        found = [
            f"{kind} {name}: {known} is now {there.get(name)}"
            for kind, here, there in (
                ("node", self.nodes, later.nodes),
                ("claim", self.claims, later.claims),
                ("pod", self.pods, later.pods),
                ("fingerprint", self.stamps, later.stamps),
            )
            for name, known in here.items()
            if there.get(name) != known
        ]
        found += [f"{name} is being deleted" for name in later.leaving]
        found += [f"{name} has drifted" for name in later.drifted]
        return found + [f"condition {each}" for each in later.unsettled]


@pytest.fixture(scope="module")
def peer() -> GoPeer:
    """The Go Karpenter."""
    try:
        return build_go_peer(os.environ, figure)
    except PeerUnavailableError as error:
        # As the control plane's programs: left out only where somebody says that it may be.
        (pytest.skip if os.environ.get(OPTIONAL_VARIABLE) == "1" else pytest.fail)(str(error))


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of its own, which writes down every request."""
    with ControlPlane(directory=tmp_path / "plane", audit=True) as own:
        yield own


@asynccontextmanager
async def go_leading(plane: ControlPlane, peer: GoPeer, directory: Path, name: str) -> AsyncIterator[None]:
    """The Go Karpenter at work, stopped as a Deployment that is scaled to nothing stops it."""
    environ = go_environment(os.environ, plane.kubeconfig, metrics_port=free_port(), health_port=free_port())
    environ["INSTANCE_TYPES_FILE_PATH"] = str(write_types(directory / "types.json"))
    with ProcessGroup(directory) as group:
        program = group.start(name, [peer.program], environ=environ)
        await eventually(lambda: _works(program), "the Go Karpenter leads", 60)
        yield
        await asyncio.to_thread(program.stop, 20.0)


async def _works(program: ChildProcess) -> bool:
    assert program.is_running, program.log_tail()
    return program.log_says("Starting workers")


@asynccontextmanager
async def ours(plane: ControlPlane, cloud: KwokCloud) -> AsyncIterator[Operator]:
    """Our controller, waiting for the lease or leading."""

    async def make(parts: Surroundings, fence: Callable[[], None]) -> CloudParts:
        del parts, fence
        return CloudParts(cloud)

    config = read_kubeconfig([plane.kubeconfig])
    operator = Operator(settings(), config, make, identity="ours", clock=SystemClock())
    stop = asyncio.Event()
    task = asyncio.ensure_future(operator.run(stop))
    try:
        await eventually(lambda: _ready(operator, task), "our controller is ready")
        yield operator
    finally:
        stop.set()
        async with asyncio.timeout(15):
            await task


async def _ready(operator: Operator, task: asyncio.Future[None]) -> bool:
    if task.done():
        task.result()
    return not operator.problem()


async def test_no_node_is_replaced_and_no_pod_evicted_by_a_hand_over_and_back(
    plane: ControlPlane, peer: GoPeer, tmp_path: Path
) -> None:
    await _type(plane, "apply", "--server-side", "-f", str(peer.crds))
    await _type(plane, "wait", "--for=condition=established", "crd", "--all", "--timeout=30s")
    async with (
        Client(read_kubeconfig([plane.kubeconfig])) as client,
        attended(client),
        AsyncExitStack() as ours_at_work,
    ):
        cloud = KwokCloud(client)
        async with go_leading(plane, peer, tmp_path, "go-before"):
            await _apply(plane, node_class(), _pool("default", _POOL), *starmap(_shaped, _SHAPES.items()))
            await _type(plane, "apply", "-f", "-", text=deployment("web", 5, requests="{cpu: 1500m}"))
            await eventually(lambda: _running(client, 5), "the Go Karpenter serves five pods", 60)
            before = await eventually(lambda: _settled(client), "and its claims are settled", 30)
            await _fingerprints_agree(client)
            # As our documents have it: the kinds first, then a look whether it is safe.
            await _type(plane, "apply", "--server-side", "--force-conflicts", "-f", _OUR_CRDS)
            await _only_the_node_class_is_foreign(plane)
            # Our controller looks for a node class of its own kind; the kwok build's is not among them.
            await client.create(STORED_NODE_CLASSES, NODE_CLASS)
            await make_ready(client)
            operator = await ours_at_work.enter_async_context(ours(plane, cloud))
            assert not await _leads(operator), "ours waits while the Go Karpenter holds the lease"

        await eventually(lambda: _leads(operator), "ours leads, for the lease was given up", 20)
        await _stays(client, before, _WATCHED_S)
        await _fingerprints_agree(client)
        assert (await _look(client)).nodes == before.nodes
        await _type(plane, "scale", "deployment", "web", "--replicas=6")
        await eventually(lambda: _running(client, 6), "ours serves one more", 60)
        grown = await eventually(lambda: _settled(client), "and its claim is settled", 30)
        assert len(grown.nodes) == len(before.nodes) + 1
        assert before.changes_to(grown) == []
        assert cloud.ended == []

        await ours_at_work.aclose()
        async with go_leading(plane, peer, tmp_path, "go-after"):
            await _stays(client, grown, _WATCHED_S)
            await _fingerprints_agree(client)
            assert (await _look(client)).nodes == grown.nodes
    assert _removals(plane) == []


async def _type(plane: ControlPlane, *arguments: str, text: str | None = None) -> None:
    """Type a command of kubectl, off the loop."""
    await asyncio.to_thread(plane.kubectl, *arguments, input=text)


async def _apply(plane: ControlPlane, *manifests: dict[str, Any]) -> None:
    whole = {"apiVersion": "v1", "kind": "List", "items": manifests}
    await _type(plane, "apply", "-f", "-", text=json.dumps(whole))


def _pool(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def _shaped(name: str, shape: dict[str, Any]) -> dict[str, Any]:
    """A pool of a shape, with room for no node."""
    metadata = {"metadata": shape["metadata"]} if "metadata" in shape else {}
    more = {key: value for key, value in shape.items() if key != "metadata"}
    spec = {"requirements": [], "nodeClassRef": _REFERENCE, **more}
    return _pool(name, {"template": {**metadata, "spec": spec}, "limits": {"cpu": "0"}})


async def _only_the_node_class_is_foreign(plane: ControlPlane) -> None:
    command = [sys.executable, "-m", "karpenter", "migrate", "karpenter", "--namespace", "kube-system"]
    done = await asyncio.to_thread(
        subprocess.run,
        [*command, "-o", "json"],
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = {each["what"]: each for each in json.loads(done.stdout)}
    assert [name for name, each in found.items() if not each["ok"]] == ["node classes"]
    assert "KWOKNodeClass" in found["node classes"]["words"]
    assert "is held by" in found["lease"]["words"]
    assert found["nodes"]["words"] == f"3 NodeClaims of {len(_SHAPES) + 1} NodePools"


async def _leads(operator: Operator) -> bool:
    return bool(operator.metrics.is_leader._value.get())


async def _running(client: Client, count: int) -> bool:
    pods = (await client.list(PODS)).items
    return len(pods) == count and all(pod.status.phase == "Running" for pod in pods)


async def _look(client: Client) -> Picture:
    nodes, claims = (await client.list(NODES)).items, (await client.list(NODE_CLAIMS)).items
    pods, pools = (await client.list(PODS)).items, (await client.list(NODE_POOLS)).items
    keys = (names.NODEPOOL_HASH, names.NODEPOOL_HASH_VERSION)
    stamped = [each.metadata for each in pools] + [each.metadata for each in claims]
    all_metadata = [each.metadata for each in nodes] + [each.metadata for each in pods] + stamped
    return Picture(
        nodes={each.metadata.name: each.metadata.uid for each in nodes},
        claims={each.metadata.name: each.metadata.uid for each in claims},
        pods={each.metadata.name: (each.metadata.uid, each.spec.node_name) for each in pods},
        stamps={each.uid: " ".join(each.annotations.get(key, "") for key in keys) for each in stamped},
        leaving=tuple(each.name for each in all_metadata if each.deletion_timestamp is not None),
        drifted=tuple(
            claim.metadata.name
            for claim in claims
            if any(each.type == "Drifted" and each.status == "True" for each in claim.status.conditions)
        ),
        unsettled=tuple(
            f"{claim.metadata.name} {each.type} {each.status}"
            for claim in claims
            for each in claim.status.conditions
            if each.type in _STAYING and each.status != "True"
        ),
    )


async def _settled(client: Client) -> Picture | None:
    """The picture once all claims have come to rest and all pools carry their fingerprint."""
    claims = (await client.list(NODE_CLAIMS)).items
    initialized = all(
        any(each.type == "Initialized" and each.status == "True" for each in claim.status.conditions)
        for claim in claims
    )
    found = await _look(client)
    return found if claims and initialized and all(each.strip() for each in found.stamps.values()) else None


async def _stays(client: Client, before: Picture, seconds: float) -> None:
    """Look again and again, so that nothing goes and comes back unseen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert before.changes_to(await _look(client)) == []
        await asyncio.sleep(0.5)


async def _fingerprints_agree(client: Client) -> None:
    """Both sides reckon the same number for every pool, whoever wrote what is there."""
    for pool in (await client.list(NODE_POOLS)).items:
        annotations = pool.metadata.annotations
        assert annotations[names.NODEPOOL_HASH] == pool_hash(pool), pool.metadata.name
        assert annotations[names.NODEPOOL_HASH_VERSION] == POOL_HASH_VERSION


def _removals(plane: ControlPlane) -> list[str]:
    """Every order to take something away that anybody has given since the beginning."""
    with plane.audit_log.open(encoding="utf-8") as log:
        asked = read_audit(log, "nodes", "nodeclaims", "pods")
    return [
        f"{each.agent} {each.verb} {each.resource}/{each.subresource} {each.name}"
        for each in asked
        if each.verb in {"delete", "deletecollection"} or each.subresource == "eviction"
    ]
