# SPDX-License-Identifier: Apache-2.0
"""The interruption queue: messages are received, acted on, and deleted once that is done.

A message whose handler fails stays in the queue and comes back after its 20 seconds of invisibility; after five
failures it is parked: deleted, counted, and kept for people to look at. What means nothing to us is deleted at once.
A message of another account, or one that does not fit the instance that it names, is refused: deleted, counted and
told. One that EC2 contradicts stays for a second look first, because EC2's lists lag.
Nothing that a message says can stop the loop, and neither can a queue that is gone or out of reach: that is told, and
tried again with growing pauses. When messages come ten at a time, several receivers work until the queue is empty.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from karpenter.cloud.aws.api import Aws, AwsError, AwsUnreachableError
from karpenter.cloud.aws.codes import is_not_found
from karpenter.cloud.aws.interruption.acting import Actor, Outcome
from karpenter.cloud.aws.interruption.messages import Ignored, Interruption, parse_message
from karpenter.cloud.aws.interruption.verification import Verdict
from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock
from karpenter.kit.rounds import one_round

__all__ = ["MOST_FAILURES", "InterruptionQueue", "Parked", "PollReport", "Refused"]

MOST_FAILURES: Final = 5

# How often EC2 is asked about a message that it contradicts, once at each receipt.
_LOOKS: Final = 2
_BATCH: Final = 10
_WAIT_S: Final = 20
_VISIBILITY_S: Final = 20
# While the queue is known to be full nobody needs to wait long for a message.
_SHORT_WAIT_S: Final = 1
_RECEIVERS: Final = 4
_FAILURES_S: Final = 3600.0
_MOST_COUNTED: Final = 100_000
# The address of a queue ends with the account that owns it and its name.
_OWNER: Final = re.compile(r"/(\d{12})/[^/]+/?$")
_BACKOFF: Final = BackoffPolicy(base_s=1.0, cap_s=60.0, jitter=0.5)


@dataclass(frozen=True, slots=True)
class Parked:
    """A message that was given up."""

    message_id: str
    interruption: Interruption
    problem: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A message, or one instance of it, that was not obeyed."""

    message_id: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class PollReport:
    """What one receiving brought.

    Attributes:
        received: How many messages, by kind; ``no_op`` for those that mean nothing to us.
        acted: How many the handler was called for with success.
        duplicates: How many had been acted on before.
        ignored: How many meant nothing to us, by reason.
        refused: What was not obeyed, because it is not of our account or does not fit its instance.
        failures: What the handler raised, for messages that come back.
        parked: Messages that were given up.
        deleted: How many were deleted.
        ages_s: How long each message had been in the queue.
    """

    received: Mapping[str, int] = field(default_factory=dict)
    acted: int = 0
    duplicates: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)
    refused: tuple[Refused, ...] = ()
    failures: tuple[tuple[str, Exception], ...] = ()
    parked: tuple[Parked, ...] = ()
    deleted: int = 0
    ages_s: tuple[float, ...] = ()

    @property
    def count(self) -> int:
        """How many messages were received."""
        return sum(self.received.values())


@dataclass(slots=True)
class _Tally:
    received: Counter[str] = field(default_factory=Counter)
    acted: int = 0
    duplicates: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    refused: list[Refused] = field(default_factory=list)
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    parked: list[Parked] = field(default_factory=list)
    done: list[str] = field(default_factory=list)


class InterruptionQueue:
    """Reads one queue."""

    def __init__(
        self,
        aws: Aws,
        clock: Clock,
        actor: Actor,
        *,
        queue_name: str,
        verify: Callable[[Interruption], Awaitable[Verdict]],
        on_poll: Callable[[PollReport], None] = lambda _: None,
        on_problem: Callable[[AwsError | AwsUnreachableError], None] = lambda _: None,
    ) -> None:
        """Makes no call yet.

        Args:
            aws: Where the queue is.
            clock: Counts pauses and ages.
            actor: Is given every interruption.
            queue_name: The name of the queue.
            verify: Says which instances a message fits; raises if that cannot be found out now.
            on_poll: Is told what each receiving brought.
            on_problem: Is told that the queue could not be read.
        """
        self._aws = aws
        self._clock = clock
        self._actor = actor
        self._queue_name = queue_name
        self._verify = verify
        self._on_poll = on_poll
        self._on_problem = on_problem
        self._url = ""
        self._failures: TTLCache[str, int] = TTLCache(clock, ttl_s=_FAILURES_S, max_size=_MOST_COUNTED)
        self.parked: deque[Parked] = deque(maxlen=1000)

    async def run(self) -> None:
        """Read the queue until cancelled."""
        failed = 0
        while True:
            try:
                with one_round(self._clock):
                    report = await self.poll()
                if report.count == _BATCH:
                    await self._drain_together()
                failed = 0
            except (AwsError, AwsUnreachableError) as error:
                failed += 1
                if isinstance(error, AwsError) and is_not_found(error.code):
                    self._url = ""  # it may be made anew, under another address
                self._on_problem(error)
                await self._clock.sleep(_BACKOFF.delay_s(failed, self._queue_name))

    async def _drain_together(self) -> None:
        # All are waited for, so that none is left behind when another fails.
        ends = await asyncio.gather(*(self._drain() for _ in range(_RECEIVERS)), return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end

    async def _drain(self) -> None:
        while (await self.poll(wait_s=_SHORT_WAIT_S)).count:
            pass

    async def poll(self, *, wait_s: int = _WAIT_S) -> PollReport:
        """Receive up to ten messages, act on them, delete what is done, and return what it brought.

        Raises:
            AwsError: SQS refuses, or there is no such queue.
            AwsUnreachableError: SQS did not answer.
        """
        url = await self._address()
        answer = await self._aws.call(
            "sqs",
            "ReceiveMessage",
            QueueUrl=url,
            MaxNumberOfMessages=_BATCH,
            WaitTimeSeconds=wait_s,
            VisibilityTimeout=_VISIBILITY_S,
            AttributeNames=["SentTimestamp"],
        )
        messages = answer.get("Messages", [])
        tally = _Tally()
        await asyncio.gather(*(self._take(message, _owner(url), tally) for message in messages))
        deleted = await self._delete(tally.done)
        report = PollReport(
            received=dict(tally.received),
            acted=tally.acted,
            duplicates=tally.duplicates,
            ignored=dict(tally.ignored),
            refused=tuple(tally.refused),
            failures=tuple(tally.failures),
            parked=tuple(tally.parked),
            deleted=deleted,
            ages_s=self._ages_s(messages),
        )
        self.parked.extend(report.parked)
        self._on_poll(report)
        return report

    async def _address(self) -> str:
        if not self._url:
            answer = await self._aws.call("sqs", "GetQueueUrl", QueueName=self._queue_name)
            self._url = str(answer["QueueUrl"])
        return self._url

    async def _take(self, message: Mapping[str, Any], account: str, tally: _Tally) -> None:
        body = str(message.get("Body", "")).encode("utf-8", "replace")
        message_id = str(message.get("MessageId", ""))
        read = parse_message(body, account=account, region=self._aws.region)
        if isinstance(read, Ignored):
            tally.received["no_op"] += 1
            tally.ignored[read.reason.value] += 1
            if read.reason.is_forgery:
                tally.refused.append(Refused(message_id, read.reason.value, read.detail))
            tally.done.append(message["ReceiptHandle"])
            return
        tally.received[read.kind.value] += 1
        # The handler is somebody else's code; whatever it raises concerns this message alone.
        try:
            is_done = await self._obey(message_id, read, tally)
        except Exception as error:  # noqa: BLE001
            is_done = self._count(message_id) >= MOST_FAILURES
            if is_done:
                tally.parked.append(Parked(message_id, read, str(error)))
            else:
                tally.failures.append((message_id, error))
        if is_done:
            self._failures.delete(message_id)
            tally.done.append(message["ReceiptHandle"])

    async def _obey(self, message_id: str, read: Interruption, tally: _Tally) -> bool:
        """Act on what a message says of the instances that it fits; return whether the message is done with."""
        verdict = await self._verify(read)
        if verdict.fits:
            outcome = await self._actor.act(replace(read, instance_ids=verdict.fits))
            tally.acted += outcome is Outcome.ACTED
            tally.duplicates += outcome is Outcome.DUPLICATE
        doubtful = any(not misfit.is_final for misfit in verdict.misfits.values())
        if doubtful and self._count(message_id) < _LOOKS:
            return False
        for instance_id, misfit in verdict.misfits.items():
            tally.refused.append(Refused(message_id, misfit.value, f"{read.kind.value} of {instance_id}"))
        return True

    def _count(self, message_id: str) -> int:
        failures = self._failures.get(message_id, 0) + 1
        self._failures.set(message_id, failures)
        return failures

    async def _delete(self, handles: Sequence[str]) -> int:
        if not handles:
            return 0
        entries = [{"Id": str(number), "ReceiptHandle": each} for number, each in enumerate(handles)]
        answer = await self._aws.call(
            "sqs", "DeleteMessageBatch", QueueUrl=await self._address(), Entries=entries
        )
        # What could not be deleted comes back, and is then known as a duplicate.
        return len(handles) - len(answer.get("Failed", ()))

    def _ages_s(self, messages: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
        now = self._clock.now().timestamp()
        sent = (str(message.get("Attributes", {}).get("SentTimestamp", "")) for message in messages)
        return tuple(max(now - int(each) / 1000, 0.0) for each in sent if each.isdecimal())


def _owner(url: str) -> str:
    """Return the account of a queue; it is ours, because the queue was asked for by its name alone."""
    owner = _OWNER.search(url)
    return owner[1] if owner else ""
