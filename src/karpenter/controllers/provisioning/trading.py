# SPDX-License-Identifier: Apache-2.0
"""Equal pods share the places that were planned for them: whose place an equal one took gets that one's. Pure.

The scheduler binds whichever pod it comes to first, and one whose turn to be nominated has not come goes where it
likes. Of equal pods it does not matter who is where, but promises are made to each: without a trade the one whose place
is taken would wait for room that is gone, while the room of the other is promised to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from karpenter.api.core import Pod, PodSpec
from karpenter.scheduling.plan import pod_name

__all__ = ["heir"]


def heir(bound: Pod, promised: Iterable[Pod]) -> Pod | None:
    """Gives the pod, of those promised to a node, that a newcomer leaves its own promise to; None if none is its equal.

    Those that have been told of the node already are better left as they are.

    Args:
        bound: A pod that was bound to the node and had been promised to another.
        promised: The pods that are promised to the node and wait.
    """
    equals = [each for each in promised if not each.spec.node_name and _is_equal(each, bound)]
    here = bound.spec.node_name
    return max(
        equals, key=lambda each: (each.status.nominated_node_name != here, pod_name(each)), default=None
    )


def _is_equal(one: Pod, other: Pod) -> bool:
    """Tells whether two pods may stand for each other; pods with claims are each tied to their own volumes."""
    return (
        one.metadata.namespace == other.metadata.namespace
        and one.metadata.labels == other.metadata.labels
        and not _has_claims(one)
        and not _has_claims(other)
        and _asked(one.spec) == _asked(other.spec)
    )


def _has_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None
        for volume in pod.spec.volumes
    )


def _asked(spec: PodSpec) -> PodSpec:
    # The name of the volume with the account's token is made up for each pod.
    return replace(spec, node_name="", volumes=())
