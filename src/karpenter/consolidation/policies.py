# SPDX-License-Identifier: Apache-2.0
"""Reads the disruption part of a NodePool, and says when a node has been quiet for long enough.

A value that cannot be read never makes removing easier: a broken consolidateAfter or policy means that nothing is
consolidated, a broken minimum saving that nodes are only ever taken without replacement. Each such value is a
``Problem`` for the NodePool's condition.
"""

from __future__ import annotations

from karpenter.api.nodepool import NodePool
from karpenter.consolidation.budgets import read_budgets
from karpenter.consolidation.types import Candidate, Policy, PoolPolicy, Problem
from karpenter.kit.durations import NEVER, DurationError, parse_nillable_duration
from karpenter.kit.quantity import QuantityError
from karpenter.model.resources import Resources

__all__ = ["consolidatable_at", "pool_policy"]

_NODES = "nodes"
_NOTHING_BUT_DELETES = 1.0


def pool_policy(nodepool: NodePool) -> PoolPolicy:
    """Return what a NodePool says about taking its nodes away."""
    disruption = nodepool.spec.disruption
    budgets, found = read_budgets(disruption.budgets)
    problems = list(found)
    after = _consolidate_after(disruption.consolidate_after, problems)
    policy = Policy.WHEN_EMPTY_OR_UNDERUTILIZED
    if disruption.consolidation_policy in set(Policy):
        policy = Policy(disruption.consolidation_policy)
    else:
        after = None
        problems.append(
            _problem(
                "disruption.consolidationPolicy",
                disruption.consolidation_policy,
                f"is no policy; use {', '.join(Policy)}",
            )
        )
    return PoolPolicy(
        name=nodepool.metadata.name,
        policy=policy,
        consolidate_after_s=after,
        budgets=budgets,
        replicas=nodepool.spec.replicas,
        node_limit=_node_limit(nodepool, problems),
        minimum_saving=_minimum_saving(disruption.minimum_saving, problems),
        problems=tuple(problems),
    )


def consolidatable_at(candidate: Candidate, policy: PoolPolicy) -> float | None:
    """Return from when on a node counts as quiet, as Karpenter's Consolidatable condition; None for never.

    That is consolidateAfter later than its last pod came or went, or than it became ready if none did.
    """
    if candidate.initialized_at is None or policy.consolidate_after_s is None:
        return None
    # A pod event from before it was ready is one of the pods that it was made for.
    last = max(candidate.initialized_at, candidate.last_pod_event or 0.0)
    return last + policy.consolidate_after_s


def _consolidate_after(text: str, problems: list[Problem]) -> float | None:
    # Only an object that was written through v1beta1 has none, and there it means at once.
    if not text:
        return 0.0
    try:
        duration = parse_nillable_duration(text)
    except DurationError as error:
        problems.append(_problem("disruption.consolidateAfter", text, f"{error.message}; {error.hint}"))
        return None
    return None if duration is NEVER else duration.seconds


def _minimum_saving(text: str, problems: list[Problem]) -> float | None:
    if not text:
        return None
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if text.endswith("%") and 0 <= share <= 1:
        return share
    problems.append(_problem("disruption.minimumSaving", text, 'is no share; write for example "5%"'))
    return _NOTHING_BUT_DELETES


def _node_limit(nodepool: NodePool, problems: list[Problem]) -> int | None:
    limit = nodepool.spec.limits.get(_NODES)
    if limit is None:
        return None
    try:
        return Resources.parse({_NODES: limit})[_NODES]
    except QuantityError as error:
        problems.append(_problem("limits.nodes", str(limit), f"{error.message}; {error.hint}"))
        return 0


def _problem(field: str, value: str, words: str) -> Problem:
    return Problem(field, value, f'{field}: "{value}" {words}' if value not in words else f"{field}: {words}")
