# SPDX-License-Identifier: Apache-2.0
"""The cluster as it would be, asked directly."""

from dataclasses import replace
from typing import Any

import pytest

from karpenter.api.core import Pod
from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.consolidation import VerdictKind
from karpenter.consolidation.ground import Ground
from karpenter.consolidation.launches import Unfit, narrowed
from karpenter.consolidation.rearranging import _agreed, parts_of, placed
from karpenter.consolidation.stand import Placed, Stand, Trial
from karpenter.consolidation.types import Rearrangement, Settings
from karpenter.consolidation.underuse import quiet_stand
from karpenter.model.instancetypes import Offering
from karpenter.scheduling import NewNode, Plan, solve
from tests.strategies.clusters import node
from tests.strategies.expressions import expression, node_term, pod_term, preferred, spread, taint, weighted
from tests.strategies.machines import instance_type, reserved
from tests.strategies.pods import pod
from tests.unit.consolidation.world import (
    C5_LARGE,
    M5_LARGE,
    Setting,
    holding,
    pool,
    replica,
)

FULL = Setting((holding("a", 5), holding("b", 5)))


def stand_of(world: Setting) -> Stand:
    return quiet_stand(Ground(world.snapshot(), world.situation(), world.now))


def launch_of(*pods: Pod, world: Setting = FULL) -> NewNode:
    """Give what would be bought for pods alone."""
    return solve(replace(world.snapshot(), nodes=()), pods).new_nodes[0]


def on_launch(world: Setting, *names: str) -> Trial:
    everybody = [each for view in world.nodes for each in view.pods if view.name in names]
    return stand_of(world).attempt_with(names, (launch_of(*everybody, world=world),))


def test_nodes_that_are_named_are_bought_and_nothing_else() -> None:
    trial = on_launch(FULL, "a", "b")

    assert trial.problem is None
    assert [launch.instance_type for launch in trial.launch] == ["r5.large"]
    assert [len(launch.pods) for launch in trial.launch] == [10]
    assert {each.launch for each in trial.placed} == {0}


def test_what_is_not_needed_is_not_bought() -> None:
    world = Setting((holding("a", 1), holding("b", 1)))

    trial = stand_of(world).attempt_with(("a",), (launch_of(*world.nodes[0].pods),))

    assert trial.launch == ()
    assert [move.target for move in trial.moves] == ["b"]


def test_limits_hold_for_what_is_named() -> None:
    world = FULL.but(pools=(pool(limits={"nodes": "2", "cpu": "9"}),))

    trial = stand_of(world).attempt_with(("a",), (launch_of(*FULL.nodes[0].pods),))

    assert trial.problem is VerdictKind.LIMITS


def test_pods_that_do_not_fit_what_is_named_are_told() -> None:
    trial = stand_of(FULL).attempt_with(("a",), ())

    assert trial.problem is VerdictKind.NO_ROOM
    assert trial.blamed == {"a"}


def test_a_wish_is_not_given_up_to_save_money_unless_wishes_do_not_count() -> None:
    apart = weighted(pod_term({"app": "inflate"}, HOSTNAME), 10)
    nodes = (
        node(name, M5_LARGE, pods=(replica(name, name, preferred_anti_affinity=(apart,)),)) for name in "ab"
    )
    world = Setting(tuple(nodes), types=(M5_LARGE,))
    careless = replace(Settings().solve, preferences="Ignore")

    trial = stand_of(world).attempt_with(("a",), ())

    assert (trial.problem, trial.blamed) == (VerdictKind.NO_ROOM, frozenset("a"))
    assert world.blocked().verdicts["a"].kind is VerdictKind.NOT_CHEAPER
    assert len(world.but(settings=Settings(solve=careless)).command().remove) == 1


def test_pods_that_need_several_nodes_keep_the_launch_as_it_was_named() -> None:
    stand = stand_of(FULL)
    one, other = replica("x", "", memory="6Gi"), replica("y", "", memory="6Gi")
    small = Setting(types=(M5_LARGE,))
    launch = launch_of(one, world=small)

    fitted = replace(stand, snapshot=small.snapshot())._fitted(launch, [one, other])

    assert fitted.usable.bit_count() == 1


def test_pods_out_of_time_have_no_place() -> None:
    late = FULL.nodes[0].pods[0]

    trial = stand_of(FULL)._problem(Plan(unfinished=(late,)), {late.metadata.uid: Placed(late, "a")})

    assert trial is not None
    assert trial.words == "pod default/inflate-a-0 has no other place: there was no time to find one"


@pytest.mark.parametrize(
    ("constrained", "plain"),
    [
        ({}, True),
        ({"anti_affinity": (pod_term({"app": "x"}, HOSTNAME),)}, True),
        ({"topology_spread": (spread({"app": "x"}, HOSTNAME),)}, True),
        ({"anti_affinity": (pod_term({"app": "x"}, ZONE),)}, False),
        ({"affinity": (pod_term({"app": "inflate"}, HOSTNAME),)}, False),
        ({"preferred_anti_affinity": (weighted(pod_term({"app": "x"}, HOSTNAME), 1),)}, False),
        ({"topology_spread": (spread({"app": "x"}, HOSTNAME, soft=True),)}, False),
        ({"preferred_node_affinity": (preferred(node_term(expression("a", "Exists")), 1),)}, False),
        ({"topology_spread": (spread({"app": "inflate"}, ZONE),)}, False),
    ],
)
def test_rules_about_pods_on_other_nodes_make_a_trial_special(
    constrained: dict[str, Any], *, plain: bool
) -> None:
    world = Setting((node("a", M5_LARGE, pods=(replica("p", "a", **constrained),)), holding("b", 1)))
    stand = stand_of(world)

    ordinary, special = stand.parted([stand.attempt(("a",))])

    assert (len(ordinary), len(special)) == ((1, 0) if plain else (0, 1))


def test_a_standing_pod_that_keeps_others_out_of_its_zone_makes_a_trial_special() -> None:
    loner = replica("loner", "c", of="loner", anti_affinity=(pod_term({"app": "inflate"}, ZONE),))
    world = Setting((holding("a", 1), holding("b", 1), node("c", M5_LARGE, zone="us-east-1c", pods=(loner,))))
    stand = stand_of(world)

    _, special = stand.parted([stand.attempt(("a",))])

    assert len(special) == 1


def test_a_node_that_pods_would_rather_avoid_makes_every_trial_special() -> None:
    slow = holding("b", 1, taints=(taint("slow", "yes", "PreferNoSchedule"),))
    stand = stand_of(Setting((holding("a", 1), slow)))

    _, special = stand.parted([stand.attempt(("a",))])

    assert len(special) == 1


def test_a_buffer_without_another_place_holds_its_node() -> None:
    buffer = pod("buffer", cpu=None, memory="2Gi", node_selector={HOSTNAME: "a"})
    world = Setting((holding("a", 1), holding("b", 5)), virtual=(buffer,))

    assert world.blocked().verdicts["a"].kind is VerdictKind.BUFFER


def test_parts_that_share_a_launch_go_together_and_others_alone() -> None:
    world = Setting((holding("a", 5), holding("b", 4), holding("c", 1), holding("d", 5)))
    stand = stand_of(world)
    everybody = [pod for view in world.nodes[:3] for pod in view.pods]

    parts = parts_of(stand.attempt_with(("a", "b", "c"), (launch_of(*everybody),)))

    assert {name for part in parts for name in part.remove} == {"a", "b", "c"}
    assert [bool(part.launch) for part in parts] == sorted(bool(part.launch) for part in parts)
    for part in parts:
        assert {each.source for each in part.placed} == set(part.remove)
        assert all(-1 <= each.launch < len(part.launch) for each in part.placed)


def test_what_can_be_comes_first() -> None:
    works, fails = placed(stand_of(FULL), ("a",), ())

    assert [launch.instance_type for launch in works.launch] == ["c5.large"]
    assert fails.problem is VerdictKind.NO_ROOM


def test_a_second_stage_knows_the_first() -> None:
    nodes = (holding("a", 5), holding("b", 5), holding("c", 1, C5_LARGE))
    stand = stand_of(Setting(nodes, (pool(limits={"cpu": "11"}),)))
    first = stand.attempt(("a",))

    after = stand.after(first, first.launch)

    assert {each.name for each in after.snapshot.nodes} == {"b", "c", "launch:0"}
    assert after.launched == 1
    second = after.attempt(("b",))
    assert "launch:0" not in {each.target for each in second.placed}
    assert after.snapshot.pools[0].limits["cpu"] < stand.snapshot.pools[0].limits["cpu"]


def test_a_launch_is_narrowed_to_one_zone_and_type_where_others_cost_too_much() -> None:
    kind = instance_type(
        "c1.large",
        cpu=2,
        memory_gib=7.4,
        offerings=[Offering("z1", "on-demand", 0.03), Offering("z2", "on-demand", 0.05)],
    )
    other = instance_type("c2.large", cpu=2, memory_gib=7.4, offerings=[Offering("z1", "on-demand", 0.04)])
    launch = launch_of(replica("x", ""), world=Setting(types=(kind, other)))

    (cheap,) = launches(narrowed((launch,), 0.045, Settings(), from_spot=False))

    assert [(each.instance_type, each.zone) for each in cheap.alternatives] == [
        ("c1.large", "z1"),
        ("c2.large", "z1"),
    ]


def launches(found: tuple[NewNode, ...] | Unfit) -> tuple[NewNode, ...]:
    assert not isinstance(found, Unfit)
    return found


def test_a_reservation_that_a_stage_may_use_up_is_gone_for_the_next() -> None:
    kind = instance_type(
        "c1.large",
        cpu=2,
        memory_gib=7.4,
        offerings=[
            Offering("z1", "on-demand", 0.05),
            reserved("cr-1", 1, "z1", 0.001),
            reserved("cr-2", 2, "z2", 0.002),
        ],
    )
    both = (pool(limits={"cpu": "99"}), pool("other", limits={"cpu": "99"}))
    world = FULL.but(types=(M5_LARGE, kind), pools=both)
    stand = stand_of(world).closing({"a", "b"})
    first = stand.attempt(("a",))

    after = stand.after(first, first.launch)

    assert first.launch[0].capacity_type == "reserved"
    left = {each.reservation_id: each for each in after.snapshot.pools[0].catalogue.offerings}
    assert not left["cr-1"].available
    assert (left["cr-2"].available, left["cr-2"].reservation_capacity) == (True, 1)
    assert after.snapshot.pools[0].catalogue is after.snapshot.pools[1].catalogue
    limits = {each.name: each.limits["cpu"] for each in stand.snapshot.pools}
    less = {each.name: each.limits["cpu"] for each in after.snapshot.pools}
    assert [name for name in limits if less[name] < limits[name]] == [first.launch[0].pool]


def test_of_two_reservations_in_one_place_the_dearer_one_is_not_relied_on() -> None:
    kind = instance_type(
        "c1.large",
        cpu=2,
        memory_gib=7.4,
        offerings=[reserved("cr-1", 1, "z1", 0.01), reserved("cr-2", 1, "z1", 0.5)],
    )
    launch = launch_of(replica("x", ""), world=Setting(types=(kind,)))

    (cheap,) = launches(narrowed((replace(launch, usable=3),), 0.02, Settings(), from_spot=False))

    assert cheap.usable == 1


def test_shadows_of_a_node_that_goes_hold_room_where_they_are_now() -> None:
    stand = stand_of(
        Setting((holding("a", 1), holding("b", 3)), virtual=(pod("buffer", cpu=None, memory="1Gi"),))
    )
    (home,) = stand.shadows
    trial = stand.attempt((home,))

    after = stand.after(trial, trial.launch)

    assert [each.pod.metadata.name for each in trial.placed if each.is_shadow] == ["buffer"]
    assert {name: len(pods) for name, pods in after.shadows.items()} == {({"a", "b"} - {home}).pop(): 1}


def test_ghosts_without_room_hold_their_node() -> None:
    ghost = replica("ghost", "a")
    stand = replace(
        stand_of(FULL.but(types=())),
        homes={},
        shadows={"a": (ghost,)},
        ghosts=frozenset({ghost.metadata.uid}),
    ).closing({"b"})

    trial = stand.attempt(("a",))

    assert (trial.problem, trial.blamed) == (VerdictKind.PEAK, frozenset("a"))


def test_nothing_is_bought_for_ghosts_alone() -> None:
    ghost = replica("ghost", "a")
    stand = replace(
        stand_of(FULL), homes={}, shadows={"a": (ghost,)}, ghosts=frozenset({ghost.metadata.uid})
    ).closing({"b"})

    assert stand.attempt(("a",)).problem is VerdictKind.PEAK


def test_steps_that_the_solver_does_not_agree_with_are_left_out() -> None:
    rack = {"example.com/rack": "r1"}
    stuck = node("a", M5_LARGE, pods=(replica("p", "a", node_selector=rack),), labels=rack)
    world = Setting((stuck, holding("b", 1), holding("c", 4)), types=())
    found = Rearrangement(remove=("a", "b"), steps=(1, 1))

    trial = _agreed(stand_of(world), found, [("a",), ("b",)])

    assert trial is not None
    assert trial.remove == ("b",)
    assert _agreed(stand_of(world), found, [("a",)]) is None


def test_a_solver_that_never_agrees_is_not_asked_for_ever() -> None:
    names = tuple(f"n{number:02d}" for number in range(70))
    stand = stand_of(Setting(tuple(holding(name, 1) for name in names), types=())).closing(names)

    assert _agreed(stand, Rearrangement(names, steps=(1,) * 70), [(name,) for name in names]) is None


def test_nodes_that_go_in_a_later_round_take_no_pods() -> None:
    world = Setting((holding("a", 1), holding("b", 1), holding("c", 1)), types=())
    found = Rearrangement(remove=("a", "b"), steps=(1, 1))

    trial = _agreed(stand_of(world), found, [("a",)])

    assert trial is not None
    assert [move.target for move in trial.moves] == ["c"]
    everything = Rearrangement(remove=("a", "b", "c"), steps=(1, 2))
    assert _agreed(stand_of(world), everything, [("a",)]) is None
