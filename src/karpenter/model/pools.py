# SPDX-License-Identifier: Apache-2.0
"""A NodePool as scheduling sees it: which nodes it may make, and how much of its limits is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from karpenter.api import labels as names
from karpenter.api.base import EMPTY
from karpenter.api.core import Taint
from karpenter.api.nodepool import NodePool
from karpenter.model.catalogue import Catalogue
from karpenter.model.requirements import Requirement, Requirements
from karpenter.model.resources import Resources

__all__ = ["Pool", "in_order", "pool_view"]


@dataclass(frozen=True, slots=True)
class Pool:
    """What a NodePool's template promises of its nodes.

    Attributes:
        name: The NodePool's name.
        catalogue: The instance types that its node class can launch.
        requirements: The template's requirements, its labels and the pool's own label among them.
        taints: Taints that stay; startup taints go before pods come and so do not count.
        weight: Heavier pools are used first.
        limits: What may still be added, by resource, ``nodes`` included; a resource not named is unlimited.
        used: What its nodes take of the limits, by resource: with ``limits`` it gives the limit as written.
    """

    name: str
    catalogue: Catalogue
    requirements: Requirements
    taints: tuple[Taint, ...] = ()
    weight: int = 0
    limits: Mapping[str, int] = field(default=EMPTY)
    used: Mapping[str, int] = field(default=EMPTY)


def pool_limits(nodepool: NodePool) -> dict[str, int]:
    """Return the limits as they are written, by resource, ``nodes`` included.

    Raises:
        QuantityError: A limit cannot be read.
    """
    return {
        resource: Resources.parse({resource: limit})[resource]
        for resource, limit in nodepool.spec.limits.items()
    }


def pool_view(nodepool: NodePool, catalogue: Catalogue, used: Mapping[str, int] = EMPTY) -> Pool:
    """Return the pool's view; ``used`` is the capacity of the nodes it has, ``nodes`` among it.

    Raises:
        RequirementError: A requirement of the template says nothing.
        QuantityError: A limit cannot be read.
    """
    template = nodepool.spec.template
    requirements = Requirements.from_expressions(template.spec.requirements).intersection(_labels(nodepool))
    limits = {resource: limit - used.get(resource, 0) for resource, limit in pool_limits(nodepool).items()}
    return Pool(
        name=nodepool.metadata.name,
        catalogue=catalogue,
        requirements=requirements,
        taints=template.spec.taints,
        weight=nodepool.spec.weight or 0,
        limits=limits,
        used={resource: used[resource] for resource in limits if used.get(resource)},
    )


def own_requirements(nodepool: NodePool) -> Requirements:
    """Return what the template says of labels that are no cloud's: its labels, and requirements on custom ones.

    Raises:
        RequirementError: A requirement of the template says nothing.
    """
    custom = [each for each in nodepool.spec.template.spec.requirements if each.key not in names.WELL_KNOWN]
    return Requirements.from_expressions(custom).intersection(_labels(nodepool))


def _labels(nodepool: NodePool) -> Requirements:
    template = nodepool.spec.template
    labels = {**template.metadata.labels, names.NODEPOOL: nodepool.metadata.name}
    labels[names.EC2NODECLASS] = template.spec.node_class_ref.name
    return Requirements(Requirement.of(key, "In", (value,)) for key, value in labels.items())


def in_order(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """Return the pools in the order in which they are tried: as Karpenter, heaviest first, then last name first."""
    return tuple(sorted(pools, key=lambda pool: (pool.weight, pool.name), reverse=True))
