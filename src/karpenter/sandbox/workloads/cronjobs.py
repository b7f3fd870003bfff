# SPDX-License-Identifier: Apache-2.0
"""CronJobs: a Job at each moment of a schedule, and the removal of old ones.

Of the moments that were missed only the last is made up for, if it is not older than startingDeadlineSeconds.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from karpenter.kit.cron import CronError, parse
from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.workloads.jobs import is_over
from karpenter.sandbox.workloads.resources import (
    CRON_JOB,
    JOB,
    Wire,
    condition,
    is_deleted,
    moment,
    owner_reference,
    stamp,
)
from karpenter.sandbox.workloads.world import Controller

__all__ = ["CronJobs"]

_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
# A schedule that has no next moment is looked at again now and then.
_IDLE_S: Final = 3600.0


class CronJobs(Controller):
    """Starts Jobs by the clock."""

    name = "cronjob"
    source = "cronjob-controller"
    resource = CRON_JOB

    def subscribe(self) -> None:
        """Looks at a CronJob when it or one of its Jobs changes, and when its time comes."""
        super().subscribe()
        self.world.store(JOB).subscribe(self._owner_changed)

    async def reconcile(self, wire: Wire) -> float | None:
        """Starts the Job that is due and gives the seconds until the next."""
        if is_deleted(wire):
            return None
        jobs = self.world.store(JOB).owned_by(wire["metadata"]["uid"])
        await self._forget_old(wire, jobs)
        active = [each for each in jobs if not is_over(each)]
        status: Wire = {}
        references = [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": each["metadata"]["name"],
                "namespace": each["metadata"]["namespace"],
                "uid": each["metadata"]["uid"],
            }
            for each in active
        ]
        try:
            schedule = parse(wire["spec"]["schedule"], wire["spec"].get("timeZone") or "UTC")
        except CronError as wrong:
            words = f"unparseable schedule: {wire['spec']['schedule']!r} : {wrong.message}"
            self.event(wire, "UnparseableSchedule", words, warning=True)
            return None
        now = self.world.now()
        due = schedule.previous(now + timedelta(seconds=1))
        if due is not None and self._is_due(wire, due, now) and not wire["spec"].get("suspend"):
            made = await self._start(wire, due, active)
            if made is not None:
                references.append(made)
                status["lastScheduleTime"] = stamp(due)
        await self._tell_status(wire, status | {"active": references}, jobs)
        coming = schedule.next(now)
        return _IDLE_S if coming is None else max((coming - now).total_seconds(), 0.0) + 0.05

    def _is_due(self, wire: Wire, due: datetime, now: datetime) -> bool:
        last = (wire.get("status") or {}).get("lastScheduleTime") or wire["metadata"]["creationTimestamp"]
        if due <= moment(last):
            return False
        deadline_s = wire["spec"].get("startingDeadlineSeconds")
        return deadline_s is None or due + timedelta(seconds=deadline_s) >= now

    async def _start(self, wire: Wire, due: datetime, active: list[Wire]) -> Wire | None:
        policy = wire["spec"].get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and active:
            self.event(
                wire,
                "JobAlreadyActive",
                "Not starting job because prior execution is running and concurrency policy is Forbid",
            )
            return None
        if policy == "Replace":
            for each in active:
                await self.world.delete(JOB, each, propagation="Background")
        template = wire["spec"]["jobTemplate"]
        said = template.get("metadata") or {}
        name = f"{wire['metadata']['name'][:52]}-{int(due.timestamp()) // 60}"
        body = {
            "metadata": {
                "name": name,
                "namespace": wire["metadata"]["namespace"],
                "labels": said.get("labels") or {},
                "annotations": {**(said.get("annotations") or {}), _SCHEDULED: stamp(due)},
                "ownerReferences": [owner_reference(CRON_JOB, wire)],
            },
            "spec": template["spec"],
        }
        try:
            made = await self.world.create(JOB, body)
        except ApiError as refused:
            if refused.reason == "AlreadyExists":
                return None
            self.event(wire, "FailedCreate", f"Error creating job: {refused.message}", warning=True)
            raise
        self.event(wire, "SuccessfulCreate", f"Created job {name}")
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "namespace": made["metadata"]["namespace"],
            "uid": made["metadata"]["uid"],
        }

    async def _tell_status(self, wire: Wire, status: Wire, jobs: list[Wire]) -> None:
        done = [condition(each, "Complete") for each in jobs]
        ends = [each["lastTransitionTime"] for each in done if each and each["status"] == "True"]
        old = wire.get("status") or {}
        latest = max([*ends, old.get("lastSuccessfulTime") or ""])
        if latest:
            status["lastSuccessfulTime"] = latest
        if any(old.get(name, [] if name == "active" else None) != value for name, value in status.items()):
            await self.world.patch(CRON_JOB, wire, {"status": status}, "status")

    async def _forget_old(self, wire: Wire, jobs: list[Wire]) -> None:
        for kind, field, default in (
            ("Complete", "successfulJobsHistoryLimit", 3),
            ("Failed", "failedJobsHistoryLimit", 1),
        ):
            over = [each for each in jobs if (condition(each, kind) or {}).get("status") == "True"]
            over.sort(key=lambda each: str(each["metadata"]["creationTimestamp"]))
            limit = wire["spec"].get(field, default)
            for each in over[: max(len(over) - limit, 0)]:
                if not is_deleted(each):
                    await self.world.delete(JOB, each, propagation="Background")
                    self.event(wire, "SuccessfulDelete", f"Deleted job {each['metadata']['name']}")
