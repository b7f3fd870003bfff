# SPDX-License-Identifier: Apache-2.0
"""Queues and messages: what is ready, what is hidden until when, and what has been kept too long.

Messages wait in the order in which they became visible. A message that was received is hidden until its time-out by
the model's clock; a receipt handle is good for the latest receipt only. Standard queues alone are modelled: no
groups, no deduplication, no dead-letter queues.
"""

from __future__ import annotations

import hashlib
import heapq
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from karpenter.sandbox.ec2.contract import Signal

__all__ = ["Message", "Queue", "Queues", "default_attributes"]


def default_attributes() -> dict[str, str]:
    """Gives the attributes that a queue has if nobody sets them."""
    return {
        "VisibilityTimeout": "30",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "DelaySeconds": "0",
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "true",
    }


@dataclass(slots=True)
class Message:
    """One message and its life so far."""

    id: str
    body: str
    sent_at: datetime
    visible_at: datetime
    attributes: Mapping[str, Any] = field(default_factory=dict)
    receipts: int = 0
    first_received_at: datetime | None = None

    @property
    def md5(self) -> str:
        """Gives the digest that SDKs check."""
        return hashlib.md5(self.body.encode(), usedforsecurity=False).hexdigest()

    @property
    def handle(self) -> str:
        """Gives the handle of the latest receipt."""
        return f"{self.id}#{self.receipts}"


class Queue:
    """One queue."""

    def __init__(self, name: str, arn: str, created_at: datetime, random: Random) -> None:
        self.name = name
        self.arn = arn
        self.created_at = created_at
        self.attributes = default_attributes()
        self.tags: dict[str, str] = {}
        self.signal = Signal()
        self.messages: dict[str, Message] = {}
        self._ready: deque[str] = deque()
        self._hidden: list[tuple[datetime, int, str]] = []
        self._order = 0
        self._random = random

    def send(
        self, body: str, now: datetime, delay_s: float = 0, attributes: Mapping[str, Any] | None = None
    ) -> Message:
        """Takes a message in and wakes who polls for one."""
        id_ = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        message = Message(id_, body, now, now + timedelta(seconds=delay_s), attributes or {})
        self.messages[id_] = message
        if delay_s:
            self._hide(message)
        else:
            self._ready.append(id_)
            self.signal.fire()
        return message

    def receive(self, count: int, now: datetime, visibility_s: float) -> list[Message]:
        """Hands out up to that many messages and hides each for the time-out."""
        self.settle(now)
        found: list[Message] = []
        while self._ready and len(found) < count:
            message = self.messages.get(self._ready.popleft())
            if message is None:
                continue
            message.receipts += 1
            message.first_received_at = message.first_received_at or now
            message.visible_at = now + timedelta(seconds=visibility_s)
            self._hide(message)
            found.append(message)
        return found

    def by_handle(self, handle: str) -> Message | None:
        """Gives the message of a receipt handle, or None if it is gone or was received again since.

        Raises:
            ValueError: This is no receipt handle.
        """
        id_, separator, receipt = handle.partition("#")
        if not separator or not receipt.isdecimal():
            raise ValueError(handle)
        message = self.messages.get(id_)
        return message if message is not None and message.receipts == int(receipt) else None

    def delete(self, message: Message) -> None:
        """Forgets a message."""
        self.messages.pop(message.id, None)

    def change_visibility(self, message: Message, now: datetime, seconds: float) -> None:
        """Hides a message for that long from now; 0 shows it at once."""
        message.visible_at = now + timedelta(seconds=seconds)
        self._hide(message)
        self.settle(now)

    def purge(self) -> None:
        """Forgets all messages."""
        self.messages.clear()
        self._ready.clear()
        self._hidden.clear()

    def settle(self, now: datetime) -> None:
        """Shows the messages whose time-out has passed and forgets those that were kept too long."""
        shown = False
        while self._hidden and self._hidden[0][0] <= now:
            visible_at, _, id_ = heapq.heappop(self._hidden)
            message = self.messages.get(id_)
            # A later receipt or a changed time-out has its own entry.
            if message is not None and message.visible_at == visible_at:
                self._ready.append(id_)
                shown = True
        kept = timedelta(seconds=int(self.attributes["MessageRetentionPeriod"]))
        for message in list(self._expired(now - kept)):
            self.delete(message)
        if shown:
            self.signal.fire()

    def counts(self, now: datetime) -> tuple[int, int, int]:
        """Counts messages that are visible, in flight, and delayed."""
        self.settle(now)
        hidden = [each for each in self.messages.values() if each.visible_at > now]
        delayed = sum(not each.receipts for each in hidden)
        return len(self.messages) - len(hidden), len(hidden) - delayed, delayed

    def _expired(self, before: datetime) -> Iterator[Message]:
        # Messages stand in the order in which they were sent.
        for message in self.messages.values():
            if message.sent_at > before:
                return
            yield message

    def _hide(self, message: Message) -> None:
        self._order += 1
        heapq.heappush(self._hidden, (message.visible_at, self._order, message.id))


class Queues:
    """The account's queues by name."""

    def __init__(self, account: str, region: str, random: Random) -> None:
        self.by_name: dict[str, Queue] = {}
        self.undelivered = 0
        self._account = account
        self._region = region
        self._random = random

    def arn(self, name: str) -> str:
        """Gives the ARN of a queue of that name."""
        return f"arn:aws:sqs:{self._region}:{self._account}:{name}"

    def create(self, name: str, now: datetime) -> Queue:
        """Makes a queue."""
        queue = self.by_name[name] = Queue(name, self.arn(name), now, self._random)
        return queue

    def deliver(self, arn: str, body: str, now: datetime) -> None:
        """Puts an event into the queue that a rule's target names; counts those that reach nobody."""
        queue = self.by_name.get(arn.rpartition(":")[2])
        if queue is None or queue.arn != arn:
            self.undelivered += 1
            return
        queue.send(body, now)

    def settle(self, now: datetime) -> None:
        """Lets time-outs of all queues pass."""
        for queue in self.by_name.values():
            queue.settle(now)

    def wake(self) -> None:
        """Wakes all who poll, because the clock was moved."""
        for queue in self.by_name.values():
            queue.signal.fire()
