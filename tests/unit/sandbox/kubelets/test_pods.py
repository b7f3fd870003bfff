# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from karpenter.kit.clock import FakeClock
from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.kubelets.admission import Refusal
from karpenter.sandbox.kubelets.objects import PodView
from karpenter.sandbox.kubelets.pace import Pace
from karpenter.sandbox.kubelets.pods import Addresses, Keeper, Run
from karpenter.sandbox.kubelets.settings import Settings
from tests.unit.sandbox.kubelets.builders import Paper, pod

STATUS = "/api/v1/namespaces/default/pods/p/status"
HOST = "10.0.0.1"


class Ward:
    """A keeper of pods in faked time."""

    def __init__(self, speed: float = 1.0, *, job_s: float | None = None) -> None:
        self.api = Paper()
        self.clock = FakeClock()
        settings = Settings(image_pull_s=1, pod_start_s=1, job_s=job_s)
        self.keeper = Keeper(self.api, Pace(self.clock, speed), settings, Addresses())

    def live(self, seen: PodView, refusal: Refusal | None = None) -> tuple[Run, asyncio.Task[None]]:
        run = Run(seen)
        return run, asyncio.create_task(self.keeper.live(run, HOST, _answering(refusal)))

    @property
    def phases(self) -> list[str]:
        return [each["phase"] for each in self.api.statuses()]

    @property
    def last(self) -> dict[str, Any]:
        return self.api.statuses()[-1]


def _answering(refusal: Refusal | None) -> Callable[[Run], Awaitable[Refusal | None]]:
    async def answer(_: Run) -> Refusal | None:
        return refusal

    return answer


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status["conditions"]}


async def test_a_pod_starts_in_its_time_and_is_ready() -> None:
    ward = Ward()
    run, task = ward.live(pod())

    await ward.clock.advance(1.9)
    before = ward.last
    await ward.clock.advance(0.1)
    await task

    assert before["phase"] == "Pending"
    assert before["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert conditions(before)["Ready"] == "False"
    assert ward.last["phase"] == "Running"
    assert ward.last["containerStatuses"][0]["ready"] is True
    assert set(conditions(ward.last).values()) == {"True"}
    assert (ward.last["hostIP"], ward.last["podIP"]) == (HOST, "100.64.0.2")
    assert run.admitted
    assert ward.api.written[0][2]["metadata"] == {"uid": "uid-p"}


async def test_time_runs_as_fast_as_the_model() -> None:
    ward = Ward(speed=10)
    _, task = ward.live(pod())

    await ward.clock.advance(0.2)

    assert task.done()
    assert ward.last["phase"] == "Running"


async def test_init_containers_go_first_and_sidecars_stay() -> None:
    ward = Ward()
    _, task = ward.live(pod(inits=[{"name": "a"}, {"name": "b", "restartPolicy": "Always"}]))

    await ward.clock.advance(2)
    half = ward.last
    await ward.clock.advance(2)
    await task

    assert conditions(half)["Initialized"] == "False"
    assert half["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert half["initContainerStatuses"][1]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert half["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert "running" in ward.last["initContainerStatuses"][1]["state"]
    assert conditions(ward.last)["Initialized"] == "True"


async def test_a_readiness_probe_delays_readiness_alone() -> None:
    ward = Ward()
    _, task = ward.live(pod(readiness_s=5))

    await ward.clock.advance(2)
    running = ward.last
    await ward.clock.advance(5)
    await task

    assert (running["phase"], conditions(running)["Ready"]) == ("Running", "False")
    assert conditions(ward.last)["Ready"] == "True"


@pytest.mark.parametrize("probe", [{"httpGet": {"port": 80}}, {"tcpSocket": {"port": 80}}])
async def test_a_container_that_only_waits_answers_no_probe_of_a_port(probe: dict[str, Any]) -> None:
    ward = Ward()
    waiting = {"image": "registry.k8s.io/pause:3.9", "readinessProbe": probe}
    _, task = ward.live(pod(container=waiting))

    await ward.clock.advance(600)
    await task

    assert (ward.last["phase"], conditions(ward.last)["Ready"]) == ("Running", "False")


@pytest.mark.parametrize(
    ("hook", "grace_s", "takes_s", "code"),
    [
        ({"exec": {"command": ["/bin/sh", "-c", "sleep 20"]}}, 60, 20, 0),
        ({"sleep": {"seconds": 20}}, 60, 20, 0),
        ({"sleep": {"seconds": 300}}, 30, 30, 137),
        ({"exec": {"command": ["/bin/true"]}}, 60, 0, 0),
    ],
)
async def test_hooks_before_the_end_take_their_time_within_the_grace_period(
    hook: dict[str, Any], grace_s: int, takes_s: int, code: int
) -> None:
    ward = Ward(speed=10)
    made = pod(phase="Running", grace_s=grace_s, container={"lifecycle": {"preStop": hook}})
    ending = asyncio.ensure_future(ward.keeper.end(Run(made), HOST))

    await ward.clock.advance(max(takes_s - 1, 0))
    during = list(ward.api.written)
    await ward.clock.advance(2)
    await ending

    assert during == []
    assert ward.last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code


async def test_a_refused_pod_fails_and_takes_no_room() -> None:
    ward = Ward()
    run, task = ward.live(pod(), Refusal("OutOfcpu", "no room"))

    await task

    assert (ward.last["phase"], ward.last["reason"], ward.last["message"]) == (
        "Failed",
        "OutOfcpu",
        "no room",
    )
    assert not run.admitted


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        ("Never", "0", "Succeeded"),
        ("Never", "3", "Failed"),
        ("OnFailure", "0", "Succeeded"),
        ("Never", "x", "Failed"),
    ],
)
async def test_a_pod_completes_when_it_is_told_to(policy: str, code: str, phase: str) -> None:
    ward = Ward()
    annotations = {"complete-after": "5s", "exit-code": code, "start-after": "0s"}
    run, task = ward.live(pod(restart_policy=policy, annotations=annotations))

    await ward.clock.advance(5.9)
    running = ward.last["phase"]
    await ward.clock.advance(0.1)
    await task

    assert running == "Running"
    assert ward.last["phase"] == phase
    assert "terminated" in ward.last["containerStatuses"][0]["state"]
    assert conditions(ward.last)["Ready"] == "False"
    assert not run.admitted


@pytest.mark.parametrize(
    ("owner", "annotations", "phase"),
    [("Job", {}, "Succeeded"), ("ReplicaSet", {}, "Running"), ("Job", {"complete-after": "1h"}, "Running")],
)
async def test_pods_of_jobs_may_end_by_themselves(
    owner: str, annotations: dict[str, str], phase: str
) -> None:
    ward = Ward(job_s=5)
    _, task = ward.live(pod(restart_policy="Never", owner=owner, annotations=annotations))

    await ward.clock.advance(10)

    assert ward.last["phase"] == phase
    task.cancel()


async def test_what_ends_but_should_not_is_started_again_after_growing_pauses() -> None:
    ward = Ward()
    _, task = ward.live(pod(annotations={"complete-after": "1s", "exit-code": "1"}))

    await ward.clock.advance(3)
    ended = ward.last
    await ward.clock.advance(10)
    again = ward.last
    await ward.clock.advance(1 + 19)
    waiting = ward.last
    await ward.clock.advance(1)

    assert ended["phase"] == "Running"
    assert ended["containerStatuses"][0]["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
    assert ended["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    assert again["containerStatuses"][0]["restartCount"] == 1
    assert "waiting" in waiting["containerStatuses"][0]["state"]
    assert ward.last["containerStatuses"][0]["restartCount"] == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_pod_that_ran_before_goes_on_without_a_word() -> None:
    ward = Ward()
    run, task = ward.live(pod(phase="Running"))

    await task

    assert ward.api.written == []
    assert run.admitted


async def test_a_pod_that_is_over_is_left_alone() -> None:
    ward = Ward()
    run, task = ward.live(pod(phase="Succeeded"))

    await task

    assert ward.api.written == []
    assert not run.admitted


@pytest.mark.parametrize(
    ("shutdown", "grace_s", "takes_s", "code"),
    [(None, 30, 0.1, 0), ("5s", 30, 5, 0), ("50s", 30, 30, 137), ("a while", 30, 0.1, 0)],
)
async def test_a_deleted_pod_gets_its_time_but_not_more_than_its_grace(
    shutdown: str | None, grace_s: int, takes_s: float, code: int
) -> None:
    ward = Ward()
    annotations = {"shutdown-after": shutdown} if shutdown else {}
    task = asyncio.create_task(
        ward.keeper.end(Run(pod(phase="Running", grace_s=grace_s, annotations=annotations)), HOST)
    )

    await ward.clock.advance(takes_s - 0.01)
    early = list(ward.api.written)
    await ward.clock.advance(0.01)
    await task

    assert early == []
    assert ward.last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
    verb, path, options = ward.api.written[-1]
    assert (verb, path) == ("DELETE", "/api/v1/namespaces/default/pods/p")
    assert options == {"gracePeriodSeconds": 0, "preconditions": {"uid": "uid-p"}}


async def test_a_job_whose_pod_is_drained_sees_it_fail() -> None:
    ward = Ward()
    task = asyncio.create_task(
        ward.keeper.end(Run(pod(phase="Running", grace_s=30, restart_policy="Never")), HOST)
    )

    await ward.clock.advance(1)
    await task

    assert ward.last["phase"] == "Failed"


async def test_a_pod_that_never_ran_or_is_over_is_removed_at_once() -> None:
    ward = Ward()

    await ward.keeper.end(Run(pod(grace_s=30)), HOST)
    await ward.keeper.end(Run(pod(phase="Succeeded", grace_s=30)), HOST)

    assert [verb for verb, _, _ in ward.api.written] == ["DELETE", "DELETE"]


async def test_a_pod_that_is_gone_meanwhile_is_no_error_and_other_refusals_are() -> None:
    ward = Ward()
    path = "/api/v1/namespaces/default/pods/p"
    ward.api.refusals = {("PATCH", f"{path}/status"): [404, 403], ("DELETE", path): [409, 403]}

    _, task = ward.live(pod(), Refusal("OutOfcpu", ""))
    await task
    await ward.keeper.end(Run(pod(phase="Failed", grace_s=0)), HOST)

    with pytest.raises(ApiError):
        await ward.keeper.live(Run(pod()), HOST, _answering(Refusal("OutOfcpu", "")))
    with pytest.raises(ApiError):
        await ward.keeper.end(Run(pod(phase="Failed", grace_s=0)), HOST)


async def test_a_pod_on_the_hosts_network_has_its_address() -> None:
    ward = Ward()
    _, task = ward.live(pod(host_network=True))

    await ward.clock.advance(2)
    await task

    assert ward.last["podIP"] == HOST


def test_an_address_is_used_by_one_pod_at_a_time() -> None:
    addresses = Addresses()

    first, wanted, second = addresses.take(), addresses.take("100.64.0.3"), addresses.take()
    addresses.give(first)
    addresses.give("1.2.3.4")

    assert (first, wanted, second) == ("100.64.0.2", "100.64.0.3", "100.64.0.4")
    assert addresses.take(wanted) == first
