# SPDX-License-Identifier: Apache-2.0
import pytest

from karpenter.consolidation import Settings, VerdictKind
from karpenter.consolidation.ground import Ground
from karpenter.consolidation.payback import Scales
from karpenter.consolidation.rearranging import world_of
from karpenter.consolidation.underuse import quiet_stand
from tests.unit.consolidation.world import M5_XLARGE, NOW, Setting, holding, pool

FREE = Settings(eviction_price=0.0)


def cluster(*counts: int, policy: str = "Balanced", settings: Settings | None = None) -> Setting:
    nodes = tuple(holding(f"n{index}", count) for index, count in enumerate(counts))
    return Setting(
        nodes, (pool(disruption={"consolidation_policy": policy}),), settings=settings or Settings()
    )


def ground_of(world: Setting) -> Ground:
    return Ground(world.snapshot(), world.situation(), NOW)


def costs(world: Setting) -> dict[str, float]:
    ground = ground_of(world)
    scales = Scales(ground)
    return {name: scales.cost(site) for name, site in ground.sites.items()}


def test_balanced_takes_what_saves_as_much_as_it_disturbs() -> None:
    assert cluster(1, 4).command().remove == ("n0",)


def test_a_stage_says_what_it_scores_where_the_policy_asks() -> None:
    [stage] = cluster(1, 4).command().stages
    # One of two equal nodes, which has 2 of 7 of what would be disturbed.
    assert stage.scores == pytest.approx({"default": 0.5 / (2 / 7)})
    [other] = cluster(1, 4, policy="WhenEmptyOrUnderutilized").command().stages
    assert other.scores == {}


def test_balanced_leaves_a_small_saving_alone() -> None:
    found = cluster(1).blocked().verdicts["n0"]

    assert found.kind is VerdictKind.BALANCED
    assert found.words.endswith("it would disturb too much for what it saves (0.11)")
    assert found.values == {"score": "0.1146"}


def test_balanced_asks_every_node_for_its_share_of_the_disruption() -> None:
    # Two nodes at $0.096 with a disruption of 2 and 5: a quarter of what the pool costs, by share.
    assert costs(cluster(1, 4, settings=FREE)) == pytest.approx(
        {"n0": 0.25 * 0.192 * 2 / 7, "n1": 0.25 * 0.192 * 5 / 7}
    )


def test_other_policies_ask_for_the_moving_alone() -> None:
    world = cluster(1, 4, policy="WhenEmptyOrUnderutilized")

    assert costs(world) == pytest.approx({"n0": 0.15 / 24, "n1": 4 * 0.15 / 24})


def test_moving_that_costs_more_than_balanced_asks_for_counts() -> None:
    assert costs(cluster(1, 4, settings=Settings(eviction_price=24.0))) == pytest.approx(
        {"n0": 1.0, "n1": 4.0}
    )


def test_what_one_pool_disturbs_is_not_weighed_against_another() -> None:
    policy = {"consolidation_policy": "Balanced"}
    nodes = (holding("a", 1), holding("b", 1, M5_XLARGE, pool="other"))
    world = Setting(nodes, (pool(disruption=policy), pool("other", disruption=policy)), settings=FREE)

    assert costs(world) == pytest.approx({"a": 0.25 * 0.096, "b": 0.25 * 0.192})


def test_the_search_is_told_what_the_policy_asks_for() -> None:
    world = cluster(1, 4, settings=FREE)
    ground = ground_of(world)

    told = world_of(ground, ground.quota, quiet_stand(ground), list(ground.sites.values()))

    assert {name: each.cost for name, each in told.removable.items()} == pytest.approx(costs(world))
