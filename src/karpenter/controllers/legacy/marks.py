# SPDX-License-Identifier: Apache-2.0
"""How one sees that a v1 object was made from an old one: an owner reference and an annotation, and both must be there.

The owner reference lets the server take the v1 object away with the old one; the annotation tells a person, and tells
our objects from those of somebody who gave theirs an old owner for reasons of their own. Whoever deletes an old object
with ``--cascade=orphan`` keeps the v1 object: it has no owner then, and is theirs.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.api.labels import COMPATIBILITY_GROUP
from karpenter.kube import Kind
from karpenter.state import Stored

__all__ = ["CONVERSION_HASH", "CONVERTED_FROM", "is_from", "is_from_provisioner", "owner_reference"]

# What the object was made from, as "Provisioner/name" or "AWSNodeTemplate/name".
CONVERTED_FROM: Final = f"{COMPATIBILITY_GROUP}/converted-from"
# A digest of what we asked for, so that a field that is no longer asked for is noticed.
CONVERSION_HASH: Final = f"{COMPATIBILITY_GROUP}/conversion-hash"

_PROVISIONER: Final = "Provisioner"


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
