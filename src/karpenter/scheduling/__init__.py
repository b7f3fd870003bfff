# SPDX-License-Identifier: Apache-2.0
"""Deciding: ``solve(snapshot, pods, options)`` gives the plan, a value. No clock, no client, no log, no chance."""

from karpenter.scheduling.options import SolveOptions
from karpenter.scheduling.plan import Alternative, NewNode, Plan, Rejection, Relaxation
from karpenter.scheduling.reasons import Cause, Constraint, Explanation, Fix, Reason
from karpenter.scheduling.solver import solve

__all__ = [
    "Alternative",
    "Cause",
    "Constraint",
    "Explanation",
    "Fix",
    "NewNode",
    "Plan",
    "Reason",
    "Rejection",
    "Relaxation",
    "SolveOptions",
    "solve",
]
