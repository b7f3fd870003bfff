# SPDX-License-Identifier: Apache-2.0
"""What removing nodes has taught, kept where the next process finds it.

Read once at the start, written now and then when it has changed. A memory that cannot be read is told and begun anew;
one that cannot be written is tried again at the next change: it is worth something, but nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from karpenter.api.base import EMPTY
from karpenter.consolidation.memory import Memory, MemoryUnreadableError
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.observe import get_log
from karpenter.state import Cluster

__all__ = ["MemoryStore", "Remembering", "replicas_of"]

_WRITE_EVERY_S: Final = 30.0
# What one ConfigMap holds, with room to spare.
_LONGEST: Final = 900_000


class MemoryStore(Protocol):
    """Where a text is kept between two processes."""

    async def load(self) -> str:
        """Gives the text; empty if there is none.

        Raises:
            KarpenterError: It cannot be had.
        """
        ...

    async def save(self, text: str) -> None:
        """Keeps a text in place of the last one.

        Raises:
            KarpenterError: It cannot be kept.
        """
        ...


class Remembering:
    """Holds the memory of the process that decides."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._log = get_log("disruption")
        self._written = ""
        self._next_write_at = 0.0
        self.memory = Memory()

    async def load(self) -> None:
        """Reads what the last process left."""
        try:
            text = await self._store.load()
            self.memory = Memory.from_json(text) if text else Memory()
            self._written = text
        except MemoryUnreadableError as error:
            self._log.error("the memory of consolidation is begun anew", error=error)
        except KarpenterError as error:
            self._log.error("the memory of consolidation cannot be read", error=error)

    def learn(self, change: Callable[[Memory], Memory]) -> None:
        """Changes the memory."""
        self.memory = change(self.memory)

    async def save(self, *, now: bool = False) -> None:
        """Writes the memory if it has changed and was not written a moment ago."""
        if not now and self._clock.monotonic() < self._next_write_at:
            return
        text = self.memory.to_json()
        if len(text) > _LONGEST:
            text = msgspec.structs.replace(self.memory, crests=EMPTY).to_json()
        if text == self._written:
            return
        self._next_write_at = self._clock.monotonic() + _WRITE_EVERY_S
        try:
            await self._store.save(text)
        except KarpenterError as error:
            self._log.error("the memory of consolidation cannot be kept", error=error)
        else:
            self._written = text


def replicas_of(cluster: Cluster, memory: Memory) -> Mapping[str, int]:
    """Gives how many replicas each workload is to have; old revisions of Deployments are passed over."""
    found = {}
    for kind, informer in (
        ("ReplicaSet", cluster.informers.replica_sets),
        ("StatefulSet", cluster.informers.stateful_sets),
    ):
        for each in informer:
            name = f"{each.metadata.namespace}/{kind}/{each.metadata.name}"
            if each.spec.replicas or _had_some(memory, name):
                found[name] = each.spec.replicas
    return found


def _had_some(memory: Memory, workload: str) -> bool:
    crest = memory.crests.get(workload)
    return crest is not None and any(number for _, number in crest.seen)
