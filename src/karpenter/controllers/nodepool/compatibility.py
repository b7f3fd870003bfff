# SPDX-License-Identifier: Apache-2.0
"""Which requirements of a NodePool exclude every instance type that its node class can launch: pure.

``nothing_fits`` judges by what is offered now, ``never_fits`` leaves out what comes and goes by itself: capacity
reservations. Offerings that are sold out count, because they come back. Both name the requirement, and what was
probably meant by it: another value, another label, or one of the values that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from karpenter.api import labels as names
from karpenter.api.nodepool import NodePool
from karpenter.model.instancetypes import InstanceType
from karpenter.model.requirements import Requirement, Requirements
from karpenter.model.spelling import meant_label, meant_value

__all__ = ["never_fits", "nothing_fits"]

_OF_RESERVATIONS: Final = (
    names.CAPACITY_RESERVATION_ID,
    names.CAPACITY_RESERVATION_TYPE,
    names.CAPACITY_RESERVATION_INTERRUPTIBLE,
)
# More values than this are not listed, and not guessed at: a person would not read them either.
_MOST_LISTED: Final = 12


def nothing_fits(pool: NodePool, types: Sequence[InstanceType]) -> str:
    """Return why no type is left by the pool's requirements, and what was probably meant; empty if some is."""
    return _excluded(Requirements.from_expressions(pool.spec.template.spec.requirements), types)


def never_fits(pool: NodePool, types: Sequence[InstanceType]) -> str:
    """Return why no type is left even if every capacity reservation were there that the pool may use."""
    requirements = Requirements.from_expressions(pool.spec.template.spec.requirements)
    if requirements.on(names.CAPACITY_TYPE).has(names.RESERVED):
        requirements = requirements.without(names.CAPACITY_TYPE, *_OF_RESERVATIONS)
    return _excluded(requirements, types)


def _excluded(requirements: Requirements, types: Sequence[InstanceType]) -> str:
    if any(_fits(each, requirements) for each in types):
        return ""
    for requirement in requirements:
        if not any(_fits(each, Requirements((requirement,))) for each in types):
            return _unmet(requirement, types)
    for requirement in requirements:
        others = requirements.without(requirement.key)
        if any(_fits(each, others) for each in types):
            return f"no instance type meets {requirement} together with the other requirements"
    return f"no instance type meets all requirements: {requirements}"


def _unmet(requirement: Requirement, types: Sequence[InstanceType]) -> str:
    """Say that no type meets a requirement, and what was probably meant by it."""
    key, asked = requirement.key, sorted(requirement.values)
    named = ", ".join(asked)
    said = f"no instance type meets {requirement}"
    if key == names.INSTANCE_TYPE and not requirement.complement:
        said = f"no EC2 instance type of this node class is called {named}"
    if requirement.complement or not asked:
        return said
    other = _meant_label(key, asked, types)
    if other:
        return f"{said}; did you mean {other} In [{named}]?"
    known = _values(key, types)
    if len(asked) <= _MOST_LISTED:
        better = [meant_value(key, value, known) for value in asked]
        if all(better):
            return f"{said}; did you mean {', '.join(dict.fromkeys(better))}?"
    return said + _offered(key, known)


def _meant_label(key: str, asked: Sequence[str], types: Sequence[InstanceType]) -> str:
    """Return the label that the values belong to of which any is known; the class may not offer all of them."""

    def values_of(label: str) -> frozenset[str]:
        return _values(label, types)

    known = [value for value in asked if meant_label(key, (value,), values_of)]
    return meant_label(key, known, values_of) if known else ""


def _offered(key: str, known: frozenset[str]) -> str:
    """Return where to find the values that there are."""
    if key == names.INSTANCE_TYPE:
        return "; see `aws ec2 describe-instance-types` for the names of the region"
    if key in (names.ZONE, names.ZONE_ID):
        return f"; the node class has subnets in {', '.join(sorted(known)) or 'no zone'}"
    return f"; the node class offers {', '.join(sorted(known))}" if 0 < len(known) <= _MOST_LISTED else ""


def _values(key: str, types: Sequence[InstanceType]) -> frozenset[str]:
    """Return the values of a label among the types and their offerings."""
    if key == names.INSTANCE_TYPE:
        return frozenset(each.name for each in types)
    offerings = [offering for each in types for offering in each.offerings]
    if key == names.ZONE:
        return frozenset(offering.zone for offering in offerings)
    if key == names.CAPACITY_TYPE:
        return frozenset(offering.capacity_type for offering in offerings)
    labels = [*(each.labels for each in types), *(offering.labels for offering in offerings)]
    return frozenset(each[key] for each in labels if each.get(key))


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
