# SPDX-License-Identifier: Apache-2.0
"""Sets up the process for what the controller is: one event loop beside threads that compute, for months.

Threads share the interpreter. One that computes hands it on every five milliseconds, and the loop asks for it anew
after each write to a connection: a hundred writes while a plan is made are half a second. Ten times as often is a
tenth of that (docs/adr/0008-solve-in-a-thread.md).

glibc gives threads heaps of their own, and keeps what is given back to them. A few large lists and answers would stay
in the process's size for good; so there are few heaps, and large blocks go straight back to the system.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

__all__ = ["prepare_process"]

_SWITCH_S: Final = 0.0005
# By their numbers in malloc.h: M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD.
_HEAPS: Final = ((-8, 2), (-3, 64 * 1024), (-1, 256 * 1024))


def prepare_process() -> None:
    """Sets the interpreter and the allocator up; call it before threads are started."""
    sys.setswitchinterval(_SWITCH_S)
    # Other C libraries have no such thing, and do not need it.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _HEAPS:
            mallopt(parameter, value)
