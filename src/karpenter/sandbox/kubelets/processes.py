# SPDX-License-Identifier: Apache-2.0
"""Containers that are run as processes of this machine, because a table says which program an image stands for.

::

    STATE/
      logs/pods/NAMESPACE_POD_UID/CONTAINER/0.log    what it wrote, a file for each time it was started
      running/pods/POD_CONTAINER                     what runs: pid, ports, log; locked for as long as it lives

A program is a file that can be executed, or a Python module. Either runs under a leash (``sandbox.stack.leash``): it
ends when the process that started it ends, however that happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from karpenter.errors import KarpenterError
from karpenter.sandbox.kubelets.environment import environ_of, free_ports
from karpenter.sandbox.kubelets.objects import ContainerView, PodView
from karpenter.sandbox.stack import leash

__all__ = ["OwnedError", "Process", "ProcessRecord", "Processes", "records"]

_OWNER: Final = "pods.owner"
_LOOK_AGAIN_S: Final = 0.1
_TRIES: Final = 30


class OwnedError(KarpenterError):
    """The processes of a directory are another program's."""


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is written down of a container's process while it runs."""

    namespace: str
    pod: str
    container: str
    pid: int
    started: datetime
    log: str
    ports: dict[int, int] = {}
    """For each port of the container, the port of loopback that stands for it."""


@dataclass(slots=True)
class Process:
    """A container's process."""

    record: ProcessRecord
    running: asyncio.subprocess.Process
    path: Path

    @property
    def is_running(self) -> bool:
        """Return whether it has not ended yet."""
        return self.running.returncode is None

    async def wait(self) -> int:
        """Wait until it has ended and return its exit code, as shells count them."""
        code = await self.running.wait()
        return 128 - code if code < 0 else code

    async def stop(self, grace_s: float) -> int:
        """Ask it to end, kill it after the grace period, and return its exit code."""
        self._signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.wait(), grace_s)
        except TimeoutError:
            self.kill()
            return await self.wait()

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # One that has ended hears nothing.
        with contextlib.suppress(ProcessLookupError):
            self.running.send_signal(number)


class Processes:
    """Starts the processes of containers.

    Args:
        state: The directory for logs and for what runs.
        programs: For each image, without its tag, the file or the Python module that is run. It finds our own
            environment, and over it that of its container.
    """

    def __init__(self, state: Path, programs: Mapping[str, str]) -> None:
        self._logs = state / "logs" / "pods"
        self._running = state / "running" / "pods"
        self._owner = state / "running" / _OWNER
        self._programs = dict(programs)
        self._lock = -1
        self._known: dict[tuple[str, str, str], Process] = {}

    def open(self) -> None:
        """Become the owner of all processes that are started from now on.

        Raises:
            OwnedError: Another program is that in this directory.
        """
        self._running.mkdir(parents=True, exist_ok=True)
        for path, _ in records(self._running):
            if not leash.is_locked(path):
                path.unlink(missing_ok=True)
        self._lock = os.open(self._owner, os.O_RDWR | os.O_CREAT, 0o600)
        for attempt in range(_TRIES):
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as taken:
                # Processes of the owner before hold it for an instant when they learn that it is gone.
                if attempt == _TRIES - 1:
                    raise OwnedError(
                        f"another program runs the pods of {self._logs.parent.parent}",
                        hint="end it, or choose another directory with --state",
                    ) from taken
                time.sleep(_LOOK_AGAIN_S)
            else:
                return

    def close(self) -> None:
        """Let go of all processes: those that still run end by their leash."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def program(self, container: ContainerView) -> str:
        """Return the program that a container's image stands for; empty if there is none."""
        name, _, tag = container.image.partition("@")[0].rpartition(":")
        # A colon before a slash is that of a registry's port.
        return self._programs.get(name if name and "/" not in tag else container.image, "")

    def container(self, pod: PodView) -> ContainerView | None:
        """Return the container of a pod that is run; None if none is."""
        return next((each for each in pod.spec.containers if self.program(each)), None)

    def log(self, pod: PodView, container: str, number: int) -> Path:
        """Return the file with what a container wrote when it was started for that time, counted from 0."""
        metadata = pod.metadata
        return (
            self._logs / f"{metadata.namespace}_{metadata.name}_{metadata.uid}" / container / f"{number}.log"
        )

    async def start(self, pod: PodView, container: ContainerView, host_ip: str, number: int) -> Process:
        """Start a container's process.

        Raises:
            OSError: It cannot be started.
        """
        path = self._running / f"{pod.metadata.name}_{container.name}"
        log = self.log(pod, container.name, number)
        log.parent.mkdir(parents=True, exist_ok=True)
        before = _read(path)
        ports = free_ports((each.container_port for each in container.ports), before.ports if before else {})
        program = self.program(container)
        words = leash.arguments(
            program,
            container.args,
            owner=self._owner,
            host_name=pod.metadata.name,
            is_file="/" in program,
        )
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            await _taken(lock)
            with log.open("wb") as file:
                running = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *words,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=file,
                    stderr=asyncio.subprocess.STDOUT,
                    env={
                        **os.environ,
                        "PYTHONUNBUFFERED": "1",
                        **environ_of(pod, container, host_ip, ports),
                    },
                    pass_fds=(lock,),
                    start_new_session=True,
                    cwd=self._logs,
                )
            record = ProcessRecord(
                namespace=pod.metadata.namespace,
                pod=pod.metadata.name,
                container=container.name,
                pid=running.pid,
                started=datetime.now(UTC),
                log=str(log),
                ports=ports,
            )
            _write(lock, record)
        finally:
            # The process has the lock now, by its own copy of the descriptor.
            os.close(lock)
        process = Process(record, running, path)
        self._known[record.namespace, record.pod, record.container] = process
        return process

    def forget(self, process: Process) -> None:
        """Forget a process that has ended for good, but for its log."""
        record = process.record
        self._known.pop((record.namespace, record.pod, record.container), None)
        process.path.unlink(missing_ok=True)

    def of(self, namespace: str, pod: str, container: str = "") -> Process | None:
        """Return the process of a container, the first one if none is named; None if there is none."""
        for key, process in self._known.items():
            if key[:2] == (namespace, pod) and container in {"", key[2]}:
                return process
        return None


def records(directory: Path) -> list[tuple[Path, ProcessRecord | None]]:
    """Return what is written down in a directory of processes, by file; None for what cannot be read."""
    if not directory.is_dir():
        return []
    return [(path, _read(path)) for path in sorted(directory.iterdir())]


async def _taken(fd: int) -> None:
    """Wait until the process that was run here before has ended, which its leash sees to."""
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(_LOOK_AGAIN_S)
        else:
            return


def _read(path: Path) -> ProcessRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ProcessRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _write(fd: int, record: ProcessRecord) -> None:
    # In place: the lock is the file's, and a new file would be without it.
    os.ftruncate(fd, 0)
    os.pwrite(fd, msgspec.json.encode(record), 0)
