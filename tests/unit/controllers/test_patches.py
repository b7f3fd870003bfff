# SPDX-License-Identifier: Apache-2.0
"""Writers who meet at one object: none takes back what another has written."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.api.conditions import DRAINED, DRIFTED, ConditionSet
from karpenter.controllers.patches import (
    add_finalizer,
    change_conditions,
    patch_decided,
    remove_finalizer,
    write_status,
)
from karpenter.controllers.tainting import set_taint
from karpenter.kit.clock import FakeClock
from karpenter.kube import ConflictError
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from tests.unit.controllers.paper import PaperClient, paper_cluster
from tests.unit.state.worlds import claim, node

OTHER = {"type": DRIFTED, "status": "True", "reason": "Other", "lastTransitionTime": "2026-01-01T00:00:00Z"}


class Scene:
    """A claim and a node that the informer knows in an older version than the server has."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        metadata = {"uid": "u", "creationTimestamp": "2025-12-31T00:00:00Z", "generation": 1}
        self.claim = self.client.store(NODE_CLAIMS, claim("c", metadata=metadata))
        self.node = self.client.store(NODES, node("n", metadata={"uid": "n"}))

    async def others_write(self, kind: Any, name: str, change: Any, subresource: str = "") -> None:
        """Change an object without the informers' hearing of it."""
        informers, self.client.informers = self.client.informers, None
        await self.client.edit(kind, name, change, subresource=subresource)
        self.client.informers = informers

    @property
    def conditions(self) -> dict[str, str]:
        """The conditions of the claim on the server."""
        raw = self.client.raw_object(NODE_CLAIMS, "c")
        assert raw is not None
        return {each["type"]: each["reason"] for each in raw["status"]["conditions"]}

    def drained(self, conditions: ConditionSet) -> ConditionSet:
        """Say that the claim's node is drained."""
        return conditions.true(DRAINED, self.clock.now())


async def test_a_condition_that_another_wrote_meanwhile_stays() -> None:
    scene = Scene()
    await scene.others_write(NODE_CLAIMS, "c", {"status": {"conditions": [OTHER]}}, "status")

    written = await change_conditions(scene.client, scene.cluster, scene.claim, scene.drained)

    assert written is not None
    assert scene.cluster.informers.claims.get("c") == written
    assert scene.conditions[DRIFTED] == "Other"
    assert scene.conditions[DRAINED] == DRAINED


async def test_nothing_is_sent_when_nothing_changes() -> None:
    scene = Scene()
    await change_conditions(scene.client, scene.cluster, scene.claim, scene.drained)
    before = len(scene.client.calls)

    assert await change_conditions(scene.client, scene.cluster, scene.claim, scene.drained) is not None
    assert len(scene.client.calls) == before


async def test_what_another_has_done_already_is_not_done_again() -> None:
    scene = Scene()
    taint = {"key": names.DISRUPTED_TAINT.key, "effect": names.DISRUPTED_TAINT.effect}
    await scene.others_write(NODES, "n", {"spec": {"taints": [taint]}})

    assert await set_taint(scene.client, scene.cluster, scene.node, on=True)

    raw = scene.client.raw_object(NODES, "n")
    assert raw is not None
    assert raw["spec"]["taints"] == [taint]


async def test_an_object_that_is_gone_or_another_of_its_name_is_left_alone() -> None:
    scene = Scene()
    stale = scene.claim
    await scene.client.delete(NODE_CLAIMS, "c")

    assert await change_conditions(scene.client, scene.cluster, stale, scene.drained) is None
    scene.client.store(NODE_CLAIMS, claim("c", metadata={"uid": "another"}))
    assert await change_conditions(scene.client, scene.cluster, stale, scene.drained) is None
    assert scene.client.writes("patch", "nodeclaims")[1:] == ()


async def test_an_object_that_goes_between_the_conflict_and_the_second_look_is_gone() -> None:
    scene = Scene()
    scene.client.fail("patch", "nodeclaims", ConflictError("modified", status=409))
    informers, scene.client.informers = scene.client.informers, None
    await scene.client.delete(NODE_CLAIMS, "c")
    scene.client.informers = informers

    assert await change_conditions(scene.client, scene.cluster, scene.claim, scene.drained) is None


async def test_an_object_that_is_written_to_without_end_is_an_error() -> None:
    scene = Scene()
    scene.client.fail("patch", "nodeclaims", *[ConflictError("modified", status=409)] * 4)

    with pytest.raises(ConflictError, match=r"nodeclaims.karpenter.sh c is written to without end"):
        await change_conditions(scene.client, scene.cluster, scene.claim, scene.drained)


async def test_finalizers_of_others_stay_and_the_last_one_lets_the_object_go() -> None:
    scene = Scene()
    nodes = scene.cluster.informers.nodes
    await scene.others_write(NODES, "n", {"metadata": {"finalizers": ["theirs"]}})

    held = await add_finalizer(scene.client, nodes, scene.node, "ours")
    again = await add_finalizer(scene.client, nodes, scene.node, "ours")
    assert held is not None
    assert held.metadata.finalizers == ("theirs", "ours")
    assert again == held
    await scene.client.delete(NODES, "n")
    await scene.others_write(NODES, "n", {"metadata": {"finalizers": ["ours"]}})

    assert await remove_finalizer(scene.client, nodes, held, "ours")
    assert scene.client.raw_object(NODES, "n") is None
    assert nodes.get("n") is None
    assert not await remove_finalizer(scene.client, nodes, held, "ours")


async def test_a_finalizer_that_is_not_there_need_not_be_taken_off() -> None:
    scene = Scene()

    assert await remove_finalizer(scene.client, scene.cluster.informers.nodes, scene.node, "ours")
    assert scene.client.calls == []


async def test_a_status_that_was_decided_on_an_older_version_is_not_written() -> None:
    scene = Scene()
    claims = scene.cluster.informers.claims
    await scene.others_write(NODE_CLAIMS, "c", {"status": {"conditions": [OTHER]}}, "status")

    assert not await write_status(scene.client, claims, scene.claim, {"conditions": []})
    assert scene.conditions == {DRIFTED: "Other"}
    await scene.client.delete(NODE_CLAIMS, "c")
    assert await write_status(scene.client, claims, scene.claim, {"conditions": []})


async def test_the_version_is_that_of_the_object_that_was_decided_on() -> None:
    scene = Scene()
    seen: list[str] = []

    def decide(found: Any) -> dict[str, Any]:
        seen.append(found.metadata.resource_version)
        return {"metadata": {"labels": {"a": "b"}}}

    await scene.others_write(NODES, "n", {"metadata": {"labels": {"c": "d"}}})
    written = await patch_decided(scene.client, scene.cluster.informers.nodes, scene.node, decide)

    sent = [call.body["metadata"]["resourceVersion"] for call in scene.client.writes("patch", "nodes")[1:]]
    assert sent == seen
    assert written is not None
    assert dict(written.metadata.labels) == {"a": "b", "c": "d"}


def test_a_patch_of_a_list_without_a_version_does_not_pass_in_any_test() -> None:
    change: dict[str, Any] = {"status": {"conditions": []}}

    with pytest.raises(AssertionError, match="does not carry the version"):
        PaperClient().patch(NODE_CLAIMS, "c", change).send(None)
