# SPDX-License-Identifier: Apache-2.0
"""The cluster at one moment, frozen: everything that a decision may look at.

A snapshot is made once and shared. ``without`` and ``plus`` give the cluster as it would be, at the cost of the
difference: what-if questions are asked by the thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from karpenter.api import labels as names
from karpenter.api.base import EMPTY
from karpenter.api.core import Pod, Taint
from karpenter.model.pools import Pool
from karpenter.model.resources import Resources
from karpenter.model.volumes import Storage

__all__ = ["NodeView", "Snapshot"]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node that stands or is on its way, ours or not.

    Attributes:
        name: The node's name, or its claim's while it has none.
        labels: Its labels; for a node on its way those that its claim promises.
        taints: The taints that count: not those that vanish before pods come.
        allocatable: What it has for pods.
        pods: The pods bound to it.
        initialized: Whether it is ready for work; such nodes are filled first.
        managed: Whether we made it; others are capacity that we never touch.
        pool: The NodePool it belongs to, empty for none.
        volume_limits: How many volumes it can hold, by CSI driver; a driver not named is unlimited.
        price_per_hour: What it costs; unknown for nodes that are not ours.
    """

    name: str
    labels: Mapping[str, str]
    allocatable: Resources
    taints: tuple[Taint, ...] = ()
    pods: tuple[Pod, ...] = ()
    initialized: bool = True
    managed: bool = True
    pool: str = ""
    volume_limits: Mapping[str, int] = field(default=EMPTY)
    price_per_hour: float | None = None

    @property
    def hostname(self) -> str:
        """The value of the hostname topology key."""
        return self.labels.get(names.HOSTNAME, self.name)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Nodes with their pods, pools, DaemonSets, storage and namespaces.

    Attributes:
        pools: The NodePools that may make nodes now.
        nodes: Every node that does not go away.
        daemons: One pod for each DaemonSet, as it would be on a new node.
        storage: Claims, volumes and classes.
        namespaces: The labels of each namespace.
    """

    pools: tuple[Pool, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    daemons: tuple[Pod, ...] = ()
    storage: Storage = field(default_factory=Storage)
    namespaces: Mapping[str, Mapping[str, str]] = field(default=EMPTY)

    def without(self, gone: Iterable[str]) -> Snapshot:
        """Return the cluster without some nodes and the pods on them."""
        left_out = frozenset(gone)
        return replace(self, nodes=tuple(node for node in self.nodes if node.name not in left_out))

    def plus(self, pods: Iterable[Pod]) -> Snapshot:
        """Return the cluster with some more bound pods; pods of unknown nodes are left out."""
        more: dict[str, list[Pod]] = {}
        for pod in pods:
            more.setdefault(pod.spec.node_name, []).append(pod)
        nodes = tuple(
            replace(node, pods=(*node.pods, *more[node.name])) if node.name in more else node
            for node in self.nodes
        )
        return replace(self, nodes=nodes)
