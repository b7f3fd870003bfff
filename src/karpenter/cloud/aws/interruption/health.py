# SPDX-License-Identifier: Apache-2.0
"""What EC2 itself says of the health of instances: the second source of interruptions, which needs no queue.

Three questions a minute: whose instance check fails, whose host check fails, for whom is maintenance scheduled. A check
must have failed for two minutes, by EC2's time or since we first saw it. Scheduled events that are over stay listed for
days and are passed over. Failures of attached volumes are nobody's business here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from karpenter.cloud.aws.api import Aws, AwsError, AwsUnreachableError
from karpenter.cloud.aws.discovery import filter_of
from karpenter.cloud.aws.interruption.acting import Actor
from karpenter.cloud.aws.interruption.messages import Interruption, InterruptionKind
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock
from karpenter.kit.rounds import one_round

__all__ = ["FAILED_FOR_S", "POLL_EVERY_S", "InstanceHealth", "scheduled_events"]

POLL_EVERY_S: Final = 60.0
FAILED_FOR_S: Final = 120.0

_EVENT_CODES: Final = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)
_OVER: Final = ("[Completed]", "[Canceled]")
# Longer than between two questions, so that a check that still fails is remembered, and one that recovered is not.
_SEEN_S: Final = 3 * POLL_EVERY_S
_MOST_SEEN: Final = 50_000


class InstanceHealth:
    """Asks EC2 for instances in trouble."""

    def __init__(
        self,
        aws: Aws,
        clock: Clock,
        actor: Actor,
        *,
        on_problem: Callable[[Exception], None] = lambda _: None,
        on_unhealthy: Callable[[InterruptionKind, str], None] = lambda _kind, _id: None,
    ) -> None:
        """Makes no call yet.

        Args:
            aws: Where instances are.
            clock: Counts how long checks have failed.
            actor: Is given every interruption.
            on_problem: Is told that EC2 could not be asked, or what the handler raised.
            on_unhealthy: Is told of each instance that is found in trouble, once for as long as it is.
        """
        self._aws = aws
        self._clock = clock
        self._actor = actor
        self._on_problem = on_problem
        self._on_unhealthy = on_unhealthy
        self._unhealthy: frozenset[tuple[InterruptionKind, str]] = frozenset()
        self._first_seen: TTLCache[tuple[InterruptionKind, str], datetime] = TTLCache(
            clock, ttl_s=_SEEN_S, max_size=_MOST_SEEN
        )

    async def run(self) -> None:
        """Ask every minute until cancelled; what fails is told and tried at the next minute."""
        while True:
            try:
                with one_round(self._clock):
                    found = await self.find()
            except (AwsError, AwsUnreachableError) as error:
                self._on_problem(error)
                found = ()
            else:
                self._tell(found)
            for interruption in found:
                try:
                    await self._actor.act(interruption)
                except Exception as error:  # noqa: BLE001 - the handler's own trouble stops no other instance
                    self._on_problem(error)
            await self._clock.sleep(POLL_EVERY_S)

    def _tell(self, found: tuple[Interruption, ...]) -> None:
        unhealthy = frozenset((each.kind, instance) for each in found for instance in each.instance_ids)
        for kind, instance in sorted(unhealthy - self._unhealthy):
            self._on_unhealthy(kind, instance)
        self._unhealthy = unhealthy

    async def find(self) -> tuple[Interruption, ...]:
        """Return what EC2 reports now, one interruption per kind and instance.

        Raises:
            AwsError: EC2 refuses.
            AwsUnreachableError: EC2 did not answer.
        """
        now = self._clock.now()
        found: list[Interruption] = []
        for kind, name, field in (
            (InterruptionKind.INSTANCE_STATUS, "instance-status.status", "InstanceStatus"),
            (InterruptionKind.SYSTEM_STATUS, "system-status.status", "SystemStatus"),
        ):
            for status in await _describe(self._aws, name, ("impaired",)):
                since = self._failing_since(kind, status, field, now)
                if (now - since).total_seconds() >= FAILED_FOR_S:
                    detail = (
                        f"the {kind.value.partition('_')[0]} status check has failed since {since:%H:%M:%S}"
                    )
                    found.append(Interruption(kind, (status["InstanceId"],), since, detail=detail))
        return (*found, *(await scheduled_events(self._aws)).values())

    def _failing_since(
        self, kind: InterruptionKind, status: Mapping[str, Any], field: str, now: datetime
    ) -> datetime:
        key = (kind, status["InstanceId"])
        seen = self._first_seen.get(key, now)
        self._first_seen.set(key, seen)
        told = [
            since.replace(tzinfo=UTC) if since.tzinfo is None else since
            for each in status.get(field, {}).get("Details", ())
            if isinstance(since := each.get("ImpairedSince"), datetime)
        ]
        # EC2's clock may be ahead of ours; what we have seen fail for two minutes has.
        return min((*told, seen))


async def scheduled_events(aws: Aws) -> dict[str, Interruption]:
    """Return the scheduled events that are not over, by the instance that they concern.

    Raises:
        AwsError: EC2 refuses.
        AwsUnreachableError: EC2 did not answer.
    """
    found: dict[str, Interruption] = {}
    for status in await _describe(aws, "event.code", _EVENT_CODES):
        instance_id = status["InstanceId"]
        pending = [
            event
            for event in status.get("Events", ())
            if event.get("Code") in _EVENT_CODES and not str(event.get("Description", "")).startswith(_OVER)
        ]
        if pending:
            first = pending[0]
            detail = f"{first['Code']}: {first.get('Description', '')}"
            found[instance_id] = Interruption(
                InterruptionKind.EVENT_STATUS, (instance_id,), first.get("NotBefore"), detail=detail
            )
    return found


async def _describe(aws: Aws, name: str, values: tuple[str, ...]) -> list[dict[str, Any]]:
    pages = aws.pages("ec2", "DescribeInstanceStatus", Filters=[filter_of(name, values)])
    return [each async for page in pages for each in page.get("InstanceStatuses", ())]
