# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from karpenter.api.labels import POD_DELETION_COST
from karpenter.consolidation import Memory, Reason, VerdictKind
from tests.strategies.clusters import node
from tests.strategies.pods import daemon, daemon_on, pod
from tests.unit.consolidation.world import M5_LARGE, NOW, Setting, budget, holding, pool, replica


def test_all_empty_nodes_go_in_one_stage() -> None:
    world = Setting((holding("a"), holding("b"), holding("c", 5)))

    command = world.command()

    assert command.reason is Reason.EMPTY
    assert [stage.remove for stage in command.stages] == [("a", "b")]
    assert command.weight == 0
    assert command.saving_per_hour == pytest.approx(0.192)
    assert command.words == "delete a, b (Empty), saving $0.1920 per hour, moving 0 pods"
    assert command.verdicts["c"].kind is VerdictKind.WAITS


def test_a_budget_lets_as_many_go_as_it_allows_the_first_by_name() -> None:
    nodes = tuple(holding(f"n{number}") for number in range(10))
    world = Setting(
        nodes, (pool(disruption={"budgets": (budget("20%"),)}),), candidates={"n9": {"leaving": True}}
    )

    command = world.command()

    assert command.remove == ("n0",)
    assert command.verdicts["n1"].kind is VerdictKind.BUDGET
    assert command.verdicts["n1"].values == {"budget": "nodes 20%", "allowed": "2"}
    assert command.verdicts["n9"].kind is VerdictKind.LEAVING


def test_daemon_pods_and_pods_on_their_way_out_do_not_fill_a_node() -> None:
    pods = (
        daemon_on(daemon("d"), "a"),
        replica("p", "a", terminating=True),
        replica("q", "a", phase="Succeeded"),
    )

    assert Setting((node("a", M5_LARGE, pods=pods),)).command().remove == ("a",)


def test_pods_of_no_eviction_cost_do_not_fill_a_node() -> None:
    cheap = replica("p", "a", annotations={POD_DELETION_COST: "-2147483647"})

    assert Setting((node("a", M5_LARGE, pods=(cheap,)),)).command().reason is Reason.EMPTY


@pytest.mark.parametrize("policy", ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"])
def test_empty_nodes_go_whatever_the_policy(policy: str) -> None:
    world = Setting((holding("a"),), (pool(disruption={"consolidation_policy": policy}),))

    assert world.command().remove == ("a",)


@pytest.mark.parametrize(
    ("candidate", "kind"),
    [
        ({"leaving": True}, VerdictKind.LEAVING),
        ({"initialized_at": None}, VerdictKind.NOT_INITIALIZED),
        ({"pool": "gone"}, VerdictKind.NO_POOL),
        ({"do_not_disrupt": True}, VerdictKind.NODE_PROTECTED),
        ({"nominated": True}, VerdictKind.NOMINATED),
        ({"retry_at": NOW + 60}, VerdictKind.RETRY),
    ],
)
def test_some_nodes_are_out_of_the_question(candidate: dict[str, Any], kind: VerdictKind) -> None:
    world = Setting((holding("a"),), candidates={"a": candidate})

    blocked = world.blocked()

    assert blocked.verdicts["a"].kind is kind
    assert blocked.retry_at == candidate.get("retry_at")


def test_a_node_that_is_tried_again_goes() -> None:
    assert Setting((holding("a"),), candidates={"a": {"retry_at": NOW}}).command().remove == ("a",)


def test_a_node_without_a_policy_is_named() -> None:
    world = Setting((holding("a"),), candidates={"a": {"pool": "gone"}})

    assert world.blocked().verdicts["a"].words == 'a stays: its NodePool "gone" is not there'


def test_a_node_stays_until_it_has_been_quiet_for_long_enough() -> None:
    world = Setting(
        (holding("a"),),
        (pool(disruption={"consolidate_after": "60s"}),),
        candidates={"a": {"last_pod_event": NOW - 59}},
    )

    blocked = world.blocked()

    assert blocked.verdicts["a"].kind is VerdictKind.RECENT_CHANGE
    assert blocked.verdicts["a"].values == {"until": "2026-01-01T12:00:01Z"}
    assert blocked.retry_at == NOW + 1
    assert world.but(now=NOW + 1).command().remove == ("a",)


def test_with_never_an_empty_node_stays() -> None:
    world = Setting((holding("a"),), (pool(disruption={"consolidate_after": "Never"}),))

    assert world.blocked().verdicts["a"].kind is VerdictKind.NEVER


def test_a_static_pool_keeps_its_empty_nodes() -> None:
    assert Setting((holding("a"),), (pool(replicas=1),)).blocked().verdicts["a"].kind is VerdictKind.STATIC


def test_an_empty_node_with_a_protected_daemon_pod_stays() -> None:
    held = replica(
        "p", "a", annotations={POD_DELETION_COST: "-2147483647", "karpenter.sh/do-not-disrupt": "true"}
    )

    assert (
        Setting((node("a", M5_LARGE, pods=(held,)),)).blocked().verdicts["a"].kind
        is VerdictKind.POD_PROTECTED
    )


def test_a_buffer_holds_as_few_empty_nodes_as_will_do() -> None:
    buffer = tuple(pod(f"buffer-{number}", cpu=None, memory="3Gi") for number in range(3))
    world = Setting((holding("a"), holding("b"), holding("c"), holding("d", 3)), virtual=buffer)

    command = world.command()

    assert len(command.remove) == 2
    stays = ({"a", "b", "c"} - set(command.remove)).pop()
    assert command.verdicts[stays].kind is VerdictKind.BUFFER
    assert command.verdicts[stays].values["pod"].startswith("default/buffer-")


def test_a_buffer_that_fits_elsewhere_holds_nothing() -> None:
    world = Setting((holding("a"), holding("b", 3)), virtual=(pod("buffer", cpu=None, memory="1Gi"),))

    assert world.command().remove == ("a",)


def test_a_pod_that_waits_holds_the_empty_node_that_it_needs() -> None:
    world = Setting((holding("a"),), pending=(pod("waits", cpu=None, memory="1Gi"),))

    assert world.blocked().verdicts["a"].kind is VerdictKind.BUFFER


def test_a_pod_that_is_promised_to_a_node_is_not_asked_about_twice() -> None:
    promised = pod("waits", cpu=None, memory="1Gi")
    world = Setting(
        (holding("a"), node("b", M5_LARGE, pods=(promised,))),
        pending=(promised,),
        candidates={"b": {"nominated": True}},
    )

    assert world.command().remove == ("a",)


def test_without_nodes_there_is_nothing_to_do() -> None:
    assert Setting().blocked().words == "there is no node of ours"


def test_nodes_that_are_not_ours_are_never_taken() -> None:
    world = Setting((holding("a", pool=""),))

    assert world.blocked().verdicts == {}


def test_an_empty_node_that_a_swinging_workload_will_want_again_stays_for_a_while() -> None:
    memory = Memory()
    for minutes, number in ((40, 12), (30, 2), (20, 12), (10, 5)):
        memory = memory.counted({"default/ReplicaSet/inflate": number}, NOW - minutes * 60)
    world = Setting((holding("a"), holding("b", 5)), memory=memory)

    verdict = world.blocked().verdicts["a"]

    assert verdict.kind is VerdictKind.PEAK
    assert (
        verdict.words
        == "a stays: it is empty, but a workload that swings had more replicas a short while ago"
    )
    assert world.but(now=NOW + 3600).command().remove == ("a",)
