# SPDX-License-Identifier: Apache-2.0
"""``python -m karpenter.sandbox.stack.leash [--owner FILE] [--life SECONDS] MODULE ARGUMENTS``: a program, on a leash.

Runs ``python -m MODULE ARGUMENTS`` in this process and ends it when its owner ends, however that happens, or when its
time is up. The owner holds a lock on a file; the kernel lets go of it even if the owner is killed. Ending is SIGTERM
first, so that the program tidies up, and a hard end some seconds later.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

__all__ = ["arguments", "main"]

_PATIENCE_S: Final = 6.0


def main(args: Sequence[str]) -> None:
    """Runs the program under its leash."""
    read = _read(args)
    if read.owner is not None:
        _start("owner", lambda: wait_for_owner(read.owner))
    if read.life is not None:
        _start("life", lambda: time.sleep(read.life))
    sys.argv = [read.module, *read.rest]
    runpy.run_module(read.module, run_name="__main__", alter_sys=True)


def arguments(
    module: str, rest: Sequence[str], *, owner: Path | None = None, life_s: float | None = None
) -> list[str]:
    """Gives the words that follow ``python`` to run a program under a leash."""
    bound = [] if owner is None else ["--owner", str(owner)]
    bound += [] if life_s is None else ["--life", f"{life_s:g}"]
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
    parser.add_argument("module")
    parser.add_argument("rest", nargs="*")
    return parser.parse_args(args)


def _start(name: str, wait: Callable[[], None]) -> None:
    def watch() -> None:
        wait()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_PATIENCE_S)
        os._exit(1)

    threading.Thread(target=watch, name=f"leash-{name}", daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1:])
