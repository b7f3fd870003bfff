# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.consolidation import Command, Reason, Refusal, Stage
from karpenter.controllers.disruption.execution import ExecutionSettings
from karpenter.controllers.disruption.running import Phase, begun
from karpenter.kube import ConflictError, ForbiddenError, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from karpenter.observe import DecisionKind
from tests.unit.controllers.disruption.world import LONG_AGO, Crash, World


def emptied() -> World:
    """Two nodes, one of them without pods."""
    world = World()
    world.node("n1")
    world.node("n2")
    world.pods(5, "n1")
    return world


def oversized() -> World:
    """One node that is larger than its pod needs."""
    world = World()
    world.node("n1", "m5.xlarge")
    world.pods(1, "n1")
    return world


def spread_out() -> World:
    """Three nodes whose pods have room on two of them."""
    world = World()
    for number in range(1, 4):
        world.node(f"n{number}")
        world.pods(2 + number, f"n{number}", app=f"app{number}")
    return world


def rolled_back(world: World) -> list[str]:
    """Why commands were taken back."""
    return [each.message for each in world.decisions.since() if each.kind is DecisionKind.ROLL_BACK]


def phases(world: World) -> list[Phase]:
    """How far commands have come."""
    return [each.phase for each in world.disruption.execution.running.values()]


async def test_an_empty_node_is_tainted_looked_at_again_and_deleted() -> None:
    world = emptied()

    await world.look()
    assert world.tainted == ["n2"]
    assert world.marked == ["claim-n2"]
    [reason] = [each for each in world.claims[1].status.conditions if each.type == "DisruptionReason"]
    assert reason.reason == "Empty"
    await world.until_quiet()

    assert [each.metadata.name for each in world.nodes] == ["n1"]
    assert world.tainted == []
    assert ("Node", "DisruptionTerminating") in world.told
    assert world.evicted == []


async def test_a_replacement_is_ordered_at_once_but_nothing_is_deleted_before_the_wait_is_over() -> None:
    world = oversized()

    await world.look()
    ordered = len(world.claims)
    await world.pass_time(14.0)
    await world.step()
    before = phases(world)
    await world.pass_time(1.0)
    await world.step()

    assert ordered == 2
    assert before == [Phase.AWAIT]
    assert [each.metadata.name for each in world.claims if each.metadata.deletion_timestamp] == ["claim-n1"]


async def test_nothing_is_deleted_before_the_wait_is_over() -> None:
    world = emptied()
    await world.look()

    await world.pass_time(14.0)
    await world.step()
    assert len(world.nodes) == 2
    await world.pass_time(1.0)
    await world.step()
    await world.pass_time(1.0)

    assert len(world.nodes) == 1


async def test_the_replacement_is_ready_before_its_node_goes() -> None:
    world = oversized()
    world.launches = False

    for _ in range(6):
        await world.look()
        await world.pass_time(5.0)
    assert [each.metadata.name for each in world.nodes] == ["n1"]
    assert len(world.claims) == 2
    assert ("NodeClaim", "DisruptionLaunching") in world.told
    world.launches = True
    await world.until_quiet()

    assert world.kinds == ["c5.large"]
    assert len(world.cluster.pods_on(world.nodes[0].metadata.name)) == 1
    [decision] = [each for each in world.decisions.since() if each.kind is DecisionKind.REPLACE]
    assert decision.saving_per_hour == pytest.approx(0.107)
    [settled] = [each for each in world.decisions.since() if each.kind is DecisionKind.SETTLE]
    assert settled.details["realised_per_hour"] == pytest.approx(0.107)


async def test_pods_of_a_node_that_goes_are_promised_to_where_the_plan_has_room() -> None:
    world = spread_out()

    await world.look()

    [running] = world.disruption.execution.running.values()
    gone = set(running.parts[0].claims)
    for pod in world.cluster.informers.pods:
        promised = world.cluster.nominations.member_of(pod.metadata.uid)
        assert bool(promised) == (pod.spec.node_name in gone)
        assert promised.removeprefix("claim-") not in gone
    assert world.cluster.displaced() == ()


async def test_pods_are_moved_once_and_land_as_planned() -> None:
    world = spread_out()

    await world.until_quiet()

    assert len(world.nodes) == 2
    assert len(world.evicted) == len(set(world.evicted)) == 3
    assert all(pod.spec.node_name for pod in world.cluster.informers.pods)
    assert world.metrics.placements.labels("planned")._value.get() == 3


@pytest.mark.parametrize("make", [emptied, oversized, spread_out])
async def test_whatever_write_is_the_last_the_next_process_comes_to_the_same_end(
    make: Callable[[], World],
) -> None:
    wanted = {emptied: ["m5.large"], oversized: ["c5.large"], spread_out: ["m5.large"] * 2}[make]
    died = 0
    for writes in range(60):
        world = make()
        world.settings = replace(world.settings, execution=ExecutionSettings(validation_wait_s=1.0))
        world.start()
        before = {each.metadata.name for each in world.claims}
        ordered = before
        world.client.writes_left = writes
        try:
            await world.until_quiet()
        except Crash:
            died += 1
            ordered = {each.metadata.name for each in world.claims}
            world.start()
            await world.until_quiet()

        assert world.kinds == wanted, writes
        assert world.tainted == [], writes
        assert world.marked == [], writes
        assert len(world.claims) == len(wanted), writes
        # What was ordered in place of others is used: nothing is ordered twice.
        assert ordered - before <= {each.metadata.name for each in world.claims}, writes
        assert all(pod.spec.node_name for pod in world.cluster.informers.pods), writes
        if world.client.writes_left is not None:
            break
    assert died >= 4


async def test_a_process_goes_on_with_replacements_that_another_has_ordered() -> None:
    world = oversized()
    world.launches = False
    for _ in range(6):
        await world.look()
        await world.pass_time(5.0)
    ordered = [each.metadata.name for each in world.claims]
    world.start()

    await world.look()
    [running] = world.disruption.execution.running.values()
    assert running.phase is Phase.AWAIT
    world.launches = True
    await world.until_quiet()

    assert [each.metadata.name for each in world.claims] == [ordered[1]]
    assert rolled_back(world) == []


async def test_a_process_that_leads_again_forgets_what_it_had_in_mind() -> None:
    world = emptied()
    await world.look()
    execution = world.disruption.execution

    execution.abandon()

    assert execution.running == {}
    assert len(execution.adopt()) == 1
    assert execution.adopt() == ()


async def test_taints_that_nobody_answers_for_are_taken_off_unless_the_cloud_takes_the_node() -> None:
    world = World()
    taint = {"spec": {"taints": [{"key": names.DISRUPTED_TAINT.key, "effect": "NoSchedule"}]}}
    for name in ("n1", "n2", "n3"):
        world.node(name)
        world.pods(5, name, app=name)
        await world.client.edit(NODES, name, taint)
    notice = {"metadata": {"annotations": {names.INTERRUPTED: "{}"}}}
    await world.client.patch(NODE_CLAIMS, "claim-n2", notice)
    world.cluster.mark_leaving(["claim-n3"])

    await world.look()

    assert world.tainted == ["n2", "n3"]


async def test_a_replacement_that_cannot_be_had_takes_the_command_back_and_waits_before_the_next() -> None:
    world = oversized()
    world.launches = False
    for _ in range(5):
        await world.look()
        await world.pass_time(5.0)
    [replacement] = [each for each in world.claims if each.metadata.name != "claim-n1"]
    assert world.tainted == ["n1"]

    await world.client.delete(NODE_CLAIMS, replacement.metadata.name)
    await world.step()

    assert world.tainted == []
    assert world.marked == []
    assert rolled_back(world)[0].endswith(f"replacement {replacement.metadata.name} is gone")
    assert world.cluster.nominations.pods_of(replacement.metadata.name) == ()
    await world.look()
    assert world.disruption.execution.running == {}
    assert world.disruption.teller.verdicts["n1"].kind == "Retry"


async def test_replacements_that_take_too_long_are_dismissed() -> None:
    world = oversized()
    world.settings = replace(
        world.settings, execution=ExecutionSettings(validation_wait_s=1.0, replacement_timeout_s=30.0)
    )
    world.start()
    world.launches = False
    await world.look()
    for _ in range(9):
        await world.pass_time(4.0)
        await world.step()

    assert "not ready after 30 s" in rolled_back(world)[0]
    assert world.tainted == []
    world.live()
    assert [each.metadata.name for each in world.claims] == ["claim-n1"]


async def test_a_replacement_that_others_use_by_now_stays_when_the_command_is_taken_back() -> None:
    world = oversized()
    world.settings = replace(world.settings, execution=ExecutionSettings(validation_wait_s=1.0))
    world.start()
    await world.look()
    await world.clock.advance(2.0)
    await world.step()
    [name] = [each.metadata.name for each in world.claims if each.metadata.name != "claim-n1"]
    world.cluster.nominations.promise(["uid-of-another"], name, 600.0)
    [running] = world.disruption.execution.running.values()
    running.until = 0.0

    await world.step()

    assert len(rolled_back(world)) == 1
    [kept] = [each for each in world.claims if each.metadata.name == name]
    assert kept.metadata.deletion_timestamp is None
    assert names.DISRUPTION_COMMAND not in kept.metadata.annotations


async def test_a_pod_that_came_meanwhile_keeps_an_empty_node() -> None:
    world = emptied()
    await world.look()
    world.pods(1, "n2", app="late")

    await world.pass_time(15.0)
    await world.step()

    assert world.tainted == []
    assert len(world.nodes) == 2
    assert rolled_back(world)[0].startswith("command")
    assert world.metrics.failed_validations.labels("empty")._value.get() == 1


async def test_of_several_empty_nodes_those_that_are_still_empty_go() -> None:
    world = emptied()
    world.node("n3")
    await world.look()
    assert world.tainted == ["n2", "n3"]
    world.pods(1, "n2", app="late")

    await world.pass_time(15.0)
    await world.step()

    assert world.tainted == ["n3"]
    assert world.marked == ["claim-n3"]


async def test_budgets_hold_at_the_taint_and_at_the_delete() -> None:
    world = World(disruption={"budgets": [{"nodes": "1"}]})
    for number in range(4):
        world.node(f"n{number}")
    for _ in range(6):
        await world.look()
        assert len(world.tainted) <= 1
        await world.pass_time(4.0)
    world.pool(disruption={"budgets": [{"nodes": "0"}]})
    await world.look()
    await world.pass_time(20.0)
    await world.step()

    assert world.tainted == []
    assert any("budget" in each for each in rolled_back(world))
    assert ("NodePool", "DisruptionBlocked") in world.told


async def test_a_node_that_is_gone_when_it_is_to_be_marked_takes_the_command_back() -> None:
    world = emptied()
    world.client.fail("patch", "nodes", NotFoundError("gone", status=404))

    await world.look()

    assert "gone or going already" in rolled_back(world)[0]
    assert world.disruption.execution.running == {}


async def test_a_write_that_is_refused_is_tried_again() -> None:
    world = emptied()
    world.client.fail("patch", "nodes", ForbiddenError("no", status=403))

    with pytest.raises(ForbiddenError):
        await world.look()
    await world.until_quiet()

    assert len(world.nodes) == 1


async def test_a_node_that_is_written_to_meanwhile_is_read_again() -> None:
    world = emptied()
    stale = ConflictError("modified", status=409)
    world.client.fail("patch", "nodes", stale)
    world.client.fail("patch", "nodeclaims")

    await world.look()

    assert world.tainted == ["n2"]


async def test_a_replacement_that_cannot_be_ordered_takes_the_command_back() -> None:
    world = oversized()
    world.client.fail("create", "nodeclaims", ForbiddenError("quota", status=403))

    await world.look()

    assert "could not be ordered" in rolled_back(world)[0]
    assert world.tainted == []


async def test_a_stage_that_is_refused_at_the_second_look_takes_itself_and_later_ones_back() -> None:
    world = spread_out()
    await world.look()
    answers: list[Any] = [Refusal("scheduling", "no room any more")]
    world.disruption.execution._second = lambda *_: answers[0]

    await world.pass_time(16.0)
    await world.step()

    assert rolled_back(world)[0].endswith("scheduling: no room any more")
    assert world.tainted == []
    assert world.evicted == []


async def test_pods_that_do_not_fit_the_replacement_yet_are_waited_for_and_then_it_is_taken_back() -> None:
    world = oversized()
    await world.look()
    await world.pass_time(16.0)
    second = world.disruption.execution._second
    world.disruption.execution._second = lambda *_: Refusal("scheduling", "not yet")
    await world.step()
    assert phases(world) == [Phase.CHECK]

    world.disruption.execution._second = second
    await world.pass_time(5.0)
    await world.step()

    assert phases(world) == [Phase.FINISH]
    world = oversized()
    await world.look()
    await world.pass_time(16.0)
    world.disruption.execution._second = lambda *_: Refusal("churn", "protected now")
    await world.step()
    assert rolled_back(world)[0].endswith("churn: protected now")


@pytest.mark.parametrize("failing", [0, 1])
async def test_stages_follow_each_other_and_one_that_fails_is_taken_back_alone(failing: int) -> None:
    world = World()
    for number in range(1, 7):
        world.node(f"n{number}")
        world.pods(3, f"n{number}", app=f"app{number}")
    await world.look()
    [running] = world.disruption.execution.running.values()
    assert len(running.parts) == 3
    refused = set(running.parts[failing].claims)
    others = {*running.parts[1 - failing].claims, *running.parts[2].claims}
    second = world.disruption.execution._second
    seen: list[tuple[str, ...]] = []

    def refuse_one(stage: Any, *rest: Any) -> Any:
        seen.append(stage.remove)
        return Refusal("budget", "enough") if set(stage.remove) == refused else second(stage, *rest)

    world.disruption.execution._second = refuse_one
    await world.pass_time(16.0)
    await world.step()

    assert len(seen) == 3
    left = {each.metadata.name for each in world.nodes if each.metadata.deletion_timestamp is None}
    assert all(world.cluster.is_going(world.cluster.member(name)) for name in others)  # type: ignore[arg-type]
    assert sorted(world.tainted) == sorted(others & left)
    assert len(rolled_back(world)) == 1
    assert running.act.saving_per_hour == pytest.approx(2 * 0.096)
    world.live()
    await world.step()
    assert world.disruption.execution.running == {}
    [settled] = [each for each in world.decisions.since() if each.kind is DecisionKind.SETTLE]
    assert settled.details["realised_per_hour"] == pytest.approx(2 * 0.096)
    assert {("Node", "ConsolidationCandidate"), ("NodeClaim", "ConsolidationRejected")} <= set(world.told)
    assert ("NodePool", "DisruptionSettled") in world.told


@pytest.mark.parametrize("alone", [False, True])
async def test_a_stage_that_a_pod_budget_holds_just_now_may_be_tried_again_at_once(*, alone: bool) -> None:
    world = spread_out()
    if not alone:
        for number in range(4, 7):
            world.node(f"n{number}")
            world.pods(3, f"n{number}", app=f"app{number}")
    await world.look()
    [running] = world.disruption.execution.running.values()
    assert (len(running.parts) == 1) is alone
    held = running.parts[0].claims
    second = world.disruption.execution._second

    def refuse(stage: Any, *rest: Any) -> Any:
        refusal = Refusal("churn", "its budget allows no eviction now", passes=True)
        return refusal if set(stage.remove) == set(held) else second(stage, *rest)

    world.disruption.execution._second = refuse
    await world.pass_time(16.0)
    await world.step()

    assert len(rolled_back(world)) == 1
    assert world.disruption._retry_moments(0.0) == {}
    assert world.disruption.execution.adopt() == ()


async def test_a_command_whose_last_stages_all_fail_ends_with_what_was_done() -> None:
    world = World()
    for number in range(1, 7):
        world.node(f"n{number}")
        world.pods(3, f"n{number}", app=f"app{number}")
    await world.look()
    [running] = world.disruption.execution.running.values()
    first = set(running.parts[0].claims)
    second = world.disruption.execution._second

    def refuse_later(stage: Any, *rest: Any) -> Any:
        return second(stage, *rest) if set(stage.remove) == first else Refusal("budget", "enough")

    world.disruption.execution._second = refuse_later
    await world.pass_time(16.0)
    await world.step()
    world.live()
    await world.step()

    assert world.disruption.execution.running == {}
    assert len(rolled_back(world)) == 2
    assert {each.metadata.name for each in world.nodes} == {f"n{number}" for number in range(1, 7)} - first


def test_stages_that_something_is_bought_for_go_side_by_side() -> None:
    bought: Any = SimpleNamespace(pool="default")
    stages = (
        Stage(("a",), saving_per_hour=1.0),
        Stage(("b",), saving_per_hour=2.0),
        Stage(("c", "d"), launch=(bought,), saving_per_hour=0.5),
        Stage(("e",), launch=(bought,), saving_per_hour=0.25),
    )
    command = Command("id", Reason.UNDERUTILIZED, stages, 10.0, 6.25, 5, 5.0, "words")
    claims = {name: f"claim-{name}" for name in "abcde"}

    running = begun(command, claims, dict.fromkeys("abcde", 2.0), 7.0)

    assert [each.claims for each in running] == [
        ("claim-a", "claim-b"),
        ("claim-c", "claim-d"),
        ("claim-e",),
    ]
    assert [each.first for each in running] == [0, 2, 3]
    assert [each.act.saving_per_hour for each in running] == [3.0, 0.5, 0.25]
    assert [each.price_before for each in running] == [4.0, 4.0, 2.0]
    assert len({each.key for each in running}) == 3
    assert len({name for each in running for part in each.parts for name in part.launch}) == 2


async def test_a_node_that_goes_by_itself_while_a_command_waits_is_not_taken_back_from_anybody() -> None:
    world = emptied()
    world.node("n3")
    await world.look()
    assert world.tainted == ["n2", "n3"]
    await world.client.delete(NODE_CLAIMS, "claim-n2")
    world.live()

    await world.pass_time(15.0)
    await world.step()

    left = {each.metadata.name for each in world.claims if each.metadata.deletion_timestamp is None}
    assert left == {"claim-n1"}


async def test_a_node_that_goes_between_the_order_and_its_record_takes_the_command_back() -> None:
    world = oversized()
    await world.disruption.look()
    settle = world.disruption.execution._hands.settle

    async def gone(claim: str, record: Any) -> bool:
        await settle(claim, record)
        return False

    world.disruption.execution._hands.settle = gone  # type: ignore[method-assign]
    await world.step()

    assert rolled_back(world)[0].endswith("one of its nodes is gone")
    world.live()
    assert [each.metadata.name for each in world.claims] == ["claim-n1"]


async def test_a_command_about_money_that_nobody_can_reckon_says_nothing_of_it() -> None:
    world = oversized()
    await world.look()
    for part in next(iter(world.disruption.execution.running.values())).parts:
        part.prices.clear()

    for _ in range(12):
        await world.pass_time(4.0)
        await world.step()

    assert world.kinds == ["c5.large"]
    assert DecisionKind.SETTLE not in {each.kind for each in world.decisions.since()}
    assert world.disruption.remembering.memory.promises[0].realised_per_hour is None


async def test_nothing_is_disrupted_while_the_copy_of_the_cluster_is_stale() -> None:
    world = emptied()
    pods = world.cluster.informers.pods
    pods.heard_at = world.clock.monotonic()
    world.clock.tick(71)

    waits = [await world.disruption.reconcile(key) for key in ("look", "look")]
    before = list(world.tainted)
    pods.heard_at = world.clock.monotonic()
    await world.until_quiet()

    assert waits == [5.0, 5.0]
    assert before == []
    assert [each.metadata.name for each in world.nodes] == ["n1"]


async def test_a_pod_that_cannot_be_read_keeps_an_empty_node() -> None:
    world = emptied()
    await world.look()
    informers, world.client.informers = world.client.informers, None
    world.client.store(
        PODS, {"metadata": {"name": "odd", "namespace": "shop", "labels": 5}, "spec": {"nodeName": "n2"}}
    )
    world.client.informers = informers

    await world.until_quiet()

    assert "n2" in [each.metadata.name for each in world.nodes]
    assert any("Pod shop/odd cannot be read" in each for each in rolled_back(world))


@pytest.mark.parametrize("reached", ["Launched", "Registered"])
async def test_a_replacement_that_is_not_initialized_keeps_its_node(reached: str) -> None:
    world = oversized()
    world.launches = False
    await world.look()
    await world.pass_time(20.0)
    [name] = [each.metadata.name for each in world.claims if each.metadata.name != "claim-n1"]
    so_far = ["Launched", "Registered"][: ["Launched", "Registered"].index(reached) + 1]
    conditions = [{"type": each, "status": "True", "lastTransitionTime": LONG_AGO} for each in so_far]
    status = {"providerID": "aws:///us-west-2a/i-new", "nodeName": "new", "conditions": conditions}
    raw = world.client.raw_object(NODE_CLAIMS, name)
    assert raw is not None
    world.client.store(NODE_CLAIMS, {**raw, "status": status})

    for _ in range(6):
        await world.step()
        await world.clock.advance(5.0)

    assert phases(world) == [Phase.AWAIT]
    assert all(each.metadata.deletion_timestamp is None for each in world.claims)


async def test_a_pod_that_the_watch_has_not_shown_keeps_an_empty_node() -> None:
    world = emptied()
    await world.look()
    assert world.tainted == ["n2"]
    # The scheduler had bound it before it saw the taint, and the watch is late.
    informers, world.client.informers = world.client.informers, None
    world.pods(1, "n2", app="unseen")
    world.client.informers = informers
    assert world.cluster.pods_on("n2") == ()

    await world.clock.advance(15.0)
    await world.step()

    assert world.tainted == []
    assert all(each.metadata.deletion_timestamp is None for each in world.claims)
