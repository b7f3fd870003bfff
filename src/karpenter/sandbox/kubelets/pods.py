# SPDX-License-Identifier: Apache-2.0
"""The life of a pod on a node, from the moment at which the scheduler gave it to the kubelet.

Containers do nothing but take time. How much is set for all pods, and for one by its annotations:

============================================  ===============================================================
``sandbox.karpenter.sh/start-after``          the containers take that long to start
``sandbox.karpenter.sh/ready-after``          ready that long after they started, in place of the probes' delay
``sandbox.karpenter.sh/complete-after``       the containers end that long after they started
``sandbox.karpenter.sh/exit-code``            with this code
``sandbox.karpenter.sh/shutdown-after``       they take that long to end when they are asked to
============================================  ===============================================================

What ends is started again as the restart policy says, with the kubelet's growing pauses. A pod that is deleted gets
its grace period at most; its last status is written, then it is removed for good.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import Any, Final, Protocol

from karpenter.kit.durations import DurationError, parse_duration
from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.kubelets.admission import Load, Refusal, load_of
from karpenter.sandbox.kubelets.objects import PodView
from karpenter.sandbox.kubelets.pace import Pace
from karpenter.sandbox.kubelets.podstatus import Progress, progress_status, refused_status
from karpenter.sandbox.kubelets.settings import Settings

__all__ = ["Addresses", "Keeper", "Run", "Writer"]

PREFIX: Final = "sandbox.karpenter.sh/"
_FIRST_PAUSE_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 300.0
_GONE: Final = frozenset({404, 409})
_KILLED, _ASKED = 137, 143


class Writer(Protocol):
    """What of an API server the life of a pod needs."""

    async def patch(self, path: str, change: Mapping[str, Any]) -> bytes:
        """Patches an object."""
        ...

    async def delete(self, path: str, options: Mapping[str, Any]) -> bytes:
        """Deletes an object."""
        ...


class Addresses:
    """Addresses for pods; one that is given back is used again, the oldest first."""

    def __init__(self, first: str = "100.64.0.2") -> None:
        self._next = int(IPv4Address(first))
        self._free: dict[str, None] = {}
        self._taken: set[str] = set()

    def take(self, wanted: str = "") -> str:
        """Gives a free address, the wanted one if it is."""
        address = wanted if wanted and wanted not in self._taken else ""
        if not address and self._free:
            address = next(iter(self._free))
        while not address or address in self._taken:
            address = str(IPv4Address(self._next))
            self._next += 1
        self._free.pop(address, None)
        self._taken.add(address)
        return address

    def give(self, address: str) -> None:
        """Takes an address back."""
        if address in self._taken:
            self._taken.remove(address)
            self._free[address] = None


@dataclass(slots=True)
class Run:
    """A pod in a kubelet's hands; ``admitted`` pods take room."""

    pod: PodView
    load: Load = field(init=False)
    admitted: bool = False
    ending: bool = False
    address: str = ""
    progress: Progress | None = None

    def __post_init__(self) -> None:
        """Reckons what the pod takes, once."""
        self.load = load_of(self.pod)

    @property
    def is_doubted(self) -> bool:
        """Says whether the pod runs and is ready, but somebody has written that it is not.

        The control plane does so with all pods of a node from which it has not heard for a while.
        """
        if self.progress is None or not self.progress.ready or self.pod.status.phase != "Running":
            return False
        return any(each.type == "Ready" and each.status != "True" for each in self.pod.status.conditions)


class Keeper:
    """Leads pods through their lives."""

    def __init__(self, api: Writer, pace: Pace, settings: Settings, addresses: Addresses) -> None:
        self._api = api
        self._pace = pace
        self._settings = settings
        self._addresses = addresses

    async def live(self, run: Run, host_ip: str, admit: Callable[[Run], Awaitable[Refusal | None]]) -> None:
        """Takes the pod, or refuses it, and leads it to where only time or a wish of others changes it.

        A pod that runs already, because its kubelet was started again, goes on running.
        """
        if run.pod.is_over:
            return
        now = self._pace.clock.now()
        if run.pod.status.phase == "Running":
            run.admitted = True
            run.progress = progress = self._resumed(run, host_ip)
            if run.is_doubted:
                await self._write_progress(run, progress)
        else:
            refusal = await admit(run)
            if refusal is not None:
                await self._write(run, refused_status(refusal, now))
                return
            run.admitted = True
            progress = await self._start(run, Progress(host_ip, run.pod.status.start_time or now))
        usual_s = self._settings.job_s if run.pod.is_of_a_job else None
        complete_s = self._time(run, "complete-after", usual_s)
        pause_s = _FIRST_PAUSE_S
        while complete_s is not None:
            await self._pace.sleep(complete_s)
            progress = self._completed(run, progress)
            # Who sees that the pod is over may fill its place at once, so the place is free before it is said.
            run.admitted = bool(progress.waiting)
            await self._write_progress(run, progress)
            if not progress.waiting:
                return
            await self._pace.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            progress = await self._run(
                run,
                replace(progress, exit_code=None, waiting="", restarts=progress.restarts + 1, ended_at=None),
            )

    async def end(self, run: Run, host_ip: str) -> None:
        """Ends a pod that somebody has deleted: after its grace, or sooner if it is faster."""
        run.ending = True
        pod = run.pod
        if not pod.is_over:
            grace_s = float(pod.metadata.deletion_grace_period_seconds or 0)
            hook_s = min(pod.pre_stop_s, grace_s)
            if hook_s:
                # Hooks are written in seconds of those who watch the cluster, however fast machines boot.
                await self._pace.clock.sleep(hook_s)
            grace_s -= hook_s
            stop_s = self._time(run, "shutdown-after", self._settings.pod_stop_s) or 0.0
            if run.admitted or pod.status.phase == "Running":
                await self._pace.sleep(min(stop_s, grace_s))
                code = (
                    _KILLED
                    if stop_s > grace_s
                    else 0
                    if pod.spec.restart_policy in {"", "Always"}
                    else _ASKED
                )
                progress = replace(
                    self._resumed(run, host_ip), exit_code=code, ready=False, ended_at=self._pace.clock.now()
                )
                await self._write_progress(run, progress)
        await self._remove(pod)

    async def insist(self, run: Run) -> None:
        """Writes the status of a pod anew, because somebody else has changed it."""
        if run.progress is not None:
            await self._write_progress(run, run.progress)

    def release(self, run: Run) -> None:
        """Frees what a pod had that is no more."""
        self._addresses.give(run.address)
        run.admitted = False

    async def close(self) -> None:
        """Let go of what pods hold beside the API; these hold nothing."""

    async def _start(self, run: Run, progress: Progress) -> Progress:
        await self._write_progress(run, progress)
        await self._pace.sleep(self._settings.image_pull_s)
        progress = replace(progress, pod_ip=self._address(run, progress.host_ip))
        for index in range(len(run.pod.spec.init_containers)):
            await self._pace.sleep(self._settings.pod_start_s)
            progress = replace(progress, inits_done=index + 1)
            await self._write_progress(run, progress)
        await self._pace.sleep(self._time(run, "start-after", self._settings.pod_start_s) or 0.0)
        return await self._run(run, progress)

    async def _run(self, run: Run, progress: Progress) -> Progress:
        probes = [each.readiness_probe for each in run.pod.spec.containers if each.readiness_probe]
        by_probe = float(max((each.initial_delay_seconds for each in probes), default=0))
        never = any(each.is_never_ready for each in run.pod.spec.containers)
        ready_s = self._time(run, "ready-after", None if never else by_probe)
        progress = replace(progress, running_since=self._pace.clock.now(), ready=ready_s == 0)
        await self._write_progress(run, progress)
        if ready_s:
            await self._pace.sleep(ready_s)
            progress = replace(progress, ready=True)
            await self._write_progress(run, progress)
        return progress

    def _completed(self, run: Run, progress: Progress) -> Progress:
        text = run.pod.metadata.annotations.get(f"{PREFIX}exit-code", "0")
        code = int(text) if text.isdecimal() else 1
        policy = run.pod.spec.restart_policy or "Always"
        again = policy == "Always" or (policy == "OnFailure" and code)
        return replace(
            progress,
            exit_code=code,
            ready=False,
            ended_at=self._pace.clock.now(),
            waiting="CrashLoopBackOff" if again else "",
        )

    def _resumed(self, run: Run, host_ip: str) -> Progress:
        pod = run.pod
        began = pod.status.start_time or self._pace.clock.now()
        return Progress(
            host_ip,
            began,
            pod_ip=self._address(run, host_ip),
            inits_done=len(pod.spec.init_containers),
            running_since=began,
            ready=True,
            restarts=max((each.restart_count for each in pod.status.container_statuses), default=0),
        )

    def _address(self, run: Run, host_ip: str) -> str:
        if run.pod.spec.host_network:
            return host_ip
        run.address = run.address or self._addresses.take(run.pod.status.pod_ip)
        return run.address

    def _time(self, run: Run, name: str, default: float | None) -> float | None:
        text = run.pod.metadata.annotations.get(PREFIX + name)
        try:
            return default if text is None else max(parse_duration(text).seconds, 0.0)
        except DurationError:
            # A typing mistake in an annotation must not keep the pod from running.
            return default

    async def _remove(self, pod: PodView) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
        try:
            await self._api.delete(_path(pod), options)
        except ApiError as refused:
            if refused.status not in _GONE:
                raise

    async def _write_progress(self, run: Run, progress: Progress) -> None:
        run.progress = progress
        await self._write(run, progress_status(run.pod, progress, self._pace.clock.now()))

    async def _write(self, run: Run, status: Mapping[str, Any]) -> None:
        change = {"metadata": {"uid": run.pod.metadata.uid}, "status": status}
        try:
            await self._api.patch(f"{_path(run.pod)}/status", change)
        except ApiError as refused:
            # Someone was faster; the watch will tell.
            if refused.status not in _GONE:
                raise


def _path(pod: PodView) -> str:
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"
