# SPDX-License-Identifier: Apache-2.0
"""What the cluster says of each member of ours that could be taken away, as values for a decision."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from karpenter.api import labels as names
from karpenter.api.base import EMPTY
from karpenter.api.conditions import DRIFTED, INITIALIZED, INSTANCE_TERMINATING, READY, is_true
from karpenter.api.meta import Condition
from karpenter.api.nodeclaim import NodeClaim
from karpenter.consolidation.types import Candidate
from karpenter.kit.durations import DurationError, parse_duration
from karpenter.state.cluster import Cluster
from karpenter.state.views import Member

__all__ = ["candidates"]


def candidates(
    cluster: Cluster,
    *,
    staying: Collection[str] = (),
    retry_at: Mapping[str, float] = EMPTY,
) -> tuple[Candidate, ...]:
    """Gives every member of ours, by name, those on their way in and out included.

    Args:
        cluster: The cluster.
        staying: Names of nodes that count as if they were not on their way out.
        retry_at: By claim, the moment before which it is not to be tried again.
    """
    found = []
    for member in cluster.members():
        claim = member.claim
        if claim is not None:
            leaves = cluster.is_leaving(member) and member.name not in staying
            retry = retry_at.get(claim.metadata.name)
            found.append(_candidate(cluster, member, claim, leaves=leaves, retry_at=retry))
    return tuple(sorted(found, key=lambda each: each.name))


def _candidate(
    cluster: Cluster,
    member: Member,
    claim: NodeClaim,
    *,
    leaves: bool,
    retry_at: float | None,
) -> Candidate:
    initialized, drifted = _true(claim, INITIALIZED), _true(claim, DRIFTED)
    annotated = [each.metadata.annotations for each in (claim, member.node) if each is not None]
    is_ready = member.node is None or is_true(member.node.status.conditions, READY)
    return Candidate(
        name=member.name,
        claim=claim.metadata.name,
        pool=member.pool,
        created=_seconds(claim.metadata.creation_timestamp) or 0.0,
        initialized_at=_seconds(initialized.last_transition_time) if initialized is not None else None,
        last_pod_event=_seconds(cluster.pod_events.last(claim)),
        drifted=drifted.reason if drifted is not None else "",
        drifted_at=_seconds(drifted.last_transition_time) if drifted is not None else None,
        nominated=bool(cluster.nominations.pods_of(claim.metadata.name)),
        do_not_disrupt=any(each.get(names.DO_NOT_DISRUPT) == "true" for each in annotated)
        or cluster.informers.has_unreadable_pods(member.name),
        leaving=leaves,
        not_ready=not is_ready,
        gone=is_true(claim.status.conditions, INSTANCE_TERMINATING),
        termination_grace_period_s=_grace_s(claim),
        retry_at=retry_at,
    )


def _true(claim: NodeClaim, condition: str) -> Condition | None:
    return next(
        (each for each in claim.status.conditions if each.type == condition and each.status == "True"), None
    )


def _seconds(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment is not None else None


def _grace_s(claim: NodeClaim) -> float | None:
    if not claim.spec.termination_grace_period:
        return None
    try:
        return parse_duration(claim.spec.termination_grace_period).seconds
    except DurationError:
        return None
