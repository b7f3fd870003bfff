# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from typing import Any

import pytest

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.consolidation import Command, Reason, Refusal, Settings, Stage
from karpenter.consolidation.types import Move
from tests.strategies.clusters import node
from tests.strategies.pods import pod
from tests.unit.consolidation.world import (
    C5_LARGE,
    M5_LARGE,
    NOW,
    Setting,
    budget,
    holding,
    pdb,
    pool,
    replica,
    replicas,
)

NEVER = pool(disruption={"consolidate_after": "Never"})


def marked(world: Setting, command: Command) -> Setting:
    """Give the world as it is once the command's nodes carry the taint."""
    leaving = {name: {**world.candidates.get(name, {}), "leaving": True} for name in command.remove}
    return world.but(candidates={**world.candidates, **leaving})


def refused(world: Setting, stage: Stage, reason: Reason, **more: Any) -> tuple[str, str]:
    found = world.validate(stage, reason, **more)
    assert isinstance(found, Refusal)
    return found.kind, found.words


def accepted(world: Setting, stage: Stage, reason: Reason, **more: Any) -> Stage:
    found = world.validate(stage, reason, **more)
    assert isinstance(found, Stage), found.words
    return found


def begun(world: Setting) -> tuple[Setting, Stage, Reason]:
    command = world.command()
    return marked(world, command), command.stages[0], command.reason


EMPTY = Setting(
    (holding("a"), holding("b"), holding("c", 5)), (pool(disruption={"budgets": (budget("2"),)}),)
)
DELETE = Setting((holding("a", 3), holding("b", 2)), (pool(disruption={"budgets": (budget("1"),)}),))
REPLACE = Setting((holding("a", 1),))
DRIFT = Setting((holding("a", 5),), (NEVER,), candidates={"a": {"drifted": "AMIDrift"}})
STATIC = Setting((holding("a", 1),), (pool(replicas=1),), candidates={"a": {"drifted": "AMIDrift"}})


@pytest.mark.parametrize("world", [EMPTY, DELETE, REPLACE, DRIFT, STATIC])
def test_nothing_has_changed_so_the_stage_is_good(world: Setting) -> None:
    after, stage, reason = begun(world)

    found = accepted(after, stage, reason)

    assert (found.remove, found.moves) == (stage.remove, stage.moves)
    assert [each.instance_type for each in found.launch] == [each.instance_type for each in stage.launch]


def test_of_empty_nodes_those_stay_on_that_are_still_empty() -> None:
    world, stage, reason = begun(EMPTY)
    filled = world.but(nodes=(holding("a", 1), *world.nodes[1:]))

    assert accepted(filled, stage, reason).remove == ("b",)


def test_when_no_node_is_empty_any_more_it_is_churn() -> None:
    world, stage, reason = begun(EMPTY)
    filled = world.but(nodes=(holding("a", 1), holding("b", 1), world.nodes[2]))

    assert refused(filled, stage, reason) == ("churn", "none of its nodes is empty any more")


def test_when_the_empty_nodes_are_protected_it_is_churn() -> None:
    world, stage, reason = begun(EMPTY)
    both = {name: {"do_not_disrupt": True} for name in "ab"}

    assert refused(world.but(candidates=both), stage, reason) == (
        "churn",
        "a stays: it carries karpenter.sh/do-not-disrupt",
    )


def test_an_empty_node_that_a_waiting_pod_needs_is_churn() -> None:
    world, stage, reason = begun(Setting((holding("a"),)))
    needed = world.but(pending=(pod("waits", cpu=None, memory="1Gi"),))

    assert refused(needed, stage, reason)[0] == "churn"


def test_a_budget_that_closed_in_between_is_told() -> None:
    closed = pool(disruption={"budgets": (budget("0"),)})
    for start in (EMPTY, DELETE):
        world, stage, reason = begun(start)

        kind, words = refused(world.but(pools=(closed,)), stage, reason)

        assert kind == "budget"
        assert "lets 0 of its nodes go at once" in words


def test_others_that_use_the_budget_up_are_told() -> None:
    world, stage, reason = begun(DELETE)
    more = world.but(
        nodes=(*world.nodes, holding("c", 1)), candidates={**world.candidates, "c": {"not_ready": True}}
    )

    assert refused(more, stage, reason)[0] == "budget"


def test_a_node_that_is_gone_is_churn() -> None:
    world, stage, reason = begun(DELETE)

    assert refused(world.but(nodes=world.nodes[:1]), stage, reason) == ("churn", "b is gone")


@pytest.mark.parametrize("change", [{"nominated": True}, {"do_not_disrupt": True}])
def test_a_node_that_may_not_go_any_more_is_churn(change: dict[str, bool]) -> None:
    world, stage, reason = begun(DELETE)

    assert refused(world.but(candidates={"b": {"leaving": True, **change}}), stage, reason)[0] == "churn"


def test_a_pod_that_came_meanwhile_is_churn() -> None:
    patient = pool(disruption={"consolidate_after": "30s"})
    world, stage, reason = begun(DELETE.but(pools=(patient,)))
    late = world.but(candidates={"b": {"leaving": True, "last_pod_event": NOW - 1}})

    assert refused(late, stage, reason)[0] == "churn"


def test_a_protected_pod_that_came_meanwhile_is_churn() -> None:
    guest = replica("late", "b", annotations={DO_NOT_DISRUPT: "true"})
    for start in (DELETE, DRIFT):
        world, stage, reason = begun(start)
        last = world.nodes[-1]
        filled = world.but(nodes=(*world.nodes[:-1], replace(last, pods=(*last.pods, guest))))

        kind, words = refused(filled, stage, reason)

        assert kind == "churn"
        assert "default/late" in words


def test_a_pod_budget_that_is_used_up_just_now_is_soon_over_and_other_refusals_are_not() -> None:
    world, stage, reason = begun(DELETE)

    held = world.but(pdbs=(pdb(),)).validate(stage, reason)
    full = world.but(nodes=(holding("a", 6), world.nodes[1])).validate(stage, reason)

    assert isinstance(held, Refusal)
    assert isinstance(full, Refusal)
    assert (held.kind, held.passes, full.passes) == ("churn", True, False)


def test_pods_go_where_the_plan_has_room_for_them_though_there_is_room_elsewhere() -> None:
    world = Setting((holding("a", 3), holding("b", 2), holding("c", 1)))
    pods = world.nodes[2].pods
    for target in ("a", "b"):
        move = Move(pods[0].metadata.uid, "default/inflate-c-0", "c", target)

        found = accepted(world, Stage(("c",), moves=(move,), evictions=1), Reason.UNDERUTILIZED)

        assert [each.target for each in found.moves] == [target]


def test_room_that_is_gone_is_told() -> None:
    world, stage, reason = begun(DELETE)
    full = world.but(nodes=(holding("a", 6), world.nodes[1]))

    assert refused(full, stage, reason) == ("scheduling", "b stays: its pods have no room on other nodes")


def test_a_saving_that_is_gone_is_told() -> None:
    world, stage, reason = begun(REPLACE)

    assert refused(world.but(types=(M5_LARGE,)), stage, reason) == (
        "scheduling",
        "a stays: nothing cheaper would hold its pods",
    )


def test_a_node_that_became_empty_meanwhile_may_go() -> None:
    world, stage, reason = begun(REPLACE)

    found = accepted(world.but(nodes=(holding("a"),)), stage, reason)

    assert (found.launch, found.moves) == ((), ())


def test_once_the_replacement_stands_the_pods_must_fit_it() -> None:
    world, stage, reason = begun(REPLACE)
    with_it = world.but(nodes=(*world.nodes, holding("new", 0, C5_LARGE)))
    too_small = world.but(nodes=(*world.nodes, node("new", C5_LARGE, pods=replicas(3, "new"))))

    found = accepted(with_it, stage, reason, launched=("new",))

    assert [move.target for move in found.moves] == ["new"]
    assert refused(too_small, stage, reason, launched=("new",))[0] == "scheduling"


def test_the_replacement_takes_the_pods_though_it_is_not_quiet_yet() -> None:
    patient = pool(disruption={"consolidate_after": "30s"})
    world, stage, reason = begun(REPLACE.but(pools=(patient,)))
    fresh = world.but(
        nodes=(*world.nodes, holding("new", 0, C5_LARGE)),
        candidates={**world.candidates, "new": {"last_pod_event": NOW - 1}},
    )

    assert accepted(fresh, stage, reason, launched=("new",)).launch == ()
    assert refused(fresh, replace(stage, launch=()), reason)[0] == "scheduling"


def test_a_node_that_has_not_drifted_any_more_is_churn() -> None:
    world, stage, reason = begun(DRIFT)

    assert refused(world.but(candidates={"a": {"leaving": True}}), stage, reason) == (
        "churn",
        "a has not drifted any more",
    )


def test_no_more_is_bought_than_was_planned() -> None:
    world, stage, reason = begun(DRIFT)

    assert refused(world, replace(stage, launch=()), reason) == (
        "scheduling",
        "1 nodes would have to be bought instead of 0",
    )


def test_pods_of_a_drifted_node_that_have_no_place_any_more_are_told() -> None:
    world, stage, reason = begun(DRIFT)

    kind, words = refused(world.but(types=()), stage, reason)

    assert kind == "scheduling"
    assert "has no other place" in words


def test_a_static_pool_that_can_buy_nothing_any_more_is_told() -> None:
    world, stage, reason = begun(STATIC)

    assert refused(world.but(types=()), stage, reason) == (
        "scheduling",
        "NodePool default can buy nothing now",
    )


def test_a_static_node_whose_replacement_stands_goes() -> None:
    world, stage, reason = begun(STATIC)

    assert accepted(world, stage, reason, launched=("new",)).launch == ()


def test_pods_keep_the_place_that_the_plan_has_for_them() -> None:
    nodes = (holding("a", 1), holding("b", 1), holding("c", 3))
    for target in ("b", "c"):
        world = Setting(nodes, candidates={"a": {"leaving": True}})
        move = Move(world.nodes[0].pods[0].metadata.uid, "default/p", "a", target)

        found = world.validate(Stage(("a",), moves=(move,)), Reason.UNDERUTILIZED)

        assert isinstance(found, Stage)
        assert [each.target for each in found.moves] == [target]


def test_pods_whose_planned_place_is_taken_go_elsewhere() -> None:
    nodes = (holding("a", 1), holding("b", 7), holding("c", 1))
    world = Setting(nodes, candidates={"a": {"leaving": True}})
    move = Move(world.nodes[0].pods[0].metadata.uid, "default/p", "a", "b")

    found = world.validate(Stage(("a",), moves=(move,)), Reason.UNDERUTILIZED)

    assert isinstance(found, Stage)
    assert [each.target for each in found.moves] == ["c"]


def test_what_was_bought_is_used_although_moving_has_become_dearer() -> None:
    world, stage, reason = begun(REPLACE)
    dearer = world.after(replace(stage, remove=(), moves=())).but(settings=Settings(eviction_price=1e6))
    new = next(each.name for each in dearer.nodes if each.name.startswith("new-"))

    found = dearer.validate(stage, reason, (new,))

    assert isinstance(found, Stage)
    assert {each.target for each in found.moves} == {new}
    assert isinstance(dearer.validate(stage, reason), Refusal)
