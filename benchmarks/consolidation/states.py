# SPDX-License-Identifier: Apache-2.0
"""Clusters that need tidying up, the same for the same seed: *third* and *diurnal*, and what runs in them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from benchmarks.consolidation.cluster import MIB, ZONES, Cluster, Pod, Workload

__all__ = ["diurnal", "scale", "scattered", "third", "workloads"]

_GENERIC_CPU = (100, 250, 500, 1000, 1500)
_GENERIC_MIB = (100, 256, 512, 1024, 2048, 4096)
_SHAPES = ((1100, 2300), (2900, 5000), (1700, 13000), (3700, 3000), (700, 900), (250, 6100))
_BIG = ((7000, 60000), (3000, 6000), (15000, 30000))


def workloads(random: Random, pods: int) -> tuple[list[Workload], list[int]]:
    """Return workloads with about so many pods, and how many replicas each has."""
    found: list[Workload] = []
    replicas: list[int] = []
    while sum(replicas) < pods:
        draw = random.random()
        if draw < 0.85:
            cpu, mib = random.choice(_GENERIC_CPU), random.choice(_GENERIC_MIB)
        else:
            cpu, mib = random.choice(_SHAPES if draw < 0.98 else _BIG)
        name = f"app-{len(found)}"
        amd64, on_demand = random.random() < 0.5, random.random() < 0.7
        zones = [""]
        draw = random.random()
        if draw < 0.17:
            zones = [random.choice(ZONES)]
        elif draw < 0.37:
            zones = list(ZONES)
        apart, protected = random.random() < 0.03, random.random() < 0.03
        guarded, weight = random.random() < 0.2, 3.0 if random.random() < 0.1 else 1.0
        number = max(1, min(round(random.lognormvariate(1.8, 1.0)), pods // 4 + 1))
        for part, zone in enumerate(zones):
            share = (number + part) // len(zones)
            if share:
                found.append(
                    Workload(
                        f"{name}-{part}",
                        (cpu, mib * MIB, 1),
                        amd64=amd64,
                        on_demand=on_demand,
                        zone=zone,
                        apart=apart and share < 12,
                        protected=protected,
                        guarded=guarded,
                        weight=weight,
                    )
                )
                replicas.append(share)
    return found, replicas


def _grown(random: Random, nodes: int) -> tuple[Cluster, list[int]]:
    """Return a cluster of about so many nodes, provisioned in random batches."""
    # On average a node of at most 16 cores holds so many of these pods.
    kinds, replicas = workloads(random, round(nodes * 14.5))
    cluster = Cluster(kinds)
    waiting = [pod for index, number in enumerate(replicas) for pod in cluster.new_pods(index, number)]
    random.shuffle(waiting)
    while waiting:
        batch = 1 + random.randrange(max(8, len(waiting) // 4))
        cluster.provision(waiting[:batch])
        del waiting[:batch]
    return cluster, replicas


def third(nodes: int, seed: int) -> Cluster:
    """Return a cluster scaled down to a third of its pods at random."""
    random = Random(seed)  # noqa: S311 - not a secret: everybody gets the same cluster
    cluster, _ = _grown(random, nodes)
    for node in list(cluster.nodes.values()):
        for uid in list(node.pods):
            if random.random() >= 1 / 3:
                del node.pods[uid]
        if not node.pods:
            del cluster.nodes[node.number]
    return cluster


def diurnal(nodes: int, seed: int) -> Cluster:
    """Return a cluster after three days of ups and downs, without any consolidation but of empty nodes."""
    random = Random(seed)  # noqa: S311 - not a secret: everybody gets the same cluster
    cluster, full = _grown(random, nodes)
    for hour in range(72):
        level = 0.75 + 0.25 * (1 if hour % 24 < 12 else -1) * min(hour % 12, 6) / 6
        targets = [max(1, round(most * level * random.uniform(0.7, 1.1))) for most in full]
        scale(cluster, targets, random)
        for node in list(cluster.nodes.values()):
            if not node.pods:
                del cluster.nodes[node.number]
    return cluster


def scattered(nodes: int, pods_per_node: int, seed: int) -> Cluster:
    """Return a large cluster at once, without provisioning: nodes of 8 and 16 cores, loaded unevenly by half."""
    random = Random(seed)  # noqa: S311 - not a secret: everybody gets the same cluster
    kinds, _ = workloads(random, min(nodes * pods_per_node, 6_000))
    cluster = Cluster(kinds)
    catalogue = cluster.market.catalogue
    large = [place for place, room in enumerate(cluster.market.rooms) if room[0] > 7_000]
    by_mask: dict[int, list[int]] = {}
    for index, mask in enumerate(cluster.allowed):
        by_mask.setdefault(mask, []).append(index)
    for _ in range(nodes):
        position = random.choice(large)
        while catalogue.offerings[position].capacity_type == "spot" and random.random() < 0.7:
            position = random.choice(large)
        node = cluster.launch(position)
        suiting = [index for mask, members in by_mask.items() if mask >> position & 1 for index in members]
        room = cluster.market.rooms[position]
        used = [0, 0, 0]
        apart: set[int] = set()
        for index in random.choices(suiting, k=round(pods_per_node * random.uniform(0.5, 1.6))):
            total = [have + more for have, more in zip(used, cluster.workloads[index].size, strict=True)]
            if index in apart or any(have > most for have, most in zip(total, room, strict=True)):
                continue
            if cluster.workloads[index].protected and random.random() < 0.7:
                continue
            used = total
            apart.update({index} if cluster.workloads[index].apart else ())
            for pod in cluster.new_pods(index, 1):
                node.pods[pod.uid] = pod
    return cluster


def scale(cluster: Cluster, targets: Sequence[int], random: Random) -> int:
    """Bring every workload to its number of replicas; pods go at random. Return how many nodes were bought."""
    there: list[list[tuple[int, Pod]]] = [[] for _ in targets]
    for node in cluster.nodes.values():
        for pod in node.pods.values():
            there[pod.workload].append((node.number, pod))
    waiting: list[Pod] = []
    for workload, (pods, replicas) in enumerate(zip(there, targets, strict=True)):
        for number, pod in random.sample(pods, max(0, len(pods) - replicas)):
            del cluster.nodes[number].pods[pod.uid]
        waiting += cluster.new_pods(workload, max(0, replicas - len(pods)))
    return cluster.provision(waiting)
