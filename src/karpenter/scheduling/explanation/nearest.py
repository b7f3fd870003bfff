# SPDX-License-Identifier: Apache-2.0
"""Says of the offering that comes closest what it fits and what it misses."""

from __future__ import annotations

from collections.abc import Iterator

from karpenter.scheduling.explanation.description import Describer
from karpenter.scheduling.explanation.search import Miss
from karpenter.scheduling.reasons import Cause, Nearest

__all__ = ["describe_nearest"]

# Every node has places for pods: to fit there is nothing to boast of.
_UNSAID = frozenset({"pods"})


def describe_nearest(describer: Describer, miss: Miss) -> Nearest:
    """Return the near miss as a value that stands on its own."""
    layout = miss.layout
    offering = layout.catalogue.offerings[miss.position]
    reach = [1 << miss.position if row.template is miss.template else 0 for row in layout.rows]
    return Nearest(
        pool=layout.pool.name,
        instance_type=layout.catalogue.type_at(miss.position).name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        fits=tuple(dict.fromkeys(_fitting(describer, miss))),
        misses=tuple(describer.one(layout, index, reach) for index in miss.failed),
    )


def _fitting(describer: Describer, miss: Miss) -> Iterator[str]:
    failed = {
        (miss.layout.obstacles[index].cause, miss.layout.obstacles[index].subject) for index in miss.failed
    }
    pods = describer.stance.pods
    for resource in pods.requests:
        if resource not in _UNSAID and (Cause.RESOURCES, resource) not in failed:
            yield resource
    keys = {each.key for term in describer.stance.profile.alternatives[:1] for each in term.requirements}
    for key in sorted(keys):
        if (Cause.REQUIREMENT, key) not in failed and (Cause.UNDEFINED_LABEL, key) not in failed:
            yield _name(key)
    if (Cause.VOLUME_REACH, "") not in failed:
        yield from sorted({_name(each.key) for demand in pods.volumes.alternatives for each in demand})


def _name(key: str) -> str:
    return key.rpartition("/")[2]
