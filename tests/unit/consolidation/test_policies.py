# SPDX-License-Identifier: Apache-2.0
import pytest

from karpenter.consolidation import Candidate, Policy, PoolPolicy, consolidatable_at, pool_policy
from tests.unit.consolidation.world import budget, pool


def test_a_pool_is_read() -> None:
    found = pool_policy(
        pool(
            "web",
            disruption={
                "consolidation_policy": "Balanced",
                "consolidate_after": "5m",
                "budgets": (budget("3"),),
                "minimum_saving": "7.5%",
            },
            limits={"nodes": "12", "cpu": "1000"},
        )
    )

    assert found.name == "web"
    assert found.policy is Policy.BALANCED
    assert found.consolidate_after_s == 300
    assert [rule.nodes for rule in found.budgets] == [3]
    assert found.minimum_saving == pytest.approx(0.075)
    assert found.node_limit == 12
    assert found.replicas is None
    assert found.problems == ()


def test_a_static_pool_is_read() -> None:
    assert pool_policy(pool(replicas=4)).replicas == 4


def test_the_policy_of_v1beta1_is_known() -> None:
    assert pool_policy(pool(disruption={"consolidation_policy": "WhenUnderutilized"})).problems == ()


def test_without_consolidate_after_nodes_are_quiet_at_once() -> None:
    assert pool_policy(pool(disruption={"consolidate_after": ""})).consolidate_after_s == 0


def test_never_is_never() -> None:
    assert pool_policy(pool(disruption={"consolidate_after": "Never"})).consolidate_after_s is None


@pytest.mark.parametrize(
    ("disruption", "field"),
    [
        ({"consolidate_after": "5 minutes"}, "disruption.consolidateAfter"),
        ({"consolidation_policy": "Sometimes"}, "disruption.consolidationPolicy"),
    ],
)
def test_a_policy_that_cannot_be_read_consolidates_nothing(disruption: dict[str, str], field: str) -> None:
    found = pool_policy(pool(disruption=disruption))

    assert found.consolidate_after_s is None
    assert [problem.field for problem in found.problems] == [field]
    assert next(iter(disruption.values())) in found.problems[0].words


@pytest.mark.parametrize("text", ["much", "150%", "-1%", "0.5"])
def test_a_minimum_saving_that_cannot_be_read_leaves_deletions_alone(text: str) -> None:
    found = pool_policy(pool(disruption={"minimum_saving": text}))

    assert found.minimum_saving == 1.0
    assert found.problems[0].field == "disruption.minimumSaving"


def test_a_limit_that_cannot_be_read_leaves_no_room() -> None:
    found = pool_policy(pool(limits={"nodes": "many"}))

    assert found.node_limit == 0
    assert found.problems[0].field == "limits.nodes"


def test_a_node_is_quiet_from_its_last_pod_on_or_from_its_start() -> None:
    policy = PoolPolicy("default", consolidate_after_s=60)

    def quiet_at(**more: float | None) -> float | None:
        return consolidatable_at(Candidate("a", "a", "default", **more), policy)  # type: ignore[arg-type]

    assert quiet_at(initialized_at=100.0) == 160
    assert quiet_at(initialized_at=100.0, last_pod_event=500.0) == 560
    assert quiet_at(initialized_at=100.0, last_pod_event=50.0) == 160
    assert quiet_at(initialized_at=None, last_pod_event=50.0) is None
    never = PoolPolicy("default", consolidate_after_s=None)
    assert consolidatable_at(Candidate("a", "a", "default"), never) is None
