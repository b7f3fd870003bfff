# SPDX-License-Identifier: Apache-2.0
"""Interruptions over real HTTP: what the model does to instances arrives by the queue or by asking."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from karpenter.api import labels
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.codes import is_not_found
from karpenter.cloud.aws.discovery import Account
from karpenter.cloud.aws.garbage import Collector
from karpenter.cloud.aws.instances import parse_provider_id
from karpenter.cloud.aws.interruption import (
    Actor,
    InstanceHealth,
    Interruption,
    InterruptionKind,
    InterruptionQueue,
)
from karpenter.kit.clock import FakeClock, SystemClock
from tests.component.aws.conftest import Connect
from tests.component.aws.stand import CLUSTER, Model, Remembering, default_class, simple_claim


class Ear:
    """A handler that remembers, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.told: list[Interruption] = []
        self.failures = failures

    async def __call__(self, interruption: Interruption) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.told.append(interruption)

    def kinds(self) -> set[tuple[str, str]]:
        return {(each.kind.value, name) for each in self.told for name in each.instance_ids}


async def queue_of(aws: Remembering, ear: Callable[[Interruption], Awaitable[None]]) -> InterruptionQueue:
    clock = SystemClock()
    account = await Account(aws).id()
    return InterruptionQueue(aws, clock, Actor(ear, clock), queue_name=CLUSTER, account=account)


async def drain(queue: InterruptionQueue) -> None:
    while (await queue.poll(wait_s=0)).count:
        pass


async def launched(connected: Connect, aws: Remembering, capacity: str, count: int) -> list[str]:
    provider = await connected()
    node_class = await default_class(aws)
    machines = [
        await provider.create(simple_claim(number, capacity=(capacity,)), node_class)
        for number in range(count)
    ]
    return [parse_provider_id(each.provider_id) for each in machines]


async def test_warnings_recommendations_state_changes_and_health_events_arrive(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    one, two, three = await launched(connected, aws, labels.SPOT, 3)
    ear = Ear()
    queue = await queue_of(aws, ear)

    model.do("clock", {"advanceSeconds": 120})
    model.do("interrupt", [{"instanceIds": [one]}])
    model.do("rebalance", [{"instanceIds": [two]}])
    model.do("scheduleEvent", [{"instanceIds": [two, three]}])
    model.do("clock", {"advanceSeconds": 200})
    await drain(queue)

    assert ear.kinds() == {
        ("spot_interrupted", one),
        ("instance_terminated", one),
        ("rebalance_recommendation", two),
        ("scheduled_change", two),
        ("scheduled_change", three),
    }
    warning = next(each for each in ear.told if each.kind is InterruptionKind.SPOT_INTERRUPTED)
    assert warning.at is not None
    assert warning.message_id


async def test_a_handler_that_fails_is_told_again_when_the_message_comes_back(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    (one,) = await launched(connected, aws, labels.SPOT, 1)
    model.do("clock", {"advanceSeconds": 120})
    model.do("interrupt", [{"instanceIds": [one], "warningSeconds": 3600}])
    ear = Ear(failures=1)
    queue = await queue_of(aws, ear)

    # Other messages are about its start and mean nothing to us.
    first = await queue.poll(wait_s=0)
    hidden = await queue.poll(wait_s=0)
    model.do("clock", {"advanceSeconds": 21})
    second = await queue.poll(wait_s=0)

    assert (len(first.failures), first.acted, hidden.count, second.acted) == (1, 0, 0, 1)
    assert ear.kinds() == {("spot_interrupted", one)}


async def test_failed_checks_and_scheduled_events_are_found_without_any_queue(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    one, two, three = await launched(connected, aws, labels.ON_DEMAND, 3)
    model.do("clock", {"advanceSeconds": 120})
    model.do("impair", [{"instanceIds": [one]}, {"instanceIds": [two], "system": True}])
    model.do("scheduleEvent", [{"instanceIds": [three], "code": "instance-stop"}])
    soon, later = (FakeClock(datetime.now(UTC) + timedelta(seconds=seconds)) for seconds in (200, 300))
    ear = Ear()

    early = await InstanceHealth(aws, soon, Actor(ear, soon)).find()
    found = await InstanceHealth(aws, later, Actor(ear, later)).find()

    assert {each.kind for each in early} == {InterruptionKind.EVENT_STATUS}
    assert {(each.kind.value, each.instance_ids) for each in found} == {
        ("instance_status", (one,)),
        ("system_status", (two,)),
        ("event_status", (three,)),
    }


async def test_a_queue_that_does_not_exist_is_told_and_the_reader_lives_on(aws: Remembering) -> None:
    clock = FakeClock()
    problems: asyncio.Queue[Exception] = asyncio.Queue()
    queue = InterruptionQueue(
        aws, clock, Actor(Ear(), clock), queue_name="nobody", on_problem=problems.put_nowait
    )

    running = asyncio.create_task(queue.run())
    first = await problems.get()
    await clock.advance(1)
    second = await problems.get()
    running.cancel()

    assert isinstance(first, AwsError)
    assert is_not_found(first.code)
    assert str(second) == str(first)


async def test_an_instance_whose_claim_is_gone_is_ended_and_one_with_a_claim_is_not(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    provider = await connected()
    node_class = await default_class(aws)
    kept, lost = [await provider.create(simple_claim(number), node_class) for number in (1, 2)]
    now = datetime.now(UTC)

    async def claims() -> list[NodeClaim]:
        return [simple_claim(1)]

    def collector(seconds: float) -> Collector:
        return Collector(
            list_machines=provider.list,
            list_claims=claims,
            possible_claims=provider.possible_claims,
            delete=provider.delete,
            now=lambda: now + timedelta(seconds=seconds),
        )

    early = await collector(10).collect()
    collected = await collector(45).collect()

    assert early.ended == ()
    assert [each.machine.provider_id for each in collected.ended] == [lost.provider_id]
    assert [each["id"] for each in model.living()] == [parse_provider_id(kept.provider_id)]


@pytest.mark.parametrize("body", ["", "not json", '{"version": "0"}'])
async def test_poison_is_deleted_and_counted(model: Model, aws: Remembering, body: str) -> None:
    model.do("message", {"body": body or " "})
    queue = await queue_of(aws, Ear())

    report = await queue.poll(wait_s=0)

    assert (report.received, report.deleted) == ({"no_op": 1}, 1)
    assert (await queue.poll(wait_s=0)).count == 0
