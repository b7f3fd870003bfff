# SPDX-License-Identifier: Apache-2.0
"""A program on a leash: it ends when its owner ends, however that happens, or when its time is up.

``python -m karpenter.sandbox.stack.leash [--owner FILE] [--life SECONDS] MODULE ARGUMENTS`` runs ``python -m MODULE
ARGUMENTS`` in this process; with ``--file`` the first word is a file, which is run as a child that ends with this
process. The owner holds a lock on a file; the kernel lets go of it even if the owner is killed. Ending is SIGTERM
first, so that the program tidies up, and a hard end some seconds later.

``--host-name`` gives a child a host name of its own, as a container has one, where this user may do that (Linux).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

__all__ = ["arguments", "is_locked", "main"]

_PATIENCE_S: Final = 6.0
# From Linux' sched.h and prctl.h.
_CLONE_NEWUTS: Final = 0x04000000
_PR_SET_PDEATHSIG: Final = 1


def is_locked(path: Path) -> bool:
    """Return whether the process that a file tells of lives."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def main(args: Sequence[str]) -> None:
    """Runs the program under its leash."""
    read = _read(args)
    # Before there are threads: what a new process does before its program starts is safe without them alone.
    child = _child([read.module, *read.rest], read.host_name) if read.file else None
    if read.owner is not None:
        _start("owner", lambda: wait_for_owner(read.owner))
    if read.life is not None:
        _start("life", lambda: time.sleep(read.life))
    if child is not None:
        code = child.wait()
        raise SystemExit(128 - code if code < 0 else code)
    sys.argv = [read.module, *read.rest]
    runpy.run_module(read.module, run_name="__main__", alter_sys=True)


def arguments(
    module: str,
    rest: Sequence[str],
    *,
    owner: Path | None = None,
    life_s: float | None = None,
    host_name: str = "",
    is_file: bool = False,
) -> list[str]:
    """Gives the words that follow ``python`` to run a program under a leash."""
    bound = [] if owner is None else ["--owner", str(owner)]
    bound += [] if life_s is None else ["--life", f"{life_s:g}"]
    bound += ["--file", "--host-name", host_name] if is_file else []
    return ["-m", "karpenter.sandbox.stack.leash", *bound, "--", module, *rest]


def wait_for_owner(path: Path) -> None:
    """Waits until nobody holds the lock of the owner; a file that is gone means the same."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _read(args: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="leash")
    parser.add_argument("--owner", type=Path)
    parser.add_argument("--life", type=float)
    parser.add_argument("--file", action="store_true")
    parser.add_argument("--host-name", default="")
    parser.add_argument("module")
    parser.add_argument("rest", nargs="*")
    return parser.parse_args(args)


def _child(words: Sequence[str], host_name: str) -> subprocess.Popen[bytes]:
    """Start a file as a child that hears of our signals and ends with us."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    if libc is not None and host_name and libc.unshare(_CLONE_NEWUTS) == 0:
        with contextlib.suppress(OSError):
            socket.sethostname(host_name)

    def bind() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    child = subprocess.Popen(words, preexec_fn=bind)  # noqa: PLW1509, S603 - no threads yet; what the user named

    def pass_on(number: int, _frame: FrameType | None) -> None:
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    return child


def _start(name: str, wait: Callable[[], None]) -> None:
    def watch() -> None:
        wait()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_PATIENCE_S)
        os._exit(1)

    threading.Thread(target=watch, name=f"leash-{name}", daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1:])
