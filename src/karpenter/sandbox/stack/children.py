# SPDX-License-Identifier: Apache-2.0
"""One program of a sandbox as a process: start it, tell whether it lives, end it, find its last error.

A process holds the lock of a file for as long as it lives, so a pid that another program has got since is never taken
for ours. Processes run in sessions of their own: Ctrl-C reaches the command that started them, and that one ends them
in order. Their words go to a file each; the file of the run before is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from karpenter.sandbox.stack import leash
from karpenter.sandbox.stack.errors import StartError
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.pieces import Piece
from karpenter.sandbox.stack.record import Child

__all__ = [
    "error_of",
    "is_alive",
    "kill",
    "last_error",
    "last_words",
    "last_words_of",
    "start",
    "stop",
]

_LOOK_AGAIN_S: Final = 0.05
_LOCK_PATIENCE_S: Final = 2.0
# The end of a log that is looked through for errors; a controller writes some hundred bytes a line.
_TRACEBACK: Final = re.compile(r"[\w.]+(Error|Exception|Exit|Interrupt)\b")
_TAIL_BYTES: Final = 64 * 1024


def start(home: Home, piece: Piece, *, owned: bool, life_s: float | None = None) -> Child:
    """Starts a program.

    Args:
        home: The sandbox.
        piece: The program.
        owned: Whether it ends with the process that holds the owner's lock.
        life_s: After how long it ends by itself.

    Raises:
        StartError: It runs already, or cannot be started.
    """
    lock = _take(home, piece.name)
    try:
        log = home.log(piece.name)
        if log.exists():
            log.replace(home.earlier_log(piece.name))
        owner = home.owner if owned else None
        words = leash.arguments(piece.module, piece.arguments, owner=owner, life_s=life_s)
        with log.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **piece.environ},
                pass_fds=(lock,),
                start_new_session=True,
                cwd=home.directory,
            )
    except OSError as refused:
        raise StartError(f"{piece.name} cannot be started: {refused}") from refused
    finally:
        # The process has the lock now, by its own copy of the descriptor.
        os.close(lock)
    # It is to outlive this object without a word; who waits for it does so by its lock.
    process.returncode = 0
    return Child(pid=process.pid, started=datetime.now(UTC))


def is_alive(home: Home, name: str) -> bool:
    """Tells whether a program runs."""
    return leash.is_locked(home.running(name))


def stop(
    home: Home,
    children: Iterable[tuple[str, Child]],
    *,
    last: Sequence[str] = (),
    turn_s: float = 1.5,
    patience_s: float = 8.0,
) -> list[str]:
    """Asks programs to end, kills those that do not, and gives the names of those that ran.

    Args:
        home: The sandbox.
        children: The programs.
        last: Those that are asked after the others, one after another: the others may still want something from them.
        turn_s: How long the next one waits for those before it; a call that hangs ends with the one who answers.
        patience_s: How long all may take before they are killed.
    """
    asked = [(name, child) for name, child in children if is_alive(home, name)]
    turns = [[each for each in asked if each[0] not in last]]
    turns += [[each for each in asked if each[0] == name] for name in last]
    end = time.monotonic() + patience_s
    for turn in turns:
        for _, child in turn:
            _signal(child.pid, signal.SIGTERM)
        _wait(home, turn, min(time.monotonic() + turn_s, end))
    for name, child in _wait(home, asked, end):
        kill(home, name, child)
    for _, child in asked:
        _reap(child.pid)
    return [name for name, _ in asked]


def _wait(home: Home, children: Sequence[tuple[str, Child]], end: float) -> list[tuple[str, Child]]:
    """Waits for programs to end and gives those that have not."""
    while True:
        left = [each for each in children if is_alive(home, each[0])]
        if not left or time.monotonic() > end:
            return left
        time.sleep(_LOOK_AGAIN_S)


def kill(home: Home, name: str, child: Child) -> None:
    """Ends a program without a chance to tidy up, and waits until it is gone."""
    if not is_alive(home, name):
        return
    _signal(child.pid, signal.SIGKILL)
    end = time.monotonic() + _LOCK_PATIENCE_S
    while is_alive(home, name) and time.monotonic() < end:
        time.sleep(_LOOK_AGAIN_S)
    _reap(child.pid)


def last_error(home: Home, name: str) -> str:
    """Gives the last line of a program's log that tells of an error; empty if none does."""
    return error_of(home.log(name))


def error_of(log: Path) -> str:
    """Return the last line of a log that tells of an error; empty if none does."""
    for line in reversed(_tail(log)):
        told = _error_in(line)
        if told:
            return told
    return ""


def last_words(home: Home, name: str) -> str:
    """Gives the last error of a program that has ended, be it that of a traceback; empty if there is none."""
    return last_words_of(home.log(name))


def last_words_of(log: Path) -> str:
    """Return the last error in a log, be it that of a traceback; empty if there is none."""
    fallen = [line for line in _tail(log)[-1:] if _TRACEBACK.match(line)]
    return error_of(log) or "".join(fallen)


def _take(home: Home, name: str) -> int:
    fd = os.open(home.running(name), os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as busy:
            # Who only looks whether it lives holds the lock for an instant.
            if time.monotonic() > end:
                os.close(fd)
                raise StartError(f"{name} runs already") from busy
            time.sleep(_LOOK_AGAIN_S)
        else:
            return fd


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _reap(pid: int) -> None:
    """Lets go of a process that was our own child; others are init's."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _TAIL_BYTES, 0))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    return [line for line in text.splitlines() if line.strip()]


def _error_in(line: str) -> str:
    if line.startswith("error:"):
        return line.removeprefix("error:").strip()
    if not line.startswith("{"):
        return ""
    try:
        told = json.loads(line)
    except ValueError:
        return ""
    if told.get("level") != "ERROR":
        return ""
    return ": ".join(str(told[key]) for key in ("message", "error") if told.get(key))
