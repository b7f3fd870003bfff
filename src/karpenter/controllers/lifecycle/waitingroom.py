# SPDX-License-Identifier: Apache-2.0
"""How long a node that has joined is kept from pods, so that those come to it that it was planned for: pure.

The scheduler forgets where a pod is to go when it tries the pod before its node takes pods, and then puts it wherever
there is room, perhaps in the room of another. So a node is let go when all else about it is ready and the scheduler has
just been told of its pods, and nodes that become ready at the same time are let go together. Nothing depends on it: no
node waits for long.
"""

from __future__ import annotations

from typing import Final

__all__ = ["WaitingRoom"]

# For its own readiness, and, once it is ready, for others.
_ALONE_S: Final = 15.0
_TOGETHER_S: Final = 2.0
_LOOK_AGAIN_S: Final = 0.1


class WaitingRoom:
    """The nodes that are held, by the names of their claims."""

    def __init__(self) -> None:
        self._came_at: dict[str, float] = {}
        self._ready_at: dict[str, float] = {}

    def hold_s(self, name: str, now: float, *, is_ready: bool) -> float:
        """Gives the seconds after which to ask again; nothing if the node is let go."""
        left_s = self._came_at.setdefault(name, now) + _ALONE_S - now
        if not is_ready:
            self._ready_at.pop(name, None)
        else:
            together_s = self._ready_at.setdefault(name, now) + _TOGETHER_S - now
            others_come = self._came_at.keys() - self._ready_at.keys()
            left_s = min(left_s, together_s, _LOOK_AGAIN_S) if others_come else 0.0
        return left_s if left_s > 0 else self.let_go(name)

    def let_go(self, name: str) -> float:
        """Forgets a node."""
        self._came_at.pop(name, None)
        self._ready_at.pop(name, None)
        return 0.0
