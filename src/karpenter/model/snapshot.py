# SPDX-License-Identifier: Apache-2.0
"""The cluster at one moment, frozen: everything that a decision may look at.

A snapshot is made once and shared. ``without`` and ``plus`` give the cluster as it would be, at the cost of the
difference: what-if questions are asked by the thousand. Who stands where is counted once for all of them (``Census``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from karpenter.api import labels as names
from karpenter.api.base import EMPTY
from karpenter.api.core import Pod, Taint
from karpenter.model.census import Crowd, NodeCensus
from karpenter.model.pools import Pool
from karpenter.model.resources import NO_RESOURCES, Resources
from karpenter.model.topology import CountGroup
from karpenter.model.volumes import Storage

__all__ = ["Census", "NodeView", "Snapshot"]


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
    _census: NodeCensus | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def hostname(self) -> str:
        """The value of the hostname topology key."""
        return self.labels.get(names.HOSTNAME, self.name)

    @property
    def census(self) -> NodeCensus:
        """What its pods amount to, counted when somebody first asks.

        Raises:
            QuantityError: A pod's request cannot be read.
        """
        known = self._census
        if known is None:
            known = NodeCensus(self.pods)
            # The node stays what it is; it only remembers.
            object.__setattr__(self, "_census", known)
        return known

    def closed(self) -> NodeView:
        """Return the node with no room left; its pods are the same, and are not counted again."""
        made = replace(self, allocatable=NO_RESOURCES)
        object.__setattr__(made, "_census", self._census)
        return made


class Census:
    """Where the pods of some nodes are, by their labels; worked out when somebody first asks.

    Nodes are told apart as objects: a node to which pods were added is another.
    """

    __slots__ = ("_apart", "_by_pair", "_crowds", "_known", "_nodes")

    def __init__(self, nodes: Iterable[NodeView]) -> None:
        self._nodes = tuple(nodes)
        self._known = frozenset(map(id, self._nodes))
        self._crowds: dict[Crowd, list[tuple[NodeView, int]]] | None = None
        self._by_pair: dict[tuple[str, str], list[Crowd]] = {}
        self._apart: dict[CountGroup, list[tuple[NodeView, int]]] = {}

    def knows(self, node: NodeView) -> bool:
        """Tell whether the node, as it is, was counted."""
        return id(node) in self._known

    def counted_by(
        self, group: CountGroup, namespaces: Mapping[str, Mapping[str, str]]
    ) -> Iterator[tuple[NodeView, int]]:
        """Yield where pods are that a group counts, and how many; a node may come up more than once."""
        crowds = self._index()
        pairs = group.selector.pairs
        for crowd in self._by_pair.get(pairs[0], ()) if pairs else tuple(crowds):
            namespace, labels = crowd
            if group.counts(namespace, dict(labels), namespaces.get(namespace, EMPTY)):
                yield from crowds[crowd]

    def groups_apart(self) -> Collection[CountGroup]:
        """Return the groups that some pods need to keep away from."""
        self._index()
        return self._apart.keys()

    def keeping_apart(self, group: CountGroup) -> Iterable[tuple[NodeView, int]]:
        """Return where pods are that need to keep away from a group, and how many."""
        self._index()
        return self._apart.get(group, ())

    def _index(self) -> dict[Crowd, list[tuple[NodeView, int]]]:
        if self._crowds is not None:
            return self._crowds
        crowds: dict[Crowd, list[tuple[NodeView, int]]] = {}
        for node in self._nodes:
            for crowd, number in node.census.crowds.items():
                crowds.setdefault(crowd, []).append((node, number))
            for group, number in node.census.apart.items():
                self._apart.setdefault(group, []).append((node, number))
        for crowd in crowds:
            for pair in crowd[1]:
                self._by_pair.setdefault(pair, []).append(crowd)
        self._crowds = crowds
        return crowds


_NOBODY = Census(())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Nodes with their pods, pools, DaemonSets, storage and namespaces.

    Attributes:
        pools: The NodePools that may make nodes now.
        nodes: Every node that does not go away.
        daemons: One pod for each DaemonSet, as it would be on a new node.
        storage: Claims, volumes and classes.
        namespaces: The labels of each namespace.
        shared: The census of the cluster that this one was made from; its own if left out.
    """

    pools: tuple[Pool, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    daemons: tuple[Pod, ...] = ()
    storage: Storage = field(default_factory=Storage)
    namespaces: Mapping[str, Mapping[str, str]] = field(default=EMPTY)
    shared: Census = field(default=_NOBODY, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.shared is _NOBODY:
            object.__setattr__(self, "shared", Census(self.nodes))

    def censuses(self) -> tuple[Census, ...]:
        """Return what together knows each node once; they may also know nodes that are gone, or as they were."""
        strangers = [node for node in self.nodes if not self.shared.knows(node)]
        return (self.shared, Census(strangers)) if strangers else (self.shared,)

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
