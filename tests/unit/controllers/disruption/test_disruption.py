# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.consolidation import Blocked, Command, Memory, Reason, Stage, Verdict, VerdictKind
from karpenter.consolidation.types import Rearrangement
from karpenter.controllers.tainting import is_tainted
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from karpenter.observe import DecisionKind
from karpenter.state import STORED_NODE_POOLS
from tests.unit.controllers.disruption.world import World


def settled() -> World:
    """A node that cannot be improved on."""
    world = World()
    world.node("n1", "c5.large")
    world.pods(3, "n1")
    return world


async def test_a_quiet_cluster_is_looked_at_once() -> None:
    world = settled()
    asked = []

    def propose(*arguments: Any) -> Blocked:
        asked.append(arguments)
        return Blocked("nothing")

    world.propose = propose
    world.start()

    first = await world.disruption.look()
    second = await world.disruption.look()
    heartbeat = {
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:01Z"}]
        }
    }
    await world.client.edit(NODES, "n1", heartbeat, subresource="status")
    await world.disruption.look()

    assert first == second == 300.0
    assert len(asked) == 1
    world.pods(1, "n1", app="more")
    assert await world.disruption.look() == 1.0
    await world.clock.advance(1)
    await world.disruption.look()
    assert len(asked) == 2
    await world.clock.advance(300)
    await world.disruption.look()
    assert len(asked) == 3


async def test_a_cluster_that_changes_all_the_time_is_looked_at_ever_less_often_but_every_ten_seconds() -> (
    None
):
    world = settled()
    looks = []

    def propose(*_: Any) -> Blocked:
        looks.append(world.clock.monotonic())
        return Blocked("nothing")

    world.propose = propose
    world.start()

    for second in range(60):
        world.pods(1, "n1", app=f"app-{second}")
        await world.disruption.look()
        await world.clock.advance(1)
    await world.clock.advance(30)
    world.pods(1, "n1", app="later")
    await world.disruption.look()
    await world.clock.advance(1)
    world.pods(1, "n1", app="at-once")
    await world.disruption.look()

    gaps = [round(later - sooner) for sooner, later in pairwise(looks)]
    assert gaps[:4] == [1, 2, 4, 8]
    assert set(gaps[4:-2]) == {10}
    assert gaps[-1] == 1


async def test_it_looks_again_when_the_answer_may_be_another_without_a_change() -> None:
    world = settled()
    now = world.clock.now().timestamp()
    world.propose = lambda *_: Blocked("later", retry_at=now + 42)
    world.start()

    assert await world.disruption.look() == 42.0
    assert await world.disruption.look() == 42.0


async def test_it_runs_by_itself_from_change_to_change() -> None:
    world = World()
    world.node("n1")
    task = asyncio.ensure_future(world.disruption.run())

    for _ in range(400):
        await world.clock.advance(1.0)
        await asyncio.sleep(0.002)
        if any(each.metadata.deletion_timestamp for each in world.claims):
            world.live()
        if not world.claims and not world.disruption.execution.running:
            break
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert world.nodes == []
    assert world.store.text != ""


async def test_a_command_is_not_begun_when_its_nodes_changed_while_it_was_thought_of() -> None:
    world = World()
    world.node("n1")
    real = world.propose

    def propose(*arguments: Any) -> Any:
        answer = real(*arguments)
        world.pods(1, "n1")
        return answer

    world.propose = propose
    world.start()

    again_s = await world.disruption.look()

    assert again_s == 1.0
    assert world.disruption.execution.running == {}
    assert world.tainted == []


async def test_a_command_about_a_node_that_is_gone_is_not_begun() -> None:
    world = settled()
    world.propose = lambda *_: Command(
        "id", Reason.EMPTY, (Stage(("gone",)),), 0.1, 0.0, 0, 0.0, "delete gone"
    )
    world.start()

    assert await world.disruption.look() == 1.0
    assert world.disruption.execution.running == {}


async def test_several_commands_go_side_by_side() -> None:
    world = World()
    world.node("n1")
    world.node("n2", "m5.xlarge")
    world.pods(1, "n2", app="big", nodeSelector={"kubernetes.io/arch": "amd64"})
    world.budget("big", 1)
    await world.look()

    await world.look()

    assert sorted(world.tainted) == ["n1", "n2"]
    assert len(world.disruption.execution.running) == 2


async def test_why_each_node_stays_is_told_once_as_event_metric_and_decision() -> None:
    world = settled()
    verdicts = {
        "n1": Verdict(
            "n1", VerdictKind.PDB, "pod shop/web-1 may not be evicted", {"pod": "shop/web-1"}, 2.04
        ),
        "gone": Verdict("gone", VerdictKind.SAVING, "it saves too little"),
        "leaving": Verdict("leaving", VerdictKind.LEAVING, "it leaves"),
    }
    world.propose = lambda *_: Blocked("nothing", verdicts)
    world.start()

    await world.disruption.look()
    world.pods(1, "n1", app="more")
    await world.disruption.look()

    blocked = [each for each in world.recorder._queue if each.reason == "DisruptionBlocked"]
    assert [each.subject.kind for each in blocked] == ["Node", "NodeClaim"]
    assert blocked[0].message == "pod shop/web-1 may not be evicted (2.04 $ a day)"
    [kept] = [each for each in world.decisions.since() if each.kind is DecisionKind.KEEP]
    assert kept.details["verdicts"]["n1"]["values"] == {"pod": "shop/web-1"}
    assert world.disruption.teller.verdicts == verdicts
    value = world.metrics.registry.get_sample_value
    assert value("karpenter_nodepools_cost_total", {"nodepool": "default"}) == 0.085
    assert world.metrics.eligible_nodes.labels("underutilized")._value.get() == 1
    why = {"nodepool": "default", "reason": "PodDisruptionBudget"}
    assert value("karpenter_disruption_staying_nodes", why) == 1
    world.propose = lambda *_: Blocked("nothing")
    world.disruption._rules = type(world.disruption._rules)(
        world.propose, world.disruption._rules.second, world.disruption._rules.pool_policy
    )
    world.pods(1, "n1", app="again")
    await world.clock.advance(10)
    await world.disruption.look()
    assert value("karpenter_disruption_staying_nodes", why) is None


async def test_budgets_are_shown_for_every_pool_and_a_pool_that_goes_is_shown_no_more() -> None:
    world = settled()
    world.pool("free", disruption={"budgets": []})
    world.pool("shut", disruption={"budgets": [{"nodes": "0"}]})
    await world.disruption.look()

    def shown(metric: str) -> dict[str, float]:
        [family] = world.metrics.made[f"karpenter_nodepools_{metric}"].collect()
        return {
            each.labels["nodepool"]: each.value
            for each in family.samples
            if each.labels.get("reason", "empty") == "empty"
        }

    assert shown("allowed_disruptions") == {"default": 1, "free": 2**31 - 1, "shut": 0}
    assert shown("nodes_consuming_budgets") == {"default": 0, "free": 0, "shut": 0}
    await world.client.delete(STORED_NODE_POOLS, "free")
    world.pods(1, "n1", app="more")
    await world.clock.advance(60)
    await world.disruption.look()
    assert shown("allowed_disruptions").keys() == shown("cost_total").keys() == {"default", "shut"}


async def test_moves_and_scores_are_counted_by_policy() -> None:
    world = World(disruption={"consolidationPolicy": "Balanced"})
    world.node("n1", "m5.xlarge")
    world.pods(1, "n1")
    await world.until_quiet()
    value = world.metrics.registry.get_sample_value
    of = {"nodepool": "default", "policy": "Balanced"}
    assert value("karpenter_consolidation_moves_total", {**of, "decision": "approved"}) == 1
    assert value("karpenter_consolidation_score_count", {**of, "decision": "approved"}) == 1

    refused = {
        name: Verdict(name, VerdictKind.BALANCED, "it disturbs too much", {"score": "0.25"})
        for name in (world.nodes[0].metadata.name, "gone")
    }
    world.disruption.teller.stay(refused)
    assert value("karpenter_consolidation_moves_total", {**of, "decision": "rejected"}) == 1
    assert value("karpenter_consolidation_score_sum", {**of, "decision": "rejected"}) == 0.25


async def test_a_node_whose_price_is_not_known_is_counted_once() -> None:
    world = settled()
    view = await world.disruption.view()
    unpriced = replace(
        view.snapshot, nodes=tuple(replace(each, price_per_hour=None) for each in view.snapshot.nodes)
    )
    for _ in range(2):
        world.disruption.teller.measure(unpriced, view.situation, {})

    name = "karpenter_nodepools_cost_tracker_errors_total"
    assert world.metrics.registry.get_sample_value(name, {"nodepool": "default"}) == 1


async def test_what_was_moved_and_what_it_saved_is_remembered() -> None:
    world = World()
    world.node("n1", "m5.xlarge")
    world.pods(1, "n1")

    await world.until_quiet()

    memory = world.disruption.remembering.memory
    [promise] = memory.promises
    assert promise.realised_per_hour == pytest.approx(promise.promised_per_hour)
    assert "shop/ReplicaSet/web" in memory.moves
    assert memory.pools["default"].removed_at is not None


async def test_a_command_that_saves_less_than_it_promised_is_regretted() -> None:
    world = World()
    world.node("n1", "m5.xlarge")
    world.pods(1, "n1")
    await world.look()
    [running] = world.disruption.execution.running.values()
    running.price_after -= 1.0
    before = world.disruption.remembering.memory

    for _ in range(12):
        await world.pass_time(4.0)
        await world.step()

    after = world.disruption.remembering.memory
    assert before.pools["default"].regrets == 0
    assert after.pools["default"].regrets == 1


async def test_capacity_that_is_bought_back_is_regretted() -> None:
    world = World()
    world.node("n1", "m5.xlarge")
    world.pods(1, "n1")
    await world.until_quiet()
    assert world.disruption.remembering.memory.pools["default"].regrets == 0

    manifest = {
        "metadata": {"generateName": "default-", "labels": {names.NODEPOOL: "default"}},
        "spec": {"requirements": [], "nodeClassRef": {"name": "default"}},
    }
    await world.client.create(NODE_CLAIMS, manifest)

    assert world.disruption.remembering.memory.pools["default"].regrets == 1


async def test_pods_without_a_place_count_unless_they_are_promised_one() -> None:
    world = settled()
    gated: dict[str, Any] = {"schedulingGates": [{"name": "wait"}]}
    for name, parts in (("waits", {}), ("gated", gated), ("promised", {})):
        world.pods(1, "", app=name, **parts)
    promised = next(pod for pod in world.cluster.unbound() if pod.metadata.labels["app"] == "promised")
    world.cluster.nominations.promise([promised.metadata.uid], "claim-n1", 60.0)

    view = await world.disruption.view()

    assert [pod.metadata.labels["app"] for pod in view.situation.pending] == ["waits"]
    assert view.situation.memory == world.disruption.remembering.memory != Memory()
    [candidate] = view.situation.candidates
    assert candidate.nominated


async def test_failures_of_a_step_are_reported_and_other_commands_go_on() -> None:
    world = World()
    world.disruption._failed("key", ValueError("a bug"), 1.0)

    assert world.metrics.reconcile_errors.labels("disruption")._value.get() == 1


async def test_a_look_that_takes_too_long_is_counted() -> None:
    world = settled()

    def propose(*_: Any) -> Blocked:
        world.clock.tick(61)
        return Blocked("late")

    world.propose = propose
    world.start()
    await world.disruption.look()

    assert world.metrics.consolidation_timeouts.labels("multi")._value.get() == 1


async def test_changes_of_claims_wake_their_commands() -> None:
    world = World()
    world.node("n1")
    await world.look()
    world.disruption._queue._ready.clear()

    await world.client.patch(NODE_CLAIMS, "claim-n1", {"metadata": {"labels": {"a": "b"}}})

    assert len(world.disruption._queue) == 1


async def test_a_pod_evicted_by_us_goes_where_the_plan_has_room_even_when_it_is_made_later() -> None:
    world = World()
    for number in range(1, 4):
        world.node(f"n{number}")
        world.pods(2 + number, f"n{number}", app=f"app{number}")
    await world.look()
    await world.pass_time(15.0)
    await world.step()
    [gone] = [each for each in world.claims if each.metadata.deletion_timestamp is not None]
    victim = world.cluster.pods_on(gone.status.node_name)[0]

    await world.client.delete(PODS, victim.metadata.name, "shop")
    made = world._pod(victim.metadata.labels["app"], "", "1Gi")

    promised = world.cluster.nominations.member_of(made.metadata.uid)
    assert promised.startswith("claim-")
    assert promised != gone.metadata.name


def later(world: World) -> list[str]:
    """The nodes that pods are kept from because they go later."""
    return [each.metadata.name for each in world.nodes if is_tainted(each, names.DISRUPTED_LATER_TAINT)]


def part_of(plan: Rearrangement) -> Command:
    """A command that takes the first node of a plan."""
    stage = Stage(plan.remove[:1])
    return Command("one", Reason.UNDERUTILIZED, (stage,), 0.1, 0.0, 1, 1.0, "", plan=plan)


async def test_nodes_that_a_plan_takes_later_are_shunned_until_it_is_done_or_another_is_made() -> None:
    world = World()
    for name in ("n1", "n2", "n3"):
        world.node(name)
        world.pods(1, name, app=name)
    plans = [
        part_of(Rearrangement(("n1", "n2", "n3"))),
        Blocked("its budget is used up"),
        Command("two", Reason.EMPTY, (Stage(("n4",)),), 0.1, 0.0, 0, 0.0, "delete n4"),
        part_of(Rearrangement(("n1", "n3"))),
        Blocked("all is well"),
    ]
    seen = []
    world.propose = lambda *_: plans.pop(0)
    world.start()

    for _ in range(4):
        await world.disruption.look()
        seen.append(later(world))
        world.pods(1, "n3", app="another")
    world.disruption.execution.abandon()
    await world.disruption.look()

    assert seen == [["n2", "n3"], ["n2", "n3"], ["n2", "n3"], ["n3"]]
    assert later(world) == []
    assert all(not each.taints for each in (await world.disruption.view()).snapshot.nodes)


async def test_a_replacement_waits_for_the_pods_that_it_was_bought_for() -> None:
    world = World()
    world.node("n1", "m5.xlarge")
    world.pods(1, "n1")
    await world.look()
    await world.pass_time(1.0)
    replacement = next(each.metadata.name for each in world.nodes if each.metadata.name != "n1")

    await world.disruption.look()
    waiting = later(world)
    await world.pass_time(15.0)
    await world.step()

    assert waiting == [replacement]
    assert any(each.metadata.deletion_timestamp for each in world.claims)


async def test_stages_that_budgets_no_longer_allow_are_left_out() -> None:
    world = World(disruption={"budgets": [{"nodes": "1"}]})
    for name in ("n1", "n2", "n3"):
        world.node(name)

    def propose(*_: Any) -> Command:
        world.pods(1, "n3")
        stages = (Stage(("n1",)), Stage(("n2",)))
        return Command("id", Reason.EMPTY, stages, 0.2, 0.0, 0, 0.0, "delete n1, n2")

    world.propose = propose
    world.start()

    await world.look()

    assert world.tainted == ["n1"]
