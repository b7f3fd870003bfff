# SPDX-License-Identifier: Apache-2.0
"""One message of the interruption queue: bytes in, a value out, whatever the bytes are.

An event of EventBridge is known by its version, source and detail type; the table ``_READERS`` has all that concern us.
Anything else is an ``Ignored`` with its reason: text that is no JSON, events of another kind, another account or
another region, states that need nothing done, events that name no instance. EventBridge writes account and region into
every event, so an event without them did not come from there. Nothing here raises for any input, because one bad
message must not stop the good ones behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

__all__ = ["Ignored", "IgnoredReason", "Interruption", "InterruptionKind", "parse_message"]

# What SQS carries at most; a longer text did not come from there.
_LONGEST_BYTES: Final = 1024 * 1024
_INSTANCE_ID: Final = re.compile(r"i-[0-9a-f]{1,32}")
_TOLD_CHARACTERS: Final = 120


class InterruptionKind(StrEnum):
    """What happens to an instance; the values are those of Karpenter's metric."""

    SPOT_INTERRUPTED = "spot_interrupted"
    REBALANCE_RECOMMENDATION = "rebalance_recommendation"
    INSTANCE_STOPPED = "instance_stopped"
    INSTANCE_TERMINATED = "instance_terminated"
    SCHEDULED_CHANGE = "scheduled_change"
    CAPACITY_RESERVATION_INTERRUPTED = "capacity_reservation_interrupted"
    INSTANCE_STATUS = "instance_status"
    SYSTEM_STATUS = "system_status"
    EVENT_STATUS = "event_status"

    @property
    def ends_the_node(self) -> bool:
        """Whether the node is to be given up; a recommendation is only told."""
        return self is not InterruptionKind.REBALANCE_RECOMMENDATION

    @property
    def is_forceful(self) -> bool:
        """Whether draining cannot be waited for, because the machine does not answer any more."""
        return self in {InterruptionKind.INSTANCE_STATUS, InterruptionKind.SYSTEM_STATUS}


@dataclass(frozen=True, slots=True)
class Interruption:
    """Something that happens to instances.

    Attributes:
        kind: What.
        instance_ids: To which; at least one, each once.
        at: When, as AWS says; None if it does not say it readably.
        message_id: The event it was told by; empty for what was found by asking.
        reservation_id: The capacity reservation that is taken back.
        detail: What AWS says in words.
    """

    kind: InterruptionKind
    instance_ids: tuple[str, ...]
    at: datetime | None = None
    message_id: str = ""
    reservation_id: str = ""
    detail: str = ""


class IgnoredReason(StrEnum):
    """Why a message means nothing to us."""

    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"
    NOT_AN_EVENT = "not_an_event"
    UNKNOWN_VERSION = "unknown_version"
    UNKNOWN_KIND = "unknown_kind"
    NO_ACCOUNT = "no_account"
    FOREIGN_ACCOUNT = "foreign_account"
    FOREIGN_REGION = "foreign_region"
    NOTHING_TO_DO = "nothing_to_do"
    NO_INSTANCE = "no_instance"

    @property
    def is_forgery(self) -> bool:
        """Whether no event of our own account can be so: it is told, not only counted."""
        return self in {IgnoredReason.NO_ACCOUNT, IgnoredReason.FOREIGN_ACCOUNT}


@dataclass(frozen=True, slots=True)
class Ignored:
    """A message that means nothing to us, and why; ``detail`` is short whatever the message was."""

    reason: IgnoredReason
    detail: str = ""


Details: TypeAlias = Mapping[str, Any]


def parse_message(body: bytes, *, account: str, region: str) -> Interruption | Ignored:
    """Return what a message says, for any bytes whatever.

    Args:
        body: The message.
        account: Our account; messages of another, or of none, are ignored.
        region: Our region, likewise.
    """
    if len(body) > _LONGEST_BYTES:
        return Ignored(IgnoredReason.TOO_LARGE, f"{len(body)} bytes")
    try:
        event = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        return Ignored(IgnoredReason.NOT_JSON, _short(error))
    if not isinstance(event, dict):
        return Ignored(IgnoredReason.NOT_AN_EVENT, _short(event))
    refused = _refused(event, account, region)
    if refused is not None:
        return refused
    reader = _READERS[_text(event, "source"), _text(event, "detail-type")]
    detail = event.get("detail")
    read = reader(detail if isinstance(detail, dict) else {})
    if isinstance(read, Ignored):
        return read
    return replace(read, at=_moment(event.get("time")), message_id=_text(event, "id"))


def _refused(event: Details, account: str, region: str) -> Ignored | None:
    source, detail_type = _text(event, "source"), _text(event, "detail-type")
    if not source or not detail_type:
        return Ignored(IgnoredReason.NOT_AN_EVENT, "it has no source or no detail-type")
    if _text(event, "version") != "0":
        return Ignored(IgnoredReason.UNKNOWN_VERSION, _short(event.get("version")))
    if (source, detail_type) not in _READERS:
        return Ignored(IgnoredReason.UNKNOWN_KIND, _short(f"{source} / {detail_type}"))
    owner = _text(event, "account")
    if not owner or owner != account:
        reason = IgnoredReason.FOREIGN_ACCOUNT if owner else IgnoredReason.NO_ACCOUNT
        return Ignored(reason, _short(owner or f"{source} / {detail_type}"))
    if _text(event, "region") != region:
        return Ignored(IgnoredReason.FOREIGN_REGION, _short(event.get("region")))
    return None


def _spot(detail: Details) -> Interruption | Ignored:
    return _of_one(InterruptionKind.SPOT_INTERRUPTED, detail, told=_text(detail, "instance-action"))


def _rebalance(detail: Details) -> Interruption | Ignored:
    return _of_one(InterruptionKind.REBALANCE_RECOMMENDATION, detail)


_STATES: Final = {
    "stopping": InterruptionKind.INSTANCE_STOPPED,
    "stopped": InterruptionKind.INSTANCE_STOPPED,
    "shutting-down": InterruptionKind.INSTANCE_TERMINATED,
    "terminated": InterruptionKind.INSTANCE_TERMINATED,
}


def _state_change(detail: Details) -> Interruption | Ignored:
    state = _text(detail, "state").lower()
    kind = _STATES.get(state)
    if kind is None:
        return Ignored(IgnoredReason.NOTHING_TO_DO, _short(f"state {state or 'missing'}"))
    return _of_one(kind, detail, told=state)


def _health(detail: Details) -> Interruption | Ignored:
    service, category = _text(detail, "service"), _text(detail, "eventTypeCategory")
    if service != "EC2" or category != "scheduledChange":
        return Ignored(IgnoredReason.NOTHING_TO_DO, _short(f"{service} {category}"))
    entities = detail.get("affectedEntities")
    named = (each.get("entityValue") for each in _dicts(entities))
    return _of_many(InterruptionKind.SCHEDULED_CHANGE, named, told=_text(detail, "eventTypeCode"))


def _reservation(detail: Details) -> Interruption | Ignored:
    read = _of_one(InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED, detail)
    if isinstance(read, Ignored):
        return read
    return replace(read, reservation_id=_text(detail, "capacity-reservation-id"))


_READERS: Final[Mapping[tuple[str, str], Callable[[Details], Interruption | Ignored]]] = {
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"): _spot,
    ("aws.ec2", "EC2 Instance Rebalance Recommendation"): _rebalance,
    ("aws.ec2", "EC2 Instance State-change Notification"): _state_change,
    ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"): _reservation,
    ("aws.health", "AWS Health Event"): _health,
}


def _of_one(kind: InterruptionKind, detail: Details, told: str = "") -> Interruption | Ignored:
    return _of_many(kind, (detail.get("instance-id"),), told)


def _of_many(kind: InterruptionKind, named: Iterable[Any], told: str = "") -> Interruption | Ignored:
    # Health events may name instances by ARN, and volumes among them.
    ids = [each.rpartition("/")[2] for each in named if isinstance(each, str)]
    found = tuple(dict.fromkeys(each for each in ids if _INSTANCE_ID.fullmatch(each)))
    if not found:
        return Ignored(IgnoredReason.NO_INSTANCE, kind.value)
    return Interruption(kind, found, detail=told[:_TOLD_CHARACTERS])


def _dicts(value: Any) -> list[Details]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Details, key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _short(value: object) -> str:
    return str(value)[:_TOLD_CHARACTERS]


def _moment(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
