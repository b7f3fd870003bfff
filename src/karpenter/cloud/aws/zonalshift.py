# SPDX-License-Identifier: Apache-2.0
"""Zones that traffic was shifted away from, as ARC zonal shift tells for the cluster.

Asked every half minute. A shift counts while it is applied and not expired, by our own clock too, so that an end is
not missed between two answers; shifts that AWS starts by itself count as well. If ARC cannot be asked, what it said
last holds until it expires. A cluster that is not registered is an error at the first question: then nobody would
ever be told of a shift.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from karpenter.cloud.aws.api import Aws, AwsError
from karpenter.cloud.aws.codes import is_not_found
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock

__all__ = ["REFRESH_EVERY_S", "NotRegisteredError", "ShiftChange", "ZonalShifts", "cluster_arn"]

REFRESH_EVERY_S: Final = 30.0


class NotRegisteredError(KarpenterError):
    """The cluster is not a resource that ARC can shift traffic for."""


@dataclass(frozen=True, slots=True)
class ShiftChange:
    """Which zones, by id, traffic was moved away from or came back to since the last question."""

    started: frozenset[str] = frozenset()
    cleared: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.started or self.cleared)


async def cluster_arn(aws: Aws, cluster_name: str) -> str:
    """Return the ARN under which ARC knows a cluster.

    Raises:
        AwsError: EKS refuses, or knows no such cluster.
        AwsUnreachableError: EKS did not answer.
    """
    return str((await aws.call("eks", "DescribeCluster", name=cluster_name))["cluster"]["arn"])


class ZonalShifts:
    """Which zones are shifted away; refreshed by its owner every ``REFRESH_EVERY_S``."""

    def __init__(self, aws: Aws, clock: Clock, *, arn: str) -> None:
        self._aws = aws
        self._clock = clock
        self._arn = arn
        self._shifts: dict[str, datetime | None] = {}
        self._told: frozenset[str] = frozenset()

    def shifted_zone_ids(self) -> frozenset[str]:
        """Return the ids of the zones that nothing is to be launched in now."""
        now = self._clock.now()
        return frozenset(zone for zone, ends in self._shifts.items() if ends is None or ends > now)

    async def refresh(self) -> ShiftChange:
        """Ask ARC, and return what changed since the last question.

        Raises:
            NotRegisteredError: ARC does not know the cluster.
            AwsError: ARC refuses; what was known stays.
            AwsUnreachableError: ARC did not answer; what was known stays.
        """
        try:
            answer = await self._aws.call(
                "arc-zonal-shift", "GetManagedResource", resourceIdentifier=self._arn
            )
        except AwsError as error:
            if not is_not_found(error.code):
                raise
            raise NotRegisteredError(
                f"cluster {self._arn} is not registered for zonal shift",
                hint="enable zonal shift on the EKS cluster, or switch enable-zonal-shift off",
            ) from error
        self._shifts = dict(_applied(answer))
        now_shifted = self.shifted_zone_ids()
        change = ShiftChange(now_shifted - self._told, self._told - now_shifted)
        self._told = now_shifted
        return change


def _applied(answer: Mapping[str, Any]) -> Iterator[tuple[str, datetime | None]]:
    for shift in answer.get("zonalShifts", ()):
        if shift.get("appliedStatus") == "APPLIED":
            ends: datetime | None = shift.get("expiryTime")
            if ends is not None and ends.tzinfo is None:
                ends = ends.replace(tzinfo=UTC)
            yield shift["awayFrom"], ends
    for shift in answer.get("autoshifts", ()):
        if shift.get("appliedStatus") == "APPLIED":
            yield shift["awayFrom"], None
