# SPDX-License-Identifier: Apache-2.0
"""How one sees that a v1 object was made from an old one: an owner reference and an annotation, and both must be there.

The owner reference lets the server take the v1 object away with the old one; the annotation tells a person, and tells
our objects from those of somebody who gave theirs an old owner for reasons of their own. Whoever deletes an old object
with ``--cascade=orphan`` keeps the v1 object: it has no owner then, and is theirs. Whoever applies a manifest of the v1
object has written down what it should be: it is let go, so that the old object can be deleted without taking it along.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.api.base import to_wire
from karpenter.api.labels import COMPATIBILITY_GROUP
from karpenter.kube import Kind
from karpenter.state import Stored

__all__ = [
    "CONVERSION_HASH",
    "CONVERTED_FROM",
    "is_applied_by_hand",
    "is_from",
    "is_from_provisioner",
    "owner_reference",
    "without_marks",
]

# What the object was made from, as "Provisioner/name" or "AWSNodeTemplate/name".
CONVERTED_FROM: Final = f"{COMPATIBILITY_GROUP}/converted-from"
# A digest of what we asked for, so that a field that is no longer asked for is noticed.
CONVERSION_HASH: Final = f"{COMPATIBILITY_GROUP}/conversion-hash"

_PROVISIONER: Final = "Provisioner"
# What `kubectl apply` and tools like it leave on what they apply; a conversion never carries it over.
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def owner_reference(kind: Kind[Stored], old: Stored) -> dict[str, Any]:
    """Gives the reference by which an old object owns what is made from it."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": old.metadata.name,
        "uid": old.metadata.uid,
        "controller": True,
    }


def is_from(item: Stored, kind: str, name: str) -> bool:
    """Tells whether a v1 object was made from an old one of that kind and name, or from a namesake before it."""
    marked = item.metadata.annotations.get(CONVERTED_FROM) == f"{kind}/{name}"
    return marked and any(each.kind == kind and each.name == name for each in item.metadata.owner_references)


def is_from_provisioner(pool: Stored) -> bool:
    """Tells whether a NodePool was made from a Provisioner."""
    return is_from(pool, _PROVISIONER, pool.metadata.name)


def is_applied_by_hand(item: Stored) -> bool:
    """Tells whether somebody applied a manifest of the object."""
    return _APPLIED in item.metadata.annotations


def without_marks(item: Stored, kind: str, name: str) -> dict[str, Any]:
    """Gives the merge patch that lets an object go: it is nobody's then but whoever's applied it."""
    others = [
        to_wire(each) for each in item.metadata.owner_references if (each.kind, each.name) != (kind, name)
    ]
    marks = {CONVERTED_FROM: None, CONVERSION_HASH: None}
    named = {"uid": item.metadata.uid, "ownerReferences": others or None}
    return {"metadata": {**named, "annotations": marks}}
