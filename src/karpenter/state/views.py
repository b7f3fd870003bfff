# SPDX-License-Identifier: Apache-2.0
"""One member of the cluster as decisions see it, from its NodeClaim and its Node: pure.

Until a node of ours has registered, its claim speaks for it: labels, taints and resources are those that the
launch promised, and before the launch those that it was ordered for. Until it is initialised, resources that the
kubelet has not reported yet come from the claim too, and taints that vanish by themselves do not count; unless its
time for that is over. Nodes that are not ours are taken as they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from karpenter.api import labels as names
from karpenter.api.base import RawQuantity
from karpenter.api.conditions import INITIALIZED, is_true
from karpenter.api.core import Node, Pod, Taint
from karpenter.api.nodeclaim import NodeClaim
from karpenter.model.pods import is_terminal
from karpenter.model.resources import Resources
from karpenter.model.snapshot import NodeView
from karpenter.model.taints import is_ephemeral, same_taint

__all__ = ["Member", "capacity_of", "node_view"]


@dataclass(frozen=True, slots=True)
class Member:
    """A claim and its node, either of which may be missing."""

    claim: NodeClaim | None = None
    node: Node | None = None

    @property
    def name(self) -> str:
        """The node's name, or the claim's while there is no node."""
        if self.node is not None:
            return self.node.metadata.name
        return self.claim.metadata.name if self.claim is not None else ""

    @property
    def is_managed(self) -> bool:
        """Whether we made it."""
        return self.claim is not None or (
            self.node is not None and names.NODEPOOL in self.node.metadata.labels
        )

    @property
    def is_registered(self) -> bool:
        """Whether its node has joined and carries what its claim promised."""
        if not self.is_managed:
            return self.node is not None
        return self.node is not None and self.node.metadata.labels.get(names.REGISTERED) == "true"

    @property
    def is_initialized(self) -> bool:
        """Whether it is ready for work."""
        if not self.is_managed:
            return self.node is not None
        return self.node is not None and self.node.metadata.labels.get(names.INITIALIZED) == "true"

    @property
    def is_late(self) -> bool:
        """Whether it registered and was not ready for work in time: it is then taken as it stands."""
        conditions = self.claim.status.conditions if self.claim is not None else ()
        return not self.is_initialized and any(
            each.type == INITIALIZED and each.status == "False" for each in conditions
        )

    @property
    def is_launched(self) -> bool:
        """Whether there is an instance."""
        return self.node is not None or (self.claim is not None and bool(self.claim.status.provider_id))

    @property
    def is_being_deleted(self) -> bool:
        """Whether its claim or its node is being deleted."""
        objects = (self.claim, self.node)
        return any(each is not None and each.metadata.deletion_timestamp is not None for each in objects)

    @property
    def is_leaving(self) -> bool:
        """Whether it is being deleted, or is tainted because it is about to be."""
        if self.is_being_deleted:
            return True
        taints = self.node.spec.taints if self.node is not None else ()
        return any(same_taint(taint, names.DISRUPTED_TAINT) for taint in taints)

    @property
    def pool(self) -> str:
        """The NodePool it belongs to, or empty."""
        for each in (self.node, self.claim):
            if each is not None and names.NODEPOOL in each.metadata.labels:
                return each.metadata.labels[names.NODEPOOL]
        return ""

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels, and before it has registered those that the claim promises."""
        if self.is_registered and self.node is not None:
            return self.node.metadata.labels
        promised = dict(self.claim.metadata.labels) if self.claim is not None else {}
        own = dict(self.node.metadata.labels) if self.node is not None else {}
        return {**_single_values(self.claim), **promised, **own}

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The taints that pods must tolerate; our own wish that they go elsewhere is none of them."""
        if self.claim is None or self.is_initialized or self.is_late:
            found = self.node.spec.taints if self.node is not None else ()
            return tuple(taint for taint in found if taint.key != names.DISRUPTED_LATER_TAINT.key)
        startup = self.claim.spec.startup_taints
        found = (
            self.node.spec.taints if self.is_registered and self.node is not None else self.claim.spec.taints
        )
        return tuple(
            taint
            for taint in found
            if not is_ephemeral(taint) and not any(same_taint(taint, each) for each in startup)
        )

    def has_condition(self, condition: str) -> bool:
        """Tells whether a condition of the claim is True."""
        conditions = self.claim.status.conditions if self.claim is not None else ()
        return is_true(conditions, condition)


def node_view(
    member: Member,
    pods: Iterable[Pod],
    volume_limits: Mapping[str, int],
    price_per_hour: float | None = None,
) -> NodeView:
    """Gives the member as a solve sees it, with the pods that are on it or promised to it."""
    return NodeView(
        name=member.name,
        labels=member.labels,
        allocatable=_resources(member, "allocatable"),
        taints=member.taints,
        pods=tuple(pod for pod in pods if not is_terminal(pod)),
        initialized=member.is_initialized,
        managed=member.is_managed,
        pool=member.pool,
        volume_limits=volume_limits,
        price_per_hour=price_per_hour,
    )


def capacity_of(member: Member) -> Resources:
    """Gives the whole size of a member, which is what limits count."""
    return _resources(member, "capacity")


def _resources(member: Member, which: str) -> Resources:
    promised = _promised(member.claim, which) if member.claim is not None else {}
    reported = getattr(member.node.status, which) if member.node is not None else {}
    if member.is_initialized or member.is_late or not promised:
        return Resources.readable(reported)
    known = Resources.readable(reported)
    # A device plugin reports zero, or nothing, until it has started.
    return Resources.readable(
        {**reported, **{key: value for key, value in promised.items() if not known.get(key, 0)}}
    )


def _promised(claim: NodeClaim, which: str) -> Mapping[str, RawQuantity]:
    known: Mapping[str, RawQuantity] = getattr(claim.status, which)
    if known or which == "capacity" or claim.status.provider_id:
        return known
    # Nothing is launched yet; whatever comes will hold the pods that it was ordered for.
    return claim.spec.resources.requests


def _single_values(claim: NodeClaim | None) -> dict[str, str]:
    if claim is None:
        return {}
    return {
        each.key: each.values[0]
        for each in claim.spec.requirements
        if each.operator == "In" and len(each.values) == 1
    }
