# SPDX-License-Identifier: Apache-2.0
"""What old objects say about themselves after the conversion, from the v1 objects made of them: pure.

A Provisioner has, as before, ``Active`` and ``Ready``; ``Converted`` tells whether it could be understood and what
moves, and what its NodePool says about instance types is repeated. An AWSNodeTemplate has no conditions in its schema:
it shows the subnets, groups and images that were found, and its troubles are on the Provisioners that use it, and in
events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from karpenter.api.conditions import NODE_CLASS_READY, READY, VALIDATION_SUCCEEDED
from karpenter.api.nodeclaim import NodeClaim
from karpenter.state import Stored

__all__ = [
    "ACTIVE",
    "CONVERTED",
    "INSTANCE_TYPES_FOUND",
    "Trouble",
    "condition_of",
    "provisioner_status",
    "template_status",
]

ACTIVE: Final = "Active"
CONVERTED: Final = "Converted"
INSTANCE_TYPES_FOUND: Final = "InstanceTypesFound"

_OURS: Final = (ACTIVE, CONVERTED, INSTANCE_TYPES_FOUND, READY)
_LONGEST_MESSAGE: Final = 2048
# What a NodePool counts and a Provisioner did not.
_NOT_COUNTED: Final = ("nodes",)
# Which fields of what was found the old kinds know.
_FOUND_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "subnets": ("id", "zone"),
    "securityGroups": ("id", "name"),
    "amis": ("id", "name", "requirements"),
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an old object is not, or no longer, what its v1 object says: one word and a sentence."""

    reason: str
    message: str


def provisioner_status(
    old: Stored,
    pool: Stored | None,
    claims: Iterable[NodeClaim],
    now: datetime,
    *,
    trouble: Trouble | None,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Gives the merge patch of a Provisioner's status; empty if it is up to date."""
    patch: dict[str, Any] = {}
    judged = _judged(pool, trouble, warnings)
    conditions = _with_times(judged, old.status.get("conditions") or (), now)
    if conditions != list(old.status.get("conditions") or ()):
        patch["conditions"] = conditions
    counted = dict((pool.status.get("resources") if pool is not None else None) or {})
    wanted = {name: amount for name, amount in counted.items() if name not in _NOT_COUNTED}
    known = dict(old.status.get("resources") or {})
    if wanted != known:
        patch["resources"] = {**{name: None for name in known if name not in wanted}, **wanted}
    scaled = max(filter(None, (each.metadata.creation_timestamp for each in claims)), default=None)
    if scaled is not None and _stamp(scaled) > str(old.status.get("lastScaleTime") or ""):
        patch["lastScaleTime"] = _stamp(scaled)
    return patch


def template_status(old: Stored, node_class: Stored | None) -> dict[str, Any]:
    """Gives the merge patch of an AWSNodeTemplate's status; empty if it is up to date."""
    if node_class is None:
        return {}
    patch = {}
    for name, fields in _FOUND_FIELDS.items():
        found = [
            {field: each[field] for field in fields if field in each}
            for each in node_class.status.get(name) or ()
        ]
        if found != list(old.status.get(name) or ()):
            patch[name] = found
    return patch


def condition_of(item: Stored | None, kind: str) -> Mapping[str, Any]:
    """Gives a condition of an object as it is stored; empty if it has none of that type."""
    conditions = (item.status.get("conditions") if item is not None else None) or ()
    return next((each for each in conditions if each.get("type") == kind), {})


def _judged(pool: Stored | None, trouble: Trouble | None, warnings: Sequence[str]) -> list[dict[str, Any]]:
    active = _active(pool, trouble)
    found = [active, _converted(trouble, warnings)]
    types = condition_of(pool, INSTANCE_TYPES_FOUND)
    if types:
        found.append(
            _condition(INSTANCE_TYPES_FOUND, types.get("status"), types.get("reason"), types.get("message"))
        )
    if trouble is not None:
        return [*found, _condition(READY, "False", trouble.reason, trouble.message)]
    return [*found, {**active, "type": READY}]


def _active(pool: Stored | None, trouble: Trouble | None) -> dict[str, Any]:
    if pool is None:
        if trouble is not None:
            return _condition(ACTIVE, "False", trouble.reason, "there is no NodePool made from it")
        return _condition(ACTIVE, "Unknown", "AwaitingReconciliation", "its NodePool is being made")
    if pool.metadata.deletion_timestamp is not None:
        return _condition(ACTIVE, "False", "Terminating", f"NodePool {pool.metadata.name} is being deleted")
    ready = condition_of(pool, READY)
    if ready.get("status") == "True":
        return _condition(ACTIVE, "True", "", "")
    # The root only names what it depends on; what that says is what a person needs.
    deciding = (condition_of(pool, each) for each in (VALIDATION_SUCCEEDED, NODE_CLASS_READY))
    cause = next((each for each in deciding if each.get("status") not in (None, "True")), ready)
    status = ready.get("status") or "Unknown"
    return _condition(ACTIVE, status, cause.get("reason") or "AwaitingReconciliation", cause.get("message"))


def _converted(trouble: Trouble | None, warnings: Sequence[str]) -> dict[str, Any]:
    if trouble is not None:
        return _condition(CONVERTED, "False", trouble.reason, trouble.message)
    if warnings:
        return _condition(CONVERTED, "True", "ConvertedWithWarnings", "; ".join(warnings))
    return _condition(CONVERTED, "True", "", "")


def _condition(kind: str, status: Any, reason: Any, message: Any) -> dict[str, Any]:
    whole = {
        "type": kind,
        "status": str(status),
        "reason": str(reason or ""),
        "message": _cut(str(message or "")),
    }
    return {key: value for key, value in whole.items() if value}


def _cut(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 1]}…"


def _with_times(
    judged: Iterable[dict[str, Any]], before: Iterable[Mapping[str, Any]], now: datetime
) -> list[dict[str, Any]]:
    known = {each.get("type"): each for each in before}
    timed = []
    for each in judged:
        old = known.get(each["type"], {})
        same = old.get("status") == each["status"] and old.get("lastTransitionTime")
        timed.append({**each, "lastTransitionTime": same or _stamp(now)})
    return [*(dict(each) for kind, each in known.items() if kind not in _OURS), *timed]


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
