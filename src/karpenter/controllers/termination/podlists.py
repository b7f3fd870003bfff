# SPDX-License-Identifier: Apache-2.0
"""Lists the pods of a node from the API server itself, for whatever is about to end the node's instance.

The informer's copy may lag behind for as long as a watch may hang, and a node that looks empty in it may not be.
"""

from __future__ import annotations

from datetime import datetime

from karpenter.api.core import Pod
from karpenter.controllers.termination.draining import must_leave
from karpenter.kube import Client, Listing, Undecodable
from karpenter.kube.kinds import PODS
from karpenter.state import Cluster

__all__ = ["list_pods", "pods_left"]

_OVER = frozenset({"Succeeded", "Failed"})


async def list_pods(client: Client, cluster: Cluster, node: str) -> Listing[Pod]:
    """List the pods of a node from the server, and let the informer know them."""
    listing = await client.list(PODS, fields=f"spec.nodeName={node}")
    for pod in listing.items:
        cluster.informers.pods.observe(pod)
    return listing


async def pods_left(
    client: Client, cluster: Cluster, node: str, now: datetime, deadline: datetime | None = None
) -> tuple[str, ...]:
    """Return the pods that keep a node from being ended, by the server's list.

    A pod that does not decode is one of them, unless it is over or the deadline for all pods has passed.
    """
    listing = await list_pods(client, cluster, node)
    is_late = deadline is not None and now > deadline
    left = [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in listing.items if must_leave(pod, now)]
    left += [
        f"{each.namespace}/{each.name}, which cannot be read"
        for each in listing.unreadable
        if not is_late and not _is_over(each)
    ]
    return tuple(left)


def _is_over(pod: Undecodable) -> bool:
    return pod.text("status", "phase") in _OVER
