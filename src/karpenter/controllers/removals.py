# SPDX-License-Identifier: Apache-2.0
"""Nodes that are to go, within the budgets of their NodePools: checked and reserved in one step.

Every controller that heeds budgets asks here before it begins: whatever was granted counts for all others at once,
before a taint or a deletion can be seen. Nothing is awaited between the check and the reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from karpenter.consolidation.budgets import Quota
from karpenter.consolidation.types import PoolPolicy, Reason
from karpenter.state import Cluster, candidates

__all__ = ["reserve_removals"]


def reserve_removals(
    cluster: Cluster,
    groups: Iterable[Sequence[str]],
    reason: Reason,
    policies: Mapping[str, PoolPolicy],
    now: float,
) -> tuple[int, ...]:
    """Reserve groups of members that go together, and return the positions of those that budgets allow.

    Args:
        cluster: The cluster.
        groups: Names of nodes, or of claims that have no node; each group goes as a whole or not at all.
        reason: Why they go.
        policies: By NodePool; a group with a member of another pool is not allowed.
        now: The moment, in seconds since 1970.
    """
    wanted = [tuple(group) for group in groups]
    # One that is on its way out already, or not ready, uses nothing more up by going.
    own = [name for group in wanted for name in group]
    quota = Quota(candidates(cluster), policies, now, exempt=own)
    granted = []
    for position, group in enumerate(wanted):
        members = [member for name in group if (member := cluster.member(name)) is not None]
        trial = quota.copy()
        is_allowed = len(members) == len(group)
        for member in members:
            is_allowed = is_allowed and member.pool in policies and trial.has_room(member.pool, reason)
            trial.take(member.pool)
        if is_allowed:
            granted.append(position)
            quota = trial
            cluster.removals.reserve(
                member.claim.metadata.name for member in members if member.claim is not None
            )
    return tuple(granted)
