# SPDX-License-Identifier: Apache-2.0
"""Where evicted pods land: as planned, as a model of kube-scheduler places them, or nominated with some success."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from benchmarks.consolidation.cluster import Cluster, Pod
from karpenter.consolidation.search.copy import Copy
from karpenter.model.catalogue import bits

__all__ = ["Landing"]


class Landing:
    """Lets pods land.

    Attributes:
        follow: How likely a pod lands where it was planned to: 1 is as planned, 0 as the scheduler likes it.
    """

    def __init__(self, cluster: Cluster, follow: float, seed: int = 1) -> None:
        self._cluster = cluster
        self.follow = follow
        self._random = Random(seed)  # noqa: S311 - the same landing for everybody

    def land(self, pods: Iterable[Pod], targets: Mapping[int, int]) -> int:
        """Give evicted pods new places; return how many nodes had to be bought for those without one.

        Args:
            pods: The pods, off their nodes already.
            targets: The numbers of the nodes planned for them.
        """
        cluster = self._cluster
        loose: list[Pod] = []
        for pod in pods:
            if pod.uid in targets and (self.follow >= 1.0 or self._random.random() < self.follow):
                cluster.nodes[targets[pod.uid]].pods[pod.uid] = pod
            else:
                loose.append(pod)
        if not loose:
            return 0
        self._random.shuffle(loose)
        terrain, numbers = cluster.terrain()
        copy = Copy(terrain)
        rooms = [cluster.market.rooms[cluster.nodes[number].position] for number in numbers]
        waiting: list[Pod] = []
        for pod in loose:
            size = cluster.workloads[pod.workload].size
            best, target = -1.0, -1
            for host in bits(copy.having_room(pod.workload)):
                free, room = copy.free(host), rooms[host]
                cpu, memory = (free[0] - size[0]) / room[0], (free[1] - size[1]) / room[1]
                # Least allocated and balanced, each of the same weight.
                score = (cpu + memory) / 2.0 + 1.0 - abs(cpu - memory) / 2.0
                if score > best:
                    best, target = score, host
            if target < 0:
                waiting.append(pod)
            else:
                copy.put(target, pod.workload, 1)
                cluster.nodes[numbers[target]].pods[pod.uid] = pod
        return cluster.provision(waiting)
