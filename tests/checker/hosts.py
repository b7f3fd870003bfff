# SPDX-License-Identifier: Apache-2.0
"""Whether one node holds its pods: room, taints, node affinity, host ports, volumes.

Only what the plan adds is judged; a node that was overfull before stays nobody's fault as long as nothing joins it.
"""

from __future__ import annotations

from karpenter.model.volumes import Storage
from tests.checker.amounts import sum_amounts
from tests.checker.matching import asked_keys, node_suits, repelling_taints
from tests.checker.plans import title
from tests.checker.ports import clash
from tests.checker.storage import attached, unreachable, waiting_for
from tests.checker.world import Place

__all__ = ["host_violations"]


def host_violations(place: Place, storage: Storage) -> list[str]:
    """Say what is wrong with the pods that arrive at a node, topology aside."""
    return [
        *_room(place),
        *_taints(place),
        *_node_affinity(place),
        *_ports(place),
        *_volumes(place, storage),
    ]


def _room(place: Place) -> list[str]:
    arriving = sum_amounts(place.arriving)
    everything = sum_amounts((*place.standing, *place.arriving, *place.daemons))
    return [
        f"{place.title} has {place.room.get(resource, 0)} of {resource}, its pods take {everything[resource]}"
        for resource, amount in sorted(arriving.items())
        if amount > 0 and everything[resource] > place.room.get(resource, 0)
    ]


def _taints(place: Place) -> list[str]:
    return [
        f"{title(pod)} does not tolerate taint {taint.key}={taint.value}:{taint.effect} of {place.title}"
        for pod in place.arriving
        for taint in repelling_taints(place.taints, pod)
    ]


def _node_affinity(place: Place) -> list[str]:
    found = []
    for pod in place.arriving:
        unsettled = sorted(asked_keys(pod) & place.open_labels)
        if unsettled:
            found.append(f"{title(pod)} asks for label {unsettled[0]}, which {place.title} leaves open")
        elif not node_suits(pod, place.labels, place.name):
            found.append(f"{place.title} does not meet the node affinity of {title(pod)}")
        if pod.spec.resource_claims:
            found.append(f"{title(pod)} uses resource claims, which nobody has placed, on {place.title}")
    return found


def _ports(place: Place) -> list[str]:
    found = []
    for index, pod in enumerate(place.arriving):
        for other in (*place.standing, *place.daemons, *place.arriving[:index]):
            port = clash(pod, other)
            if port:
                found.append(f"{title(pod)} and {title(other)} both want host port {port} of {place.title}")
    return found


def _volumes(place: Place, storage: Storage) -> list[str]:
    found = []
    for pod in place.arriving:
        found += [f"{title(pod)} is placed, though {trouble}" for trouble in waiting_for(pod, storage)]
        found += [
            f"{place.title} does not reach the volume of {claim} of {title(pod)}"
            for claim in unreachable(pod, place.labels, storage)
        ]
    added = attached(place.arriving, storage)
    together = attached((*place.standing, *place.arriving), storage)
    for driver in sorted(added):
        limit = place.volume_limits.get(driver)
        if limit is not None and len(together[driver]) > limit:
            found.append(
                f"{place.title} can hold {limit} volumes of {driver}, its pods attach {len(together[driver])}"
            )
    return found
