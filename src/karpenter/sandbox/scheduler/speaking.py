# SPDX-License-Identifier: Apache-2.0
"""Says on pods why they have no node: the first time at once, news of it only as fast as the server takes it.

While many nodes come up, the words change with each of them ("0/3 nodes", "0/4 nodes") for every pod that waits.
Telling it all would be more work than scheduling, and decisions would wait behind it. So only the newest word of each
pod is kept, and the more pods wait, the longer it is kept back. A pod that gets its node has nothing left to say.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from karpenter.kit.clock import Clock
from karpenter.sandbox.scheduler.pods import PodInfo

__all__ = ["Spokesman", "Word"]

_REPEAT_S: Final = 30.0
_PAUSE_S: Final = 1.0
# How many news a second all pods together have.
_NEWS_A_SECOND: Final = 50.0
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Word:
    """What is to be said of one pod.

    Attributes:
        pod: The pod.
        message: Why it has no node.
        nominated: Takes the place of its nomination, unless it is None.
        is_news: Whether the pod does not say so already, so that it must be written and not only told.
    """

    pod: PodInfo
    message: str
    nominated: str | None
    is_news: bool


class Spokesman:
    """Keeps what is to be said, and gives it out in time.

    Args:
        clock: Where time comes from.
        say: Begins to say a word; ``done`` is to be called when it has been said.
    """

    def __init__(self, clock: Clock, say: Callable[[Word], None]) -> None:
        self._clock = clock
        self._say = say
        self._said: dict[str, tuple[str, float]] = {}
        self._words: dict[str, Word] = {}
        self._due: list[tuple[float, int, str]] = []
        self._number = 0
        self._busy = 0

    def refused(self, pod: PodInfo, message: str, nominated: str | None) -> None:
        """Takes note that a pod was refused a node."""
        said, when = self._said.get(pod.uid, ("", 0.0))
        now = self._clock.monotonic()
        if said == message and nominated is None and now - when < _REPEAT_S:
            self._words.pop(pod.uid, None)
            return
        waits = pod.uid in self._words
        self._words[pod.uid] = Word(pod, message, nominated, said != message or nominated is not None)
        if waits and nominated is None:
            return
        due = now
        if said and nominated is None:
            due = max(now, when + max(_PAUSE_S, len(self._said) / _NEWS_A_SECOND))
        self._number += 1
        heapq.heappush(self._due, (due, self._number, pod.uid))
        self.pump()

    def forget(self, uid: str) -> None:
        """Has nothing more to say of a pod."""
        self._said.pop(uid, None)
        self._words.pop(uid, None)

    def done(self) -> None:
        """Takes note that a word has been said."""
        self._busy -= 1
        self.pump()

    def pump(self) -> None:
        """Says what is due, some at once."""
        now = self._clock.monotonic()
        while self._due and self._busy < _AT_ONCE and self._due[0][0] <= now:
            _, _, uid = heapq.heappop(self._due)
            word = self._words.pop(uid, None)
            if word is not None:
                self._said[uid] = (word.message, now)
                self._busy += 1
                self._say(word)
