# SPDX-License-Identifier: Apache-2.0
"""Carries changes out on the model: on a pod's manifest, on a pool's requirements and limits.

This is pure: the cluster and the pod as they would be come back, nothing else changes. It is how a fix is tried before
it is offered, and how a what-if question is asked. The changes of a pool are made here too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from karpenter.api.base import to_wire
from karpenter.api.core import Pod
from karpenter.api.nodeclaim import Requirement as Entry
from karpenter.model.pools import Pool
from karpenter.model.requirements import Requirement, Requirements, parse_label_integer
from karpenter.model.resources import Resources
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling.reasons import Change, ChangeKind, Fix

__all__ = ["POD", "allowing", "apply", "limit_change", "min_values_change", "pool_name", "requirement_change"]

POD = "Pod"

_LIMITS = ("spec", "limits")
_REQUIREMENTS = ("spec", "template", "spec", "requirements")


def apply(snapshot: Snapshot, pod: Pod, fix: Fix) -> tuple[Snapshot, Pod]:
    """Return the cluster and the pod as the fix would leave them; a pool that is not there stays away."""
    for change in fix.changes:
        if change.object == POD:
            pod = _changed_pod(pod, change)
        else:
            pools = tuple(
                _changed_pool(pool, change) if pool_name(pool) == change.object else pool
                for pool in snapshot.pools
            )
            snapshot = replace(snapshot, pools=pools)
    return snapshot, pod


def pool_name(pool: Pool) -> str:
    """Return what changes call a pool."""
    return f"NodePool {pool.name}"


def _changed_pod(pod: Pod, change: Change) -> Pod:
    manifest = to_wire(pod)
    *way, last = change.path
    parent: Any = manifest
    for step in way:
        # Fields that are not set are not on the wire either.
        parent = parent[step] if isinstance(step, int) else parent.setdefault(step, {})
    if change.value is None:
        parent.pop(last, None)
    else:
        parent[last] = change.value
    return msgspec.json.decode(msgspec.json.encode(manifest), type=Pod)


def _changed_pool(pool: Pool, change: Change) -> Pool:
    subject = str(change.path[-1])
    if change.path[:-1] == _LIMITS:
        limit = Resources.parse({subject: change.value})[subject] - pool.used.get(subject, 0)
        return replace(pool, limits={**pool.limits, subject: limit})
    entries = msgspec.convert(change.value or [], list[Entry])
    kept = pool.requirements.without(subject)
    return replace(pool, requirements=kept.intersection(Requirements.from_expressions(entries)))


def limit_change(pool: Pool, resource: str, before: str, after: str) -> Change:
    """Return the change that raises a limit."""
    return Change(ChangeKind.RAISE_LIMIT, pool_name(pool), (*_LIMITS, resource), before, after, value=after)


def requirement_change(
    kind: ChangeKind, pool: Pool, key: str, new: Requirement | None, note: str = ""
) -> Change:
    """Return the change that puts another requirement, or none, in the place of a pool's own."""
    return Change(
        kind,
        pool_name(pool),
        (*_REQUIREMENTS, key),
        str(pool.requirements[key]),
        "" if new is None else str(new),
        value=None if new is None else [to_wire(entry) for entry in new.entries()],
        note=note,
    )


def min_values_change(pool: Pool, key: str, kept: int) -> Change:
    """Return the change that asks to keep fewer values of a label open."""
    new = msgspec.structs.replace(pool.requirements[key], min_values=kept or None)
    change = requirement_change(ChangeKind.LOWER_MIN_VALUES, pool, key, new)
    return replace(change, before=str(pool.requirements[key].min_values), after=str(kept))


def allowing(requirement: Requirement, value: str | None) -> Requirement | None:
    """Return the requirement widened by one value, or None where only dropping it would do."""
    if value is None:
        return None
    if requirement.gte is not None or requirement.lte is not None:
        number = parse_label_integer(value)
        if number is None:
            return None
        return msgspec.structs.replace(
            requirement,
            values=requirement.values - {value},
            gte=None if requirement.gte is None else min(requirement.gte, number),
            lte=None if requirement.lte is None else max(requirement.lte, number),
        )
    if requirement.complement:
        return msgspec.structs.replace(requirement, values=requirement.values - {value})
    return msgspec.structs.replace(requirement, values=requirement.values | {value})
