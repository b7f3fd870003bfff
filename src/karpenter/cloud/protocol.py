# SPDX-License-Identifier: Apache-2.0
"""The questions and orders that controllers put to a cloud, and the values that come back.

A cloud decides nothing about pods. It says which machines it sells to a pool, launches one for a claim, tells what
became of it, and takes it back. Node classes are the cloud's own kind, so they come as arguments and the protocol is
generic in them. Every order may be given twice: ``create`` for a claim that has its machine gives that machine,
``delete`` for a machine that is gone says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol, TypeVar

from karpenter.api import labels
from karpenter.api.base import EMPTY
from karpenter.api.core import Node
from karpenter.api.meta import ConditionStatus
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.model.instancetypes import InstanceType

__all__ = [
    "LAUNCH_ATTEMPT",
    "CloudProvider",
    "GroupKind",
    "Machine",
    "NodeClassReadiness",
    "RepairPolicy",
    "launch_attempt",
    "next_attempt",
]

_NodeClass_contra = TypeVar("_NodeClass_contra", contravariant=True)

# How often the launch of a claim was tried and answered. Written on the claim before the next try, because the next
# process must know it too: it is half of what makes a launch happen once (the other half is the claim's UID).
LAUNCH_ATTEMPT: Final = f"{labels.GROUP}/launch-attempt"


@dataclass(frozen=True, slots=True)
class Machine:
    """One instance as the cloud has it; what a claim's status and labels are filled from.

    Attributes:
        provider_id: The instance as nodes name it, e.g. ``aws:///us-west-2a/i-0abc``.
        image_id: The image that it was started from.
        labels: Labels that the launch settled: type, zone, capacity type and all that follows from them.
        annotations: What later tells whether the machine still equals its node class.
        capacity: Resources of the whole machine, in base units; empty where nobody asked for the type.
        allocatable: Resources left for pods, likewise.
        state: pending, running, shutting-down, stopping or stopped.
        claim_uid: The claim that it was launched for, or empty if its tags do not tell.
        created_at: When it was launched, by the cloud's clock.
        tags: The cloud's tags.
    """

    provider_id: str
    image_id: str = ""
    labels: Mapping[str, str] = field(default=EMPTY)
    annotations: Mapping[str, str] = field(default=EMPTY)
    capacity: Mapping[str, int] = field(default=EMPTY)
    allocatable: Mapping[str, int] = field(default=EMPTY)
    state: str = "running"
    claim_uid: str = ""
    created_at: datetime | None = None
    tags: Mapping[str, str] = field(default=EMPTY)

    @property
    def is_living(self) -> bool:
        """Whether the machine may still become or be a node."""
        return self.state in {"pending", "running"}


@dataclass(frozen=True, slots=True)
class GroupKind:
    """An API group and a kind in it."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}"

    def is_named_by(self, pool: NodePool) -> bool:
        """Return whether a pool's nodeClassRef names this kind; an empty group or kind stands for it."""
        reference = pool.spec.template.spec.node_class_ref
        return (reference.group or self.group, reference.kind or self.kind) == (self.group, self.kind)


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """A node whose condition has this status for so long is broken, and is replaced."""

    condition_type: str
    condition_status: ConditionStatus
    toleration_s: float


@dataclass(frozen=True, slots=True)
class NodeClassReadiness:
    """Whether a node class can be launched from now, and if not, why."""

    ready: bool
    reason: str = ""
    message: str = ""


class CloudProvider(Protocol[_NodeClass_contra]):
    """A cloud that sells machines; ``_NodeClass_contra`` is its kind of node class."""

    @property
    def name(self) -> str:
        """The name of the cloud in logs and metrics."""
        ...

    @property
    def node_class_kind(self) -> GroupKind:
        """The kind of its node classes; pools that name another kind belong to another controller."""
        ...

    async def create(self, claim: NodeClaim, node_class: _NodeClass_contra) -> Machine:
        """Launch the machine of a claim, or give the one that it has already.

        The attempt is part of the order (see ``launch_attempt``): after a failure that the cloud answered with, the
        caller writes ``next_attempt`` to the claim before it calls again.

        Raises:
            InsufficientCapacityError: Nothing that fits can be bought now.
            NodeClassNotReadyError: The node class cannot be launched from.
            LaunchError: The cloud refused, or the claim's attempt is spent.
            LaunchPendingError: An earlier launch may still come to light.
        """
        ...

    async def delete(self, provider_id: str) -> None:
        """Order a machine to be terminated; it may take minutes to go, and until then ``get`` shows it going.

        Raises:
            NodeClaimNotFoundError: There is none any more.
            LaunchPendingError: It was launched a moment ago and the cloud does not know it yet.
            TerminationRefusedError: The cloud will not, until a person acts.
        """
        ...

    async def get(self, provider_id: str) -> Machine:
        """Return one living machine.

        Raises:
            NodeClaimNotFoundError: There is none.
        """
        ...

    async def list(self) -> Sequence[Machine]:
        """Return every machine of this cluster that is not terminated, by provider id."""
        ...

    async def instance_types(self, pool: NodePool, node_class: _NodeClass_contra) -> Sequence[InstanceType]:
        """Return what a pool may buy through a node class, sold-out offerings included and marked."""
        ...

    async def node_mismatch(self, provider_id: str, node: Node, node_class: _NodeClass_contra | None) -> str:
        """Return why a Node that names a machine cannot be the one that runs on it; empty if it can.

        Raises:
            NodeClaimNotFoundError: There is no such machine.
            LaunchPendingError: The cloud cannot tell yet.
        """
        ...

    async def drift_reason(self, claim: NodeClaim, node_class: _NodeClass_contra) -> str:
        """Return why a claim's machine no longer equals its node class, or an empty text."""
        ...

    def readiness(self, node_class: _NodeClass_contra) -> NodeClassReadiness:
        """Return whether a node class can be launched from, judged by its conditions."""
        ...

    def repair_policies(self) -> Sequence[RepairPolicy]:
        """Return which conditions of a node mean that its machine is to be replaced."""
        ...


def launch_attempt(claim: NodeClaim) -> int:
    """Return how many launches of the claim were tried and answered; 0 where nothing sensible is written."""
    text = claim.metadata.annotations.get(LAUNCH_ATTEMPT, "")
    return int(text) if text.isdecimal() else 0


def next_attempt(claim: NodeClaim) -> Mapping[str, str]:
    """Return the annotation to write to a claim before its launch is tried again."""
    return {LAUNCH_ATTEMPT: str(launch_attempt(claim) + 1)}
