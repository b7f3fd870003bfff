# SPDX-License-Identifier: Apache-2.0
"""The life of a pod one of whose containers is a process of this machine; all others live as ``pods`` says.

The status follows the process: it is Ready while its readiness probe is answered, counts a restart when it has ended
and was started again (at once the first time, then after growing pauses), and is asked to end, with its grace period,
when the pod is deleted. Containers beside it take time and do nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import aiohttp

from karpenter.sandbox.kubelets.admission import Refusal
from karpenter.sandbox.kubelets.environment import port_of
from karpenter.sandbox.kubelets.objects import ContainerView, PodView
from karpenter.sandbox.kubelets.pace import Pace
from karpenter.sandbox.kubelets.pods import Addresses, Keeper, Run, Writer
from karpenter.sandbox.kubelets.podstatus import Progress, refused_status, terminated
from karpenter.sandbox.kubelets.processes import Process, Processes
from karpenter.sandbox.kubelets.settings import Settings

__all__ = ["ProcessKeeper"]

_FIRST_PAUSE_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 300.0
# A container that has run for so long begins anew with short pauses.
_FORGIVEN_S: Final = 600.0
# Until a program is ready it is asked more often than its probe says, so that nothing waits for a whole period.
_FIRST_PROBES_S: Final = 0.1
_PROBE_TIMEOUT_S: Final = 5.0
_END_S: Final = 5.0


class ProcessKeeper(Keeper):
    """Leads pods through their lives, with processes where the table of programs has their image."""

    def __init__(
        self, api: Writer, pace: Pace, settings: Settings, addresses: Addresses, *, processes: Processes
    ) -> None:
        super().__init__(api, pace, settings, addresses)
        self._processes = processes
        self._held: dict[str, Process] = {}
        self._starting: dict[str, asyncio.Task[Process]] = {}
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """End all processes."""
        await asyncio.gather(*(each.stop(_END_S) for each in self._held.values()))
        for each in self._held.values():
            self._processes.forget(each)
        self._held.clear()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def live(self, run: Run, host_ip: str, admit: Callable[[Run], Awaitable[Refusal | None]]) -> None:
        """Take the pod, or refuse it, and keep its process running until the pod is deleted."""
        container = self._processes.container(run.pod)
        if container is None:
            await super().live(run, host_ip, admit)
            return
        if run.pod.is_over:
            return
        now = self._pace.clock.now()
        restarts = max((each.restart_count for each in run.pod.status.container_statuses), default=0)
        if run.pod.status.phase == "Running":
            run.admitted = True
            # Without one it has ended with the program that played the node before.
            restarts += run.pod.metadata.uid not in self._held
        else:
            refusal = await admit(run)
            if refusal is not None:
                await self._write(run, refused_status(refusal, now))
                return
            run.admitted = True
            await self._write_progress(run, Progress(host_ip, run.pod.status.start_time or now))
        progress = Progress(
            host_ip,
            run.pod.status.start_time or now,
            pod_ip=self._address(run, host_ip),
            inits_done=len(run.pod.spec.init_containers),
            restarts=restarts,
        )
        await self._keep(run, container, progress)

    async def end(self, run: Run, host_ip: str) -> None:
        """End a pod that was deleted: its process is asked to, and killed after the grace period."""
        uid = run.pod.metadata.uid
        if uid in self._starting:
            await asyncio.wait([self._starting[uid]])
        process = self._held.get(uid)
        if process is None:
            await super().end(run, host_ip)
            return
        run.ending = True
        code = await process.stop(float(run.pod.metadata.deletion_grace_period_seconds or 0))
        self._forget(run.pod)
        progress = run.progress or Progress(host_ip, self._pace.clock.now())
        await self._write_progress(
            run, replace(progress, exit_code=code, ready=False, waiting="", ended_at=self._pace.clock.now())
        )
        await self._remove(run.pod)

    def release(self, run: Run) -> None:
        """Free what a pod had that is no more; its process ends at once."""
        starting = self._starting.get(run.pod.metadata.uid)
        if starting is not None:
            starting.add_done_callback(lambda _: self._kill(run.pod))
        self._kill(run.pod)
        super().release(run)

    async def _keep(self, run: Run, container: ContainerView, progress: Progress) -> None:
        pause_s = 0.0
        while True:
            process = await self._process(run.pod, container, progress)
            progress = replace(
                progress, running_since=self._pace.clock.now(), exit_code=None, waiting="", ended_at=None
            )
            began = self._pace.clock.monotonic()
            code = await self._watch(run, container, process, progress)
            if self._pace.clock.monotonic() - began > _FORGIVEN_S:
                pause_s = 0.0
            progress = replace(
                progress,
                exit_code=code,
                ready=False,
                waiting="CrashLoopBackOff",
                ended_at=self._pace.clock.now(),
            )
            await self._write_progress(run, progress)
            await self._pace.clock.sleep(pause_s)
            pause_s = min(max(pause_s * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            progress = replace(progress, restarts=progress.restarts + 1, last=terminated(progress))

    async def _process(self, pod: PodView, container: ContainerView, progress: Progress) -> Process:
        """Return the process of a pod, which is started where it has none that runs."""
        uid = pod.metadata.uid
        held = self._held.get(uid)
        if held is not None and held.is_running:
            return held
        if uid not in self._starting:
            start = self._processes.start(pod, container, progress.host_ip, progress.restarts)
            task = self._starting[uid] = asyncio.create_task(start, name=f"start {pod.key}")
            task.add_done_callback(lambda done: self._hold(uid, done))
        # Who no longer waits for it must not leave a process behind that is not known.
        return await asyncio.shield(self._starting[uid])

    def _hold(self, uid: str, started: asyncio.Task[Process]) -> None:
        del self._starting[uid]
        if not started.cancelled() and started.exception() is None:
            self._held[uid] = started.result()

    async def _watch(self, run: Run, container: ContainerView, process: Process, progress: Progress) -> int:
        """Write whether a process is ready for as long as it runs, and return its exit code."""
        await self._write_progress(run, progress)
        ended = asyncio.create_task(process.wait(), name=f"process {run.pod.key}")
        try:
            while not ended.done():
                ready = await self._is_ready(container, process)
                if ended.done():
                    break
                if ready != progress.ready or (run.is_doubted and ready):
                    progress = replace(progress, ready=ready)
                    await self._write_progress(run, progress)
                probe = container.readiness_probe
                period_s = float(probe.period_seconds) if probe and ready else _FIRST_PROBES_S
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(ended), period_s)
            return await ended
        finally:
            ended.cancel()

    async def _is_ready(self, container: ContainerView, process: Process) -> bool:
        probe = container.readiness_probe
        if probe is None or probe.http_get is None:
            return True
        port = port_of(container, probe.http_get.port)
        url = f"http://127.0.0.1:{process.record.ports.get(port, port)}{probe.http_get.path}"
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_PROBE_TIMEOUT_S))
        try:
            async with self._session.get(url) as answer:
                return 200 <= answer.status < 400
        except (OSError, TimeoutError, aiohttp.ClientError):
            return False

    def _kill(self, pod: PodView) -> None:
        process = self._forget(pod)
        if process is not None:
            process.kill()

    def _forget(self, pod: PodView) -> Process | None:
        process = self._held.pop(pod.metadata.uid, None)
        if process is not None:
            self._processes.forget(process)
        return process
