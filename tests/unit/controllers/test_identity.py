# SPDX-License-Identifier: Apache-2.0
"""What is deleted is what was decided on: an object that took the name of another meanwhile stays."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from karpenter.controllers.disruption.hands import Hands
from karpenter.controllers.expiration import Expiration
from karpenter.kube import Kind, Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import DecisionLog, Metrics
from tests.unit.controllers.disruption.world import World
from tests.unit.controllers.paper import PaperClient
from tests.unit.controllers.termination.test_termination import Scene as TerminationScene
from tests.unit.controllers.test_repair import Scene as RepairScene
from tests.unit.controllers.test_static import Scene as StaticScene

_SOURCE = Path(__file__).parents[3] / "src" / "karpenter"
_NAMED = {"NODE_CLAIMS", "NODES", "PODS"}


def _replace(client: PaperClient, kind: Kind[Any], name: str) -> None:
    """Let another object take a name before the informers hear of it."""
    raw = client.raw_object(kind, name)
    assert raw is not None
    raw["metadata"]["uid"] = "another"


def _stays(client: PaperClient, kind: Kind[Any], name: str) -> bool:
    """Whether the other object is there, and not on its way out."""
    raw = client.raw_object(kind, name)
    return raw is not None and "deletionTimestamp" not in raw["metadata"]


async def test_an_expired_claim_is_deleted_by_its_uid() -> None:
    world = World()
    world.node("n1")
    raw = world.client.raw_object(NODE_CLAIMS, "claim-n1")
    assert raw is not None
    world.client.store(NODE_CLAIMS, {**raw, "spec": {**raw["spec"], "expireAfter": "1s"}})
    _replace(world.client, NODE_CLAIMS, "claim-n1")
    expiration = Expiration(
        client=world.client,
        cluster=world.cluster,
        recorder=Recorder(world.client, clock=world.clock),
        decisions=DecisionLog(world.clock),
        metrics=Metrics(),
        clock=world.clock,
    )

    await expiration.reconcile("claim-n1")

    assert _stays(world.client, NODE_CLAIMS, "claim-n1")
    assert "claim-n1" not in world.cluster.removals


async def test_a_disrupted_claim_is_deleted_by_its_uid() -> None:
    world = World()
    world.node("n1")
    [claim] = world.claims
    _replace(world.client, NODE_CLAIMS, "claim-n1")

    assert not await Hands(world.client, world.cluster, world.clock).delete(claim)

    assert _stays(world.client, NODE_CLAIMS, "claim-n1")


async def test_a_claim_of_a_static_pool_is_deleted_by_its_uid() -> None:
    scene = StaticScene(0)
    scene.stand("a")
    _replace(scene.client, NODE_CLAIMS, "a")

    await scene.static.reconcile("default")

    assert _stays(scene.client, NODE_CLAIMS, "a")


async def test_the_claim_of_a_broken_node_is_deleted_by_its_uid() -> None:
    scene = RepairScene()
    scene.ail(0, "Ready", "False")
    await scene.clock.advance(1800)
    _replace(scene.client, NODE_CLAIMS, "c0")

    await scene.repair.reconcile("n0")

    assert _stays(scene.client, NODE_CLAIMS, "c0")
    assert "c0" not in scene.cluster.removals


async def test_the_claim_of_a_node_that_goes_is_deleted_by_its_uid() -> None:
    scene = TerminationScene()
    await scene.client.delete(NODES, "n1")
    _replace(scene.client, NODE_CLAIMS, "c1")

    await scene.nodes.reconcile("n1")

    assert _stays(scene.client, NODE_CLAIMS, "c1")


async def test_the_node_of_a_claim_that_goes_is_deleted_by_its_uid() -> None:
    scene = TerminationScene()
    await scene.client.delete(NODE_CLAIMS, "c1")
    _replace(scene.client, NODES, "n1")

    await scene.claims.reconcile("c1")

    assert _stays(scene.client, NODES, "n1")


def _deletions() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((_SOURCE / "controllers").rglob("*.py")):
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(each, ast.Call)
                and isinstance(each.func, ast.Attribute)
                and each.func.attr == "delete"
                and each.args
                and isinstance(each.args[0], ast.Name)
                and each.args[0].id in _NAMED
            ):
                yield f"{path.relative_to(_SOURCE)}:{each.args[0].id}:{each.lineno}", each


@pytest.mark.parametrize("call", [pytest.param(call, id=where) for where, call in _deletions()])
def test_every_deletion_of_a_controller_names_the_uid(call: ast.Call) -> None:
    [uid] = [each.value for each in call.keywords if each.arg == "uid"]

    assert ast.unparse(uid).endswith(".metadata.uid")


def test_deletions_are_found() -> None:
    assert len(list(_deletions())) >= 9
