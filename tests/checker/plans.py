# SPDX-License-Identifier: Apache-2.0
"""What the checker reads of a plan and of the options it was made with.

The shapes are written down here, apart from the code that makes plans, so that a plan from anywhere can be judged:
ours, another scheduler's, or one that a test made by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from karpenter.api.core import Pod

__all__ = ["AlternativeLike", "NewNodeLike", "OptionsLike", "PlanLike", "RejectionLike", "title"]


class AlternativeLike(Protocol):
    """An offering that a new node may be."""

    @property
    def instance_type(self) -> str:
        """The instance type."""

    @property
    def zone(self) -> str:
        """The zone."""

    @property
    def capacity_type(self) -> str:
        """The capacity type."""

    @property
    def price_per_hour(self) -> float:
        """The price."""


class NewNodeLike(AlternativeLike, Protocol):
    """A node to buy: the chosen offering, and what else it may be."""

    @property
    def pool(self) -> str:
        """The NodePool."""

    @property
    def alternatives(self) -> Sequence[AlternativeLike]:
        """The offerings it may be, the chosen one first."""

    @property
    def requirements(self) -> Any:
        """What its claim asks for, as an iterable of requirements."""

    @property
    def pods(self) -> Sequence[Pod]:
        """Its pods."""

    @property
    def requests(self) -> Mapping[str, int]:
        """What they ask for, with the DaemonSets."""

    @property
    def daemon_overhead(self) -> Mapping[str, int]:
        """What the DaemonSets ask for."""

    @property
    def min_values_relaxed(self) -> bool:
        """Whether it keeps fewer values open than asked for."""


class RejectionLike(Protocol):
    """Pods without a place."""

    @property
    def pods(self) -> Sequence[Pod]:
        """The pods."""


class PlanLike(Protocol):
    """A plan."""

    @property
    def existing(self) -> Mapping[str, Sequence[Pod]]:
        """Pods by standing node."""

    @property
    def new_nodes(self) -> Sequence[NewNodeLike]:
        """Nodes to buy."""

    @property
    def rejections(self) -> Sequence[RejectionLike]:
        """Who got no place."""

    @property
    def unfinished(self) -> Sequence[Pod]:
        """Who was not tried."""

    @property
    def price_per_hour(self) -> float:
        """What the new nodes cost."""

    @property
    def lower_bound_per_hour(self) -> float:
        """What they cost at the least."""


class OptionsLike(Protocol):
    """How the plan was to be made."""

    @property
    def min_values(self) -> str:
        """``Strict`` or ``BestEffort``."""


def title(pod: Pod) -> str:
    """Give the pod's name as people write it."""
    return f"pod {pod.metadata.namespace}/{pod.metadata.name}"
