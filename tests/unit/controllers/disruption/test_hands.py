# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api import labels as names
from karpenter.controllers.disruption.hands import Hands
from karpenter.controllers.disruption.records import Record, record_of, replacement_name
from karpenter.controllers.patches import reread
from karpenter.controllers.tainting import set_taint
from karpenter.kube import ConflictError, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from tests.unit.controllers.disruption.world import World

RECORD = Record("id", 1.5, reason="Empty", remove=("claim-n1",), launch=("new",), is_settled=True)
STALE = ConflictError("modified", status=409)
GONE = NotFoundError("gone", status=404)


class Scene:
    """A node and the hands that write to it."""

    def __init__(self) -> None:
        self.world = World()
        self.world.node("n1")
        self.hands = Hands(self.world.client, self.world.cluster, self.world.clock)

    async def marked(self) -> bool:
        """Mark the node."""
        return await self.hands.mark("claim-n1", RECORD, "delete n1")


async def test_a_mark_is_a_taint_a_record_and_a_reason_and_can_be_taken_back() -> None:
    scene = Scene()

    assert await scene.marked()
    writes = [(call.plural, call.subresource) for call in scene.world.client.calls]
    assert writes == [("nodes", ""), ("nodeclaims", ""), ("nodeclaims", "status")]
    assert record_of(scene.world.claims[0]) == RECORD
    assert await scene.marked()
    await scene.hands.unmark("claim-n1")
    await scene.hands.unmark("claim-n1")

    assert scene.world.tainted == []
    [claim] = scene.world.claims
    assert record_of(claim) is None
    assert "DisruptionReason" not in {each.type for each in claim.status.conditions}


async def test_a_claim_or_node_that_is_gone_is_no_trouble() -> None:
    scene = Scene()
    assert not await scene.hands.mark("gone", RECORD, "")
    await scene.hands.unmark("gone")
    for _ in range(3):
        scene.world.client.fail("patch", "nodeclaims", GONE)
        assert not await scene.hands.settle("claim-n1", RECORD)
    scene.world.client.fail("delete", "nodeclaims", GONE)

    assert not await scene.hands.delete(scene.world.claims[0])
    assert not await scene.hands._reason("gone", "Empty", "")


async def test_a_claim_that_is_being_deleted_keeps_its_mark() -> None:
    scene = Scene()
    await scene.marked()
    await scene.hands.delete(scene.world.claims[0])

    await scene.hands.unmark("claim-n1")

    assert scene.world.tainted == ["n1"]
    assert not await scene.marked()


async def test_a_node_that_the_cloud_takes_keeps_its_taint() -> None:
    scene = Scene()
    await scene.marked()
    scene.world.cluster.mark_leaving(["claim-n1"])

    await scene.hands.unmark("claim-n1")

    assert scene.world.tainted == ["n1"]
    assert scene.world.marked == []


async def test_a_node_without_a_claim_loses_a_stale_taint() -> None:
    scene = Scene()
    await scene.marked()
    raw = scene.world.client.raw_object(NODE_CLAIMS, "claim-n1")
    assert raw is not None
    scene.world.client._drop(NODE_CLAIMS, raw)

    assert scene.world.disruption.execution.stale() == ("n1",)
    await scene.hands.unmark("n1")

    assert scene.world.tainted == []


@pytest.mark.parametrize(("plural", "conflicts"), [("nodes", 2), ("nodeclaims", 2)])
async def test_what_others_write_to_is_read_again(plural: str, conflicts: int) -> None:
    scene = Scene()
    client = scene.world.client
    if plural == "nodes":
        client.fail("patch", plural, *[STALE] * conflicts)
        assert await scene.marked()
    else:
        client.fail("patch", plural, *[STALE] * conflicts)
        assert await scene.hands._reason("claim-n1", "Empty", "words")

    assert client.failures == {("patch", plural): []}


async def test_what_is_written_to_without_end_is_an_error() -> None:
    scene = Scene()
    scene.world.client.fail("patch", "nodes", *[STALE] * 4)
    with pytest.raises(ConflictError, match="without end"):
        await scene.marked()
    scene.world.client.fail("patch", "nodeclaims", *[STALE] * 4)

    with pytest.raises(ConflictError, match="without end"):
        await scene.hands._reason("claim-n1", "Empty", "words")


async def test_what_went_between_a_conflict_and_the_next_try_is_gone() -> None:
    scene = Scene()
    client, cluster = scene.world.client, scene.world.cluster
    node = cluster.informers.nodes.get("n1")
    assert node is not None
    client.fail("patch", "nodes", STALE, GONE)
    assert not await set_taint(client, cluster, node, on=True)
    client.fail("patch", "nodes", STALE)
    client._objects["nodes"].clear()
    assert not await set_taint(client, cluster, node, on=True)
    client.fail("patch", "nodeclaims", GONE)
    assert not await scene.hands._reason("claim-n1", "Empty", "words")
    client.fail("patch", "nodeclaims", STALE)
    client._objects["nodeclaims"].clear()

    assert not await scene.hands._reason("claim-n1", "Empty", "words")
    assert await reread(client, NODES, "n1") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"command": 1}'])
def test_a_record_that_makes_no_sense_is_none(text: str) -> None:
    world = World()
    world.node("n1", annotations={names.DISRUPTION_COMMAND: text})

    assert record_of(world.claims[0]) is None


def test_names_of_replacements_follow_from_the_command_and_are_names() -> None:
    first = replacement_name("default", "id", 1.0, 0, 0)

    assert first == replacement_name("default", "id", 1.0, 0, 0)
    assert len({first, *(replacement_name("default", "id", 1.0, 0, number) for number in range(50))}) == 50
    assert first != replacement_name("default", "id", 2.0, 0, 0)
    assert len(replacement_name("p" * 253, "id", 1.0, 0, 0)) == 253
