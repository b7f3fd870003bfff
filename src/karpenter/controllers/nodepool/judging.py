# SPDX-License-Identifier: Apache-2.0
"""Whether a NodePool can be used, and if not, why: pure.

Its words must make sense beyond what the CRD can check, its node class must be there and ready, and some instance type
must be left by its requirements. The last does not make the pool unready, because capacity comes and goes, but it is
said on the pool: nobody should have to wonder why it never makes a node. Neither does a budget that cannot be read: it
lets no node go, which is said too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from karpenter.api import labels as names
from karpenter.api.conditions import (
    NODE_CLASS_READY,
    NODE_POOL,
    READY,
    VALIDATION_SUCCEEDED,
    ConditionSet,
)
from karpenter.api.core import Taint
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import Requirement
from karpenter.api.nodepool import NodePool
from karpenter.consolidation import pool_policy
from karpenter.errors import KarpenterError
from karpenter.model.instancetypes import InstanceType
from karpenter.model.requirements import Requirements
from karpenter.model.taints import same_taint

__all__ = ["DISRUPTION_VALID", "INSTANCE_TYPES_FOUND", "judged", "nothing_fits", "problem_of"]

# Ours: informs, decides nothing.
INSTANCE_TYPES_FOUND: Final = "InstanceTypesFound"
# Ours: what cannot be read lets nothing be removed, and stops nothing else.
DISRUPTION_VALID: Final = "DisruptionValid"

# The API server's limit on an object's annotations in bytes, and what we keep of it for our own.
_MOST_ANNOTATIONS: Final = 256 * 1024
_OUR_ANNOTATIONS: Final = 4096

_MEANT_FOR: Final = (
    (names.INSTANCE_CATEGORY, "instance-category"),
    (names.INSTANCE_FAMILY, "instance-family"),
    (names.INSTANCE_SIZE, "instance-size"),
)


def judged(
    pool: NodePool,
    node_class: EC2NodeClass | None,
    types: Sequence[InstanceType] | None,
    now: datetime,
) -> ConditionSet:
    """Gives the pool's conditions as they are now; without types nothing is said about them."""
    conditions = ConditionSet.of(NODE_POOL, pool.metadata, pool.status.conditions)
    problem = problem_of(pool)
    if problem:
        conditions = conditions.false(
            VALIDATION_SUCCEEDED, now, reason="NodePoolValidationFailed", message=problem
        )
    else:
        conditions = conditions.true(VALIDATION_SUCCEEDED, now)
    reason, words = _class_problem(pool, node_class)
    if not reason:
        conditions = conditions.true(NODE_CLASS_READY, now)
    elif reason == "NodeClassReadinessUnknown":
        conditions = conditions.unknown(NODE_CLASS_READY, now, reason=reason, message=words)
    else:
        conditions = conditions.false(NODE_CLASS_READY, now, reason=reason, message=words)
    conditions = _disruption(pool, conditions, now)
    if types is None or problem:
        return conditions
    missing = nothing_fits(pool, types)
    if missing:
        return conditions.false(
            INSTANCE_TYPES_FOUND, now, reason="NoCompatibleInstanceTypes", message=missing
        )
    return conditions.true(INSTANCE_TYPES_FOUND, now)


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


def nothing_fits(pool: NodePool, types: Sequence[InstanceType]) -> str:
    """Gives why no type is left by the pool's requirements, and what was probably meant; empty if some is."""
    requirements = Requirements.from_expressions(pool.spec.template.spec.requirements)
    if any(_fits(kind, requirements) for kind in types):
        return ""
    wanted = requirements.get(names.INSTANCE_TYPE)
    known = {kind.name for kind in types}
    if wanted is not None and not wanted.complement and not (wanted.values & known):
        named = ", ".join(sorted(wanted.values))
        words = f"no EC2 instance type of this node class is called {named}"
        for key, short in _MEANT_FOR:
            if wanted.values & {kind.labels.get(key, "") for kind in types}:
                return f"{words}; did you mean {key} ({short}) In [{named}]?"
        return f"{words}; see `aws ec2 describe-instance-types` for the names of the region"
    for requirement in requirements:
        others = requirements.without(requirement.key)
        if any(_fits(kind, others) for kind in types):
            return f"no instance type meets {requirement} together with the other requirements"
    return f"no instance type meets all requirements: {requirements}"


def _fits(kind: InstanceType, requirements: Requirements) -> bool:
    for requirement in requirements:
        key = requirement.key
        if key == names.INSTANCE_TYPE:
            met = requirement.has(kind.name)
        elif key in kind.labels:
            met = requirement.has(kind.labels[key])
        elif key == names.ZONE:
            met = any(requirement.has(offering.zone) for offering in kind.offerings)
        elif key == names.CAPACITY_TYPE:
            met = any(requirement.has(offering.capacity_type) for offering in kind.offerings)
        elif any(key in offering.labels for offering in kind.offerings):
            met = any(requirement.has(offering.labels.get(key, "")) for offering in kind.offerings)
        else:
            # A label of the pool's own, or one that the type lacks.
            met = requirement.allows_absence() or key not in names.WELL_KNOWN
        if not met:
            return False
    return True


def _class_problem(pool: NodePool, node_class: EC2NodeClass | None) -> tuple[str, str]:
    name = pool.spec.template.spec.node_class_ref.name
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
