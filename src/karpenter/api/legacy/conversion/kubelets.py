# SPDX-License-Identifier: Apache-2.0
"""Which node class carries which kubelet settings.

Kubelet settings stood on the pool in the old kinds and stand on the node class in v1. A class that pools with
different settings shared is therefore made once per distinct setting: the one that most pools use keeps the
name (the first in the input, if as many do), each other is called after the class and the first pool that
uses it. The choice hangs on the input alone, so it is the same every time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from karpenter.api.legacy.conversion.findings import ObjectRef, RawObject

__all__ = ["ClassUser", "Variant", "variants_of"]

# A node carries its class's name as a label value, so a name may not be longer than one.
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class ClassUser:
    """A pool, or a single claim, and what it asks of its node class."""

    ref: ObjectRef
    kubelet: RawObject


@dataclass(frozen=True, slots=True)
class Variant:
    """One class to make: its name, its kubelet settings, and who uses it."""

    name: str
    kubelet: RawObject
    users: tuple[ClassUser, ...] = ()


def variants_of(class_name: str, users: Sequence[ClassUser], taken: Collection[str]) -> list[Variant]:
    """Returns the classes to make of one old class, the one that keeps its name first.

    Args:
        class_name: The name of the old class.
        users: Who uses the class, in the order of the input.
        taken: Names that other classes have.
    """
    groups: dict[str, list[ClassUser]] = {}
    for user in users:
        groups.setdefault(json.dumps(user.kubelet, sort_keys=True), []).append(user)
    if not groups:
        return [Variant(class_name, {})]
    # sorted() is stable: among groups of one size the first in the input stays first.
    ordered = sorted(groups.values(), key=len, reverse=True)
    names = [class_name]
    for group in ordered[1:]:
        names.append(_free_name(f"{class_name}-{group[0].ref.name}", {*taken, *names}))
    return [Variant(name, group[0].kubelet, tuple(group)) for name, group in zip(names, ordered, strict=True)]


def _free_name(wanted: str, taken: Collection[str]) -> str:
    if len(wanted) <= _LONGEST_NAME and wanted not in taken:
        return wanted
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:8]
    return f"{wanted[: _LONGEST_NAME - 9].rstrip('-.')}-{digest}"
