# SPDX-License-Identifier: Apache-2.0
"""Which pods wait for a node of ours: pure questions about one pod.

A pod waits when the scheduler has found no place for it and no other program has promised it one. A pod that asks
for devices by resource claims is left alone while those are ignored, and one that wants no node of ours is none of
our business; both are told apart from pods that cannot be helped.
"""

from __future__ import annotations

from typing import Final

from karpenter.api.core import NodeSelectorTerm, Pod
from karpenter.api.labels import NODEPOOL
from karpenter.model.pods import is_daemon, is_mirror, is_terminal, is_terminating

__all__ = ["is_unjudged", "is_unplaced", "turn", "wants_devices", "wants_none_of_ours"]

_UNSCHEDULABLE: Final = "Unschedulable"


def is_unplaced(pod: Pod) -> bool:
    """Tells whether the scheduler has looked at the pod and found no place for it."""
    return (
        not pod.spec.node_name
        and any(
            each.type == "PodScheduled" and each.reason == _UNSCHEDULABLE for each in pod.status.conditions
        )
        and not is_terminal(pod)
        and not is_terminating(pod)
        and not is_daemon(pod)
        and not is_mirror(pod)
    )


def is_unjudged(pod: Pod) -> bool:
    """Tells whether the scheduler has yet to look at the pod: it may be about to find no place for it."""
    return (
        not pod.spec.node_name
        and all(each.type != "PodScheduled" for each in pod.status.conditions)
        and not is_terminal(pod)
        and not is_terminating(pod)
    )


def turn(pod: Pod) -> tuple[int, float, str, str]:
    """Gives when the scheduler takes a pod, to sort by: higher priorities first, then the older ones."""
    created = pod.metadata.creation_timestamp
    age = created.timestamp() if created is not None else 0.0
    return -(pod.spec.priority or 0), age, pod.metadata.namespace, pod.metadata.name


def wants_devices(pod: Pod) -> bool:
    """Tells whether the pod asks for devices by resource claims."""
    return bool(pod.spec.resource_claims)


def wants_none_of_ours(pod: Pod) -> bool:
    """Tells whether the pod says itself that it must not run on a node of ours."""
    affinity = pod.spec.affinity
    node = affinity.node_affinity if affinity is not None else None
    required = node.required if node is not None else None
    terms = required.node_selector_terms if required is not None else ()
    return bool(terms) and all(map(_excludes_us, terms))


def _excludes_us(term: NodeSelectorTerm) -> bool:
    return any(each.key == NODEPOOL and each.operator == "DoesNotExist" for each in term.match_expressions)
