# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from karpenter.api.core import ContainerPort, PodResourceClaim
from karpenter.api.labels import HOSTNAME, INSTANCE_TYPE, ZONE
from karpenter.consolidation.search import search
from karpenter.consolidation.types import Rearrangement, Removable, World
from karpenter.model.pods import is_reschedulable
from karpenter.model.snapshot import NodeView
from tests.strategies.clusters import nodepool
from tests.strategies.expressions import expression, node_term, pod_term, requirement, spread
from tests.strategies.machines import ZONES
from tests.strategies.pods import daemon, daemon_on, pod
from tests.strategies.problems import Problem
from tests.unit.consolidation.world import C5_LARGE, M5_XLARGE, W1_TYPES, holding, replica

A, B, C = ZONES


def world(*nodes: NodeView, keep: tuple[str, ...] = (), price: float = 0.2, **more: Any) -> World:
    problem: Mapping[str, Any] = {"nodepools": (nodepool(),), "types": W1_TYPES, **more.pop("problem", {})}
    snapshot = Problem(nodes=nodes, **problem).snapshot()
    removable = {
        each.name: Removable(
            each.name,
            each.pool,
            price,
            0.001 * sum(map(is_reschedulable, each.pods)),
            minimum_saving=0.02,
        )
        for each in nodes
        if each.name not in keep
    }
    return World(snapshot, removable, frozenset(each.name for each in nodes), **{"tries": 20, **more})


def targets(found: Rearrangement) -> dict[str, str]:
    return {move.pod.partition("/")[2]: move.target or f"new {move.launch}" for move in found.moves}


def test_pods_move_to_a_node_with_room_and_theirs_goes() -> None:
    found = search(world(holding("full", 2), holding("empty", 1), keep=("full",), problem={"types": ()}))

    assert found.remove == ("empty",)
    assert found.steps == (1,)
    assert targets(found) == {"inflate-empty-0": "full"}
    assert found.launch == ()
    assert found.saving_per_hour == pytest.approx(0.2)
    assert found.tries > 0


def test_several_nodes_become_a_cheaper_one_with_all_that_hold_their_pods_to_choose_from() -> None:
    found = search(
        world(*(holding(f"node-{i}", 1, M5_XLARGE) for i in range(3)), problem={"daemons": (daemon(),)})
    )

    assert sorted(found.remove) == ["node-0", "node-1", "node-2"]
    (launch,) = found.launch
    assert launch.instance_type == "c5.large"
    assert {each.instance_type for each in launch.alternatives} == {"c5.large", "m5.large", "r5.large"}
    assert {move.launch for move in found.moves} == {0}
    assert len(launch.pods) == 3
    assert launch.daemon_overhead["cpu"] == 100
    assert found.saving_per_hour == pytest.approx(0.6 - 0.085)


def test_pods_of_daemon_sets_go_with_their_node() -> None:
    agent = daemon()
    leaving = _with(holding("leaving", 1), daemon_on(agent, "leaving"))

    found = search(
        world(holding("other", 0), leaving, keep=("other",), problem={"types": (), "daemons": (agent,)})
    )

    assert targets(found) == {"inflate-leaving-0": "other"}


def test_without_nodes_nothing_is_found() -> None:
    assert search(world()) == Rearrangement()


def test_a_pod_that_spreads_over_zones_stays_in_its_zone() -> None:
    even: dict[str, Any] = {"topology_spread": (spread({"app": "inflate"}),)}
    nodes = (holding("a", 0, zone=A), holding("b", 0, zone=B))
    leaving = _with(holding("leaving", 0, M5_XLARGE, zone=B), replica("r", "leaving", **even))

    found = search(world(*nodes, leaving, keep=("a", "b"), problem={"types": ()}))

    assert targets(found) == {"r": "b"}


def test_a_node_is_bought_in_the_zone_of_the_pods_that_stay_there() -> None:
    even: dict[str, Any] = {"topology_spread": (spread({"app": "inflate"}),)}
    leaving = _with(holding("leaving", 0, M5_XLARGE, zone=C), replica("r", "leaving", **even))

    (launch,) = search(world(leaving)).launch

    assert {each.zone for each in launch.alternatives} == {C}


@pytest.mark.parametrize(
    "rules",
    [
        {"affinity": (pod_term({"app": "friend"}, HOSTNAME),)},
        {"affinity": (pod_term({"app": "friend"}),)},
        {"ports": (ContainerPort(host_port=80),)},
    ],
    ids=["follows a pod onto a host", "its friend is not in its zone", "takes a host port"],
)
def test_a_node_stays_with_a_pod_that_the_search_does_not_weigh(rules: Mapping[str, Any]) -> None:
    leaving = _with(holding("leaving", 0), replica("r", "leaving", **rules))

    assert search(world(holding("other", 1), leaving, keep=("other",))).remove == ()


def test_a_node_stays_where_a_pod_stands_too_close_to_others_already() -> None:
    apart: dict[str, Any] = {"anti_affinity": (pod_term({"app": "inflate"}),)}
    crowded = _with(holding("crowded", 0), replica("r", "crowded", **apart), replica("s", "crowded"))

    assert search(world(holding("other", 0), crowded, keep=("other",))).remove == ()


def test_a_pod_alone_in_its_zone_may_move_within_it() -> None:
    apart: dict[str, Any] = {"anti_affinity": (pod_term({"app": "inflate"}),)}
    leaving = _with(holding("leaving", 0), replica("r", "leaving", **apart))

    found = search(world(holding("other", 0), leaving, keep=("other",), problem={"types": ()}))

    assert targets(found) == {"r": "other"}


def test_a_pod_that_keeps_apart_by_host_finds_a_host_without_its_kind() -> None:
    apart: dict[str, Any] = {"anti_affinity": (pod_term({"app": "inflate"}, HOSTNAME),)}
    nodes = (
        _with(holding("taken", 0), replica("q", "taken", **apart)),
        holding("free", 0),
        _with(holding("leaving", 0), replica("r", "leaving", **apart)),
    )

    found = search(world(*nodes, keep=("taken", "free"), problem={"types": ()}))

    assert targets(found) == {"r": "free"}


def test_waiting_pods_and_ghosts_hold_room_and_unreadable_ones_do_not_matter() -> None:
    nodes = (holding("roomy", 0), holding("leaving", 2))
    ghosts = tuple(pod(f"ghost-{i}", cpu=None, memory="3Gi") for i in range(2))
    strange = pod("strange", requests={"cpu": "lots"})

    free = search(world(*nodes, keep=("roomy",), waiting=(strange,), problem={"types": ()}))
    held = search(world(*nodes, keep=("roomy",), ghosts=ghosts, problem={"types": ()}))
    waiting = search(world(*nodes, keep=("roomy",), waiting=ghosts, problem={"types": ()}))

    assert free.remove == ("leaving",)
    assert held.remove == waiting.remove == ()


def test_a_claim_names_only_combinations_that_all_hold_the_pods() -> None:
    either = (
        node_term(expression(ZONE, "In", A), expression(INSTANCE_TYPE, "In", "m5.large")),
        node_term(expression(ZONE, "In", B), expression(INSTANCE_TYPE, "In", "c5.large")),
    )
    leaving = _with(holding("leaving", 0, M5_XLARGE), replica("r", "leaving", node_affinity=either))

    (launch,) = search(world(leaving)).launch

    assert {(each.zone, each.instance_type) for each in launch.alternatives} == {(B, "c5.large")}


def test_the_first_pool_that_can_hold_a_pod_is_the_one_that_buys() -> None:
    pools = (
        nodepool("light", weight=1),
        nodepool("heavy", weight=9, requirements=(requirement("team", "In", "a"),)),
    )
    leaving = holding("leaving", 1, M5_XLARGE)

    (launch,) = search(world(leaving, problem={"nodepools": pools})).launch

    assert launch.pool == "heavy"


def test_limits_of_a_pool_keep_it_from_buying() -> None:
    pools = (nodepool(limits={"cpu": "4", "nodes": "9"}),)

    assert search(world(holding("leaving", 1, M5_XLARGE), problem={"nodepools": pools})).launch == ()


def test_devices_by_claim_keep_a_node() -> None:
    made = replica("r", "leaving")
    spec = msgspec.structs.replace(made.spec, resource_claims=(PodResourceClaim(name="gpu"),))
    leaving = _with(holding("leaving", 0), msgspec.structs.replace(made, spec=spec))

    assert search(world(holding("other", 0, C5_LARGE), leaving, keep=("other",))).remove == ()


def _with(node: NodeView, *pods: Any) -> NodeView:
    return replace(node, pods=(*node.pods, *pods))
