# SPDX-License-Identifier: Apache-2.0
"""A small cluster, one pod that finds no place in it, and what is said about that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from karpenter.api.core import Pod
from karpenter.api.nodepool import NodePool
from karpenter.model.instancetypes import InstanceType
from karpenter.model.snapshot import NodeView
from karpenter.scheduling import Cause, Plan, Rejection, SolveOptions, solve
from karpenter.scheduling.explanation import apply, describe_fix
from karpenter.scheduling.reasons import Constraint, Reason
from tests.strategies.clusters import node, nodepool
from tests.strategies.machines import small_catalogue
from tests.strategies.pods import pod
from tests.strategies.problems import Problem

__all__ = [
    "causes",
    "holding",
    "only_constraint",
    "only_reason",
    "plan_of",
    "refusal",
    "words_of_working_fixes",
]


def problem_of(
    asked: Pod, *pools: NodePool, types: Iterable[InstanceType] | None = None, **cluster: Any
) -> Problem:
    kinds = small_catalogue() if types is None else types
    return Problem(pods=(asked,), nodepools=pools or (nodepool(),), types=tuple(kinds), **cluster)


def plan_of(asked: Pod, *pools: NodePool, options: SolveOptions | None = None, **cluster: Any) -> Plan:
    problem = problem_of(asked, *pools, **cluster)
    return solve(problem.snapshot(), problem.pods, options)


def refusal(asked: Pod, *pools: NodePool, options: SolveOptions | None = None, **cluster: Any) -> Rejection:
    """Give why a pod finds no place; fails if it finds one."""
    (rejection,) = plan_of(asked, *pools, options=options, **cluster).rejections
    return rejection


def only_reason(rejection: Rejection) -> Reason:
    (reason,) = rejection.reasons
    return reason


def only_constraint(rejection: Rejection) -> Constraint:
    (constraint,) = only_reason(rejection).constraints
    return constraint


def causes(reason: Reason) -> list[Cause]:
    return [each.cause for each in reason.constraints]


def words_of_working_fixes(asked: Pod, *pools: NodePool, **cluster: Any) -> list[str]:
    """Give the fixes in words, each carried out and found to place the pod."""
    problem = problem_of(asked, *pools, **cluster)
    snapshot = problem.snapshot()
    (rejection,) = solve(snapshot, problem.pods).rejections
    for fix in rejection.explanation.fixes:
        changed, pod_then = apply(snapshot, asked, fix)
        assert solve(changed, [pod_then]).rejections == (), describe_fix(fix)
    return [describe_fix(fix) for fix in rejection.explanation.fixes]


def holding(name: str, zone: str, app: str, **options: Any) -> NodeView:
    """Give a standing node, full but for one place, that holds a pod of an app."""
    held = pod(f"on-{name}", labels={"app": app}, node_name=name, cpu="1", memory="1Gi", **options)
    return node(name, zone=zone, pods=[held], allocatable={"cpu": 1500, "memory": 2**31, "pods": 3})
