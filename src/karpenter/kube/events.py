# SPDX-License-Identifier: Apache-2.0
"""Kubernetes Events about our objects: said once, counted when repeated, never in the way.

Telling is immediate and never waits: the event goes into a bounded queue that one task empties. The same words
about the same object within ``quiet_s`` are dropped; said again later, the event that is there is counted up.
When the queue is full the oldest is dropped: an event informs, nothing depends on it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeVar

from karpenter.api.base import Frozen
from karpenter.kit.clock import Clock, SystemClock
from karpenter.kube.client import Client
from karpenter.kube.errors import KubeError, NotFoundError
from karpenter.kube.kinds import EVENTS, Kind, metadata_of

__all__ = ["Recorder", "Subject"]

_COMPONENT: Final = "karpenter"
_QUEUE: Final = 2000
_MEMORY: Final = 10_000
# The API server refuses longer messages.
_LONGEST_MESSAGE: Final = 1024


T = TypeVar("T", bound=Frozen)


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an event is about."""

    kind: str
    api_version: str
    name: str
    namespace: str = ""
    uid: str = ""

    @classmethod
    def of(cls, kind: Kind[T], item: Frozen) -> Subject:
        """Names an object of a kind, read as whatever type."""
        metadata = metadata_of(item)
        return cls(kind.name, kind.api_version, metadata.name, metadata.namespace, metadata.uid)


@dataclass(slots=True)
class _Said:
    """What was said before: under which name the server keeps it, how often, and until when we keep quiet."""

    name: str
    count: int
    quiet_until: float
    first: datetime


@dataclass(frozen=True, slots=True)
class _Words:
    subject: Subject
    type: str
    reason: str
    message: str
    about: str


class Recorder:
    """Sends Events; ``run`` must be kept running by a supervisor."""

    def __init__(self, client: Client, *, instance: str = "", clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._instance = instance or _COMPONENT
        self._queue: deque[_Words] = deque(maxlen=_QUEUE)
        self._arrived = asyncio.Event()
        self._said: OrderedDict[tuple[Subject, str, str], _Said] = OrderedDict()
        self.dropped = 0

    def tell(
        self,
        subject: Subject,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - as the API names it
        quiet_s: float = 120.0,
        about: str = "",
    ) -> bool:
        """Queues an event and tells whether it was news.

        Args:
            subject: The object it is about.
            reason: One CamelCase word.
            message: What happened; cut to what the server takes.
            type: Normal or Warning.
            quiet_s: For how long the same event is not said again.
            about: What makes events the same, instead of the message: for messages with changing numbers.
        """
        key = (subject, reason, about or message)
        now = self._clock.monotonic()
        said = self._said.get(key)
        if said is not None and now < said.quiet_until:
            return False
        if said is None:
            stamp = self._clock.now()
            said = _Said(self._name(subject, reason, about or message, stamp), 0, 0.0, stamp)
            self._said[key] = said
            if len(self._said) > _MEMORY:
                self._said.popitem(last=False)
        said.quiet_until = now + quiet_s
        self._said.move_to_end(key)
        if len(self._queue) == _QUEUE:
            self.dropped += 1
        self._queue.append(_Words(subject, type, reason, message[:_LONGEST_MESSAGE], about or message))
        self._arrived.set()
        return True

    async def run(self) -> None:
        """Sends what is queued, until cancelled; an event that the server refuses is dropped."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._queue:
                words = self._queue.popleft()
                try:
                    await self._send(words)
                except KubeError:
                    self.dropped += 1

    async def drain(self) -> None:
        """Sends what is still queued, for a graceful end."""
        while self._queue:
            await self._send(self._queue.popleft())

    async def _send(self, words: _Words) -> None:
        said = self._said.get((words.subject, words.reason, words.about))
        stamp = self._clock.now()
        namespace = words.subject.namespace or "default"
        if said is None:
            said = _Said(self._name(words.subject, words.reason, words.about, stamp), 0, 0.0, stamp)
        said.count += 1
        if said.count > 1:
            change = {"count": said.count, "lastTimestamp": _time(stamp), "message": words.message}
            try:
                await self._client.patch(EVENTS, said.name, change, namespace)
            except NotFoundError:
                # The server forgets events after an hour: begin a new one.
                said.count = 1
                said.name = self._name(words.subject, words.reason, words.about, stamp)
            else:
                return
        await self._client.create(EVENTS, self._manifest(words, said, stamp), namespace)

    def _manifest(self, words: _Words, said: _Said, stamp: datetime) -> dict[str, object]:
        subject = words.subject
        reference = {
            "kind": subject.kind,
            "apiVersion": subject.api_version,
            "name": subject.name,
            "namespace": subject.namespace,
            "uid": subject.uid,
        }
        return {
            "metadata": {"name": said.name, "namespace": subject.namespace or "default"},
            "involvedObject": {key: value for key, value in reference.items() if value},
            "type": words.type,
            "reason": words.reason,
            "message": words.message,
            "count": said.count,
            "firstTimestamp": _time(said.first),
            "lastTimestamp": _time(stamp),
            "source": {"component": _COMPONENT},
            "reportingComponent": _COMPONENT,
            "reportingInstance": self._instance,
        }

    def _name(self, subject: Subject, reason: str, about: str, stamp: datetime) -> str:
        text = f"{subject}\0{reason}\0{about}\0{stamp.isoformat()}\0{self._instance}"
        # An object's name may be 253 characters long, and so may an event's.
        return f"{subject.name[:200]}.{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def _time(stamp: datetime) -> str:
    return stamp.strftime("%Y-%m-%dT%H:%M:%SZ")
