# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from karpenter.cloud.aws.interruption import Actor, InstanceHealth, Interruption, InterruptionKind
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.fakes import FakeAws, aws_error

START = FakeClock().now()


def impaired(instance_id: str, field: str, since: datetime | None = None) -> dict[str, Any]:
    detail: dict[str, Any] = {"Name": "reachability", "Status": "failed"}
    if since is not None:
        detail["ImpairedSince"] = since
    return {"InstanceId": instance_id, field: {"Status": "impaired", "Details": [detail]}}


def scheduled(instance_id: str, code: str, description: str) -> dict[str, Any]:
    event = {"Code": code, "Description": description, "NotBefore": START}
    return {"InstanceId": instance_id, "Events": [event]}


class Stand:
    def __init__(self, *, failing: bool = False, **statuses: list[dict[str, Any]]) -> None:
        self.clock = FakeClock()
        self.statuses = statuses
        self.failing = failing
        self.told: list[Interruption] = []
        self.problems: list[Exception] = []
        self.unhealthy: list[tuple[str, str]] = []
        self.refusal: Exception | None = None
        self.aws = FakeAws({"DescribeInstanceStatus": self._describe})
        self.health = InstanceHealth(
            self.aws,
            self.clock,
            Actor(self._handle, self.clock),
            on_problem=self.problems.append,
            on_unhealthy=lambda kind, instance: self.unhealthy.append((str(kind), instance)),
        )

    def _describe(self, **asked: Any) -> Any:
        if self.refusal is not None:
            return self.refusal
        name = asked["Filters"][0]["Name"].partition("-")[0].partition(".")[0]
        return {"InstanceStatuses": self.statuses.get(name, [])}

    async def _handle(self, interruption: Interruption) -> None:
        if self.failing:
            raise RuntimeError("not now")
        self.told.append(interruption)


async def test_three_questions_are_asked() -> None:
    stand = Stand()

    assert await stand.health.find() == ()
    assert [call["Filters"][0]["Name"] for call in stand.aws.named("DescribeInstanceStatus")] == [
        "instance-status.status",
        "system-status.status",
        "event.code",
    ]


async def test_a_check_must_have_failed_for_two_minutes_by_ec2s_time() -> None:
    stand = Stand(
        instance=[
            impaired("i-1", "InstanceStatus", START - timedelta(seconds=120)),
            impaired("i-2", "InstanceStatus", START - timedelta(seconds=119)),
        ],
        system=[impaired("i-3", "SystemStatus", (START - timedelta(hours=1)).replace(tzinfo=None))],
    )

    found = await stand.health.find()

    assert [(each.kind, each.instance_ids) for each in found] == [
        (InterruptionKind.INSTANCE_STATUS, ("i-1",)),
        (InterruptionKind.SYSTEM_STATUS, ("i-3",)),
    ]
    assert found[0].detail == "the instance status check has failed since 23:58:00"
    assert found[0].at == START - timedelta(seconds=120)


async def test_where_ec2_does_not_say_since_when_our_first_look_counts() -> None:
    stand = Stand(instance=[impaired("i-1", "InstanceStatus")])

    looks = []
    for _ in range(3):
        looks.append(len(await stand.health.find()))
        stand.clock.tick(60)

    assert looks == [0, 0, 1]


async def test_a_check_that_recovered_counts_anew() -> None:
    stand = Stand(instance=[impaired("i-1", "InstanceStatus")])
    await stand.health.find()
    stand.clock.tick(180)

    assert await stand.health.find() == ()


async def test_scheduled_events_count_unless_they_are_over_or_of_another_kind() -> None:
    stand = Stand(
        event=[
            scheduled("i-1", "instance-retirement", "degraded hardware"),
            scheduled("i-2", "instance-stop", "[Completed] degraded hardware"),
            scheduled("i-3", "something-else", "who knows"),
        ]
    )

    (found,) = await stand.health.find()

    assert found.kind is InterruptionKind.EVENT_STATUS
    assert found.instance_ids == ("i-1",)
    assert found.at == START
    assert found.detail == "instance-retirement: degraded hardware"


async def test_the_loop_tells_once_and_lives_through_every_trouble() -> None:
    stand = Stand(failing=True, event=[scheduled("i-1", "instance-stop", "soon")])
    stand.refusal = aws_error("UnauthorizedOperation")

    running = asyncio.create_task(stand.health.run())
    await stand.clock.settle()
    stand.refusal = None
    await stand.clock.advance(60)
    stand.failing = False
    await stand.clock.advance(180)
    running.cancel()

    assert len(stand.problems) == 2
    assert [each.instance_ids for each in stand.told] == [("i-1",)]


async def test_each_instance_in_trouble_is_told_once_for_as_long_as_it_is() -> None:
    stand = Stand(event=[scheduled("i-1", "instance-stop", "soon")])
    task = asyncio.ensure_future(stand.health.run())
    await stand.clock.advance(130)
    assert stand.unhealthy == [("event_status", "i-1")]
    stand.statuses = {}
    await stand.clock.advance(60)
    stand.statuses = {"event": [scheduled("i-1", "instance-stop", "soon")]}
    await stand.clock.advance(60)
    task.cancel()

    assert stand.unhealthy == [("event_status", "i-1")] * 2


async def test_a_check_that_we_have_seen_fail_counts_though_ec2s_clock_is_ahead_of_ours() -> None:
    stand = Stand(instance=[impaired("i-1", "InstanceStatus", START + timedelta(hours=1))])

    early = await stand.health.find()
    stand.clock.tick(120)
    late = await stand.health.find()

    assert early == ()
    assert [each.instance_ids for each in late] == [("i-1",)]
