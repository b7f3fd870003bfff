# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from karpenter.api import labels as names
from karpenter.api.conditions import EC2_NODE_CLASS, READY, ConditionSet
from karpenter.api.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus, Subnet
from karpenter.controllers.nodeclass import NodeClasses
from karpenter.kit.clock import FakeClock
from karpenter.kube import ConflictError, Recorder
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.observe import Metrics
from karpenter.state import STORED_NODE_CLASSES
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, stored_class


@dataclass(frozen=True)
class Found:
    """What a look found."""

    status: EC2NodeClassStatus
    annotations: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[Any, ...] = ()
    look_again_s: float = 60.0


@dataclass(frozen=True)
class Said:
    """A notice."""

    reason: str = "DeprecatedAMI"
    field: str = "spec.amiSelectorTerms"
    message: str = "ami-1 is deprecated"
    hint: str = "select a newer one"


class Finder:
    """Finds subnets, or none."""

    def __init__(self) -> None:
        self.subnets: tuple[Subnet, ...] = (Subnet(id="subnet-1", zone="us-west-2a"),)
        self.notices: tuple[Said, ...] = ()
        self.cleaned: list[str] = []
        self.looks = 0
        self.error: Exception | None = None

    async def resolve(self, node_class: EC2NodeClass) -> Found:
        """Look once."""
        self.looks += 1
        if self.error is not None:
            raise self.error
        conditions = ConditionSet.of(EC2_NODE_CLASS, node_class.metadata, node_class.status.conditions)
        now = FakeClock().now()
        for kind in EC2_NODE_CLASS.dependents:
            conditions = conditions.true(kind, now)
        if not self.subnets:
            conditions = conditions.false("SubnetsReady", now, reason="SubnetsNotFound", message="none")
        status = EC2NodeClassStatus(subnets=self.subnets, conditions=conditions.conditions)
        return Found(status, {names.EC2NODECLASS_HASH: "7"}, self.notices)

    async def cleanup(self, node_class: EC2NodeClass) -> None:
        """Clean up."""
        self.cleaned.append(node_class.metadata.name)


class Scene:
    """One class and who looks after it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.finder = Finder()
        self.recorder = Recorder(self.client, clock=self.clock)
        self.classes = NodeClasses(
            client=self.client,
            cluster=self.cluster,
            resolver=self.finder,
            recorder=self.recorder,
            metrics=Metrics(),
            clock=self.clock,
        )
        self.client.store(STORED_NODE_CLASSES, stored_class())

    @property
    def stored(self) -> dict[str, Any]:
        """The class as the server has it."""
        raw = self.client.raw_object(STORED_NODE_CLASSES, "default")
        assert raw is not None
        return raw


async def test_what_was_found_is_written_with_finalizer_and_fingerprint() -> None:
    scene = Scene()

    again = await scene.classes.reconcile("default")

    node_class = scene.cluster.node_class("default")
    assert node_class is not None
    assert again == 60.0
    assert node_class.status.subnets[0].id == "subnet-1"
    assert node_class.metadata.finalizers == (names.EC2NODECLASS_FINALIZER,)
    assert node_class.metadata.annotations[names.EC2NODECLASS_HASH] == "7"
    assert any(each.type == READY and each.status == "True" for each in node_class.status.conditions)


async def test_nothing_is_written_when_nothing_has_changed() -> None:
    scene = Scene()
    await scene.classes.reconcile("default")
    before = len(scene.client.calls)

    await scene.classes.reconcile("default")

    assert len(scene.client.calls) == before


async def test_what_is_no_longer_found_is_taken_out() -> None:
    scene = Scene()
    await scene.classes.reconcile("default")
    scene.finder.subnets = ()

    await scene.classes.reconcile("default")

    assert "subnets" not in scene.stored["status"]
    said = {each["type"]: each for each in scene.stored["status"]["conditions"]}
    assert said["SubnetsReady"]["reason"] == "SubnetsNotFound"
    assert said["Ready"]["status"] == "False"


async def test_notices_become_events_with_field_and_next_step() -> None:
    scene = Scene()
    scene.finder.notices = (Said(), Said(reason="Odd", hint=""))

    await scene.classes.reconcile("default")

    assert [(each.reason, each.message) for each in scene.recorder._queue] == [
        ("DeprecatedAMI", "spec.amiSelectorTerms: ami-1 is deprecated; select a newer one"),
        ("Odd", "ami-1 is deprecated"),
    ]


async def test_a_class_in_use_stays_until_its_last_claim_is_gone() -> None:
    scene = Scene()
    scene.client.store(NODE_CLAIMS, claim("c1"))
    await scene.classes.reconcile("default")
    await scene.client.delete(STORED_NODE_CLASSES, "default")
    waiting = await scene.classes.reconcile("default")
    early = list(scene.finder.cleaned)
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.classes.reconcile("default")

    assert waiting == 600.0
    assert early == []
    assert scene.finder.cleaned == ["default"]
    assert scene.client.raw_object(STORED_NODE_CLASSES, "default") is None
    assert not len(scene.cluster.informers.classes)
    assert "WaitingOnNodeClaimTermination" in [each.reason for each in scene.recorder._queue]


async def test_a_class_that_others_hold_is_left_to_them() -> None:
    scene = Scene()
    held = stored_class("held")
    held = msgspec.structs.replace(
        held, metadata=msgspec.structs.replace(held.metadata, finalizers=("else",))
    )
    scene.client.store(STORED_NODE_CLASSES, held)
    await scene.client.delete(STORED_NODE_CLASSES, "held")

    assert await scene.classes.reconcile("held") is None
    assert scene.finder.cleaned == []


async def test_a_class_that_cannot_be_understood_says_why_once() -> None:
    scene = Scene()
    scene.client.store(STORED_NODE_CLASSES, stored_class("odd", subnetSelectorTerms=5))

    await scene.classes.reconcile("odd")
    await scene.classes.reconcile("odd")
    await scene.classes.reconcile("nobody")

    assert len(scene.client.writes("patch", "ec2nodeclasses")) == 1
    assert scene.finder.looks == 0
    assert [each.reason for each in scene.recorder._queue] == ["EC2NodeClassValidationFailed"]


async def test_it_looks_at_new_words_and_not_at_its_own_writes() -> None:
    scene = Scene()
    task = asyncio.ensure_future(scene.classes.run())
    await scene.clock.advance(1)
    first = scene.finder.looks
    raw = scene.stored
    raw["metadata"]["generation"] = 5
    scene.client.store(STORED_NODE_CLASSES, raw)
    await scene.clock.advance(1)
    second = scene.finder.looks
    await scene.clock.advance(61)
    third = scene.finder.looks
    scene.finder.error = ValueError("a bug")
    await scene.clock.advance(61)
    scene.finder.error = None
    await scene.client.delete(STORED_NODE_CLASSES, "default")
    await scene.clock.advance(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert (first, second, third) == (1, 2, 3)
    assert scene.finder.cleaned == ["default"]


async def test_the_last_claim_of_a_going_class_wakes_it() -> None:
    scene = Scene()
    scene.client.store(NODE_CLAIMS, claim("c1"))
    task = asyncio.ensure_future(scene.classes.run())
    await scene.clock.advance(1)
    await scene.client.delete(STORED_NODE_CLASSES, "default")
    await scene.clock.advance(1)
    await scene.client.delete(NODE_CLAIMS, "c1")
    await scene.clock.advance(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert scene.finder.cleaned == ["default"]


async def test_a_class_stays_while_a_claim_cannot_be_read() -> None:
    scene = Scene()
    scene.client.store(NODE_CLAIMS, {"metadata": {"name": "odd", "labels": 5}})
    await scene.classes.reconcile("default")
    await scene.client.delete(STORED_NODE_CLASSES, "default")

    assert await scene.classes.reconcile("default") == 600.0
    assert scene.finder.cleaned == []


async def test_a_class_that_another_writes_to_while_it_is_looked_up_is_decided_anew() -> None:
    scene = Scene()
    await scene.classes.reconcile("default")
    scene.finder.subnets = ()
    other = {"conditions": [*scene.stored["status"]["conditions"], {"type": "Theirs", "status": "True"}]}

    async def meanwhile(node_class: Any, resolve: Any = scene.finder.resolve) -> Any:
        found = await resolve(node_class)
        await scene.client.edit(STORED_NODE_CLASSES, "default", {"status": other}, subresource="status")
        return found

    scene.finder.resolve = meanwhile  # type: ignore[method-assign]
    again_s = await scene.classes.reconcile("default")

    assert again_s == 1.0
    assert scene.stored["status"]["subnets"]
    assert "Theirs" in {each["type"] for each in scene.stored["status"]["conditions"]}


@pytest.mark.parametrize("name", ["default", "odd"])
async def test_a_status_of_a_class_that_meets_another_writer_is_written_at_the_next_look(name: str) -> None:
    scene = Scene()
    scene.client.store(STORED_NODE_CLASSES, stored_class("odd", subnetSelectorTerms=5))
    if name == "default":
        await scene.classes.reconcile(name)
        scene.finder.subnets = ()
    scene.client.fail("patch", "ec2nodeclasses", ConflictError("modified", status=409))

    assert await scene.classes.reconcile(name) == 1.0
    again_s = await scene.classes.reconcile(name)

    assert again_s != 1.0
    raw = scene.client.raw_object(STORED_NODE_CLASSES, name)
    assert raw is not None
    assert {each["type"]: each["status"] for each in raw["status"]["conditions"]}["Ready"] == "False"
