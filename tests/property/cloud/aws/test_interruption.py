# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karpenter.cloud.aws.interruption import Actor, Ignored, Interruption, InterruptionKind, parse_message
from karpenter.kit.clock import FakeClock

# How fast the machine is says nothing about the promises.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=15,
)
DETAIL_TYPES = st.sampled_from(
    [
        "EC2 Spot Instance Interruption Warning",
        "EC2 Instance Rebalance Recommendation",
        "EC2 Instance State-change Notification",
        "EC2 Capacity Reservation Instance Interruption Warning",
        "AWS Health Event",
    ]
)
IDS = st.from_regex(r"\Ai-[0-9a-f]{1,17}\Z") | VALUES
DETAILS = (
    st.fixed_dictionaries(
        {},
        optional={
            "instance-id": IDS,
            "state": st.sampled_from(["stopping", "terminated", "running"]) | VALUES,
            "service": st.just("EC2") | VALUES,
            "eventTypeCategory": st.just("scheduledChange") | VALUES,
            "eventTypeCode": VALUES,
            "capacity-reservation-id": VALUES,
            "affectedEntities": st.lists(st.fixed_dictionaries({"entityValue": IDS}) | VALUES, max_size=4)
            | VALUES,
        },
    )
    | VALUES
)
# Nearly an event: each field is what it should be, or anything else, or missing.
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "version": st.just("0") | VALUES,
        "id": VALUES,
        "source": st.sampled_from(["aws.ec2", "aws.health"]) | VALUES,
        "detail-type": DETAIL_TYPES | VALUES,
        "account": st.just("111111111111") | VALUES,
        "region": st.just("us-west-2") | VALUES,
        "time": st.datetimes().map(lambda moment: moment.isoformat()) | VALUES,
        "detail": DETAILS,
    },
)


def check(body: bytes) -> None:
    read = parse_message(body, account="111111111111", region="us-west-2")
    if isinstance(read, Ignored):
        assert len(read.detail) <= 120
        return
    assert isinstance(read, Interruption)
    assert read.instance_ids
    assert len(set(read.instance_ids)) == len(read.instance_ids)
    assert all(each.startswith("i-") and each[2:].isalnum() for each in read.instance_ids)
    assert read.at is None or read.at.tzinfo is not None


@UNHURRIED
@given(st.binary(max_size=200))
def test_no_bytes_whatever_make_the_parser_raise(body: bytes) -> None:
    check(body)


@UNHURRIED
@given(EVENTS | VALUES)
def test_nothing_that_resembles_an_event_makes_the_parser_raise(event: Any) -> None:
    check(json.dumps(event).encode())


@UNHURRIED
@given(EVENTS, st.data())
def test_a_torn_or_bent_event_makes_the_parser_raise_neither(event: Any, data: st.DataObject) -> None:
    body = bytearray(json.dumps(event).encode())
    cut = data.draw(st.integers(0, len(body)))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    check(bytes(body[:cut]))
    check(bytes(body))


INTERRUPTIONS = st.builds(
    Interruption,
    st.sampled_from(InterruptionKind),
    st.lists(st.sampled_from([f"i-{n}" for n in range(6)]), min_size=1, max_size=3, unique=True).map(tuple),
)


@UNHURRIED
@given(st.lists(INTERRUPTIONS, max_size=30), st.sets(st.integers(0, 29)))
def test_however_they_come_each_is_acted_on_once_and_none_is_lost(
    told: list[Interruption], failing: set[int]
) -> None:
    acted: Counter[tuple[InterruptionKind, str]] = Counter()
    calls = iter(range(1000))

    async def handler(interruption: Interruption) -> None:
        number = next(calls)
        await asyncio.sleep(0)
        if number in failing:
            raise RuntimeError
        acted.update((interruption.kind, each) for each in interruption.instance_ids)

    async def run() -> None:
        actor = Actor(handler, FakeClock())
        left = told
        # A queue gives out again what failed.
        while left:
            ends = await asyncio.gather(*(actor.act(each) for each in left), return_exceptions=True)
            left = [each for each, end in zip(left, ends, strict=True) if isinstance(end, BaseException)]

    asyncio.run(run())

    assert acted == Counter({(each.kind, name) for each in told for name in each.instance_ids})
