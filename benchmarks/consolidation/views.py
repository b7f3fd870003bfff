# SPDX-License-Identifier: Apache-2.0
"""The faked cluster as the product sees it: a ``Snapshot`` of pools, nodes and pods. Pods are made once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from benchmarks.consolidation.cluster import DAEMONS, Cluster, Node, Pod, Workload
from karpenter.api import core
from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.pools import Pool
from karpenter.model.requirements import Requirement, Requirements
from karpenter.model.resources import Resources
from karpenter.model.snapshot import NodeView, Snapshot

__all__ = ["Views"]

_ARCH = "kubernetes.io/arch"
_CAPACITY = "karpenter.sh/capacity-type"
_HOSTNAME = "kubernetes.io/hostname"
_POOL = "karpenter.sh/nodepool"
_SPOT = "spot"
_TYPE = "node.kubernetes.io/instance-type"
_ZONE = "topology.kubernetes.io/zone"
_COST = "controller.kubernetes.io/pod-deletion-cost"
# What the annotation must say for an eviction to cost one more.
_COST_UNIT = 1 << 27


class Views:
    """Makes snapshots of one cluster, again and again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._templates = [_template(workload) for workload in cluster.workloads]
        self._pods: dict[int, core.Pod] = {}
        self._nodes: dict[int, tuple[tuple[int, ...], float, NodeView]] = {}
        self._prices: tuple[tuple[float, ...], ...] = ()
        self._pool = self._pool_now()
        self._daemons = tuple(_daemon(number, size) for number, size in enumerate(DAEMONS))

    def snapshot(self) -> Snapshot:
        """Return the cluster as it is now."""
        if self._prices != (tuple(self._cluster.prices), tuple(self._cluster.usual_prices)):
            self._pool = self._pool_now()
        nodes = tuple(self.node(node) for node in self._cluster.nodes.values())
        return Snapshot(pools=(self._pool,), nodes=nodes, daemons=self._daemons)

    def _pool_now(self) -> Pool:
        self._prices = (tuple(self._cluster.prices), tuple(self._cluster.usual_prices))
        return Pool(
            name="default",
            catalogue=_repriced(self._cluster.market.catalogue, *self._prices),
            requirements=Requirements([Requirement.of(_POOL, "In", ("default",))]),
        )

    def node(self, node: Node) -> NodeView:
        """Return a node; one that did not change is the same object."""
        key = tuple(node.pods)
        price = self._cluster.prices[node.position]
        known = self._nodes.get(node.number)
        if known is not None and known[:2] == (key, price):
            return known[2]
        catalogue = self._cluster.market.catalogue
        kind = catalogue.type_at(node.position)
        offering = catalogue.offerings[node.position]
        view = NodeView(
            name=node.name,
            labels={
                **kind.labels,
                _POOL: "default",
                _HOSTNAME: node.name,
                _TYPE: kind.name,
                _ZONE: offering.zone,
                _CAPACITY: offering.capacity_type,
            },
            allocatable=Resources(kind.allocatable),
            pods=tuple(self.pod(pod, node.name) for pod in node.pods.values()),
            pool="default",
            price_per_hour=price,
        )
        self._nodes[node.number] = (key, price, view)
        return view

    def template(self, workload: int) -> core.Pod:
        """Return a pod of a workload without a name of its own."""
        return self._templates[workload]

    def ghost(self, workload: int, number: int) -> core.Pod:
        """Return a pod that only holds room."""
        template = self._templates[workload]
        name = f"{template.metadata.name}-ghost-{number}"
        return msgspec.structs.replace(
            template, metadata=msgspec.structs.replace(template.metadata, name=name, uid=name)
        )

    def pod(self, pod: Pod, node: str = "") -> core.Pod:
        """Return a pod, on a node or waiting for one."""
        known = self._pods.get(pod.uid)
        if known is None or known.spec.node_name != node:
            template = self._templates[pod.workload]
            name = f"{template.metadata.name}-{pod.uid}"
            metadata = msgspec.structs.replace(template.metadata, name=name, uid=str(pod.uid))
            spec = msgspec.structs.replace(template.spec, node_name=node)
            known = msgspec.structs.replace(template, metadata=metadata, spec=spec)
            self._pods[pod.uid] = known
        return known


def _template(workload: Workload) -> core.Pod:
    selector = {}
    if workload.amd64:
        selector[_ARCH] = "amd64"
    if workload.on_demand:
        selector[_CAPACITY] = "on-demand"
    if workload.zone:
        selector[_ZONE] = workload.zone
    labels = {"app": workload.name}
    annotations = {}
    if workload.weight != 1.0:
        annotations[_COST] = str(round((workload.weight - 1.0) * _COST_UNIT))
    if workload.protected:
        annotations["karpenter.sh/do-not-disrupt"] = "true"
    spec: dict[str, object] = {"nodeSelector": selector, "containers": [_container(workload.size)]}
    if workload.apart:
        term = {"topologyKey": _HOSTNAME, "labelSelector": {"matchLabels": labels}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload.name, "uid": workload.name}
    return msgspec.convert(
        {
            "metadata": {
                "name": workload.name,
                "namespace": "default",
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": spec,
            "status": {"phase": "Running"},
        },
        core.Pod,
    )


def _daemon(number: int, size: tuple[int, int, int]) -> core.Pod:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": f"agent-{number}",
        "uid": f"agent-{number}",
    }
    return msgspec.convert(
        {
            "metadata": {"name": f"agent-{number}", "namespace": "kube-system", "ownerReferences": [owner]},
            "spec": {"tolerations": [{"operator": "Exists"}], "containers": [_container(size)]},
        },
        core.Pod,
    )


def _container(size: tuple[int, int, int]) -> dict[str, object]:
    return {"name": "main", "resources": {"requests": {"cpu": f"{size[0]}m", "memory": str(size[1])}}}


def _repriced(catalogue: Catalogue, now: Sequence[float], usual: Sequence[float]) -> Catalogue:
    """Return the catalogue at other prices."""
    if now == catalogue.prices and not usual:
        return catalogue
    offerings: dict[int, list[Offering]] = {}
    for place, (offering, kind) in enumerate(zip(catalogue.offerings, catalogue.type_of, strict=True)):
        moves = bool(usual) and offering.capacity_type == _SPOT
        offerings.setdefault(kind, []).append(
            replace(
                offering,
                price_per_hour=now[place],
                usual_price_per_hour=usual[place] if moves else None,
            )
        )
    return Catalogue(
        InstanceType(kind.name, kind.labels, kind.capacity, kind.allocatable, tuple(offerings[index]))
        for index, kind in enumerate(catalogue.types)
    )
