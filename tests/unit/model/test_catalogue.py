# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from dataclasses import replace

import pytest

from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_GPU_NAME, INSTANCE_TYPE, ZONE, ZONE_ID
from karpenter.model.catalogue import Catalogue, bits, lowest_bit
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.requirements import Requirement

GIB = 2**30


def kind(
    name: str,
    cpu: int,
    memory: int,
    price: float,
    labels: Mapping[str, str] | None = None,
    *,
    spot: float | None = None,
    sold_out: bool = False,
) -> InstanceType:
    offerings = [
        Offering("zone-a", "on-demand", price, available=not sold_out),
        Offering("zone-b", "on-demand", price),
    ]
    if spot is not None:
        offerings.append(Offering("zone-a", "spot", spot, labels={"pool": "p1"}))
    return InstanceType(
        name,
        {ARCH: "amd64", **(labels or {})},
        {"cpu": cpu, "memory": memory},
        {"cpu": cpu - 100, "memory": memory - GIB},
        tuple(offerings),
    )


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue(
        [
            kind("m5.large", 2000, 8 * GIB, 0.096, spot=0.03),
            kind("c5.large", 2000, 4 * GIB, 0.085, sold_out=True),
            kind("g5.xlarge", 4000, 16 * GIB, 1.006, {INSTANCE_GPU_NAME: "a10g"}),
        ]
    )


def names(catalogue: Catalogue, mask: int) -> list[str]:
    return sorted({catalogue.type_at(position).name for position in bits(mask)})


def test_offerings_stand_in_price_order_and_ties_by_name_and_zone(catalogue: Catalogue) -> None:
    listed = [
        (catalogue.type_at(position).name, catalogue.offerings[position].zone, catalogue.prices[position])
        for position in range(len(catalogue))
    ]

    assert listed == [
        ("m5.large", "zone-a", 0.03),
        ("c5.large", "zone-a", 0.085),
        ("c5.large", "zone-b", 0.085),
        ("m5.large", "zone-a", 0.096),
        ("m5.large", "zone-b", 0.096),
        ("g5.xlarge", "zone-a", 1.006),
        ("g5.xlarge", "zone-b", 1.006),
    ]


def test_what_is_sold_out_keeps_its_bit_but_cannot_be_bought(catalogue: Catalogue) -> None:
    assert catalogue.everything == 0b1111111
    assert catalogue.available == 0b1111101


def test_a_requirement_is_a_set_of_offerings_and_absence_is_judged_too(catalogue: Catalogue) -> None:
    gpu = Requirement.of(INSTANCE_GPU_NAME, "In", ("a10g",))
    no_gpu = Requirement.of(INSTANCE_GPU_NAME, "DoesNotExist")
    not_that_gpu = Requirement.of(INSTANCE_GPU_NAME, "NotIn", ("a10g",))
    unknown = Requirement.of("team", "Exists")
    not_unknown = Requirement.of("team", "DoesNotExist")

    assert names(catalogue, catalogue.where(gpu)) == ["g5.xlarge"]
    assert names(catalogue, catalogue.where(no_gpu)) == ["c5.large", "m5.large"]
    assert names(catalogue, catalogue.where(not_that_gpu)) == ["c5.large", "m5.large"]
    assert catalogue.where(unknown) == 0
    assert catalogue.where(not_unknown) == catalogue.everything
    assert catalogue.where(gpu) == catalogue.where(Requirement.of(INSTANCE_GPU_NAME, "In", ("a10g",)))


def test_labels_of_types_and_of_offerings_are_known_alike(catalogue: Catalogue) -> None:
    assert list(catalogue.values(ZONE)) == ["zone-a", "zone-b"]
    assert list(catalogue.values(CAPACITY_TYPE)) == ["on-demand", "spot"]
    assert list(catalogue.values(INSTANCE_TYPE)) == ["c5.large", "g5.xlarge", "m5.large"]
    assert catalogue.values("pool") == {"p1": 1}
    assert catalogue.values("team") == {}
    assert catalogue.knows(ARCH)
    assert not catalogue.knows("team")


def test_at_least_so_much_allocatable(catalogue: Catalogue) -> None:
    assert catalogue.at_least("cpu", 0) == catalogue.everything
    assert names(catalogue, catalogue.at_least("cpu", 1901)) == ["g5.xlarge"]
    assert names(catalogue, catalogue.at_least("cpu", 1900)) == ["c5.large", "g5.xlarge", "m5.large"]
    assert catalogue.at_least("cpu", 3901) == 0
    assert catalogue.at_least("nvidia.com/gpu", 1) == 0


def test_at_most_so_much_capacity(catalogue: Catalogue) -> None:
    assert names(catalogue, catalogue.at_most("memory", 4 * GIB)) == ["c5.large"]
    assert catalogue.at_most("memory", 4 * GIB - 1) == 0
    assert catalogue.at_most("memory", 16 * GIB) == catalogue.everything
    assert catalogue.at_most("nvidia.com/gpu", 0) == catalogue.everything


def test_no_dearer_than_a_price(catalogue: Catalogue) -> None:
    assert names(catalogue, catalogue.no_dearer_than(0.085)) == ["c5.large", "m5.large"]
    assert catalogue.no_dearer_than(0.01) == 0


def test_a_type_knows_its_offerings_and_its_amounts(catalogue: Catalogue) -> None:
    assert list(bits(catalogue.values(INSTANCE_TYPE)["m5.large"])) == [0, 3, 4]
    assert catalogue.vector(0, ("memory", "cpu", "gpu")) == (7 * GIB, 1900, 0)


def test_lowest_bit_of_nothing_is_minus_one() -> None:
    assert lowest_bit(0) == -1
    assert lowest_bit(0b1000) == 3
    assert list(bits(0)) == []


def test_a_reservation_holds_so_many_and_no_more() -> None:
    booked = Offering("zone-a", "reserved", 0.0, reservation_id="cr-1", reservation_capacity=3)
    catalogue = Catalogue(
        [InstanceType("m5.large", {}, {}, {}, (booked, Offering("zone-a", "on-demand", 0.1)))]
    )

    assert catalogue.reservations == {"cr-1": 0b1}
    assert catalogue.reservation_capacity("cr-1") == 3


def test_the_most_of_a_resource_is_that_of_the_largest_in_a_set(catalogue: Catalogue) -> None:
    amd = catalogue.everything & ~catalogue.values(INSTANCE_TYPE)["g5.xlarge"]

    assert catalogue.most("cpu", catalogue.everything) == 3900
    assert catalogue.most("cpu", amd) == 1900
    assert catalogue.most("memory", 0) == 0
    assert catalogue.most("gpu", catalogue.everything) == 0


def test_the_least_capacity_is_that_of_the_smallest_in_a_set(catalogue: Catalogue) -> None:
    large = catalogue.at_least("cpu", 2000)

    assert catalogue.least_capacity("memory", catalogue.everything) == 4 * GIB
    assert catalogue.least_capacity("memory", large) == 16 * GIB
    assert catalogue.least_capacity("memory", 0) == 0
    assert catalogue.least_capacity("gpu", large) == 0


def test_of_a_resource_that_nobody_has_nothing_is_kept(catalogue: Catalogue) -> None:
    assert catalogue.at_least("example.com/x", 1) == 0
    assert catalogue.at_least("example.com/x", 0) == catalogue.everything
    assert catalogue.at_most("example.com/x", 0) == catalogue.everything
    assert catalogue.at_most("example.com/x", -1) == 0
    assert not catalogue._at_least
    assert not catalogue._at_most


def test_usual_prices_are_prices_of_their_own_and_the_catalogue_with_them_is_made_once() -> None:
    dear = kind("a.large", 2000, 8 * GIB, 0.2, spot=0.05)
    moving = replace(
        dear, offerings=(*dear.offerings[:2], replace(dear.offerings[2], usual_price_per_hour=0.3))
    )
    catalogue = Catalogue([moving, kind("b.large", 2000, 8 * GIB, 0.25)])

    usual = catalogue.at_usual_prices()

    assert catalogue.prices == (0.05, 0.2, 0.2, 0.25, 0.25)
    assert usual.prices == (0.2, 0.2, 0.25, 0.25, 0.3)
    assert usual is catalogue.at_usual_prices()
    assert usual.at_usual_prices() is usual


def test_where_no_price_moves_usual_prices_are_the_prices() -> None:
    steady = Catalogue([kind("a.large", 2000, 8 * GIB, 0.2, spot=0.05)])

    assert steady.at_usual_prices() is steady


def test_offerings_tell_what_they_settle_besides_type_zone_and_capacity_type() -> None:
    plain = Offering("zone-a", "on-demand", 0.1, labels={"tenancy": "default", ZONE_ID: "a1"})
    dedicated = Offering("zone-a", "on-demand", 0.1, labels={"tenancy": "dedicated", ZONE_ID: "a1"})
    reserved = Offering("zone-a", "reserved", 0.01, labels={"tenancy": "default", "reservation": "cr-1"})
    kept = Catalogue([InstanceType("m5.large", {}, {}, {}, (plain, dedicated, reserved))])
    by_tenancy = kept.values("tenancy")

    assert kept.narrowed(kept.everything) == {}
    assert kept.narrowed(by_tenancy["dedicated"]) == {"tenancy": ["dedicated"]}
    assert kept.narrowed(by_tenancy["default"]) == {"tenancy": ["default"]}
    assert kept.narrowed(kept.values("reservation")["cr-1"]) == {
        "reservation": ["cr-1"],
        "tenancy": ["default"],
    }
