# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from karpenter.api.ec2nodeclass import Subnet
from karpenter.cloud.aws.addresses import Addresses
from karpenter.cloud.aws.unavailable import SubnetOut, Unavailable
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.builders import node_class
from tests.unit.cloud.aws.fakes import FakeAws, aws_error

SUBNETS = {"subnet-1": ("a", 100), "subnet-2": ("a", 90), "subnet-3": ("b", 50)}
CLASS = node_class(
    status={"subnets": tuple(Subnet(id=each, zone=zone) for each, (zone, _) in SUBNETS.items())}
)


def _answer(**parameters: Any) -> dict[str, Any]:
    asked = parameters["Filters"][0]["Values"]
    return {"Subnets": [{"SubnetId": each, "AvailableIpAddressCount": SUBNETS[each][1]} for each in asked]}


async def test_the_subnet_with_the_most_free_addresses_of_each_zone_is_chosen() -> None:
    aws = FakeAws({"DescribeSubnets": _answer})
    clock = FakeClock()
    addresses = Addresses(aws, clock, Unavailable(clock))

    best = await addresses.best_subnets(CLASS, 29)
    again = await addresses.best_subnets(CLASS, 0)

    assert best == {"a": "subnet-1", "b": "subnet-3"}
    assert again == {"a": "subnet-2", "b": "subnet-3"}
    assert len(aws.calls) == 1


async def test_what_a_launch_did_not_use_is_given_back() -> None:
    clock = FakeClock()
    addresses = Addresses(FakeAws({"DescribeSubnets": _answer}), clock, Unavailable(clock))
    best = await addresses.best_subnets(CLASS, 29)

    addresses.give_back(best.values(), {"subnet-3"}, 29)

    assert addresses.free("subnet-1") == 100
    assert addresses.free("subnet-3") == 21


async def test_after_a_minute_ec2_is_asked_again_and_counts_for_itself() -> None:
    aws = FakeAws({"DescribeSubnets": _answer})
    clock = FakeClock()
    addresses = Addresses(aws, clock, Unavailable(clock))
    await addresses.best_subnets(CLASS, 60)

    await clock.advance(61)
    best = await addresses.best_subnets(CLASS, 0)

    assert best["a"] == "subnet-1"
    assert len(aws.calls) == 2


async def test_subnets_without_addresses_are_left_out_and_so_is_their_zone() -> None:
    clock = FakeClock()
    unavailable = Unavailable(clock)
    addresses = Addresses(FakeAws({"DescribeSubnets": _answer}), clock, unavailable)
    for subnet in ("subnet-1", "subnet-3"):
        unavailable.mark(SubnetOut(subnet))

    assert await addresses.best_subnets(CLASS, 1) == {"a": "subnet-2"}


@pytest.mark.parametrize("trouble", ["slow", "failing"])
async def test_a_launch_does_not_wait_for_counts_that_come_late_or_never(trouble: str) -> None:
    clock = FakeClock()
    answers: list[Any] = []
    aws = FakeAws({"DescribeSubnets": _answer})

    async def pages(*_: Any, **wanted: Any) -> AsyncIterator[dict[str, Any]]:
        answers.append(trouble)
        if trouble == "failing":
            raise aws_error("InternalError", status=500)
        await clock.sleep(30)
        yield _answer(**wanted)

    addresses = Addresses(aws, clock, Unavailable(clock))
    await addresses.best_subnets(CLASS, 0)
    await clock.advance(61)
    aws.pages = pages  # type: ignore[method-assign]

    launch = asyncio.ensure_future(addresses.best_subnets(CLASS, 29))
    await clock.advance(2)
    done = launch.done()
    again = asyncio.ensure_future(addresses.best_subnets(CLASS, 0))
    await clock.advance(40)
    await addresses.close()

    assert done
    assert await launch == {"a": "subnet-1", "b": "subnet-3"}
    assert await again == {"a": "subnet-2", "b": "subnet-3"}
    assert len(answers) == (1 if trouble == "slow" else 2)
