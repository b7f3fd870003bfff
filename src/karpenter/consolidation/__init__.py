# SPDX-License-Identifier: Apache-2.0
"""Removing: ``propose(snapshot, situation, now)`` says which nodes go, what comes before them, and why others stay.

================  ==========================================================================================
``types``         what goes in and what comes out
``memory``        what is remembered from one round to the next
``tides``         how long things stay as they are, if today is like yesterday
``budgets``       how many nodes of a pool may go at once, and when
``policies``      what a NodePool says about taking its nodes away
``protection``    which pods must not be moved
``prices``        what nodes cost, and which prices are not believed
``ground``        every node of ours with all that is known of it
``stand``         the cluster as it would be
``launches``      what a replacement may be bought as
``payback``       whether a saving is worth the moving
``emptiness``     nodes without pods
``drift``         nodes that are no longer what their pool asks for
``underuse``      nodes that the cluster would be cheaper without
``proposing``     the decision
``validating``    the decision, looked at again
================  ==========================================================================================

Pure: no clock, no client, no log, no chance; the same question gets the same bytes.
"""

from karpenter.consolidation.budgets import Allowance, Quota, allowance
from karpenter.consolidation.memory import Memory, MemoryUnreadableError, workload_of
from karpenter.consolidation.policies import consolidatable_at, pool_policy
from karpenter.consolidation.proposing import propose
from karpenter.consolidation.types import (
    Blocked,
    BudgetRule,
    Candidate,
    Command,
    Move,
    Policy,
    PoolPolicy,
    Problem,
    Reason,
    Refusal,
    Settings,
    Situation,
    Stage,
    Verdict,
    VerdictKind,
)
from karpenter.consolidation.validating import validate

__all__ = [
    "Allowance",
    "Blocked",
    "BudgetRule",
    "Candidate",
    "Command",
    "Memory",
    "MemoryUnreadableError",
    "Move",
    "Policy",
    "PoolPolicy",
    "Problem",
    "Quota",
    "Reason",
    "Refusal",
    "Settings",
    "Situation",
    "Stage",
    "Verdict",
    "VerdictKind",
    "allowance",
    "consolidatable_at",
    "pool_policy",
    "propose",
    "validate",
    "workload_of",
]
