# SPDX-License-Identifier: Apache-2.0
"""The outcome of a solve, as values: which pods go where, which nodes to buy, who was refused and why.

Everything is in a stable order (nodes by pool and first pod, pods by namespace and name), so that the same
question gets the same bytes, in whatever order it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import structs

from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.model.catalogue import Catalogue, bits, lowest_bit
from karpenter.model.requirements import Requirement, Requirements
from karpenter.model.resources import Resources
from karpenter.scheduling.reasons import Explanation, Reason

__all__ = ["Alternative", "NewNode", "Plan", "Rejection", "Relaxation", "pod_name"]


def pod_name(pod: Pod) -> str:
    """Return the pod's name as people write it: namespace and name."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


@dataclass(frozen=True, slots=True)
class Alternative:
    """An offering that would do as well as the chosen one, at its own price."""

    instance_type: str
    zone: str
    capacity_type: str
    price_per_hour: float


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to buy.

    Attributes:
        pool: The NodePool that makes it.
        labels: The labels of the pool's own that are settled, whatever the offering.
        catalogue: What ``usable`` speaks of.
        usable: Every offering that holds the pods and is within the margin, as bits; the lowest is the choice.
        pods: The pods it is for.
        requests: What they ask for, DaemonSets included.
        daemon_overhead: The DaemonSets' part of it on the chosen type.
        pool_requirements: What the pool's template asks for.
        min_values_relaxed: Whether fewer different values than asked for were kept open.
        has_followers: Whether it is bought larger than its pods need, for others that come later.
    """

    pool: str
    labels: Mapping[str, str]
    catalogue: Catalogue
    usable: int
    pods: tuple[Pod, ...]
    requests: Resources
    daemon_overhead: Resources
    pool_requirements: Requirements
    min_values_relaxed: bool = False
    has_followers: bool = False

    @property
    def chosen(self) -> Alternative:
        """The cheapest offering that holds the pods."""
        return self._at(lowest_bit(self.usable))

    @property
    def instance_type(self) -> str:
        """The type of the chosen offering."""
        return self.chosen.instance_type

    @property
    def zone(self) -> str:
        """The zone of the chosen offering."""
        return self.chosen.zone

    @property
    def capacity_type(self) -> str:
        """The capacity type of the chosen offering."""
        return self.chosen.capacity_type

    @property
    def price_per_hour(self) -> float:
        """What the chosen offering costs."""
        return self.catalogue.prices[lowest_bit(self.usable)]

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """Every usable offering in price order, the chosen one first; made on demand, there may be thousands."""
        return tuple(map(self._at, bits(self.usable)))

    @property
    def requirements(self) -> Requirements:
        """What the NodeClaim asks for: the pool's own words, narrowed to the usable offerings."""
        found = self.alternatives
        narrowed = {
            **self.catalogue.narrowed(self.usable),
            INSTANCE_TYPE: {each.instance_type for each in found},
            ZONE: {each.zone for each in found},
            CAPACITY_TYPE: {each.capacity_type for each in found},
        }
        pool = self._with_fewer_values() if self.min_values_relaxed else self.pool_requirements
        return pool.plus(
            *(Requirement.of(key, "In", (value,)) for key, value in self.labels.items()),
            *(Requirement.of(key, "DoesNotExist") for key in self._absent()),
            *(Requirement.of(key, "In", values) for key, values in narrowed.items()),
        )

    def _with_fewer_values(self) -> Requirements:
        """Return the pool's words with no larger minValues than the usable offerings have different values."""
        return Requirements(
            each
            if each.min_values is None
            else structs.replace(each, min_values=min(each.min_values, self._values_open(each.key)))
            for each in self.pool_requirements
        )

    def _values_open(self, key: str) -> int:
        # The API wants at least 1.
        return max(sum(1 for each in self.catalogue.values(key).values() if each & self.usable), 1)

    def _absent(self) -> list[str]:
        """Return the labels that the pool leaves open and that this node is not to have: pods rely on it."""
        return [
            each.key
            for each in self.pool_requirements
            if each.complement and each.key not in self.labels and not self.catalogue.knows(each.key)
        ]

    def _at(self, position: int) -> Alternative:
        offering = self.catalogue.offerings[position]
        return Alternative(
            self.catalogue.type_at(position).name,
            offering.zone,
            offering.capacity_type,
            offering.price_per_hour,
        )


@dataclass(frozen=True, slots=True)
class Rejection:
    """Pods that got no place, and why: equal pods share one answer.

    Attributes:
        pods: The pods.
        reasons: What excludes each pool, the nearest pools first.
        message: The reasons in one sentence.
        explanation: All that is known: standing nodes, the nearest miss, what would help.
    """

    pods: tuple[Pod, ...]
    reasons: tuple[Reason, ...]
    message: str
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Wishes of equal pods that were given up so that they could be placed."""

    pods: tuple[Pod, ...]
    wishes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole answer.

    Attributes:
        existing: Pods by the name of the standing node they go to.
        new_nodes: The nodes to buy.
        rejections: Who got no place.
        price_per_hour: What the new nodes cost together.
        lower_bound_per_hour: No set of nodes that holds the same pods costs less.
        relaxed: Wishes that gave way.
        unfinished: Pods that the deadline left untried; give their names to the next solve (`SolveOptions.first`).
    """

    existing: dict[str, tuple[Pod, ...]] = field(default_factory=dict)
    new_nodes: tuple[NewNode, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    price_per_hour: float = 0.0
    lower_bound_per_hour: float = 0.0
    relaxed: tuple[Relaxation, ...] = ()
    unfinished: tuple[Pod, ...] = ()
