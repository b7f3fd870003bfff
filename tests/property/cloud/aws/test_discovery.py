# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karpenter.api.ec2nodeclass import SubnetSelectorTerm
from karpenter.cloud.aws.reservations import ReservationCounts
from karpenter.cloud.aws.subnets import Subnets
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.builders import node_class
from tests.unit.cloud.aws.fakes import FakeAws

# How fast the machine is says nothing about the promises.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

SUBNETS = st.dictionaries(
    st.sampled_from([f"subnet-{n}" for n in range(8)]),
    st.tuples(st.integers(0, 4), st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)),
    max_size=8,
)
TERMS = st.lists(
    st.builds(lambda n: SubnetSelectorTerm(id=f"subnet-{n}"), st.integers(0, 9))
    | st.builds(
        lambda tags: SubnetSelectorTerm(tags=tags),
        st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy*"), min_size=1, max_size=2),
    ),
    max_size=4,
)
World = dict[str, tuple[int, dict[str, str]]]


def matches(subnet_id: str, tags: dict[str, str], term: SubnetSelectorTerm) -> bool:
    if term.id:
        return term.id == subnet_id
    return all(key in tags and value in {"*", tags[key]} for key, value in term.tags.items())


def ec2(world: World) -> FakeAws:
    """EC2's own reading of filters, over a small account."""

    def passes(subnet_id: str, tags: dict[str, str], wanted: dict[str, Any]) -> bool:
        name, values = wanted["Name"], wanted["Values"]
        if name == "subnet-id":
            return subnet_id in values
        if name == "tag-key":
            return any(key in values for key in tags)
        return tags.get(name.removeprefix("tag:")) in values

    def answer(**asked: Any) -> dict[str, Any]:
        return {
            "Subnets": [
                {"SubnetId": subnet_id, "AvailableIpAddressCount": free}
                for subnet_id, (free, tags) in world.items()
                if all(passes(subnet_id, tags, each) for each in asked["Filters"])
            ]
        }

    return FakeAws({"DescribeSubnets": answer})


@UNHURRIED
@given(SUBNETS, TERMS)
def test_found_is_what_any_term_matches_each_once_the_emptiest_first(
    world: World, terms: list[SubnetSelectorTerm]
) -> None:
    wanted = node_class(spec={"subnet_selector_terms": tuple(terms)})

    found = asyncio.run(Subnets(ec2(world), FakeClock()).find(wanted))

    expected = [
        subnet_id
        for subnet_id, (_, tags) in world.items()
        if any(matches(subnet_id, tags, term) for term in terms)
    ]
    assert [each.id for each in found] == sorted(expected, key=lambda each: (-world[each][0], each))


@UNHURRIED
@given(st.integers(0, 5), st.lists(st.sampled_from(["used", "freed", "asked"]), max_size=30))
def test_room_equals_what_ec2_would_say_after_every_step(total: int, steps: list[str]) -> None:
    clock = FakeClock()
    counts = ReservationCounts(clock)
    counts.set("cr-1", total, asked_at=clock.monotonic())
    room = total

    for step in steps:
        clock.tick(1)
        if step == "used" and room > 0:
            counts.used("cr-1")
            room -= 1
        elif step == "freed" and room < total:
            counts.freed("cr-1")
            room += 1
        elif step == "asked":
            counts.set("cr-1", room, asked_at=clock.monotonic())
        assert counts.room("cr-1") == room
