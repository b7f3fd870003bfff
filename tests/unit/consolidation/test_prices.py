# SPDX-License-Identifier: Apache-2.0
import math
from dataclasses import replace

import pytest

from karpenter.consolidation import VerdictKind
from karpenter.consolidation.prices import Prices, doubtful_offerings
from karpenter.model.catalogue import Catalogue, bits
from karpenter.model.instancetypes import InstanceType, Offering
from tests.strategies.machines import instance_type, reserved
from tests.unit.consolidation.world import C5_LARGE, M5_LARGE, W1_TYPES, Setting, holding, pool


def priced(*offerings: Offering, name: str = "m5.large") -> InstanceType:
    return instance_type(name, cpu=2, memory_gib=7.4, offerings=offerings)


def doubted(*offerings: Offering) -> list[tuple[str, str]]:
    catalogue = Catalogue([priced(*offerings)])
    found = [catalogue.offerings[position] for position in bits(doubtful_offerings(catalogue))]
    return sorted((each.zone, each.capacity_type) for each in found)


def test_ordinary_prices_are_believed() -> None:
    assert (
        doubted(Offering("a", "on-demand", 0.1), Offering("a", "spot", 0.03), Offering("b", "spot", 0.09))
        == []
    )


@pytest.mark.parametrize("price", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_positive_number_is_not_believed(price: float) -> None:
    assert doubted(Offering("a", "on-demand", 0.1), Offering("b", "on-demand", price)) == [("b", "on-demand")]


def test_a_hundredfold_price_is_not_believed_and_neither_is_the_other() -> None:
    on_demand = Offering("a", "on-demand", 10.0)

    assert doubted(on_demand, Offering("b", "on-demand", 0.1), Offering("a", "spot", 0.05)) == [
        ("a", "on-demand"),
        ("a", "spot"),
        ("b", "on-demand"),
    ]
    assert doubted(on_demand, Offering("b", "spot", 0.03)) == [("a", "on-demand"), ("b", "spot")]
    assert doubted(Offering("a", "on-demand", 0.1), Offering("a", "spot", 3.0)) == [
        ("a", "on-demand"),
        ("a", "spot"),
    ]


def test_spot_alone_and_reserved_capacity_have_nothing_to_be_compared_with() -> None:
    assert doubted(Offering("a", "spot", 3.0), reserved("cr-1", 1, "a", 0.000001)) == []


def test_a_node_costs_what_its_offering_is_listed_at() -> None:
    world = Setting((holding("a", 1),))
    prices = Prices(world.snapshot())

    assert prices.of(world.nodes[0]) == pytest.approx(0.096)
    assert prices.of(holding("b", kind=M5_LARGE, pool="other")) is None
    assert prices.of(holding("c", kind=instance_type("t9.nano"))) is None
    assert prices.listed(holding("d", capacity_type="spot")) is None


def test_a_price_that_comes_with_the_node_counts() -> None:
    prices = Prices(Setting().snapshot())

    assert prices.of(replace(holding("a"), price_per_hour=0.2)) == 0.2
    assert prices.of(replace(holding("a"), price_per_hour=0.0)) is None
    assert prices.listed(replace(holding("a"), price_per_hour=0.0)) == 0.0
    assert prices.of(replace(holding("a", pool="other"), price_per_hour=0.3)) == 0.3


def test_a_node_without_its_labels_has_no_price() -> None:
    node = holding("a")
    bare = replace(node, labels={key: value for key, value in node.labels.items() if "zone" not in key})

    assert Prices(Setting().snapshot()).of(bare) is None


def test_a_reserved_node_costs_what_its_reservation_does() -> None:
    kind = priced(
        Offering("a", "on-demand", 0.1), reserved("cr-1", 1, "a", 0.001), reserved("cr-2", 1, "a", 0.002)
    )
    node = holding(
        "n",
        kind=kind,
        zone="a",
        capacity_type="reserved",
        labels={"karpenter.k8s.aws/capacity-reservation-id": "cr-2"},
    )

    assert Prices(Setting(types=(kind,)).snapshot()).of(node) == pytest.approx(0.002)


def test_reserved_capacity_costs_a_share_of_its_list_price_and_all_else_the_whole() -> None:
    kind = priced(Offering("a", "on-demand", 0.1), reserved("cr-1", 1, "a", 0.001))
    alone = priced(reserved("cr-2", 1, "a", 0.001), name="m5.xlarge")
    dear = priced(Offering("a", "on-demand", 0.1), reserved("cr-3", 1, "a", 0.5), name="c5.large")
    prices = Prices(Setting(types=(kind, alone, dear)).snapshot())

    def share(of: InstanceType, capacity_type: str, **labels: str) -> float:
        return prices.share_paid(holding("n", kind=of, zone="a", capacity_type=capacity_type, labels=labels))

    assert share(kind, "reserved") == pytest.approx(0.01)
    assert share(kind, "on-demand") == 1.0
    assert share(alone, "reserved") == 1.0
    assert share(dear, "reserved") == 1.0
    assert share(instance_type("t9.nano", cpu=2, memory_gib=4), "reserved") == 1.0


def test_a_node_of_unknown_price_is_not_consolidated_and_says_so() -> None:
    world = Setting((holding("a", 1, instance_type("t9.nano", cpu=2, memory_gib=4)), holding("b", 5)))

    verdict = world.blocked().verdicts["a"]

    assert verdict.kind is VerdictKind.NO_PRICE
    assert verdict.words == "a stays: its price is not known"
    assert verdict.cost_per_day is None


def test_a_node_of_absurd_price_is_not_consolidated_and_says_so() -> None:
    zero = priced(Offering("test-zone-1a", "on-demand", 0.0))
    world = Setting((holding("a", 1, zero, zone="test-zone-1a"), holding("b", 5)), types=(C5_LARGE, zero))

    verdict = world.blocked().verdicts["a"]

    assert verdict.kind is VerdictKind.NO_PRICE
    assert "0.0 $ per hour is not to be believed" in verdict.words


def test_nothing_of_absurd_price_is_bought_to_save_money() -> None:
    free = instance_type("x1.large", cpu=2, memory_gib=7.4, price=0.0, capacity_types=("on-demand",))
    world = Setting((holding("a", 5),), types=(M5_LARGE, free))

    blocked = world.blocked()

    assert blocked.verdicts["a"].kind is VerdictKind.NOT_CHEAPER
    assert blocked.words == (
        "no node goes: 1 NotCheaper; 3 prices that NodePool default could buy at are not to be believed"
    )


def test_an_absurd_price_does_not_hide_a_real_saving() -> None:
    free = instance_type("x1.large", cpu=2, memory_gib=7.4, price=0.0, capacity_types=("on-demand",))
    # Two pools share what can be bought.
    world = Setting((holding("a", 1),), (pool(), pool("other")), types=(*W1_TYPES, free))

    (stage,) = world.command().stages

    assert [launch.instance_type for launch in stage.launch] == ["c5.large"]


def moving(name: str, now: float, usual: float) -> InstanceType:
    zones = ("test-zone-1a", "test-zone-1b", "test-zone-1c")
    offerings = [Offering(zone, "spot", now, usual_price_per_hour=usual) for zone in zones]
    return priced(*offerings, name=name)


def on_spot(standing: InstanceType, other: InstanceType) -> Setting:
    view = holding("a", 1, kind=standing, zone="test-zone-1a", capacity_type="spot")
    return Setting((replace(view, price_per_hour=0.06),), types=(standing, other))


def test_where_prices_move_a_node_costs_what_it_usually_does() -> None:
    world = on_spot(moving("m9.large", 0.06, 0.05), moving("c9.large", 0.03, 0.05))

    assert Prices(world.snapshot()).of(world.nodes[0]) == 0.05


def test_a_price_that_is_low_just_now_moves_nobody() -> None:
    swings = on_spot(moving("m9.large", 0.06, 0.05), moving("c9.large", 0.03, 0.05))
    stays_low = on_spot(moving("m9.large", 0.06, 0.05), moving("c9.large", 0.03, 0.03))

    assert swings.blocked().verdicts["a"].kind is VerdictKind.NOT_CHEAPER
    (stage,) = stays_low.command().stages
    assert stage.launch[0].instance_type == "c9.large"
    assert stage.saving_per_hour == pytest.approx(0.02)
