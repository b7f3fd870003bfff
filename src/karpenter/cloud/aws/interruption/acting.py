# SPDX-License-Identifier: Apache-2.0
"""Acting on an interruption once, however often and by whichever source it is told.

Once means: the handler has returned for this kind and this instance within the last quarter of an hour. Ids of
instances do not come again, so what was done need not be done again; after that time it is, because by then something
must have gone wrong. While the handler is at work for an instance, another message about the same waits for it. A
handler that raises has done nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import Enum
from typing import Final, TypeAlias

from karpenter.cloud.aws.interruption.messages import Interruption, InterruptionKind
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock

__all__ = ["Actor", "Handler", "Outcome"]

Handler: TypeAlias = Callable[[Interruption], Awaitable[None]]

_REMEMBERED_S: Final = 900.0
_MOST: Final = 100_000

_Key: TypeAlias = tuple[InterruptionKind, str]


class Outcome(Enum):
    """What came of an interruption."""

    ACTED = "acted"
    DUPLICATE = "duplicate"


class Actor:
    """Calls the handler once for each kind and instance; the queue and the health check share one."""

    def __init__(self, handler: Handler, clock: Clock) -> None:
        self._handler = handler
        self._done: TTLCache[_Key, bool] = TTLCache(clock, ttl_s=_REMEMBERED_S, max_size=_MOST)
        self._flying: dict[_Key, asyncio.Future[None]] = {}

    async def act(self, interruption: Interruption) -> Outcome:
        """Call the handler with those instances that it was not told of yet; raises what the handler raises."""
        keys = [(interruption.kind, each) for each in interruption.instance_ids]
        while flying := [self._flying[key] for key in keys if key in self._flying]:
            await asyncio.wait(flying)
        fresh = [key for key in keys if key not in self._done]
        if not fresh:
            return Outcome.DUPLICATE
        landed = asyncio.get_running_loop().create_future()
        self._flying.update(dict.fromkeys(fresh, landed))
        try:
            await self._handler(replace(interruption, instance_ids=tuple(each for _, each in fresh)))
            for key in fresh:
                self._done.set(key, True)
        finally:
            for key in fresh:
                del self._flying[key]
            landed.set_result(None)
        return Outcome.ACTED
