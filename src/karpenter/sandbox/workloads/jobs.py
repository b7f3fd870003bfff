# SPDX-License-Identifier: Apache-2.0
"""Jobs: pods until enough have succeeded, or too many have failed; and their removal some time after.

Counted are the pods that are there; what was counted once is not taken back when pods are removed. Indexed Jobs give
each completion a number and retry that number. Pod failure policies are not looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from karpenter.kit.backoff import BackoffPolicy
from karpenter.sandbox.workloads.podstate import is_active, is_ready, template_pod
from karpenter.sandbox.workloads.resources import (
    JOB,
    POD,
    Wire,
    condition,
    is_deleted,
    moment,
    stamp,
    with_condition,
)
from karpenter.sandbox.workloads.world import Controller

__all__ = ["Jobs", "is_over"]

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_RETRY: Final = BackoffPolicy(base_s=10.0, cap_s=600.0, jitter=0.0)


class Jobs(Controller):
    """Runs Jobs."""

    name = "job"
    source = "job-controller"
    resource = JOB

    def subscribe(self) -> None:
        """Looks at a Job when it or one of its pods changes."""
        super().subscribe()
        self.world.store(POD).subscribe(self._owner_changed)

    async def reconcile(self, wire: Wire) -> float | None:
        """Starts and stops pods as needed, and says how it stands."""
        if is_deleted(wire) or wire["spec"].get("managedBy", "kubernetes.io/job-controller") != (
            "kubernetes.io/job-controller"
        ):
            return None
        if is_over(wire):
            return await self._expire(wire)
        pods = self.world.store(POD).owned_by(wire["metadata"]["uid"])
        verdict = self._verdict(wire, pods)
        active = [each for each in pods if is_active(each)]
        if verdict is not None or wire["spec"].get("suspend"):
            for pod in active:
                await self.world.delete(POD, pod)
            active = []
        again_s = None
        if verdict is None and not wire["spec"].get("suspend"):
            again_s = await self._start(wire, pods, active)
        await self._tell_status(wire, verdict)
        return again_s

    def _verdict(self, wire: Wire, pods: Sequence[Wire]) -> tuple[str, str, str] | None:
        """Gives the condition in which a Job ends, with reason and message; None while it goes on."""
        spec = wire["spec"]
        succeeded, failed = _succeeded(wire, pods), _failed(wire, pods)
        if self._remaining_s(wire) is not None and (self._remaining_s(wire) or 0.0) <= 0:
            return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
        limit = spec.get("backoffLimit", 6)
        if failed > limit:
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        completions = spec.get("completions")
        if completions is None:
            # A work queue: done when one has succeeded and none is left.
            if succeeded > 0 and not any(map(is_active, pods)):
                return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        elif succeeded >= completions:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    async def _start(self, wire: Wire, pods: Sequence[Wire], active: Sequence[Wire]) -> float | None:
        spec = wire["spec"]
        parallelism = spec.get("parallelism", 1)
        completions = spec.get("completions")
        succeeded = _succeeded(wire, pods)
        wanted = parallelism if completions is None else min(parallelism, completions - succeeded)
        if completions is None and succeeded:
            wanted = len(active)
        for pod in list(active)[max(wanted, 0) :]:
            await self.world.delete(POD, pod)
        count = max(wanted - len(active), 0)
        wait_s = self._retry_s(wire, pods)
        if count and wait_s > 0:
            return wait_s
        numbers: list[int | None] = [None] * count
        if spec.get("completionMode") == "Indexed":
            used = _numbers([each for each in pods if is_active(each)]) | _numbers(_ended(pods, "Succeeded"))
            free = [each for each in range(completions or 0) if each not in used]
            numbers = [*free[:count]]
        await asyncio.gather(*(self._create(wire, each) for each in numbers))
        return self._remaining_s(wire)

    def _retry_s(self, wire: Wire, pods: Sequence[Wire]) -> float:
        """Gives how long to wait after the last failure."""
        failed = _ended(pods, "Failed")
        if not failed:
            return 0.0
        latest = max(map(_end_of, failed))
        since_s = (self.world.now() - moment(latest)).total_seconds()
        return _RETRY.delay_s(min(_failed(wire, pods), 7)) - since_s

    def _remaining_s(self, wire: Wire) -> float | None:
        limit_s, started = (
            wire["spec"].get("activeDeadlineSeconds"),
            (wire.get("status") or {}).get("startTime"),
        )
        if limit_s is None or started is None or wire["spec"].get("suspend"):
            return None
        return (moment(started) + timedelta(seconds=limit_s) - self.world.now()).total_seconds()

    async def _create(self, wire: Wire, number: int | None) -> None:
        metadata = wire["metadata"]
        labels = {
            "job-name": metadata["name"],
            "controller-uid": metadata["uid"],
            "batch.kubernetes.io/job-name": metadata["name"],
            "batch.kubernetes.io/controller-uid": metadata["uid"],
        }
        annotations = {}
        if number is not None:
            labels[_INDEX] = annotations[_INDEX] = str(number)
        pod = template_pod(wire["spec"]["template"], wire, JOB, labels=labels, annotations=annotations)
        if number is not None:
            pod["metadata"]["generateName"] = f"{metadata['name'][:50]}-{number}-"
            pod["spec"].setdefault("hostname", f"{metadata['name'][:50]}-{number}")
            for container in (*pod["spec"].get("containers", ()), *pod["spec"].get("initContainers", ())):
                said = {"name": "JOB_COMPLETION_INDEX", "value": str(number)}
                container["env"] = [*(container.get("env") or ()), said]
        made = await self.world.create(POD, pod)
        self.event(wire, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    async def _tell_status(self, wire: Wire, verdict: tuple[str, str, str] | None) -> None:
        pods = self.world.store(POD).owned_by(wire["metadata"]["uid"])
        old = wire.get("status") or {}
        active = [each for each in pods if is_active(each)]
        leaving = [each for each in pods if is_deleted(each) and each not in _ended(pods, "")]
        now = self.world.now()
        new: Wire = {
            "active": len(active),
            "ready": sum(map(is_ready, active)),
            "terminating": len(leaving),
            "succeeded": _succeeded(wire, pods),
            "failed": _failed(wire, pods),
            "uncountedTerminatedPods": {},
        }
        suspended = bool(wire["spec"].get("suspend"))
        if not old.get("startTime") and not suspended:
            new["startTime"] = stamp(now)
        conditions = list(old.get("conditions") or ())
        if suspended or condition(wire, "Suspended") is not None:
            word = "JobSuspended" if suspended else "JobResumed"
            said = {
                "type": "Suspended",
                "status": str(suspended),
                "reason": word,
                "message": "Job suspended" if suspended else "Job resumed",
            }
            conditions = with_condition(conditions, said, now)
        if wire["spec"].get("completionMode") == "Indexed":
            new["completedIndexes"] = _ranges(_numbers(_ended(pods, "Succeeded")))
        if verdict is not None:
            conditions = self._ended(wire, verdict, conditions, new, leaving)
        if conditions:
            new["conditions"] = conditions
        if any(
            old.get(name, {} if name == "uncountedTerminatedPods" else 0) != value
            for name, value in new.items()
        ):
            await self.world.patch(JOB, wire, {"status": new}, "status")

    def _ended(
        self,
        wire: Wire,
        verdict: tuple[str, str, str],
        conditions: list[Wire],
        status: Wire,
        leaving: Sequence[Wire],
    ) -> list[Wire]:
        kind, reason, message = verdict
        now = self.world.now()
        said = {"status": "True", "reason": reason, "message": message}
        first = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
        found = with_condition(conditions, {"type": first, **said}, now)
        if leaving or status["active"]:
            return found
        if kind == "Complete":
            status["completionTime"] = stamp(now)
            self.event(wire, "Completed", "Job completed")
        else:
            self.event(wire, reason, message, warning=True)
        return with_condition(found, {"type": kind, **said}, now)

    async def _expire(self, wire: Wire) -> float | None:
        ttl_s = wire["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return None
        over = condition(wire, "Complete") or condition(wire, "Failed") or {}
        left = (
            moment(over["lastTransitionTime"]) + timedelta(seconds=ttl_s) - self.world.now()
        ).total_seconds()
        if left > 0:
            return left
        await self.world.delete(JOB, wire, propagation="Foreground")
        return None


def is_over(wire: Wire) -> bool:
    """Tells whether a Job has ended, well or badly."""
    return any((condition(wire, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed"))


def _ended(pods: Sequence[Wire], phase: str) -> list[Wire]:
    phases = {phase} if phase else {"Succeeded", "Failed"}
    return [each for each in pods if (each.get("status") or {}).get("phase") in phases]


def _succeeded(wire: Wire, pods: Sequence[Wire]) -> int:
    done = _ended(pods, "Succeeded")
    count = len(done)
    if wire["spec"].get("completionMode") == "Indexed":
        count = len(_numbers(done))
    return max(count, int((wire.get("status") or {}).get("succeeded", 0)))


def _failed(wire: Wire, pods: Sequence[Wire]) -> int:
    # A pod that is deleted while it runs has failed as far as a Job is concerned.
    count = len(_ended(pods, "Failed"))
    return max(count, int((wire.get("status") or {}).get("failed", 0)))


def _numbers(pods: Sequence[Wire]) -> set[int]:
    found = ((each["metadata"].get("annotations") or {}).get(_INDEX, "") for each in pods)
    return {int(each) for each in found if each.isdigit()}


def _ranges(numbers: set[int]) -> str:
    """Writes numbers as Jobs do: 0,2-4,7."""
    runs: list[list[int]] = []
    for each in sorted(numbers):
        if runs and each == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], each]
        else:
            runs.append([each])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _end_of(pod: Wire) -> str:
    states = [
        (each.get("state") or {}).get("terminated") or {}
        for each in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    ends = [each["finishedAt"] for each in states if each.get("finishedAt")]
    return max(ends, default=str(pod["metadata"]["creationTimestamp"]))
