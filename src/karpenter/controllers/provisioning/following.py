# SPDX-License-Identifier: Apache-2.0
"""Whether the scheduler does what was planned: each planned pod is counted once, by where it was bound.

``planned`` is the node that the pod was promised to, ``elsewhere`` any other. A pod that is planned anew before it is
bound counts for its latest plan; one that goes before it is bound does not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from karpenter.api.core import Pod
from karpenter.observe import Metrics, get_log
from karpenter.state import Cluster

__all__ = ["Follower"]

_REMEMBERED: Final = 500


class Follower:
    """Compares plans with what became of them."""

    def __init__(self, cluster: Cluster, metrics: Metrics) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._planned: dict[str, str] = {}
        self._log = get_log("provisioner")
        self._latest: deque[bool] = deque(maxlen=_REMEMBERED)

    def planned(self, pods: Iterable[Pod], member: str) -> None:
        """Notes that pods are to go to a member, by the name of its claim or, if it has none, of its node."""
        for pod in pods:
            if not pod.spec.node_name:
                self._planned[pod.metadata.uid] = member

    def knows(self, pod: Pod) -> bool:
        """Tells whether a pod was planned before and is not bound yet."""
        return pod.metadata.uid in self._planned

    def bound(self, pod: Pod) -> str:
        """Counts a pod that has been bound, if it was planned; gives the member it should have gone to, if another."""
        wanted = self._planned.pop(pod.metadata.uid, None)
        if wanted is None:
            return ""
        member = self._cluster.member(pod.spec.node_name)
        claim = member.claim if member is not None else None
        is_followed = wanted in {pod.spec.node_name, claim.metadata.name if claim is not None else ""}
        self._latest.append(is_followed)
        if not is_followed:
            self._log.debug(
                "planned pod was bound elsewhere",
                Pod={"namespace": pod.metadata.namespace, "name": pod.metadata.name},
                planned=wanted,
                Node={"name": pod.spec.node_name},
                nominated=pod.status.nominated_node_name,
            )
        self._metrics.placements.labels("planned" if is_followed else "elsewhere").inc()
        return "" if is_followed else wanted

    def gone(self, pod: Pod) -> None:
        """Forgets a pod that went before it was bound."""
        self._planned.pop(pod.metadata.uid, None)

    @property
    def share(self) -> float:
        """The share of the latest planned pods that went where they were planned; 1 while none is known."""
        return sum(self._latest) / len(self._latest) if self._latest else 1.0
