# SPDX-License-Identifier: Apache-2.0
"""What every object carries: metadata, owners, conditions; and the label selector that many specs hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from karpenter.api.base import EMPTY, Frozen

__all__ = [
    "Condition",
    "ConditionStatus",
    "LabelSelector",
    "LabelSelectorRequirement",
    "ListMeta",
    "ObjectMeta",
    "OwnerReference",
]

ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"]


class OwnerReference(Frozen):
    """The object that this one belongs to; deleting the owner deletes it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Frozen):
    """Name, identity and bookkeeping of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ListMeta(Frozen):
    """Where a list stands in the history of the cluster, and the token for its next page."""

    resource_version: str = ""
    continue_: str = ""
    remaining_item_count: int | None = None


class Condition(Frozen):
    """One thing that is true, false or not yet known about an object, since when and why.

    The status stays text: a foreign controller may write what it likes.
    """

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class LabelSelectorRequirement(Frozen):
    """One expression of a label selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Frozen):
    """Labels that objects must have; an empty selector selects everything, an absent one nothing."""

    match_labels: Mapping[str, str] = EMPTY
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
