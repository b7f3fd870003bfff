# SPDX-License-Identifier: Apache-2.0
"""Whether a NodePool can be used, and if not, why: pure.

Its fields must make sense beyond what the CRD can check, its node class must be there and ready, its requirements must
leave some instance type, and its launches must not be paused. All of this decides Ready, by the condition types that
Karpenter has: what is not about the node class is ValidationSucceeded. Two conditions inform and decide nothing:
InstanceTypesFound (a pool for reservations that are not there now stays Ready, because they come and go) and
DisruptionValid (a budget that cannot be read lets no node go).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from karpenter.api import labels as names
from karpenter.api.base import RawQuantity
from karpenter.api.conditions import (
    NODE_CLASS_READY,
    NODE_POOL,
    READY,
    VALIDATION_SUCCEEDED,
    ConditionSet,
)
from karpenter.api.core import Taint
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.meta import Condition
from karpenter.api.nodeclaim import Requirement
from karpenter.api.nodepool import NodePool
from karpenter.cloud.protocol import GroupKind
from karpenter.consolidation import pool_policy
from karpenter.controllers.nodepool.compatibility import never_fits, nothing_fits
from karpenter.errors import KarpenterError
from karpenter.model.instancetypes import InstanceType
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.model.taints import same_taint

__all__ = [
    "DISRUPTION_VALID",
    "INSTANCE_TYPES_FOUND",
    "LAUNCHES_PAUSED",
    "judged",
    "problem_of",
]

LAUNCHES_PAUSED: Final = "LaunchesPaused"
NO_COMPATIBLE_TYPES: Final = "NoCompatibleInstanceTypes"

# Ours: informs, decides nothing.
INSTANCE_TYPES_FOUND: Final = "InstanceTypesFound"
# Ours: what cannot be read lets nothing be removed, and stops nothing else.
DISRUPTION_VALID: Final = "DisruptionValid"

# The API server's limit on an object's annotations in bytes, and what we keep of it for our own.
_MOST_ANNOTATIONS: Final = 256 * 1024
_OUR_ANNOTATIONS: Final = 4096


def judged(
    pool: NodePool,
    node_class: EC2NodeClass | None,
    types: Sequence[InstanceType] | None,
    now: datetime,
    *,
    class_kind: GroupKind,
    pause: str = "",
) -> ConditionSet:
    """Return the pool's conditions as they are now.

    Args:
        pool: The pool.
        node_class: The class that it names, if there is one.
        types: What the class can launch; None if that is not known, and then the last verdict on them stays.
        now: The time of what changes.
        class_kind: The kind of node class that nodes can be made from here.
        pause: Why no node is made for a while; empty if nodes are made.
    """
    conditions = ConditionSet.of(NODE_POOL, pool.metadata, pool.status.conditions)
    conditions = _class_readiness(pool, node_class, class_kind, conditions, now)
    conditions = _disruption(pool, conditions, now)
    problem = problem_of(pool)
    if types is not None and not problem:
        conditions = _types_found(pool, types, conditions, now)
    reason, message = _validity(pool, types, conditions, problem, pause)
    if reason:
        return conditions.false(VALIDATION_SUCCEEDED, now, reason=reason, message=message)
    return conditions.true(VALIDATION_SUCCEEDED, now)


def _validity(
    pool: NodePool,
    types: Sequence[InstanceType] | None,
    conditions: ConditionSet,
    problem: str,
    pause: str,
) -> tuple[str, str]:
    """Return reason and message for which a pool makes no nodes, its node class apart; two empty texts if it does."""
    if problem:
        return "NodePoolValidationFailed", problem
    if types is not None:
        missing = never_fits(pool, types)
    else:
        last = conditions.get(VALIDATION_SUCCEEDED)
        was_missing = last is not None and last.reason == NO_COMPATIBLE_TYPES
        missing = last.message if last is not None and was_missing and _is_of_now(pool, last) else ""
    if missing:
        return NO_COMPATIBLE_TYPES, missing
    return (LAUNCHES_PAUSED, pause) if pause else ("", "")


def _is_of_now(pool: NodePool, condition: Condition) -> bool:
    return condition.observed_generation == pool.metadata.generation


def _types_found(
    pool: NodePool, types: Sequence[InstanceType], conditions: ConditionSet, now: datetime
) -> ConditionSet:
    missing = nothing_fits(pool, types)
    if missing:
        return conditions.false(INSTANCE_TYPES_FOUND, now, reason=NO_COMPATIBLE_TYPES, message=missing)
    return conditions.true(INSTANCE_TYPES_FOUND, now)


def _class_readiness(
    pool: NodePool,
    node_class: EC2NodeClass | None,
    class_kind: GroupKind,
    conditions: ConditionSet,
    now: datetime,
) -> ConditionSet:
    reason, words = _class_problem(pool, node_class, class_kind)
    if not reason:
        return conditions.true(NODE_CLASS_READY, now)
    if reason == "NodeClassReadinessUnknown":
        return conditions.unknown(NODE_CLASS_READY, now, reason=reason, message=words)
    return conditions.false(NODE_CLASS_READY, now, reason=reason, message=words)


def _disruption(pool: NodePool, conditions: ConditionSet, now: datetime) -> ConditionSet:
    """Says what of the disruption part cannot be read; a pool that was never in that trouble says nothing."""
    problems = pool_policy(pool).problems
    if problems:
        words = "; ".join(f"spec.{each.words}" for each in problems)
        return conditions.false(DISRUPTION_VALID, now, reason="DisruptionUnreadable", message=words)
    known = conditions.get(DISRUPTION_VALID) is not None
    return conditions.true(DISRUPTION_VALID, now) if known else conditions


def problem_of(pool: NodePool) -> str:
    """Gives what is wrong with a pool's own words, beyond its schema; empty if nothing is."""
    entries = enumerate(pool.spec.template.spec.requirements)
    found = (
        _annotation_problem(pool),
        _taint_problem(pool),
        *(_limit_problem(*each) for each in pool.spec.limits.items()),
        *(_requirement_problem(*each) for each in entries),
    )
    return next(filter(None, found), "")


def _annotation_problem(pool: NodePool) -> str:
    annotations = pool.spec.template.metadata.annotations
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size <= _MOST_ANNOTATIONS - _OUR_ANNOTATIONS:
        return ""
    return (
        f"spec.template.metadata.annotations: {size} bytes, and an object may carry {_MOST_ANNOTATIONS}, of which we"
        f" need {_OUR_ANNOTATIONS}; no NodeClaim could be made with them"
    )


def _taint_problem(pool: NodePool) -> str:
    template = pool.spec.template.spec
    seen: list[Taint] = []
    for taint in (*template.taints, *template.startup_taints):
        if any(same_taint(taint, each) for each in seen):
            return f"spec.template.spec: taint {taint.key}:{taint.effect} is there twice (taints and startupTaints)"
        seen.append(taint)
    return ""


def _limit_problem(resource: str, limit: RawQuantity) -> str:
    try:
        amount = Resources.parse({resource: limit}).get(resource, 0)
    except KarpenterError as error:
        return f"spec.limits[{resource}]: {error.message}"
    if amount < 0:
        return f"spec.limits[{resource}]: {limit} is negative, so no node could be made; 0 is the least"
    return ""


def _requirement_problem(index: int, entry: Requirement) -> str:
    field = f"spec.template.spec.requirements[{index}]"
    try:
        Requirements.from_expressions((entry,))
    except KarpenterError as error:
        return f"{field}: {error.message}; {error.hint}" if error.hint else f"{field}: {error.message}"
    if entry.key != names.CAPACITY_TYPE or entry.operator != "In":
        return ""
    known = [value for value in entry.values if value in names.CAPACITY_TYPES]
    if not known:
        allowed = ", ".join(sorted(names.CAPACITY_TYPES))
        return f"{field}.values: none of {', '.join(entry.values)} is a capacity type: {allowed}"
    if entry.min_values and len(known) < entry.min_values:
        return (
            f"{field}.minValues: {entry.min_values} of {len(known)} known capacity types cannot be kept open"
        )
    return ""


def _class_problem(pool: NodePool, node_class: EC2NodeClass | None, class_kind: GroupKind) -> tuple[str, str]:
    reference = pool.spec.template.spec.node_class_ref
    name = reference.name
    if not class_kind.is_named_by(pool):
        words = (
            f"nodeClassRef names {reference.kind}.{reference.group}, which is no node class here;"
            f" did you mean {class_kind}?"
        )
        return "NodeClassNotFound", words
    if node_class is None:
        return (
            "NodeClassNotFound",
            f"EC2NodeClass {name} is not there: create it, or correct nodeClassRef.name",
        )
    if node_class.metadata.deletion_timestamp is not None:
        return "NodeClassTerminating", f"EC2NodeClass {name} is being deleted"
    ready = next((each for each in node_class.status.conditions if each.type == READY), None)
    if ready is None or ready.status == "Unknown":
        return "NodeClassReadinessUnknown", f"EC2NodeClass {name} has not been looked at yet"
    if ready.status == "False":
        return ready.reason or "NodeClassNotReady", ready.message or f"EC2NodeClass {name} is not ready"
    return "", ""
