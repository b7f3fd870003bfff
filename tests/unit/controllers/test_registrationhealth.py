# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.controllers.registrationhealth import (
    NEVER_USED,
    NOT_INITIALIZED,
    Failure,
    HealthSettings,
    LaunchBreaker,
    RegistrationHealth,
    failure_of,
)
from karpenter.kit.clock import FakeClock
from karpenter.kube import ConflictError, NotFoundError, Recorder
from karpenter.kube.kinds import NODE_CLAIMS, PODS
from karpenter.observe import DecisionKind, DecisionLog, Metrics
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, pod, stored_class, stored_pool

BORN = "2026-01-01T00:00:00Z"
LAUNCHED = {"type": "Launched", "status": "True", "reason": "Launched"}
REGISTERED = {"type": "Registered", "status": "True", "reason": "Registered"}
INITIALIZED = {"type": "Initialized", "status": "True", "reason": "Initialized"}
REFUSED = {
    "type": "Launched",
    "status": "Unknown",
    "reason": "UnauthorizedOperation",
    "message": "not allowed",
}


def ended(after: str, *conditions: dict[str, str], name: str = "c") -> Any:
    """A claim that is being deleted so long after new year."""
    return claim(
        name,
        provider_id=f"p-{name}",
        metadata={"creationTimestamp": BORN, "deletionTimestamp": f"2026-01-01T00:{after}Z"},
        conditions=list(conditions),
    )


class Scene:
    """A pool, and who watches how its claims end."""

    def __init__(self, *, healthy: str = "") -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.recorder = Recorder(self.client, clock=self.clock)
        self.decisions = DecisionLog(self.clock)
        self.metrics = Metrics()
        self.breaker = LaunchBreaker(self.clock)
        self.client.store(STORED_NODE_CLASSES, stored_class())
        self.client.store(STORED_NODE_POOLS, stored_pool())
        if healthy:
            condition = {
                "type": "NodeRegistrationHealthy",
                "status": healthy,
                "reason": "RegistrationFailed",
                "message": "as before",
                "observedGeneration": 3,
            }
            raw = self.client.raw_object(STORED_NODE_POOLS, "default")
            assert raw is not None
            status = {"conditions": [condition], "nodeClassObservedGeneration": 0}
            self.client.store(STORED_NODE_POOLS, {**raw, "status": status})
        self.health = RegistrationHealth(
            client=self.client,
            cluster=self.cluster,
            recorder=self.recorder,
            decisions=self.decisions,
            metrics=self.metrics,
            clock=self.clock,
            breaker=self.breaker,
            settings=HealthSettings(),
        )
        self._made = 0

    def succeed(self) -> None:
        """Let a claim's node register."""
        self._made += 1
        name = f"good-{self._made}"
        self.client.store(NODE_CLAIMS, claim(name, metadata={"creationTimestamp": BORN}))
        self.client.store(NODE_CLAIMS, claim(name, conditions=[LAUNCHED, REGISTERED]))

    def fail(self, *conditions: dict[str, str], after: str = "16:00") -> None:
        """Let a claim go without a node."""
        self._made += 1
        name = f"bad-{self._made}"
        self.client.store(NODE_CLAIMS, claim(name, metadata={"creationTimestamp": BORN}))
        self.client.store(NODE_CLAIMS, ended(after, *conditions, name=name))

    async def condition(self) -> tuple[str, str, str]:
        """What the pool says once the results are written."""
        await self.health.reconcile("default")
        raw = self.client.raw_object(STORED_NODE_POOLS, "default")
        assert raw is not None
        found: dict[str, str] = next(
            (each for each in raw["status"]["conditions"] if each["type"] == "NodeRegistrationHealthy"), {}
        )
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")


@pytest.mark.parametrize(
    ("item", "cause"),
    [
        (ended("05:00"), "LaunchFailed"),
        (ended("04:58"), "LaunchFailed"),
        (ended("04:50"), ""),
        (ended("00:10", {**REFUSED, "status": "False"}), "UnauthorizedOperation"),
        (ended("05:00", REFUSED), "UnauthorizedOperation"),
        (ended("15:00", LAUNCHED), "RegistrationFailed"),
        (ended("14:00", LAUNCHED), ""),
        (ended("01:00", LAUNCHED, {**REGISTERED, "status": "False", "reason": "Died"}), "Died"),
        (claim("c", conditions=[LAUNCHED]), ""),
    ],
)
def test_a_claim_failed_if_it_ran_out_of_time_or_says_so_itself(item: Any, cause: str) -> None:
    failure = failure_of(item, HealthSettings())

    assert (failure.cause if failure is not None else "") == cause


async def test_a_pool_begins_unknown_and_is_healthy_after_a_success() -> None:
    scene = Scene()
    assert (await scene.condition())[0] == "Unknown"

    scene.succeed()

    assert (await scene.condition())[0] == "True"


async def test_two_failures_of_four_make_it_unhealthy_and_successes_mend_it() -> None:
    scene = Scene()
    scene.succeed()
    scene.fail(LAUNCHED)
    assert (await scene.condition())[0] == "True"
    scene.fail(REFUSED)
    assert await scene.condition() == ("False", "UnauthorizedOperation", "not allowed")

    scene.succeed()
    assert (await scene.condition())[0] == "False"
    scene.succeed()
    scene.succeed()

    assert (await scene.condition())[0] == "True"


async def test_a_claim_counts_once_and_one_that_was_taken_away_does_not() -> None:
    scene = Scene()
    scene.fail(LAUNCHED, after="00:30")
    scene.fail(LAUNCHED)
    scene.client.store(NODE_CLAIMS, ended("16:00", LAUNCHED, name="bad-2"))
    await scene.client.delete(NODE_CLAIMS, "bad-2")

    assert (await scene.condition())[0] == "Unknown"


@pytest.mark.parametrize("what", ["pool", "class"])
async def test_a_change_of_the_pool_or_its_class_begins_anew(what: str) -> None:
    scene = Scene()
    for _ in range(3):
        scene.fail(LAUNCHED)
    assert (await scene.condition())[0] == "False"
    assert scene.breaker.is_backing_off("default")

    if what == "pool":
        await scene.client.patch(STORED_NODE_POOLS, "default", {"spec": {"weight": 3}})
    else:
        await scene.client.patch(STORED_NODE_CLASSES, "default", {"spec": {"role": "other"}})

    assert (await scene.condition())[0] == "Unknown"
    assert not scene.breaker.is_backing_off("default")
    raw = scene.client.raw_object(STORED_NODE_POOLS, "default")
    assert raw is not None
    assert raw["status"]["nodeClassObservedGeneration"] == (0 if what == "pool" else 1)


@pytest.mark.parametrize(("before", "after"), [("False", "False"), ("True", "True"), ("Unknown", "Unknown")])
async def test_after_a_start_the_condition_remembers(before: str, after: str) -> None:
    scene = Scene(healthy=before)

    scene.fail(LAUNCHED)

    assert (await scene.condition())[0] == after


async def test_what_is_there_at_a_start_is_no_news() -> None:
    scene = Scene()
    scene.client.store(NODE_CLAIMS, claim("old", conditions=[LAUNCHED, REGISTERED]))
    scene.client.store(NODE_CLAIMS, ended("16:00", LAUNCHED, name="going"))

    assert (await scene.condition())[0] == "Unknown"


@pytest.mark.parametrize("told_first", [True, False])
async def test_an_instance_that_dies_before_it_joins_is_a_failure(*, told_first: bool) -> None:
    scene = Scene()
    for number in range(3):
        name = f"dead-{number}"
        scene.client.store(NODE_CLAIMS, claim(name, metadata={"creationTimestamp": BORN}))
        if not told_first:
            scene.client.store(NODE_CLAIMS, ended("01:00", LAUNCHED, name=name))
        scene.decisions.record(
            DecisionKind.COLLECT, f"NodeClaim/{name}", reason="InstanceGone", message=f"{name} is gone"
        )
        if told_first:
            scene.client.store(NODE_CLAIMS, ended("01:00", LAUNCHED, name=name))

    assert await scene.condition() == ("False", "RegistrationFailed", "dead-2 is gone")
    assert scene.breaker.cause("default") == "InstanceGone"
    words = [each.message for each in scene.recorder._queue if each.reason == "LaunchesPaused"]
    assert len(words) == 1
    assert "InstanceGone" in words[0]


async def test_other_decisions_and_unknown_claims_say_nothing() -> None:
    scene = Scene()
    scene.succeed()

    scene.decisions.record(DecisionKind.COLLECT, "aws:///i-1", reason="NoClaim", message="x")
    scene.decisions.record(DecisionKind.COLLECT, "NodeClaim/nobody", reason="InstanceGone", message="x")
    scene.decisions.record(DecisionKind.COLLECT, "NodeClaim/good-1", reason="InstanceGone", message="x")

    assert (await scene.condition())[0] == "True"
    assert len(scene.decisions._listeners) == 1


async def test_ended_claims_are_remembered_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karpenter.controllers.registrationhealth._REMEMBERED", 2)
    scene = Scene()

    for _ in range(5):
        scene.fail(LAUNCHED, after="00:30")

    assert list(scene.health._unexplained) == ["bad-4", "bad-5"]


async def test_three_failures_in_a_row_pause_a_pool_for_longer_each_time() -> None:
    clock = FakeClock()
    breaker = LaunchBreaker(clock)
    assert [breaker.failed("a", "x") for _ in range(2)] == [0.0, 0.0]
    assert not breaker.is_backing_off("a")

    first = breaker.failed("a", "x")
    assert 270 <= first <= 300
    assert breaker.remaining_s("a") == first
    assert breaker.cause("a") == "x"
    assert breaker.failed("a", "x") == 0.0
    assert not breaker.is_backing_off("b")
    clock.tick(first)
    assert breaker.cause("a") == ""

    assert breaker.failed("a", "x") > 500


def test_failures_for_different_causes_add_up_and_the_last_is_named_with_when_it_goes_on() -> None:
    breaker = LaunchBreaker(FakeClock())
    heard: list[str] = []
    breaker.on_change(heard.append)

    assert [bool(breaker.failed("a", cause, "broken")) for cause in ("x", "y", "z")] == [False, False, True]

    assert breaker.message("a").startswith("nodes fail in a row (z): broken; none is made until ")
    assert breaker.message("b") == ""
    breaker.reset("a")
    breaker.reset("b")
    assert heard == ["a", "a"]


def test_success_takes_back_the_failures_of_the_stages_that_it_passed() -> None:
    breaker = LaunchBreaker(FakeClock())
    breaker.failed("a", "x")
    breaker.failed("a", NOT_INITIALIZED)
    breaker.registered("a")
    breaker.failed("a", NOT_INITIALIZED)
    assert not breaker.is_backing_off("a")
    breaker.failed("a", NOT_INITIALIZED)
    assert breaker.cause("a") == NOT_INITIALIZED
    breaker.registered("a")
    assert breaker.is_backing_off("a")
    breaker.initialized("a")
    assert not breaker.is_backing_off("a")


def test_success_ends_a_row() -> None:
    breaker = LaunchBreaker(FakeClock())
    for _ in range(2):
        breaker.failed("a", "x")

    breaker.registered("a")
    breaker.failed("a", "x")
    assert not breaker.is_backing_off("a")
    breaker.failed("a", NEVER_USED)
    breaker.failed("a", NEVER_USED)
    breaker.registered("a")
    breaker.failed("a", NEVER_USED)
    assert breaker.is_backing_off("a")

    breaker.used("a")
    assert not breaker.is_backing_off("a")


STEPS = ["x", "y", NOT_INITIALIZED, NEVER_USED, "registered", "initialized", "used", "wait"]


@given(st.lists(st.sampled_from(STEPS), max_size=60))
def test_a_pause_always_ends_and_is_never_longer_than_half_an_hour(steps: list[str]) -> None:
    clock = FakeClock()
    breaker = LaunchBreaker(clock)

    for step in steps:
        if step == "wait":
            clock.tick(1800)
            assert not breaker.is_backing_off("a")
        elif step == "registered":
            breaker.registered("a")
            assert breaker.cause("a") in ("", NOT_INITIALIZED, NEVER_USED)
        elif step == "initialized":
            breaker.initialized("a")
            assert breaker.cause("a") in ("", NEVER_USED)
        elif step == "used":
            breaker.used("a")
            assert not breaker.is_backing_off("a")
        else:
            breaker.failed("a", step)
        assert 0 <= breaker.remaining_s("a") <= 1800


async def ready_node(scene: Scene, number: int) -> None:
    """A node becomes ready, with one pod promised to it."""
    name = f"c{number}"
    scene.client.store(PODS, pod(f"pod-{number}"))
    scene.cluster.nominations.promise([f"uid-pod-{number}"], name, 900)
    scene.client.store(NODE_CLAIMS, claim(name, provider_id=f"p{number}"))
    conditions = [LAUNCHED, REGISTERED, INITIALIZED]
    scene.client.store(
        NODE_CLAIMS, claim(name, provider_id=f"p{number}", nodeName=f"n{number}", conditions=conditions)
    )


async def test_nodes_that_none_of_their_pods_comes_to_pause_the_pool() -> None:
    scene = Scene()
    task = asyncio.ensure_future(scene.health.run())
    for number in range(3):
        await ready_node(scene, number)
    await scene.clock.advance(119)
    assert not scene.breaker.is_backing_off("default")

    await scene.clock.advance(2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert scene.breaker.cause("default") == NEVER_USED
    assert (await scene.condition())[0] == "True"


async def test_a_node_that_is_used_or_whose_pods_are_gone_is_fine() -> None:
    scene = Scene()
    task = asyncio.ensure_future(scene.health.run())
    for number in range(6):
        await ready_node(scene, number)
    for number in range(2):
        scene.client.store(PODS, pod(f"pod-{number}", f"n{number}"))
        await scene.client.delete(PODS, f"pod-{number + 2}", "shop")
    scene.client.store(PODS, pod("other", "n5"))
    await scene.client.delete(NODE_CLAIMS, "c4")

    await scene.clock.advance(130)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert scene.breaker._failures == {"default": [NEVER_USED]}


async def test_a_node_that_stands_empty_counts_as_soon_as_another_is_ordered_for_its_pods() -> None:
    scene = Scene()
    for number in range(3):
        await ready_node(scene, number)
    scene.client.store(PODS, pod("other", "n1"))

    scene.health.ordering(["uid-pod-0", "uid-pod-1", "uid-nobody"])
    scene.health.ordering(["uid-pod-0"])

    assert scene.breaker._failures == {"default": [NEVER_USED]}


async def test_a_failure_that_is_told_before_the_deletion_is_seen_counts_once() -> None:
    scene = Scene()
    made = ended("01:00", LAUNCHED, {**REGISTERED, "status": "False", "reason": "Died"}, name="x")
    scene.client.store(NODE_CLAIMS, claim("x", metadata={"creationTimestamp": BORN}))

    scene.health.failed(made, Failure("Died", "RegistrationFailed", "dead"))
    scene.health.failed(made, Failure("Died", "RegistrationFailed", "dead"))
    scene.client.store(NODE_CLAIMS, made)

    assert scene.breaker._failures == {"default": ["Died"]}


async def test_a_node_that_was_never_ready_counts_though_it_registered() -> None:
    scene = Scene()
    scene.succeed()
    made = scene.cluster.informers.claims.get("good-1")
    assert made is not None

    for _ in range(3):
        scene.health.failed(made, Failure(NOT_INITIALIZED, NOT_INITIALIZED, "cni is missing"))

    assert scene.breaker.cause("default") == NOT_INITIALIZED
    assert "cni is missing" in scene.recorder._queue[-1].message
    assert (await scene.condition())[0] == "True"


async def test_a_pool_that_goes_is_forgotten() -> None:
    scene = Scene()
    for _ in range(3):
        scene.fail(LAUNCHED)
    await scene.condition()

    await scene.client.delete(STORED_NODE_POOLS, "default")
    assert await scene.health.reconcile("default") is None
    scene.fail(LAUNCHED)

    assert not scene.breaker.is_backing_off("default")


async def test_a_pause_of_a_pool_that_is_not_known_yet_is_only_logged() -> None:
    scene = Scene()
    await scene.client.delete(STORED_NODE_POOLS, "default")

    for _ in range(3):
        scene.fail(LAUNCHED)

    assert scene.breaker.is_backing_off("default")
    assert not scene.recorder._queue


async def test_somebody_elses_write_is_not_undone() -> None:
    scene = Scene()
    scene.client.fail("patch", "nodepools", ConflictError("changed", status=409))
    assert await scene.health.reconcile("default") == 1
    scene.client.fail("patch", "nodepools", NotFoundError("gone", status=404))
    assert await scene.health.reconcile("default") is None

    scene.client.fail("patch", "nodepools", ValueError("x"))
    task = asyncio.ensure_future(scene.health.run())
    await scene.clock.settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert scene.metrics.reconcile_errors.labels("nodepool.registrationhealth")._value.get() == 1


async def test_a_pool_without_its_class_is_judged_all_the_same() -> None:
    scene = Scene()
    await scene.client.delete(STORED_NODE_CLASSES, "default")

    assert (await scene.condition())[0] == "Unknown"
