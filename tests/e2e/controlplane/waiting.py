# SPDX-License-Identifier: Apache-2.0
"""Waiting for the state of the world, which controllers change in their own time.

Looks again and again until there is something to see; gives up with the last thing seen, never with a bare
"timeout".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.patience import patient

__all__ = ["eventually"]

_Seen = TypeVar("_Seen")


def eventually(
    look: Callable[[], _Seen],
    what: str,
    *,
    holds: Callable[[_Seen], object] = bool,
    timeout_s: float = 30.0,
    poll_s: float = 0.1,
) -> _Seen:
    """Return what ``look`` sees as soon as it ``holds``: as soon as it is true, if nothing else is asked for.

    Raises:
        AssertionError: ``what`` did not come about, ``timeout_s`` on a quiet machine; names what was seen last.
    """
    limit = patient(timeout_s)
    deadline = time.monotonic() + limit
    while True:
        seen = look()
        if holds(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {limit:g} s; last seen: {seen!r}")
        time.sleep(poll_s)
