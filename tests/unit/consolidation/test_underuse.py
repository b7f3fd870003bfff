# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from typing import Any

import pytest

from karpenter.api.labels import CAPACITY_RESERVATION_ID, POD_DELETION_COST
from karpenter.consolidation import Blocked, Command, Memory, Reason, Settings, VerdictKind
from karpenter.consolidation.ground import Ground
from karpenter.consolidation.stand import Stand, Trial
from karpenter.consolidation.underuse import _Attempt, quiet_stand
from karpenter.model.instancetypes import InstanceType, Offering
from tests.strategies.clusters import node
from tests.strategies.expressions import expression, node_term, preferred, requirement, spread
from tests.strategies.machines import instance_type, reserved
from tests.strategies.pods import pod
from tests.unit.consolidation.world import (
    C5_LARGE,
    M5_LARGE,
    M5_XLARGE,
    NOW,
    Setting,
    budget,
    holding,
    pool,
    replica,
    replicas,
)

ONE_BY_ONE = Settings(search=False)
HOUR = 3600.0


def verdict(world: Setting, name: str = "a") -> tuple[VerdictKind, str]:
    found = world.blocked().verdicts[name]
    return found.kind, found.words


def test_the_node_that_costs_most_for_what_it_disturbs_is_tried_first() -> None:
    nodes = (holding("a", 2, M5_LARGE), holding("b", 2, M5_XLARGE), holding("c", 1, M5_LARGE))

    command = Setting(nodes, settings=ONE_BY_ONE).command()

    assert command.remove[0] == "b"


def test_whoever_takes_pods_stays() -> None:
    nodes = (holding("a", 1), holding("b", 1), holding("c", 1))

    command = Setting(nodes, settings=ONE_BY_ONE).command()

    targets = {move.target for stage in command.stages for move in stage.moves}
    assert len(command.remove) == 2 or targets
    assert targets.isdisjoint(command.remove)
    stays = ({"a", "b", "c"} - set(command.remove)) & targets
    assert stays
    assert {command.verdicts[name].kind for name in stays} == {VerdictKind.WAITS}


def test_a_node_in_a_reservation_is_replaced_by_a_smaller_one_in_another() -> None:
    large = (*M5_LARGE.offerings, reserved("cr-1", 1, price=M5_LARGE.offerings[0].price_per_hour / 1e7))
    xlarge = (*M5_XLARGE.offerings, reserved("cr-2", 0, price=M5_XLARGE.offerings[0].price_per_hour / 1e7))
    types = (replace(M5_LARGE, offerings=large), replace(M5_XLARGE, offerings=xlarge))
    there = {"capacity_type": "reserved", "labels": {CAPACITY_RESERVATION_ID: "cr-2"}}
    big = holding("a", 1, types[1], **there)

    command = Setting((big,), types=types).command()

    [stage] = command.stages
    assert stage.remove == ("a",)
    assert [(each.instance_type, each.capacity_type) for each in stage.launch] == [("m5.large", "reserved")]
    full = replace(types[0], offerings=(*M5_LARGE.offerings, replace(large[-1], available=False)))
    assert verdict(Setting((big,), types=(full, types[1])))[0] is VerdictKind.NOT_CHEAPER


def test_with_when_empty_a_used_node_stays() -> None:
    world = Setting((holding("a", 1),), (pool(disruption={"consolidation_policy": "WhenEmpty"}),))

    assert verdict(world) == (VerdictKind.POLICY, "a stays: NodePool default gives up empty nodes only")


def test_a_used_node_of_a_static_pool_stays() -> None:
    world = Setting((holding("a", 1),), (pool(replicas=3),))

    assert verdict(world) == (VerdictKind.STATIC, "a stays: NodePool default keeps 3 nodes")


def test_static_pools_buy_nothing_for_pods_of_others() -> None:
    only = requirement("node.kubernetes.io/instance-type", "In", "m5.large")
    world = Setting((holding("a", 1),), (pool(requirements=[only]), pool("kept", replicas=1)))

    assert verdict(world)[0] is VerdictKind.NOT_CHEAPER


def test_budgets_hold_underused_nodes() -> None:
    one = pool(disruption={"budgets": (budget("1", reasons=("Underutilized",)),)})
    nodes = (holding("a", 1), holding("b", 1), holding("c", 1), holding("d", 1))

    for settings in (Settings(), ONE_BY_ONE):
        command = Setting(nodes, (one,), settings=settings).command()

        assert len(command.remove) == 1
        kinds = {each.kind for name, each in command.verdicts.items() if name not in command.remove}
        assert VerdictKind.BUDGET in kinds


def test_a_plan_that_budgets_stretch_over_rounds_is_followed() -> None:
    one = pool(disruption={"budgets": (budget("1", reasons=("Underutilized",)),)})
    nodes = tuple(holding(f"n{number}", 1 + number % 3) for number in range(9))
    world = Setting(nodes, (one,), settings=Settings(eviction_price=0.01, horizon_h=2.0, horizon_floor_h=0.5))
    moved: list[str] = []

    for _ in range(20):
        found = world.propose()
        if isinstance(found, Blocked):
            break
        assert len(found.remove) == 1
        moved += [move.uid for stage in found.stages for move in stage.moves]
        world = world.after(found.stages[0])

    assert len(moved) == len(set(moved))
    assert world.price == pytest.approx(3 * 0.096)


ONE_AT_A_TIME = pool(disruption={"budgets": (budget("1", reasons=("Underutilized",)),)})
CHEAP_MOVES = Settings(eviction_price=0.001, horizon_h=2.0, horizon_floor_h=0.5)


def followed(world: Setting, rounds: int = 20) -> tuple[Setting, list[Command]]:
    """Carry out command after command, each of them knowing the plan of the one before, until nothing is left."""
    commands: list[Command] = []
    for _ in range(rounds):
        found = world.propose()
        if isinstance(found, Blocked):
            return world, commands
        commands.append(found)
        for stage in found.stages:
            number = len(world.nodes)
            bought = {move.uid: f"new-{number}-{move.launch}" for move in stage.moves if move.launch >= 0}
            world = world.after(stage).but(plan=found.plan, bought={**world.bought, **bought})
    raise AssertionError("it does not come to rest")


def test_a_plan_is_followed_over_rounds_to_the_end_that_it_had_in_mind() -> None:
    nodes = tuple(holding(f"n{number}", 1 + number % 4) for number in range(9))

    world, commands = followed(Setting(nodes, (ONE_AT_A_TIME,), types=(M5_LARGE,), settings=CHEAP_MOVES))

    first = commands[0].plan
    assert first is not None
    assert {name for each in commands for name in each.remove} == set(first.remove)
    assert commands[0].later == set(first.remove) - set(commands[0].remove)
    moved = [move.uid for each in commands for stage in each.stages for move in stage.moves]
    assert sorted(moved) == sorted(move.uid for move in first.moves)
    assert world.price == pytest.approx(9 * 0.096 - first.saving_per_hour)


def test_what_is_bought_for_several_nodes_is_bought_once_and_large_enough_for_those_that_follow() -> None:
    nodes = tuple(holding(f"n{number}", 2, M5_XLARGE) for number in range(3))
    world = Setting(nodes, (ONE_AT_A_TIME,), types=(M5_LARGE, M5_XLARGE), settings=CHEAP_MOVES)

    at_the_end, commands = followed(world)

    launches = [launch for each in commands for stage in each.stages for launch in stage.launch]
    assert [each.instance_type for each in launches] == ["m5.large"]
    assert launches[0].has_followers
    assert len(commands) == 3
    assert at_the_end.price == pytest.approx(0.096)


def test_those_that_follow_wait_until_what_was_bought_has_a_name() -> None:
    nodes = tuple(holding(f"n{number}", 2, M5_XLARGE) for number in range(3))
    world = Setting(nodes, (ONE_AT_A_TIME,), types=(M5_LARGE, M5_XLARGE), settings=CHEAP_MOVES)
    first = world.command()
    [stage] = first.stages
    standing = tuple(each for each in nodes if each.name not in stage.remove)
    booting = world.but(
        nodes=standing, plan=first.plan, bought=dict.fromkeys([m.uid for m in stage.moves], "")
    )

    found = booting.blocked()

    assert {each.kind for each in found.verdicts.values()} == {VerdictKind.BUDGET}


def test_a_node_with_a_pod_that_a_plan_does_not_know_is_not_taken_by_it() -> None:
    nodes = tuple(holding(f"n{number}", 1) for number in range(4))
    world = Setting(nodes, (ONE_AT_A_TIME,), settings=CHEAP_MOVES)
    first = world.command()
    later = sorted(first.later)
    crowded = tuple(
        replace(each, pods=(*each.pods, *replicas(6, each.name, of="guest"))) if each.name in later else each
        for each in nodes
    )

    found = world.but(nodes=crowded, plan=first.plan).command()

    assert not set(found.remove) & set(later)


def test_a_plan_counts_for_as_much_as_can_be_done_of_it() -> None:
    three = pool(limits={"cpu": "10"}, disruption={"budgets": (budget("3", reasons=("Underutilized",)),)})
    nodes = tuple(holding(f"n{number}", 1) for number in range(5))
    world = Setting(nodes, (three,), types=(M5_LARGE,), settings=CHEAP_MOVES)
    plan = world.command().plan
    assert plan is not None
    [home] = {move.target for move in plan.moves}
    # Others came to the node to which all go, and there is nothing to be bought instead.
    crowded = tuple(
        replace(each, pods=(*each.pods, *replicas(4, each.name, of="guest"))) if each.name == home else each
        for each in nodes
    )

    as_planned, come_apart = (followed_now(world.but(nodes=each, plan=plan)) for each in (nodes, crowded))

    done = [sum(len(stage.remove) for stage in each.stages) for each in (as_planned, come_apart)]
    assert done[0] == 3
    assert 0 < done[1] < 3
    assert come_apart.prospect == pytest.approx(as_planned.prospect * done[1] / 3)


def followed_now(world: Setting) -> _Attempt:
    """Carry on with the plan alone."""
    ground = Ground(world.snapshot(), world.situation(), world.now)
    return _Attempt(ground, quiet_stand(ground)).with_search(list(ground.sites.values()), world.plan)


def test_a_plan_of_which_nothing_is_left_is_no_plan() -> None:
    nodes = tuple(holding(f"n{number}", 1) for number in range(4))
    world = Setting(nodes, (ONE_AT_A_TIME,), settings=CHEAP_MOVES)
    plan = world.command().plan
    others = tuple(holding(f"m{number}", 1) for number in range(2))

    found = world.but(nodes=others, plan=plan).command()

    assert found.id == world.but(nodes=others).command().id


@pytest.mark.parametrize(
    ("capacity_type", "saving", "goes"),
    [("spot", 0.08, False), ("spot", 0.12, True), ("on-demand", 0.08, True)],
)
def test_a_spot_node_goes_for_a_tenth_of_its_price_and_others_for_less(
    capacity_type: str, saving: float, *, goes: bool
) -> None:
    dear = instance_type("m5.large", cpu=2, memory_gib=7.4, price=1.0, capacity_types=(capacity_type,))
    cheap = instance_type(
        "m6.large", cpu=2, memory_gib=7.4, price=1.0 - saving, capacity_types=(capacity_type,)
    )
    world = Setting(
        (holding("a", 1, dear, capacity_type=capacity_type),),
        types=(dear, cheap),
        settings=Settings(eviction_price=0.001, spot_choices=1),
    )

    assert isinstance(world.propose(), Command) is goes
    if capacity_type == "spot":
        low = pool(disruption={"minimum_saving": "5%"})
        assert isinstance(world.but(pools=(low,)).propose(), Command)


def test_nothing_is_searched_for_while_budgets_are_used_up() -> None:
    one = pool(disruption={"budgets": (budget("1", reasons=("Underutilized",)),)})
    nodes = (holding("a", 1), holding("b", 1), holding("c", 1))

    found = Setting(nodes, (one,), candidates={"c": {"leaving": True}}).blocked()

    assert {found.verdicts[name].kind for name in "ab"} == {VerdictKind.BUDGET}


def test_a_protected_node_is_no_candidate_but_takes_pods() -> None:
    world = Setting((holding("a", 1), holding("b", 1)), candidates={"a": {"do_not_disrupt": True}})

    command = world.command()

    assert command.remove == ("b",)
    assert [move.target for move in command.stages[0].moves] == ["a"]


@pytest.mark.parametrize("settings", [Settings(), ONE_BY_ONE])
def test_pods_never_go_to_nodes_that_are_not_ready_or_not_quiet_or_leaving(settings: Settings) -> None:
    quiet = pool(disruption={"consolidate_after": "60s"})
    nodes = (holding("a", 1, C5_LARGE), holding("b"), holding("c"), holding("d", initialized=False))
    candidates: dict[str, dict[str, Any]] = {
        "b": {"not_ready": True, "do_not_disrupt": True},
        "c": {"last_pod_event": NOW - 5},
    }

    assert (
        verdict(Setting(nodes, (quiet,), candidates=candidates, settings=settings))[0]
        is VerdictKind.NOT_CHEAPER
    )


def test_a_pod_that_waits_gets_its_room_first() -> None:
    waits = pod("waits", cpu=None, memory="5Gi")
    world = Setting((holding("a", 2), holding("b", 1, C5_LARGE)), pending=(waits,))

    assert verdict(world, "b")[0] is VerdictKind.NOT_CHEAPER


def test_a_node_with_room_that_a_waiting_pod_needs_stays() -> None:
    waits = pod("waits", cpu=None, memory="5Gi", node_selector={"kubernetes.io/hostname": "a"})
    world = Setting((holding("a", 1), holding("b", 5)), pending=(waits,))

    assert verdict(world)[0] is VerdictKind.BUFFER


def test_the_saving_must_pay_for_the_evictions_within_the_horizon() -> None:
    dear = Settings(eviction_price=0.03, horizon_h=2.0, horizon_floor_h=0.5)
    world = Setting((holding("a", 1),), settings=dear)

    kind, words = verdict(world)

    assert kind is VerdictKind.SAVING
    assert words == (
        "a stays: taking it would save $0.0110 per hour, and moving its pods is worth it from $0.0161 per hour on"
    )
    assert world.blocked().verdicts["a"].values == {
        "saving_per_hour": "0.011000",
        "wanted_per_hour": "0.016063",
    }
    calm = Memory()
    for half_hours in range(48, -1, -1):
        calm = calm.counted({"default/ReplicaSet/a": 1}, NOW - half_hours * HOUR / 2)
    calm = calm.hour_passed(["default"], NOW - 10 * HOUR, dear).hour_passed(["default"], NOW, dear)
    assert world.but(memory=calm).command().remove == ("a",)


def test_regret_makes_a_pool_more_careful() -> None:
    memory = Memory()
    for _ in range(5):
        memory = memory.missed(["default"], NOW, Settings())

    assert verdict(Setting((holding("a", 1),), memory=memory))[0] is VerdictKind.SAVING


def test_a_pod_that_was_just_moved_weighs_more() -> None:
    moved = Memory().moved([replica("x", "z")], NOW - 60)

    assert verdict(Setting((holding("a", 1),), memory=moved))[0] is VerdictKind.SAVING


def test_priority_and_deletion_cost_make_a_pod_dearer_to_move() -> None:
    dear = replica("p", "a", annotations={POD_DELETION_COST: str(2**30)})
    important = replica("p", "a", priority=1_000_000_000)

    for each in (dear, important):
        assert verdict(Setting((node("a", M5_LARGE, pods=(each,)),)))[0] is VerdictKind.SAVING


def test_a_pool_may_ask_for_a_minimum_saving() -> None:
    little = Setting((holding("a", 1),), (pool(disruption={"minimum_saving": "5%"}),))
    much = Setting((holding("a", 1),), (pool(disruption={"minimum_saving": "20%"}),))

    assert little.command().remove == ("a",)
    assert verdict(much)[0] is VerdictKind.SAVING


def test_nothing_is_swapped_for_its_like() -> None:
    same = instance_type("m5a.large", cpu=2, memory_gib=7.4, price=0.0955, capacity_types=("on-demand",))
    world = Setting((holding("a", 5),), types=(M5_LARGE, same), settings=Settings(eviction_price=0.0))

    assert verdict(world)[0] is VerdictKind.SAVING


def test_limits_hold_even_for_a_moment() -> None:
    world = Setting((holding("a", 1),), (pool(limits={"cpu": "3"}),))

    assert verdict(world)[0] is VerdictKind.NO_ROOM


def spot(name: str, price: float, zones: int = 1) -> InstanceType:
    offerings = [
        Offering(zone, "spot", price) for zone in ("test-zone-1a", "test-zone-1b", "test-zone-1c")[:zones]
    ]
    return instance_type(name, cpu=2, memory_gib=7.4, offerings=offerings)


def on_spot(types: tuple[InstanceType, ...], **more: Any) -> Setting:
    standing = spot("m9.large", 0.06)
    view = node("a", standing, zone="test-zone-1a", capacity_type="spot", pods=replicas(1, "a"))
    return Setting((view,), types=(standing, *types), settings=Settings(**more))


def test_spot_follows_spot_while_there_is_choice() -> None:
    world = on_spot(tuple(spot(f"c{number}.large", 0.03 + number / 1000) for number in range(5)))

    (stage,) = world.command().stages

    assert [launch.capacity_type for launch in stage.launch] == ["spot"]
    assert len(stage.launch[0].alternatives) == 5


def test_spot_does_not_follow_spot_into_the_one_cheapest_corner() -> None:
    world = on_spot((spot("c1.large", 0.03), *(spot(f"d{number}.large", 0.0595) for number in range(9))))

    assert verdict(world) == (
        VerdictKind.SPOT,
        "a stays: a cheaper spot node would leave fewer than 5 offerings to choose from",
    )


def test_a_narrow_spot_pool_is_not_shut_out() -> None:
    world = on_spot((spot("c1.large", 0.03),), spot_choices=2)

    assert [launch.instance_type for launch in world.command().stages[0].launch] == ["c1.large"]


def test_spot_to_spot_can_be_switched_off() -> None:
    world = on_spot(tuple(spot(f"c{number}.large", 0.03) for number in range(9)), spot_to_spot=False)

    assert verdict(world) == (VerdictKind.SPOT, "a stays: spot nodes are not replaced by spot nodes")


def test_a_replacement_is_cheap_enough_whatever_it_becomes() -> None:
    cheap = instance_type(
        "c1.large",
        cpu=2,
        memory_gib=7.4,
        offerings=[
            Offering("z1", "spot", 0.03),
            Offering("z1", "on-demand", 0.09),
            Offering("z2", "spot", 0.2),
        ],
    )
    world = Setting((node("a", M5_LARGE, pods=replicas(1, "a")),), types=(M5_LARGE, cheap))

    (launch,) = world.command().stages[0].launch

    assert [(each.zone, each.capacity_type) for each in launch.alternatives] == [("z1", "spot")]


def test_min_values_must_hold_among_what_is_cheap_enough() -> None:
    wide = pool(requirements=[requirement("node.kubernetes.io/instance-type", "Exists", min_values=3)])
    world = Setting((holding("a", 1),), (wide,))

    kind, words = verdict(world)

    assert kind is VerdictKind.NOT_CHEAPER
    assert "node.kubernetes.io/instance-type" in words
    two = pool(requirements=[requirement("node.kubernetes.io/instance-type", "Exists", min_values=1)])
    assert world.but(pools=(two,)).command().remove == ("a",)
    lax = replace(Settings().solve, min_values="BestEffort")
    assert world.but(settings=Settings(solve=lax)).command().remove == ("a",)


def swinging(now: int) -> Memory:
    memory = Memory()
    for minutes, number in ((40, 10), (30, 2), (20, 10), (10, now)):
        memory = memory.counted({"default/ReplicaSet/inflate": number}, NOW - minutes * 60)
    return memory


def test_a_workload_that_swings_keeps_the_room_of_its_peak() -> None:
    world = Setting((holding("a", 3), holding("b", 2)), types=(M5_LARGE,), memory=swinging(5))

    verdicts = world.blocked().verdicts

    assert {each.kind for each in verdicts.values()} <= {
        VerdictKind.PEAK,
        VerdictKind.NOT_CHEAPER,
        VerdictKind.SAVING,
    }
    assert VerdictKind.PEAK in {each.kind for each in verdicts.values()}
    assert world.but(now=NOW + 2 * HOUR).command().remove == ("b",)


def test_a_peak_beyond_all_room_holds_the_room_there_is() -> None:
    memory = Memory()
    for minutes, number in ((40, 900), (30, 2), (20, 900), (10, 5)):
        memory = memory.counted({"default/ReplicaSet/inflate": number}, NOW - minutes * 60)

    world = Setting((holding("a", 3), holding("b", 2)), types=(M5_LARGE,), memory=memory)
    assert world.blocked().verdicts["a"].kind is VerdictKind.PEAK


def test_a_peak_of_a_workload_without_pods_holds_nothing() -> None:
    memory = Memory()
    for minutes, number in ((40, 9), (30, 2), (20, 9), (10, 0)):
        memory = memory.counted({"default/ReplicaSet/other": number}, NOW - minutes * 60)

    assert Setting((holding("a", 3), holding("b", 2)), memory=memory).command().remove == ("b",)


def test_the_deadline_ends_the_trying() -> None:
    world = Setting((holding("a", 1),), settings=Settings(search=False, stop=lambda: True))

    assert verdict(world) == (
        VerdictKind.NOT_CHEAPER,
        "a stays: no cheaper arrangement of the cluster was found",
    )


def test_too_many_tries_end_the_trying() -> None:
    world = Setting((holding("a", 1),), settings=Settings(search=False, tries=0))

    assert verdict(world)[0] is VerdictKind.NOT_CHEAPER


def test_the_search_exchanges_several_nodes_for_fewer_that_cost_less() -> None:
    small = instance_type("t1.small", cpu=2, memory_gib=2.3, price=0.05, capacity_types=("on-demand",))
    nodes = tuple(node(f"n{index}", small, pods=replicas(2, f"n{index}")) for index in range(7))
    world = Setting(nodes, types=(small, M5_XLARGE), settings=Settings(eviction_price=0.001))

    command = world.command()

    assert command.reason is Reason.UNDERUTILIZED
    assert len(command.remove) > 1
    assert max(len(stage.remove) for stage in command.stages) > 1
    assert command.saving_per_hour > 0


def spread_out(number: int, **more: Any) -> Setting:
    """Give nodes of one pod each, which must be spread over the zones."""
    zones = ("us-east-1a", "us-east-1b")
    nodes = []
    for index in range(number):
        name = f"n{index:02d}"
        own = replica(name, name, topology_spread=(spread({"app": "inflate"}, max_skew=2),))
        nodes.append(node(name, M5_LARGE, zone=zones[index % 2], pods=(own,)))
    return Setting(tuple(nodes), **more)


def test_pods_that_are_spread_over_zones_stay_spread_after_every_stage() -> None:
    world = spread_out(8)

    command = world.command()

    for stage in command.stages:
        world = world.after(stage)
        zones = [view.labels["topology.kubernetes.io/zone"] for view in world.nodes for _ in view.pods]
        assert abs(zones.count("us-east-1a") - zones.count("us-east-1b")) <= 2
    assert len(command.stages) > 1


def test_where_a_plan_does_not_hold_by_itself_pods_with_rules_about_others_go_where_they_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_planned = Stand.attempt_with
    together: list[Any] = []

    def only_together(self: Stand, names: Any, launch: Any, moves: Any = ()) -> Trial:
        if tuple(moves) and together:
            return Trial(tuple(names), problem=VerdictKind.NO_ROOM)
        together.extend(moves)
        return as_planned(self, names, launch, moves)

    monkeypatch.setattr(Stand, "attempt_with", only_together)

    command = wishing().command()

    assert together
    assert len(command.remove) >= 3


def test_without_tries_left_parts_with_rules_about_others_wait() -> None:
    world = spread_out(8, settings=Settings(tries=0))

    assert world.blocked().verdicts["n00"].kind is VerdictKind.NOT_CHEAPER


def test_in_a_large_cluster_the_search_alone_decides_first() -> None:
    nodes = tuple(holding(f"n{index:02d}", 1) for index in range(70))

    command = Setting(nodes, (pool(disruption={"budgets": (budget("10"),)}),)).command()

    assert len(command.remove) == 10
    assert len({move.uid for stage in command.stages for move in stage.moves}) == 10


def wishing() -> Setting:
    """Give nodes of one pod each, which would rather be in their zone."""
    here = preferred(node_term(expression("topology.kubernetes.io/zone", "In", "us-east-1a")))
    names = [f"n{index}" for index in range(4)]
    nodes = tuple(
        node(name, M5_LARGE, zone="us-east-1a", pods=(replica(name, name, preferred_node_affinity=(here,)),))
        for name in names
    )
    return Setting(nodes, settings=Settings(eviction_price=0.001))


def test_parts_whose_pods_have_wishes_are_looked_at_one_by_one() -> None:
    command = wishing().command()

    assert len(command.remove) >= 3
    assert {move.target for stage in command.stages for move in stage.moves}.isdisjoint(command.remove)
