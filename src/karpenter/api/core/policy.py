# SPDX-License-Identifier: Apache-2.0
"""Pod disruption budgets: how many pods of a kind may be away at once."""

from __future__ import annotations

from karpenter.api.base import Frozen, IntOrString
from karpenter.api.meta import Condition, LabelSelector, ObjectMeta

__all__ = ["PodDisruptionBudget", "PodDisruptionBudgetSpec", "PodDisruptionBudgetStatus"]


class PodDisruptionBudgetSpec(Frozen):
    """Which pods, and how many must stay or may go; an unhealthy pod may be exempt."""

    selector: LabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str = "IfHealthyBudget"


class PodDisruptionBudgetStatus(Frozen):
    """How many pods may go at this moment, as the disruption controller counts."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Frozen):
    """A pod disruption budget (policy/v1)."""

    api_version: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
