# SPDX-License-Identifier: Apache-2.0
"""Child processes that cannot outlive us.

All children of one `ProcessGroup` share a Unix process group, apart from ours, so that Ctrl-C reaches us
alone and we decide the order of stopping. The leader of that group is a one-line shell, the guard: it reads
from a pipe of which we hold the other end. When we are gone, by whatever way, kill -9 included, the kernel
closes our end, and the guard kills its whole group. There is no list of process ids to fall out of date and
no moment at which a child is unguarded. (prctl's PR_SET_PDEATHSIG would be Linux alone, and fires when the
*thread* that started the child ends.)

Children write to a log file each; the end of it goes into error messages. Refuses to start a child after
`stop`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.controlplane.errors import ComponentFailedError

__all__ = ["ChildProcess", "ProcessGroup", "is_alive"]

# "kill 0" is the sender's process group, so the guard ends itself as well.
_GUARD = "trap '' HUP INT TERM; read _; kill -KILL 0"


class ChildProcess:
    """One running program and its log file; made by `ProcessGroup.start`."""

    def __init__(
        self,
        name: str,
        process: subprocess.Popen[bytes],
        log_file: Path,
        argv: Sequence[str | Path] = (),
    ) -> None:
        self.name = name
        self.log_file = log_file
        self.argv = tuple(argv)
        self._process = process

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while the program runs; minus the signal number if a signal ended it."""
        return self._process.poll()

    @property
    def is_running(self) -> bool:
        """Whether the program still runs."""
        return self.exit_code is None

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines of the log."""
        with self.log_file.open(encoding="utf-8", errors="replace") as log:
            return "".join(deque(log, maxlen=lines)).rstrip()

    def log_says(self, text: str) -> bool:
        """Tell whether ``text`` is anywhere in the log."""
        return text in self.log_file.read_text(encoding="utf-8", errors="replace")

    def failure(self, what: str) -> ComponentFailedError:
        """Return the error for this program: ``what`` happened, and the end of the log."""
        return ComponentFailedError(
            f"{self.name} {what}; the end of its log:\n{self.log_tail() or '(nothing was logged)'}",
            hint=f"the whole log is {self.log_file}",
        )

    def stop(self, grace_s: float) -> None:
        """Ask the program to end, insist after ``grace_s`` seconds, and reap it."""
        if self.is_running:
            self._process.terminate()
            try:
                self._process.wait(grace_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def kill(self) -> None:
        """End the program without a chance to tidy up, and reap it."""
        self._process.kill()
        self._process.wait()


class ProcessGroup:
    """Starts programs that die with us, and stops them in the reverse order of their start."""

    def __init__(self, log_directory: Path) -> None:
        self._log_directory = log_directory
        self._children: list[ChildProcess] = []
        self._stopped = False
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    @property
    def children(self) -> tuple[ChildProcess, ...]:
        """All that was started, in order, ended or not."""
        return tuple(self._children)

    @property
    def group_id(self) -> int:
        """The Unix process group that all children share."""
        return self._guard.pid

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        environ: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> ChildProcess:
        """Start a program whose output goes to ``name``.log, anew if the name was used before."""
        if self._stopped:
            raise ComponentFailedError(f"{name} cannot be started: its process group has been stopped")
        log_file = self._log_directory / f"{name}.log"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ,
                cwd=directory,
                process_group=self.group_id,
            )
        child = ChildProcess(name, process, log_file, argv)
        self._children.append(child)
        return child

    def stop(self, grace_s: float = 5.0) -> None:
        """Stop all children, last started first, then the guard; a second call does nothing."""
        if self._stopped:
            return
        self._stopped = True
        try:
            for child in reversed(self._children):
                child.stop(grace_s)
        finally:
            self._end_guard()

    def _end_guard(self) -> None:
        """Let the guard kill what is left of the group: grandchildren, and itself."""
        if self._guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.close()
        self._guard.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and is not yet reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        # The state follows the name, which is in parentheses and may hold anything.
        return stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        # No /proc on this system, or the process ended just now.
        return not Path("/proc").exists()
