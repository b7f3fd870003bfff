# SPDX-License-Identifier: Apache-2.0
import pytest

from karpenter.cloud.aws.unavailable import (
    CapacityTypeOut,
    Out,
    PoolOut,
    SubnetOut,
    Unavailable,
    ZoneOut,
)
from karpenter.kit.clock import FakeClock

POOL = PoolOut("spot", "m5.large", "us-west-2a")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def unavailable(clock: FakeClock) -> Unavailable:
    return Unavailable(clock)


def is_out(unavailable: Unavailable, **options: str) -> bool:
    return unavailable.is_out("spot", "m5.large", "us-west-2a", **options)


def test_nothing_is_out_at_first(unavailable: Unavailable) -> None:
    assert not is_out(unavailable)
    assert not unavailable.concerns("m5.large")
    assert unavailable.entries() == ()


def test_a_pool_is_left_alone_for_three_minutes(unavailable: Unavailable, clock: FakeClock) -> None:
    assert unavailable.mark(POOL, "InsufficientInstanceCapacity") == 180

    clock.tick(179)
    assert is_out(unavailable)
    clock.tick(1)
    assert not is_out(unavailable)


def test_other_pools_are_not_delayed(unavailable: Unavailable) -> None:
    unavailable.mark(POOL)

    assert not unavailable.is_out("on-demand", "m5.large", "us-west-2a")
    assert not unavailable.is_out("spot", "m5.large", "us-west-2b")
    assert not unavailable.is_out("spot", "m5.xlarge", "us-west-2a")
    assert not unavailable.concerns("m5.xlarge")


def test_each_further_shortage_lasts_longer_up_to_half_an_hour(
    unavailable: Unavailable, clock: FakeClock
) -> None:
    waits = []
    for _ in range(6):
        waits.append(unavailable.mark(POOL))
        clock.tick(waits[-1])

    assert waits == [180, 360, 720, 1440, 1800, 1800]


def test_failures_of_one_shortage_renew_the_wait_but_do_not_lengthen_it(
    unavailable: Unavailable, clock: FakeClock
) -> None:
    waits = [unavailable.mark(POOL) for _ in range(50)]
    clock.tick(100)
    waits.append(unavailable.mark(POOL))

    assert set(waits) == {180}
    clock.tick(179)
    assert is_out(unavailable)
    clock.tick(1)
    assert not is_out(unavailable)
    assert unavailable.mark(POOL) == 360


def test_a_purchase_starts_anew(unavailable: Unavailable, clock: FakeClock) -> None:
    unavailable.mark(POOL)
    clock.tick(180)
    unavailable.mark(POOL)

    unavailable.bought("spot", "m5.large", "us-west-2a")

    assert not is_out(unavailable)
    assert unavailable.mark(POOL) == 180


def test_an_hour_of_quiet_starts_anew(unavailable: Unavailable, clock: FakeClock) -> None:
    unavailable.mark(POOL)
    clock.tick(180 + 3599)
    assert unavailable.mark(POOL) == 360

    clock.tick(360)
    assert not is_out(unavailable)
    clock.tick(3600)

    assert unavailable.mark(POOL) == 180


def test_a_shortage_in_a_placement_group_does_not_matter_outside_it(unavailable: Unavailable) -> None:
    unavailable.mark(PoolOut("spot", "m5.large", "us-west-2a", "pg-1"))

    assert not is_out(unavailable)
    assert not is_out(unavailable, group="pg-2")
    assert is_out(unavailable, group="pg-1")
    assert is_out(unavailable, group="pg-1", partition="1")


def test_a_shortage_in_a_partition_does_not_matter_in_another(unavailable: Unavailable) -> None:
    unavailable.mark(PoolOut("spot", "m5.large", "us-west-2a", "pg-1", "1"))

    assert not is_out(unavailable, group="pg-1")
    assert not is_out(unavailable, group="pg-1", partition="2")
    assert is_out(unavailable, group="pg-1", partition="1")


def test_a_general_shortage_matters_in_placement_groups_too(unavailable: Unavailable) -> None:
    unavailable.mark(POOL)

    assert is_out(unavailable, group="pg-1", partition="1")


def test_a_full_zone_of_a_placement_group_is_out_for_every_type(unavailable: Unavailable) -> None:
    unavailable.mark(ZoneOut("pg-1", "us-west-2a"))

    assert unavailable.is_out("on-demand", "c5.large", "us-west-2a", group="pg-1")
    assert not unavailable.is_out("on-demand", "c5.large", "us-west-2b", group="pg-1")
    assert not unavailable.is_out("on-demand", "c5.large", "us-west-2a")

    unavailable.bought("spot", "m5.large", "us-west-2a", group="pg-1")
    assert not unavailable.is_out("on-demand", "c5.large", "us-west-2a", group="pg-1")


def test_a_whole_capacity_type_may_be_out(unavailable: Unavailable) -> None:
    unavailable.mark(CapacityTypeOut("spot"))

    assert is_out(unavailable)
    assert not unavailable.is_out("on-demand", "m5.large", "us-west-2a")


def test_a_zone_is_out_only_when_all_its_subnets_are(unavailable: Unavailable) -> None:
    unavailable.mark(SubnetOut("subnet-1"))

    assert unavailable.is_out("spot", "m5.large", "us-west-2a", subnet_ids=["subnet-1"])
    assert not unavailable.is_out("spot", "m5.large", "us-west-2a", subnet_ids=["subnet-1", "subnet-2"])
    assert not unavailable.is_out("spot", "m5.large", "us-west-2a", subnet_ids=[])

    unavailable.subnet_used("subnet-1")
    assert not unavailable.is_out("spot", "m5.large", "us-west-2a", subnet_ids=["subnet-1"])


def test_versions_move_with_every_answer_that_may_change(unavailable: Unavailable, clock: FakeClock) -> None:
    seen = [unavailable.version]

    unavailable.mark(POOL)
    seen.append(unavailable.version)
    unavailable.mark(POOL)
    assert unavailable.version == seen[-1]
    clock.tick(180)
    seen.append(unavailable.version)
    unavailable.mark(SubnetOut("subnet-1"))
    seen.append(unavailable.version)
    unavailable.clear()
    seen.append(unavailable.version)

    assert len(set(seen)) == 5


def test_the_version_of_a_type_moves_only_with_what_concerns_it(unavailable: Unavailable) -> None:
    before = unavailable.version_of("m5.large"), unavailable.version_of("c5.large")

    unavailable.mark(POOL)
    assert unavailable.version_of("m5.large") != before[0]
    assert unavailable.version_of("c5.large") == before[1]

    unavailable.mark(CapacityTypeOut("spot"))
    assert unavailable.version_of("c5.large") != before[1]


def test_entries_tell_why_how_often_and_how_long_still(unavailable: Unavailable, clock: FakeClock) -> None:
    unavailable.mark(POOL)
    clock.tick(180)
    unavailable.mark(POOL, "InsufficientInstanceCapacity")
    unavailable.mark(SubnetOut("subnet-1"), "InsufficientFreeAddressesInSubnet")

    clock.tick(10)

    assert unavailable.entries() == (
        Out(SubnetOut("subnet-1"), "InsufficientFreeAddressesInSubnet", 1, 170),
        Out(POOL, "InsufficientInstanceCapacity", 2, 350),
    )


def test_what_is_back_is_no_longer_told(unavailable: Unavailable, clock: FakeClock) -> None:
    unavailable.mark(POOL)
    clock.tick(180)

    assert unavailable.entries() == ()


def test_all_can_be_forgotten(unavailable: Unavailable) -> None:
    unavailable.mark(POOL)
    unavailable.mark(CapacityTypeOut("spot"))

    unavailable.clear()

    assert not is_out(unavailable)
    assert unavailable.mark(POOL) == 180
