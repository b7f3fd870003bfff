# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import labels
from karpenter.cloud.aws.choice import Choice, choose
from karpenter.cloud.errors import InsufficientCapacityError
from karpenter.model.instancetypes import InstanceType
from karpenter.model.requirements import Requirement, Requirements
from karpenter.model.resources import Resources
from tests.unit.cloud.aws.builders import ZONES, kind, offering

A, B = ZONES
SMALL = Resources({"cpu": 1000})
BOTH = (labels.SPOT, labels.ON_DEMAND)


def _wants(capacity: tuple[str, ...] = (labels.ON_DEMAND,), *more: Requirement) -> Requirements:
    return Requirements((Requirement.of(labels.CAPACITY_TYPE, "In", capacity), *more))


def _chosen(*types: InstanceType, wants: Requirements | None = None, **options: Any) -> Choice:
    return choose(types, _wants() if wants is None else wants, options.pop("requests", SMALL), **options)


def _names(choice: Choice) -> list[str]:
    return [candidate.kind.name for candidate in choice.candidates]


def _zones(choice: Choice) -> list[tuple[str, str]]:
    return [(one.kind.name, each.zone) for one in choice.candidates for each in one.offerings]


def test_types_come_by_price_and_only_with_room_for_the_pods() -> None:
    choice = _chosen(
        kind("m5.xlarge", cpu=4, price=0.2),
        kind("m5.large", cpu=2, price=0.1),
        kind("t3.nano", cpu=1, price=0.01),
        requests=Resources({"cpu": 1500}),
    )

    assert _names(choice) == ["m5.large", "m5.xlarge"]
    assert choice.capacity_type == labels.ON_DEMAND


def test_requirements_of_type_zone_and_missing_labels_are_kept() -> None:
    gpu = kind("g5.xlarge", more_labels={labels.INSTANCE_GPU_COUNT: "1"})
    wants = _wants(
        (labels.ON_DEMAND,),
        Requirement.of(labels.ZONE, "In", (B,)),
        Requirement.of(labels.INSTANCE_GPU_COUNT, "Exists"),
        Requirement.of("team", "In", ("a",)),
        Requirement.of(labels.NODEPOOL, "In", ("general",)),
    )

    choice = _chosen(gpu, kind("m5.large"), wants=wants)

    assert _zones(choice) == [("g5.xlarge", B)]


def test_nothing_that_matches_and_nothing_that_can_be_bought_are_different_shortages() -> None:
    with pytest.raises(InsufficientCapacityError, match="no instance type meets"):
        _chosen(kind("m5.large"), wants=_wants((labels.SPOT,)))
    with pytest.raises(InsufficientCapacityError, match="sold out") as sold_out:
        _chosen(kind("m5.large", offering(A, available=False)))

    assert [(each.instance_type, each.zone) for each in sold_out.value.offerings] == [("m5.large", A)]


def test_reserved_goes_before_spot_and_spot_before_on_demand() -> None:
    spot = offering(A, labels.SPOT, 0.03)
    reserved = offering(A, labels.RESERVED, 1e-8, reservation="cr-1", room=2)

    everything = (labels.RESERVED, *BOTH)
    assert (
        _chosen(kind("m5.large", offering(A), spot, reserved), wants=_wants(everything)).capacity_type
        == "reserved"
    )
    assert _chosen(kind("m5.large", offering(A), spot), wants=_wants(everything)).capacity_type == "spot"
    assert _chosen(kind("m5.large", offering(A)), wants=_wants(everything)).capacity_type == "on-demand"


def test_spot_that_costs_more_than_on_demand_is_left_out_of_mixed_launches() -> None:
    cheap = kind("m5.large", offering(A, labels.SPOT, 0.05), offering(A, price=0.1))
    dear = kind("m5.4xlarge", offering(A, labels.SPOT, 0.3), offering(A, price=0.8))

    assert _names(_chosen(cheap, dear, wants=_wants(BOTH))) == ["m5.large"]
    assert _names(_chosen(cheap, dear, wants=_wants((labels.SPOT,)))) == ["m5.large", "m5.4xlarge"]


def test_on_demand_is_bought_where_all_spot_that_is_left_costs_more() -> None:
    large = kind("m5.large", offering(A, labels.SPOT, 0.04, available=False), offering(A, price=0.096))
    dear = kind("m5.4xlarge", offering(A, labels.SPOT, 0.25), offering(A, price=0.768))

    choice = _chosen(large, dear, wants=_wants(BOTH))

    assert choice.capacity_type == labels.ON_DEMAND
    assert choice.candidates[0].price_per_hour == 0.096
    assert _chosen(large, dear, wants=_wants((labels.SPOT,))).capacity_type == labels.SPOT


def test_the_price_of_an_exotic_machine_does_not_cap_spot() -> None:
    metal = kind("m5.metal", offering(A, labels.SPOT, 0.02), offering(A, price=0.03))
    plain = kind("m5.large", offering(A, labels.SPOT, 0.05), offering(A, price=0.1))

    choice = _chosen(metal, plain, wants=_wants(BOTH))

    assert (choice.capacity_type, _names(choice)) == (labels.SPOT, ["m5.large"])


def test_exotic_spot_is_not_bought_where_ordinary_on_demand_will_do() -> None:
    metal = kind("m5.metal", offering(A, labels.SPOT, 0.02))

    choice = _chosen(metal, kind("m5.large", offering(A, price=0.1)), wants=_wants(BOTH))

    assert (choice.capacity_type, _names(choice)) == (labels.ON_DEMAND, ["m5.large"])


def test_exotic_machines_are_used_only_where_nothing_else_is_left() -> None:
    metal = kind("m5.metal", price=0.01)
    gpu = kind("g5.xlarge", price=0.01, more_capacity={labels.NVIDIA_GPU: 1})
    neuron = kind("inf2.xlarge", price=0.01, more_capacity={labels.NEURON: 1})

    assert _names(_chosen(metal, gpu, neuron, kind("m5.large"))) == ["m5.large"]
    assert len(_chosen(metal, gpu, neuron).candidates) == 3


def test_a_wish_for_many_values_keeps_exotic_and_dear_ones_and_must_be_met() -> None:
    many = Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=2)
    metal = kind("m5.metal", offering(A, labels.SPOT, 0.5))
    plain = kind("m5.large", offering(A, labels.SPOT, 0.05), offering(A, price=0.1))

    choice = _chosen(metal, plain, wants=_wants(BOTH, many))
    with pytest.raises(InsufficientCapacityError, match="2 different values are wanted"):
        _chosen(plain, wants=_wants(BOTH, many))
    relaxed = _chosen(plain, wants=_wants(BOTH, many), min_values_relaxed=True)

    assert _names(choice) == ["m5.large", "m5.metal"]
    assert _names(relaxed) == ["m5.large"]


def test_a_cut_that_breaks_the_wish_for_many_values_is_a_shortage() -> None:
    many = Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=3)
    types = [kind(f"m{n}.large", price=0.1 + n) for n in range(5)]

    with pytest.raises(InsufficientCapacityError):
        _chosen(*types, wants=_wants((labels.ON_DEMAND,), many), max_types=2)


def test_no_more_than_sixty_types_are_named() -> None:
    types = [kind(f"m{n}.large", price=0.1 + n / 1000) for n in range(80)]

    choice = _chosen(*types)

    assert len(choice.candidates) == 60
    assert choice.candidates[-1].kind.name == "m59.large"


def test_one_kind_of_reservation_is_used_and_the_roomiest_in_each_zone() -> None:
    small = offering(A, labels.RESERVED, 1e-8, reservation="cr-small", room=1)
    large = offering(A, labels.RESERVED, 1e-8, reservation="cr-large", room=9)
    other = offering(B, labels.RESERVED, 1e-8, reservation="cr-b", room=1)
    moody = offering(B, labels.RESERVED, 1e-8, reservation="cr-i", room=99, kind="interruptible")

    choice = _chosen(kind("m5.large", small, large, other, moody), wants=_wants((labels.RESERVED,)))

    assert choice.reservation_kind == "default"
    assert [each.reservation_id for each in choice.candidates[0].offerings] == ["cr-large", "cr-b"]


def test_of_a_capacity_block_only_the_cheapest_offering_is_used() -> None:
    def block(name: str, price: float) -> InstanceType:
        made = offering(A, labels.RESERVED, price, reservation=f"cr-{name}", room=4, kind="capacity-block")
        return kind(name, made)

    choice = _chosen(
        block("p5.48xlarge", 2e-6), block("p4d.24xlarge", 1e-6), wants=_wants((labels.RESERVED,))
    )

    assert choice.reservation_kind == "capacity-block"
    assert _names(choice) == ["p4d.24xlarge"]


def test_interruptible_reservations_are_used_where_there_are_no_others() -> None:
    moody = offering(A, labels.RESERVED, 1e-8, reservation="cr-i", room=1, kind="interruptible")

    assert (
        _chosen(kind("m5.large", moody), wants=_wants((labels.RESERVED,))).reservation_kind == "interruptible"
    )


def test_dedicated_hardware_is_used_only_where_shared_will_not_do() -> None:
    shared, dedicated = offering(A), offering(A, more={labels.INSTANCE_TENANCY: "dedicated"})
    wants_dedicated = Requirement.of(labels.INSTANCE_TENANCY, "In", ("dedicated",))

    either = _chosen(kind("m5.large", shared, dedicated))
    only = _chosen(kind("m5.large", shared, dedicated), wants=_wants((labels.ON_DEMAND,), wants_dedicated))

    assert either.candidates[0].offerings == (shared,)
    assert only.candidates[0].offerings == (dedicated,)


def test_the_lowest_partition_asked_for_is_used_and_none_where_none_was_asked_for() -> None:
    parts = [offering(A, more={labels.PLACEMENT_GROUP_PARTITION: str(n)}) for n in (1, 2, 3)]
    wish = Requirement.of(labels.PLACEMENT_GROUP_PARTITION, "In", ("3", "2"))

    asked = _chosen(kind("m5.large", *parts), wants=_wants((labels.ON_DEMAND,), wish))
    open_ = _chosen(kind("m5.large", *parts))

    assert asked.candidates[0].offerings == (parts[1],)
    (only,) = open_.candidates[0].offerings
    assert labels.PLACEMENT_GROUP_PARTITION not in only.labels


def test_falling_back_to_on_demand_with_few_types_is_told() -> None:
    no_spot = kind("m5.large", offering(A, labels.SPOT, 0.05, available=False), offering(A))

    assert _chosen(no_spot, wants=_wants(BOTH)).is_narrow_fallback
    assert not _chosen(kind("m5.large")).is_narrow_fallback
