# SPDX-License-Identifier: Apache-2.0
"""What is told where the cloud refuses to end an instance, and how it heals."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.cloud.errors import TerminationRefusedError
from karpenter.cloud.protocol import Machine
from karpenter.controllers.garbage import GarbageCollection
from karpenter.kube import ConflictError
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import DecisionLog
from karpenter.state import STORED_NODE_CLASSES
from tests.unit.controllers.termination.test_termination import ID, Scene
from tests.unit.state.worlds import claim, stored_class

ARN = "arn:aws:ec2:us-west-2:1:instance/i-1"


class Refusing(Scene):
    """A scene in which the cloud refuses to end instances as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.client.store(STORED_NODE_CLASSES, stored_class("default"))
        self.refuses = True
        self.orders = 0
        allowed = self.cloud.delete

        async def delete(provider_id: str) -> None:
            self.orders += 1
            if self.refuses:
                raise TerminationRefusedError(
                    provider_id,
                    action="ec2:TerminateInstances",
                    resource=ARN,
                    code="UnauthorizedOperation",
                    hint=f"allow ec2:TerminateInstances on {ARN}",
                )
            await allowed(provider_id)

        self.cloud.delete = delete  # type: ignore[method-assign]

    async def begin(self) -> None:
        """Delete the node and let its end come to the instance."""
        await self.client.delete(NODES, "n1")
        await self.step(8)

    def events(self, kind: str) -> list[str]:
        """Words of the refusals that were told about objects of a kind."""
        return [
            each.message
            for each in self.recorder._queue
            if (each.subject.kind, each.reason) == (kind, "TerminationRefused")
        ]

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Status, reason and message of the condition that tells of refusals, on the claim or its class."""
        store, name, wanted = (
            (NODE_CLAIMS, "c1", "InstanceTerminating")
            if kind == "NodeClaim"
            else (STORED_NODE_CLASSES, "default", "InstanceTerminationHealthy")
        )
        raw: Any = self.client.raw_object(store, name)
        found = [each for each in raw.get("status", {}).get("conditions", ()) if each["type"] == wanted]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else ("", "", "")


async def test_a_refusal_is_told_on_node_claim_and_class_and_counted() -> None:
    scene = Refusing()

    await scene.begin()

    for kind in ("Node", "NodeClaim", "EC2NodeClass"):
        (words,) = scene.events(kind)
        assert f"ec2:TerminateInstances on {ARN} is refused (UnauthorizedOperation)" in words
        assert f"allow ec2:TerminateInstances on {ARN}" in words
    for kind in ("NodeClaim", "EC2NodeClass"):
        status, reason, message = scene.condition(kind)
        assert (status, reason) == ("False", "TerminationRefused")
        assert ARN in message
    assert scene.refusals_counted >= 1
    assert not scene.is_over


async def test_a_refused_instance_is_asked_for_ever_more_rarely() -> None:
    scene = Refusing()

    await scene.begin()
    await scene.step(120)

    assert 2 <= scene.orders <= 8


async def test_once_allowed_the_instance_goes_and_the_class_is_healthy_again() -> None:
    scene = Refusing()
    await scene.begin()

    scene.refuses = False
    scene.clock.tick(300)
    await scene.step(4)

    assert scene.is_over
    assert scene.condition("EC2NodeClass")[0] == "True"


async def test_the_class_stays_unhealthy_while_another_of_its_claims_is_refused() -> None:
    scene = Refusing()
    await scene.begin()
    refused = [{"type": "InstanceTerminating", "status": "False", "reason": "TerminationRefused"}]
    scene.client.store(NODE_CLAIMS, claim("c2", provider_id="aws:///z/i-2", conditions=refused))

    scene.refuses = False
    scene.clock.tick(300)
    await scene.step(4)

    assert scene.condition("EC2NodeClass")[0] == "False"


async def test_a_class_that_was_written_meanwhile_is_told_at_the_next_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Refusing()
    patch = scene.client.patch
    refused: list[str] = []

    async def once(kind: Any, name: str, body: Any, *rest: Any, **more: Any) -> Any:
        if kind is STORED_NODE_CLASSES and not refused:
            refused.append(name)
            raise ConflictError("changed", status=409)
        return await patch(kind, name, body, *rest, **more)

    monkeypatch.setattr(scene.client, "patch", once)
    await scene.begin()
    early = scene.condition("EC2NodeClass")[0]
    await scene.step(30)

    assert (early, scene.condition("EC2NodeClass")[0]) == ("", "False")


async def test_a_leftover_that_the_cloud_will_not_end_does_not_keep_the_others() -> None:
    scene = Refusing()
    old = datetime(2025, 12, 31, tzinfo=UTC)
    machines = [Machine(f"aws:///z/i-{number}", created_at=old) for number in (7, 8)]
    scene.cloud.machines = machines
    garbage = GarbageCollection(
        client=scene.client,
        cluster=scene.cluster,
        cloud=scene.cloud,  # type: ignore[arg-type]
        decisions=DecisionLog(scene.clock),
        metrics=scene.metrics,
        clock=scene.clock,
    )

    await garbage.collect()

    assert scene.orders == 2
    assert scene.refusals_counted == 2


async def test_without_its_class_and_without_a_claim_the_rest_is_told() -> None:
    scene = Refusing()
    await scene.client.delete(STORED_NODE_CLASSES, "default")

    await scene.begin()
    gone = await scene.nodes._instances.end(f"{ID}2", None, None)

    assert not gone
    assert scene.events("NodeClaim")
    assert scene.events("EC2NodeClass") == []
    assert (
        names.TERMINATION_FINALIZER
        in (scene.cluster.informers.nodes.get("n1") or _missing()).metadata.finalizers
    )


def _missing() -> Any:
    raise AssertionError("the node is gone")
