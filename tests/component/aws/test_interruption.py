# SPDX-License-Identifier: Apache-2.0
"""Interruptions over real HTTP: what the model does to instances arrives by the queue or by asking."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from karpenter.api import labels
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.codes import is_not_found
from karpenter.cloud.aws.discovery import Account
from karpenter.cloud.aws.instances import Instances, parse_provider_id
from karpenter.cloud.aws.interruption import (
    Actor,
    InstanceHealth,
    Interruption,
    InterruptionKind,
    InterruptionQueue,
    PollReport,
    Verifier,
)
from karpenter.cloud.leaks import Owner, leaks
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


@dataclass
class Fleet:
    """Instances that were launched, with the NodeClaims that they were launched for."""

    ids: list[str]
    claims: dict[str, NodeClaim] = field(default_factory=dict)


def queue_of(
    aws: Remembering, ear: Callable[[Interruption], Awaitable[None]], fleet: Fleet | None = None
) -> InterruptionQueue:
    clock = SystemClock()
    claims = fleet.claims if fleet is not None else {}
    verifier = Verifier(
        aws,
        clock,
        instances=Instances(aws, clock, cluster_name=CLUSTER),
        claims_of=lambda name: [claims[name]] if name in claims else [],
    )
    return InterruptionQueue(aws, clock, Actor(ear, clock), queue_name=CLUSTER, verify=verifier.verify)


async def drain(queue: InterruptionQueue) -> None:
    while (await queue.poll(wait_s=0)).count:
        pass


async def launched(connected: Connect, aws: Remembering, capacity: str, count: int) -> Fleet:
    provider = await connected()
    node_class = await default_class(aws)
    fleet = Fleet([])
    for number in range(count):
        claim = simple_claim(number, capacity=(capacity,))
        machine = await provider.create(claim, node_class)
        name = parse_provider_id(machine.provider_id)
        labelled = {**claim.metadata.labels, labels.CAPACITY_TYPE: capacity}
        fleet.ids.append(name)
        fleet.claims[name] = msgspec.structs.replace(
            claim, metadata=msgspec.structs.replace(claim.metadata, labels=labelled)
        )
    return fleet


async def test_warnings_recommendations_state_changes_and_health_events_arrive(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    fleet = await launched(connected, aws, labels.SPOT, 3)
    one, two, three = fleet.ids
    ear = Ear()
    queue = queue_of(aws, ear, fleet)

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
    fleet = await launched(connected, aws, labels.SPOT, 1)
    (one,) = fleet.ids
    model.do("clock", {"advanceSeconds": 120})
    model.do("interrupt", [{"instanceIds": [one], "warningSeconds": 3600}])
    ear = Ear(failures=1)
    queue = queue_of(aws, ear, fleet)

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
    one, two, three = (await launched(connected, aws, labels.ON_DEMAND, 3)).ids
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
    verifier = Verifier(
        aws, clock, instances=Instances(aws, clock, cluster_name=CLUSTER), claims_of=lambda _: []
    )
    queue = InterruptionQueue(
        aws,
        clock,
        Actor(Ear(), clock),
        queue_name="nobody",
        verify=verifier.verify,
        on_problem=problems.put_nowait,
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
    machines, owners, now = await provider.list(), (Owner.of(simple_claim(1)),), datetime.now(UTC)

    early, late = (
        leaks(machines, owners, now + timedelta(seconds=seconds), provider.possible_claims)
        for seconds in (10, 45)
    )
    for leak in late:
        await provider.delete(leak.machine.provider_id)

    assert list(early) == []
    assert [each.machine.provider_id for each in late] == [lost.provider_id]
    assert [each["id"] for each in model.living()] == [parse_provider_id(kept.provider_id)]


@pytest.mark.parametrize("body", ["", "not json", '{"version": "0"}'])
async def test_poison_is_deleted_and_counted(model: Model, aws: Remembering, body: str) -> None:
    model.do("message", {"body": body or " "})
    queue = queue_of(aws, Ear())

    report = await queue.poll(wait_s=0)

    assert (report.received, report.deleted) == ({"no_op": 1}, 1)
    assert (await queue.poll(wait_s=0)).count == 0


def forged(account: str, instance_id: str, **more: Any) -> dict[str, Any]:
    """Return a state change as EventBridge writes it, but that EC2 knows nothing of."""
    return {
        "version": "0",
        "id": "forged",
        "source": "aws.ec2",
        "detail-type": "EC2 Instance State-change Notification",
        "account": account,
        "region": "us-west-2",
        "time": "2026-01-01T00:00:00Z",
        "resources": [],
        "detail": {"instance-id": instance_id, "state": "terminated"},
        **more,
    }


async def test_forged_messages_are_refused_and_the_genuine_one_between_them_is_obeyed(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    fleet = await launched(connected, aws, labels.ON_DEMAND, 2)
    kept, ended = fleet.ids
    own = await Account(aws, SystemClock(), cluster_name=CLUSTER).id()
    model.do("clock", {"advanceSeconds": 120})
    warning = {
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "detail": {"instance-id": kept, "instance-action": "terminate"},
    }
    change = {
        "source": "aws.health",
        "detail-type": "AWS Health Event",
        "detail": {
            "service": "EC2",
            "eventTypeCategory": "scheduledChange",
            "affectedEntities": [{"entityValue": kept}],
        },
    }
    for body in (
        forged("", kept),
        forged("210987654321", kept),
        forged(own, kept, **warning),
        forged(own, kept),
        forged(own, kept, **change),
    ):
        model.do("message", {"body": json.dumps({**body, "region": aws.region})})
    model.do("terminate", [{"instanceIds": [ended]}])
    ear = Ear()
    queue = queue_of(aws, ear, fleet)

    reports: list[PollReport] = []
    for _ in range(3):
        while (report := await queue.poll(wait_s=0)).count:
            reports.append(report)
        model.do("clock", {"advanceSeconds": 21})

    assert ear.kinds() == {("instance_terminated", ended)}
    assert sorted(each.reason for report in reports for each in report.refused) == [
        "foreign_account",
        "instance_running",
        "no_account",
        "no_scheduled_event",
        "not_spot",
    ]
    assert (await queue.poll(wait_s=0)).count == 0
