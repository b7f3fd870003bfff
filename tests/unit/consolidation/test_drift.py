# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from typing import Any

import pytest

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.consolidation import Reason, VerdictKind
from karpenter.model.snapshot import NodeView
from tests.strategies.clusters import node
from tests.strategies.pods import pod
from tests.unit.consolidation.world import M5_LARGE, M5_XLARGE, NOW, Setting, budget, holding, pool, replica

NEVER = pool(disruption={"consolidate_after": "Never"})


def drifted(at: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"drifted": "AMIDrift", "drifted_at": at, **more}


def alone_in_its_rack() -> NodeView:
    rack = {"example.com/rack": "r1"}
    return node("a", M5_LARGE, pods=(replica("p", "a", node_selector=rack),), labels=rack)


def test_the_node_that_drifted_longest_is_replaced_first() -> None:
    world = Setting(
        (holding("a", 5), holding("b", 5)),
        (NEVER,),
        candidates={"a": drifted(NOW - 1), "b": drifted(NOW - 9)},
    )

    command = world.command()

    assert command.reason is Reason.DRIFTED
    assert command.remove == ("b",)
    assert [launch.instance_type for launch in command.stages[0].launch] == ["m5.large"]
    assert command.evictions == 5
    assert command.weight == 5
    assert command.verdicts["b"].words == "b goes: it has drifted (AMIDrift) and its pods have room elsewhere"


def test_empty_ones_go_first_and_all_at_once() -> None:
    world = Setting(
        (holding("a", 5), holding("b"), holding("c")),
        (NEVER,),
        candidates={"a": drifted(NOW - 99), "b": drifted(NOW), "c": drifted(NOW)},
    )

    assert world.command().remove == ("b", "c")


def test_one_that_cannot_go_does_not_hold_up_younger_ones() -> None:
    stuck = node(
        "a",
        M5_LARGE,
        pods=(replica("p", "a", node_selector={"example.com/rack": "r1"}),),
        labels={"example.com/rack": "r1"},
    )
    world = Setting(
        (stuck, holding("b", 5)), (NEVER,), candidates={"a": drifted(NOW - 99), "b": drifted(NOW)}
    )

    command = world.command()

    assert command.remove == ("b",)
    assert command.verdicts["a"].kind is VerdictKind.NO_ROOM
    assert command.verdicts["a"].words.startswith(
        "a stays: it has drifted, but pod default/p has no other place:"
    )


def test_one_that_failed_a_short_while_ago_lets_others_pass() -> None:
    world = Setting(
        (holding("a", 5), holding("b", 5)),
        (NEVER,),
        candidates={"a": drifted(NOW - 99, retry_at=NOW + 5), "b": drifted(NOW)},
    )

    assert world.command().remove == ("b",)


def test_nothing_goes_when_all_are_stuck() -> None:
    stuck = node(
        "a",
        M5_LARGE,
        pods=(replica("p", "a", node_selector={"example.com/rack": "r1"}),),
        labels={"example.com/rack": "r1"},
    )

    assert (
        Setting((stuck,), (NEVER,), candidates={"a": drifted()}).blocked().verdicts["a"].kind
        is VerdictKind.NO_ROOM
    )


def test_pods_of_a_drifted_node_go_to_nodes_that_have_not_drifted_so_that_they_move_once() -> None:
    nodes = (holding("a", 2), holding("b", 1), holding("c", 1))
    world = Setting(nodes, (NEVER,), candidates={"a": drifted(1), "b": drifted(2)})

    command = world.command()

    assert {move.target for move in command.stages[0].moves} == {"c"}


def test_where_nothing_else_has_room_another_drifted_node_will_do() -> None:
    limited = pool(disruption={"consolidate_after": "Never"}, limits={"nodes": "2"})
    world = Setting(
        (holding("a", 2), holding("b", 1)), (limited,), candidates={"a": drifted(1), "b": drifted(2)}
    )

    command = world.command()

    assert command.remove == ("a",)
    assert {move.target for move in command.stages[0].moves} == {"b"}


def test_budgets_hold_drifted_nodes_full_and_empty() -> None:
    none = pool(disruption={"consolidate_after": "Never", "budgets": (budget("0", reasons=("Drifted",)),)})
    world = Setting((holding("a", 5), holding("b")), (none,), candidates={"a": drifted(), "b": drifted()})

    verdicts = world.blocked().verdicts

    assert [verdicts[name].kind for name in "ab"] == [VerdictKind.BUDGET] * 2


def test_a_protected_pod_holds_a_drifted_node_unless_draining_has_an_end() -> None:
    held = replace(holding("a"), pods=(replica("p", "a", annotations={DO_NOT_DISRUPT: "true"}),))
    world = Setting((held,), (NEVER,), candidates={"a": drifted()})

    assert world.blocked().verdicts["a"].kind is VerdictKind.POD_PROTECTED
    ends = world.but(candidates={"a": drifted(termination_grace_period_s=60.0)})
    assert ends.command().remove == ("a",)


def test_drift_is_followed_even_if_it_costs_more() -> None:
    world = Setting((holding("a", 5),), (NEVER,), types=(M5_XLARGE,), candidates={"a": drifted()})

    command = world.command()

    assert command.words == "replace a by m5.xlarge (Drifted), costing $0.1920 more per hour, moving 5 pods"


def test_an_empty_drifted_node_that_a_buffer_needs_is_replaced_with_its_buffer() -> None:
    world = Setting(
        (holding("a"),),
        (NEVER,),
        virtual=(pod("buffer", cpu=None, memory="1Gi"),),
        candidates={"a": drifted()},
    )

    command = world.command()

    assert command.remove == ("a",)
    assert [(launch.instance_type, launch.pods) for launch in command.stages[0].launch] == [("c5.large", ())]


def static(replicas: int = 2, **more: Any) -> Setting:
    kept = pool(replicas=replicas, **more)
    return Setting((holding("a", 1), holding("b", 1)), (kept,), candidates={"a": drifted(1), "b": drifted(2)})


def test_drifted_nodes_of_a_static_pool_are_exchanged_one_for_one() -> None:
    command = static().command()

    assert [stage.remove for stage in command.stages] == [("a",), ("b",)]
    assert [len(stage.launch) for stage in command.stages] == [1, 1]
    assert [stage.moves for stage in command.stages] == [(), ()]


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        (static(limits={"nodes": "3"}), ("a",)),
        (static(disruption={"budgets": (budget("1"),)}), ("a",)),
    ],
)
def test_limits_and_budgets_bound_the_exchange(world: Setting, expected: tuple[str, ...]) -> None:
    assert world.command().remove == expected


def test_a_static_pool_with_too_many_nodes_exchanges_none() -> None:
    blocked = static(replicas=1).blocked()

    assert blocked.verdicts["a"].kind is VerdictKind.LIMITS


def test_a_static_pool_that_can_buy_nothing_says_so() -> None:
    world = static().but(types=())

    assert world.blocked().verdicts["a"].kind is VerdictKind.NO_ROOM


def test_a_protected_pod_holds_a_drifted_node_of_a_static_pool() -> None:
    held = replace(holding("a"), pods=(replica("p", "a", annotations={DO_NOT_DISRUPT: "true"}),))

    world = static().but(nodes=(held, holding("b")))

    assert world.command().remove == ("b",)
