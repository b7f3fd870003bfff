# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from karpenter.api import labels
from karpenter.api.ec2nodeclass import Subnet
from karpenter.cloud.aws.instancetypes.offerings import UNPRICED, Market, Zone, offerings_of, zones_of
from karpenter.cloud.aws.unavailable import CapacityTypeOut, PoolOut, SubnetOut, Unavailable, ZoneOut
from karpenter.kit.clock import FakeClock
from karpenter.model.instancetypes import Offering
from tests.unit.cloud.aws.instancetypes.described import Group, fact, reservation

A = Zone("us-west-2a", "usw2-az2", ("subnet-a1", "subnet-a2"))
B = Zone("us-west-2b", "usw2-az1", ("subnet-b",))
EVERYWHERE = ("us-west-2a", "us-west-2b", "us-west-2c")


@dataclass
class Priced:
    """Prices by hand."""

    listed: dict[str, float] = field(default_factory=lambda: {"m5.large": 0.1})
    market: dict[tuple[str, str], float] = field(
        default_factory=lambda: {("m5.large", "us-west-2a"): 0.03, ("m5.large", "us-west-2b"): 0.04}
    )
    usual: dict[tuple[str, str], float] = field(default_factory=lambda: {("m5.large", "us-west-2a"): 0.035})
    version: int = 0

    def on_demand(self, instance_type: str) -> float | None:
        return self.listed.get(instance_type)

    def spot(self, instance_type: str, zone: str) -> float | None:
        return self.market.get((instance_type, zone))

    def usual_spot(self, instance_type: str, zone: str) -> float | None:
        return self.usual.get((instance_type, zone))


def market(**options: Any) -> Market:
    return Market(
        **{
            "zones": {zone.name: zone for zone in (A, B)},
            "prices": Priced(),
            "unavailable": Unavailable(FakeClock()),
            "reservations": {},
            "reservation_count": lambda _: 0,
            **options,
        }
    )


def made(name: str = "m5.large", *, compatible: bool = True, **options: Any) -> list[Offering]:
    return list(offerings_of(fact(name), EVERYWHERE, market(**options), compatible=compatible))


def told(offerings: list[Offering]) -> list[tuple[str, str, float, bool]]:
    return [(each.zone[-1], each.capacity_type, each.price_per_hour, each.available) for each in offerings]


def test_a_type_is_offered_in_each_zone_of_the_class_and_each_capacity_type() -> None:
    assert told(made()) == [
        ("a", "on-demand", 0.1, True),
        ("a", "spot", 0.03, True),
        ("b", "on-demand", 0.1, True),
        ("b", "spot", 0.04, True),
    ]


def test_spot_says_what_it_usually_costs_where_that_is_known() -> None:
    assert [(each.capacity_type, each.usual_price_per_hour) for each in made()] == [
        ("on-demand", None),
        ("spot", 0.035),
        ("on-demand", None),
        ("spot", None),
    ]


def test_an_offering_carries_zone_id_and_tenancy() -> None:
    assert made()[0].labels == {labels.ZONE_ID: "usw2-az2", labels.INSTANCE_TENANCY: "default"}


def test_a_zone_whose_id_is_not_known_has_no_label_of_it() -> None:
    nameless = Zone("us-west-2a", "", ("subnet-a1",))

    assert labels.ZONE_ID not in made(zones={"us-west-2a": nameless})[0].labels


def test_a_zone_without_offer_or_subnet_is_left_out() -> None:
    only_b = offerings_of(fact("m5.large"), ("us-west-2b", "us-west-2d"), market(), compatible=True)

    assert {offering.zone for offering in only_b} == {"us-west-2b"}


def test_a_type_that_spot_does_not_sell_is_on_demand_only() -> None:
    on_demand_only = replace(fact("m5.large"), usage_classes=("on-demand", "capacity-block"))

    found = offerings_of(on_demand_only, EVERYWHERE, market(), compatible=True)

    assert {offering.capacity_type for offering in found} == {"on-demand"}


def test_an_incompatible_type_is_listed_but_not_available() -> None:
    assert [offering.available for offering in made(compatible=False)] == [False] * 4


def test_a_shifted_zone_is_not_available() -> None:
    found = made(shifted_zone_ids=frozenset({"usw2-az2"}))

    assert [offering.available for offering in found] == [False, False, True, True]


def test_an_offering_without_a_price_is_dear_and_not_available() -> None:
    found = made(prices=Priced(market={("m5.large", "us-west-2b"): 0.04}))

    assert told(found)[1] == ("a", "spot", UNPRICED, False)
    assert found[3].available


def test_a_stated_price_serves_where_there_is_no_other() -> None:
    found = made(prices=Priced(listed={}), stated_prices={"m5.large": 0.5})

    assert told(found) == [
        ("a", "on-demand", 0.5, True),
        ("a", "spot", 0.03, True),
        ("b", "on-demand", 0.5, True),
        ("b", "spot", 0.04, True),
    ]


def test_a_sold_out_pool_is_not_available_and_others_are() -> None:
    unavailable = Unavailable(FakeClock())
    unavailable.mark(PoolOut("spot", "m5.large", "us-west-2a"))

    assert [each.available for each in made(unavailable=unavailable)] == [True, False, True, True]


def test_a_capacity_type_that_cannot_be_bought_is_out_everywhere() -> None:
    unavailable = Unavailable(FakeClock())
    unavailable.mark(CapacityTypeOut("spot"))

    assert [each.available for each in made(unavailable=unavailable)] == [True, False, True, False]


def test_a_zone_is_out_when_all_its_subnets_are() -> None:
    unavailable = Unavailable(FakeClock())

    unavailable.mark(SubnetOut("subnet-a1"))
    assert all(each.available for each in made(unavailable=unavailable))

    unavailable.mark(SubnetOut("subnet-a2"))
    assert [each.available for each in made(unavailable=unavailable)] == [False, False, True, True]


def test_a_partition_group_multiplies_offerings_by_its_partitions() -> None:
    unavailable = Unavailable(FakeClock())
    unavailable.mark(PoolOut("spot", "m5.large", "us-west-2a", "pg-1", "2"))

    found = made(group=Group(strategy="partition", partition_count=3), unavailable=unavailable)

    assert len(found) == 12
    assert {each.labels[labels.PLACEMENT_GROUP_PARTITION] for each in found} == {"1", "2", "3"}
    out = [each for each in found if not each.available]
    assert [(each.zone, each.labels[labels.PLACEMENT_GROUP_PARTITION]) for each in out] == [
        ("us-west-2a", "2")
    ]


def test_other_groups_do_not_multiply() -> None:
    unavailable = Unavailable(FakeClock())
    unavailable.mark(ZoneOut("pg-1", "us-west-2b"))

    found = made(group=Group(strategy="spread"), unavailable=unavailable)

    assert [each.available for each in found] == [True, True, False, False]
    assert len(made(group=Group(strategy="partition"))) == 4


def test_each_tenancy_repeats_the_offerings_and_the_first_comes_first() -> None:
    found = made(tenancies=("default", "dedicated"))

    assert [each.labels[labels.INSTANCE_TENANCY] for each in found] == ["default"] * 4 + ["dedicated"] * 4


def test_a_reservation_is_nearly_free_and_holds_so_many() -> None:
    found = made(reservations={"m5.large": (reservation(),)}, reservation_count={"cr-1": 5}.__getitem__)

    reserved = found[-1]
    assert (reserved.zone, reserved.capacity_type, reserved.available) == ("us-west-2a", "reserved", True)
    assert reserved.price_per_hour == 0.1 / 10_000_000
    assert (reserved.reservation_id, reserved.reservation_capacity) == ("cr-1", 5)
    assert reserved.labels == {
        labels.ZONE_ID: "usw2-az2",
        labels.INSTANCE_TENANCY: "default",
        labels.CAPACITY_RESERVATION_ID: "cr-1",
        labels.CAPACITY_RESERVATION_TYPE: "default",
        labels.CAPACITY_RESERVATION_INTERRUPTIBLE: "false",
    }


def test_a_reservation_that_is_empty_expiring_shifted_or_elsewhere_is_not_available() -> None:
    def available(count: int = 1, shifted: str = "", **options: Any) -> bool:
        found = made(
            reservations={"m5.large": (reservation(**options),)},
            reservation_count=lambda _: count,
            shifted_zone_ids=frozenset({shifted}) if shifted else frozenset(),
        )
        return found[-1].available

    assert available()
    assert not available(count=0)
    assert not available(count=-1)
    assert not available(state="expiring")
    assert not available(shifted="usw2-az2")
    assert not available(availability_zone="us-west-2d")


def test_a_reservation_of_a_type_without_a_list_price_is_still_above_zero() -> None:
    found = made(
        prices=Priced(listed={}),
        reservations={"m5.large": (reservation(),)},
        reservation_count=lambda _: 1,
    )

    assert 0 < found[-1].price_per_hour < 0.001


def test_zones_gather_the_subnets_of_a_class() -> None:
    subnets = [
        Subnet(id="subnet-2", zone="us-west-2b", zone_id="usw2-az1"),
        Subnet(id="subnet-3", zone="us-west-2a", zone_id="usw2-az2"),
        Subnet(id="subnet-1", zone="us-west-2a"),
    ]

    assert dict(zones_of(subnets)) == {
        "us-west-2a": Zone("us-west-2a", "usw2-az2", ("subnet-1", "subnet-3")),
        "us-west-2b": Zone("us-west-2b", "usw2-az1", ("subnet-2",)),
    }
