# SPDX-License-Identifier: Apache-2.0
"""Capacity reservations: which a node class means, and how many more instances each of them holds.

Found by id, or by tags, owner and what they accept; only active ones count. A capacity block is expiring 40 minutes
before its end, because AWS takes the instances back half an hour before it: nothing new is launched into it then.

How much room a reservation has is what EC2 said last, less what was launched into it since EC2 was asked, plus what
ended since. So two launches in the same minute do not both take the last place, and a wrong guess heals with the
next answer of EC2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from karpenter.api import labels
from karpenter.api.ec2nodeclass import CapacityReservation, CapacityReservationSelectorTerm, EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.api import Aws, AwsError
from karpenter.cloud.aws.codes import is_not_found
from karpenter.cloud.aws.discovery import ClassKey, Owned, class_key, filter_of, read_tags, tag_filters
from karpenter.cloud.protocol import Machine
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock

__all__ = [
    "EXPIRING_BEFORE",
    "RELEASED_LABELS",
    "FoundReservation",
    "ReservationCounts",
    "Reservations",
    "expiring_claims",
    "released_claims",
]

# What a claim and its node are labelled when their reservation has let them go; None takes a label away.
RELEASED_LABELS: Final[Mapping[str, str | None]] = {
    labels.CAPACITY_TYPE: labels.ON_DEMAND,
    labels.CAPACITY_RESERVATION_ID: None,
    labels.CAPACITY_RESERVATION_TYPE: None,
    labels.CAPACITY_RESERVATION_INTERRUPTIBLE: None,
}

EXPIRING_BEFORE: Final = timedelta(minutes=40)

_REFRESH_S: Final = 60.0
_COUNTED_S: Final = 24 * 3600.0
_MOST_CLASSES: Final = 1000
_MOST_RESERVATIONS: Final = 10_000
_ACTIVE: Final = filter_of("state", ["active"])


@dataclass(frozen=True, slots=True)
class FoundReservation:
    """A reservation that a selector found, and the room that EC2 says it has."""

    reservation: CapacityReservation
    room: int
    owned: Owned


@dataclass(slots=True)
class _Count:
    room: int
    asked_at: float


class ReservationCounts:
    """How many more instances each reservation holds, between two answers of EC2."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: TTLCache[str, _Count] = TTLCache(clock, ttl_s=_COUNTED_S, max_size=_MOST_RESERVATIONS)
        self._changes: dict[str, list[tuple[float, int]]] = defaultdict(list)

    def room(self, reservation_id: str) -> int:
        """Return how many more instances fit; 0 for a reservation that nobody has found."""
        known = self._counts.get(reservation_id)
        if known is None:
            return 0
        since = sum(change for _, change in self._changes.get(reservation_id, ()))
        return max(known.room + since, 0)

    def used(self, reservation_id: str, is_full: bool = False) -> None:  # noqa: FBT001, FBT002 - a launcher's hook
        """Note an instance that was launched into a reservation, or that it turned out to be full."""
        if is_full:
            self.set(reservation_id, 0, asked_at=self._clock.monotonic())
        else:
            self._changes[reservation_id].append((self._clock.monotonic(), -1))

    def freed(self, reservation_id: str) -> None:
        """Note an instance of a reservation that has ended."""
        if reservation_id in self._counts:
            self._changes[reservation_id].append((self._clock.monotonic(), 1))

    def set(self, reservation_id: str, room: int, *, asked_at: float) -> None:
        """Take in what EC2 says, as of when it was asked; what was noted later still counts."""
        known = self._counts.get(reservation_id)
        if known is not None and asked_at < known.asked_at:
            return  # an answer that was overtaken by a later one
        self._counts.set(reservation_id, _Count(room, asked_at))
        later = [each for each in self._changes.pop(reservation_id, ()) if each[0] > asked_at]
        if later:
            self._changes[reservation_id] = later


class Reservations:
    """Finds capacity reservations, and keeps count of their room."""

    def __init__(self, aws: Aws, clock: Clock, *, refresh_s: float = _REFRESH_S) -> None:
        self._aws = aws
        self._clock = clock
        self.counts = ReservationCounts(clock)
        self._found: TTLCache[ClassKey, tuple[FoundReservation, ...]] = TTLCache(
            clock, ttl_s=refresh_s, max_size=_MOST_CLASSES
        )

    async def find(self, node_class: EC2NodeClass) -> tuple[FoundReservation, ...]:
        """Return the active reservations of a node class, by id; none is a good answer.

        Raises:
            AwsError: EC2 refuses.
            AwsUnreachableError: EC2 did not answer.
        """
        terms = node_class.spec.capacity_reservation_selector_terms
        if not terms:
            return ()
        key = class_key(node_class)
        remembered = self._found.get(key)
        if remembered is not None:
            return remembered
        asked_at, now = self._clock.monotonic(), self._clock.now()
        described = await self._by_ids(list(dict.fromkeys(term.id for term in terms if term.id)))
        for term in terms:
            # A term that says nothing, or only whose, would find every reservation there is.
            if not term.id and (term.tags or term.instance_match_criteria):
                described += await self._describe(Filters=[*_filters(term), _ACTIVE])
        by_id = {each["CapacityReservationId"]: each for each in described}
        found = tuple(_read(by_id[each], now) for each in sorted(by_id) if _is_alive(by_id[each], now))
        for each in found:
            self.counts.set(each.reservation.id, each.room, asked_at=asked_at)
        self._found.set(key, found)
        return found

    async def _by_ids(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        if not ids:
            return []
        try:
            return await self._describe(CapacityReservationIds=list(ids), Filters=[_ACTIVE])
        except AwsError as error:
            if not is_not_found(error.code):
                raise
        if len(ids) == 1:
            return []
        # One that is gone fails all of them.
        return [each for one in ids for each in await self._by_ids([one])]

    async def _describe(self, **wanted: Any) -> list[dict[str, Any]]:
        pages = self._aws.pages("ec2", "DescribeCapacityReservations", **wanted)
        return [each async for page in pages for each in page.get("CapacityReservations", ())]


def _filters(term: CapacityReservationSelectorTerm) -> list[dict[str, Any]]:
    filters = tag_filters(term.tags)
    if term.owner_id:
        filters.append(filter_of("owner-id", [term.owner_id]))
    if term.instance_match_criteria:
        filters.append(filter_of("instance-match-criteria", [term.instance_match_criteria]))
    return filters


def _ends(described: Mapping[str, Any]) -> datetime | None:
    ends: datetime | None = described.get("EndDate")
    return ends.replace(tzinfo=UTC) if ends is not None and ends.tzinfo is None else ends


def _is_alive(described: Mapping[str, Any], now: datetime) -> bool:
    ends = _ends(described)
    return described.get("State", "active") == "active" and (ends is None or ends > now)


def _read(described: Mapping[str, Any], now: datetime) -> FoundReservation:
    ends = _ends(described)
    kind = "capacity-block" if described.get("ReservationType") == "capacity-block" else "default"
    expiring = kind == "capacity-block" and ends is not None and now >= ends - EXPIRING_BEFORE
    reservation_id, owner = described["CapacityReservationId"], described.get("OwnerId", "")
    return FoundReservation(
        CapacityReservation(
            id=reservation_id,
            availability_zone=described.get("AvailabilityZone", ""),
            instance_type=described.get("InstanceType", ""),
            owner_id=owner,
            instance_match_criteria=described.get("InstanceMatchCriteria", "targeted"),
            reservation_type=kind,
            interruptible=bool(described.get("Interruptible")),
            state="expiring" if expiring else "active",
            end_time=ends,
        ),
        int(described.get("AvailableInstanceCount", 0)),
        Owned(reservation_id, owner, read_tags(described)),
    )


def expiring_claims(
    claims: Iterable[NodeClaim], node_classes: Iterable[EC2NodeClass]
) -> tuple[NodeClaim, ...]:
    """Return the claims in capacity blocks that are about to end: AWS takes their machines whatever runs on them."""
    ending = {
        each.id
        for node_class in node_classes
        for each in node_class.status.capacity_reservations
        if each.state == "expiring"
    }
    return tuple(
        claim
        for claim in claims
        if _is_reserved(claim) and claim.metadata.labels.get(labels.CAPACITY_RESERVATION_ID) in ending
    )


def released_claims(claims: Iterable[NodeClaim], machines: Iterable[Machine]) -> tuple[NodeClaim, ...]:
    """Return the claims whose reservation has ended while their machine runs on, and is paid by the hour from then.

    To be labelled with ``RELEASED_LABELS``, and their nodes with them; otherwise they would look free of charge.
    """
    paid = {
        each.provider_id
        for each in machines
        if each.is_living and each.labels.get(labels.CAPACITY_TYPE) == labels.ON_DEMAND
    }
    return tuple(claim for claim in claims if _is_reserved(claim) and claim.status.provider_id in paid)


def _is_reserved(claim: NodeClaim) -> bool:
    return claim.metadata.labels.get(labels.CAPACITY_TYPE) == labels.RESERVED
