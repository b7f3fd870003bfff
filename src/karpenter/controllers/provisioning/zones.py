# SPDX-License-Identifier: Apache-2.0
"""Which zone a pending pod is bound to, by what it says of its node and by where its volumes are: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from karpenter.api.core import Pod
from karpenter.api.labels import ZONE
from karpenter.model.affinity import node_rules
from karpenter.model.volumes import Storage, volume_demand

__all__ = ["FLEXIBLE", "NONE", "effective_zone", "pods_by_zone"]

# Karpenter's words for a pod that may go to several zones, and for one that may go to none.
FLEXIBLE: Final = "flexible"
NONE: Final = "none"


def effective_zone(pod: Pod, storage: Storage) -> str:
    """Gives the one zone that a pod may go to, ``flexible`` if there are several, or ``none``."""
    if not pod.spec.node_selector and pod.spec.affinity is None and not pod.spec.volumes:
        return FLEXIBLE
    zones: set[str] = set()
    for term in node_rules(pod).alternatives:
        for places in volume_demand(pod, storage).alternatives:
            wanted = term.requirements.intersection(places)
            zone = wanted.get(ZONE)
            if wanted.is_empty:
                continue
            if zone is None or zone.operator != "In":
                return FLEXIBLE
            zones.update(zone.values)
    if len(zones) > 1:
        return FLEXIBLE
    return next(iter(zones), NONE)


def pods_by_zone(pods: Iterable[Pod], storage: Storage) -> Mapping[str, int]:
    """Counts pods by the zone that they are bound to."""
    return Counter(effective_zone(pod, storage) for pod in pods)
