# SPDX-License-Identifier: Apache-2.0
"""The cluster as we know it, put together from what the informers follow, ready to be frozen into a Snapshot.

There is no moment at which "everything is synced": each member is counted as soon as anything is known of it,
and a claim that lacks its provider id holds up nobody else. What a member looks like is worked out once and kept
until one of its objects changes, so that a Snapshot of thousands of nodes costs what has changed since the last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from karpenter.api.core import DaemonSet, Node, Pod
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import CAPACITY_RESERVATION_ID, CAPACITY_TYPE, DISRUPTED_TAINT, INSTANCE_TYPE, ZONE
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock, SystemClock
from karpenter.kube import Change
from karpenter.model.catalogue import Catalogue, lowest_bit
from karpenter.model.pods import is_reschedulable, is_terminal
from karpenter.model.pools import pool_view
from karpenter.model.resources import Resources
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.model.taints import same_taint
from karpenter.model.volumes import Storage, attach_limits
from karpenter.scheduling.problems import daemon_pod
from karpenter.state.changes import ChangeStamp
from karpenter.state.effective import Effective, effective
from karpenter.state.informers import Informers
from karpenter.state.loads import Load, load_of
from karpenter.state.nominations import Nominations
from karpenter.state.podevents import PodEvents
from karpenter.state.reservations import Launches, Removals
from karpenter.state.views import Member, capacity_of, node_view

__all__ = ["Cluster", "price_of"]


class Cluster:
    """Answers what there is now; holds no copy of its own besides what it has worked out."""

    def __init__(self, informers: Informers, *, clock: Clock | None = None) -> None:
        self.informers = informers
        clock = clock or SystemClock()
        self.nominations = Nominations(clock)
        self._views: dict[str, NodeView] = {}
        self._sizes: dict[str, tuple[Member, Resources]] = {}
        self._loads: dict[str, Load] = {}
        self._effective: Effective | None = None
        self._leaving: set[str] = set()
        self.removals = Removals()
        self.launches = Launches()
        # Nodes that name an instance of ours and are not its node, by uid.
        self._disowned: set[str] = set()
        informers.pods.on_change(self._pod_changed)
        informers.nodes.on_change(self._node_changed)
        informers.csi_nodes.on_change(lambda change: self._forget(change.object.metadata.name))
        informers.claims.on_change(self._claim_changed)
        informers.pools.on_change(lambda _: self._reread())
        informers.classes.on_change(lambda _: self._reread())
        self.pod_events = PodEvents(informers, clock)
        # Last, so that who hears of a change finds it here already.
        self.stamp = ChangeStamp(informers)

    @property
    def effective(self) -> Effective:
        """The pools and node classes that count, in v1."""
        if self._effective is None:
            self._effective = effective(self.informers.pools, self.informers.classes)
        return self._effective

    def pool(self, name: str) -> NodePool | None:
        """Gives a NodePool as it is meant."""
        return self.effective.pools.get(name)

    def node_class(self, name: str) -> EC2NodeClass | None:
        """Gives a node class as it is meant."""
        return self.effective.classes.get(name)

    def members(self) -> Iterator[Member]:
        """Yields every member: nodes with their claims, and claims that have no node yet."""
        seen = set()
        for node in self.informers.nodes:
            member = self.member(node.metadata.name)
            if member is not None:
                if member.claim is not None:
                    seen.add(member.claim.metadata.name)
                yield member
        for claim in self.informers.claims:
            if claim.metadata.name not in seen:
                yield Member(claim)

    def member(self, name: str) -> Member | None:
        """Gives the member of a node, or of a claim that has no node yet, by name."""
        node = self.informers.nodes.get(name)
        if node is None:
            claim = self.informers.claims.get(name)
            if claim is None:
                return None
            named = self.informers.nodes.by("provider_id", claim.status.provider_id)
            joined = [each for each in named if each.metadata.uid not in self._disowned]
            return Member(claim, joined[0] if len(joined) == 1 else None)
        is_disowned = node.metadata.uid in self._disowned
        claims = () if is_disowned else self.informers.claims.by("provider_id", node.spec.provider_id)
        return Member(claims[0] if claims else None, node)

    def disown(self, node: Node) -> None:
        """Take a node for no claim's own, though it names the instance of one."""
        self._disowned.add(node.metadata.uid)
        self._forget(node.metadata.name)

    def mark_leaving(self, claim_names: Iterable[str]) -> None:
        """Leaves members out of every Snapshot from now on, before their taints are seen by the informers."""
        self._leaving.update(claim_names)

    def unmark_leaving(self, claim_names: Iterable[str]) -> None:
        """Takes such a mark back."""
        self._leaving.difference_update(claim_names)

    def is_leaving(self, member: Member) -> bool:
        """Tells whether a member is on its way out, or chosen to be."""
        chosen = member.claim is not None and member.claim.metadata.name in self.removals
        return chosen or self.is_going(member) or member.is_leaving

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Gives the pods bound to a node, those that are over included."""
        return self.informers.pods.by("node", node)

    def unbound(self) -> tuple[Pod, ...]:
        """Gives the pods that have no node, whatever they wait for."""
        return self.informers.pods.by("node", "")

    def is_going(self, member: Member) -> bool:
        """Tells whether a member's end is settled: it is being deleted, or marked as good as deleted."""
        marked = member.claim is not None and member.claim.metadata.name in self._leaving
        return marked or member.is_being_deleted

    def displaced(self) -> tuple[Pod, ...]:
        """Gives the pods of members on their way out that need another place.

        A member that is merely tainted may still be kept: whoever tainted it answers for its pods.
        """
        return tuple(
            pod
            for member in self.members()
            if member.node is not None and self.is_going(member)
            for pod in self.pods_on(member.name)
            if is_reschedulable(pod)
        )

    def daemons(self) -> tuple[Pod, ...]:
        """Gives one pod for each DaemonSet, as it would be on a new node."""
        return tuple(daemon_pod(each) for each in sorted(self.informers.daemon_sets, key=_by_name))

    def size_of(self, member: Member) -> Resources:
        """Gives the whole size of a member, worked out once for as long as its objects stay."""
        known = self._sizes.get(member.name)
        if known is None or known[0].claim is not member.claim or known[0].node is not member.node:
            known = self._sizes[member.name] = member, capacity_of(member)
        return known[1]

    def load_on(self, node: str) -> Load:
        """Gives what the pods on a node add up to, worked out once for as long as they stay."""
        known = self._loads.get(node)
        if known is None:
            known = self._loads[node] = load_of(self.pods_on(node))
        return known

    def used(self, catalogues: Mapping[str, Catalogue]) -> dict[str, dict[str, int]]:
        """Gives what each pool's members take of its limits, those on their way in and out included.

        Nodes that are just being ordered count too.
        A claim that has not been launched counts as the largest type that it may become: a limit is never passed.
        """
        used: dict[str, dict[str, int]] = {}
        for member in self.members():
            if member.pool:
                size: Mapping[str, int] = self.size_of(member)
                if not size and member.claim is not None:
                    size = _largest(member.claim, catalogues.get(member.pool))
                amounts = used.setdefault(member.pool, {})
                for resource, amount in {**size, "nodes": 1}.items():
                    amounts[resource] = amounts.get(resource, 0) + amount
        for pool in self.launches.pools():
            used[pool] = self.launches.used(pool, used.get(pool, {}))
        return used

    def snapshot(
        self,
        catalogues: Mapping[str, Catalogue],
        *,
        staying: Collection[str] = (),
        shown: Collection[str] = (),
        unpromised: Collection[str] = (),
    ) -> Snapshot:
        """Freezes the cluster; only the pools that a catalogue is given for may make nodes.

        Args:
            catalogues: What each pool may buy.
            staying: Names of nodes that are shown as if they were not on their way out.
            shown: Names of nodes that are shown though they are on their way out, with the taint that says so.
            unpromised: Uids of pods that are shown where they are, and not where they are promised to go too.
        """
        used = self.used(catalogues)
        pools = []
        for name, catalogue in sorted(catalogues.items()):
            pool = self.pool(name)
            if pool is not None:
                try:
                    pools.append(pool_view(pool, catalogue, used.get(name, {})))
                except KarpenterError:
                    # The pool's own condition says so; the others go on.
                    continue
        views = []
        for member in self.members():
            if self.is_leaving(member) and member.name not in shown and member.name not in staying:
                continue
            view = self._view(member, catalogues.get(member.pool), unpromised)
            views.append(_untainted(view) if member.name in staying else view)
        return Snapshot(
            pools=tuple(pools),
            nodes=tuple(sorted(views, key=lambda view: view.name)),
            daemons=self.daemons(),
            storage=Storage.of(
                self.informers.volume_claims, self.informers.volumes, self.informers.storage_classes
            ),
            namespaces={each.metadata.name: each.metadata.labels for each in self.informers.namespaces},
        )

    def promised_to(self, member: Member) -> tuple[Pod, ...]:
        """Gives the pods that are promised to a member and not on it; their promises end when they are."""
        key = member.claim.metadata.name if member.claim is not None else member.name
        uids = self.nominations.pods_of(key)
        pods = (pod for uid in uids for pod in self.informers.pods.by("uid", uid))
        return tuple(pod for pod in pods if pod.spec.node_name != member.name)

    def _view(
        self, member: Member, catalogue: Catalogue | None, unpromised: Collection[str] = ()
    ) -> NodeView:
        promised = tuple(pod for pod in self.promised_to(member) if pod.metadata.uid not in unpromised)
        price = price_of(member.labels, catalogue) if member.is_managed and catalogue is not None else None
        known = self._views.get(member.name) if not promised else None
        if known is None or known.price_per_hour != price:
            csi = self.informers.csi_nodes.get(member.name)
            bound = (pod for pod in self.pods_on(member.name) if not is_terminal(pod))
            limits = attach_limits(csi) if csi is not None else {}
            known = node_view(member, (*bound, *promised), limits, price)
            if not promised:
                self._views[member.name] = known
        return known

    def _pod_changed(self, change: Change[Pod]) -> None:
        for pod in (change.old, change.new):
            if pod is not None and pod.spec.node_name:
                self._forget(pod.spec.node_name)
        bound = change.old is not None and not change.old.spec.node_name and change.object.spec.node_name
        if change.new is None or bound or is_terminal(change.new):
            self.nominations.withdraw(change.object.metadata.uid)

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        claim = change.object
        self._forget(claim.metadata.name)
        self._forget(claim.status.node_name)
        for node in self.informers.nodes.by("provider_id", claim.status.provider_id):
            self._forget(node.metadata.name)
        if change.new is None:
            self._leaving.discard(claim.metadata.name)
            self.removals.release([claim.metadata.name])
            self.nominations.withdraw_all(claim.metadata.name)

    def _node_changed(self, change: Change[Node]) -> None:
        self._forget(change.object.metadata.name)
        if change.new is None:
            self._disowned.discard(change.object.metadata.uid)

    def _forget(self, name: str) -> None:
        self._views.pop(name, None)
        self._sizes.pop(name, None)
        self._loads.pop(name, None)

    def _reread(self) -> None:
        self._effective = None


def price_of(labels: Mapping[str, str], catalogue: Catalogue) -> float | None:
    """Gives what a node with such labels costs an hour, sold out or not; None if the catalogue does not know."""
    wanted = {key: labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)}
    if labels.get(CAPACITY_RESERVATION_ID):
        wanted[CAPACITY_RESERVATION_ID] = labels[CAPACITY_RESERVATION_ID]
    found = catalogue.everything
    for key, value in wanted.items():
        found &= catalogue.values(key).get(value, 0)
    return catalogue.prices[lowest_bit(found)] if found else None


def _untainted(view: NodeView) -> NodeView:
    """Gives a view without the taint that says that the node is on its way out."""
    taints = tuple(each for each in view.taints if not same_taint(each, DISRUPTED_TAINT))
    return replace(view, taints=taints)


def _largest(claim: NodeClaim, catalogue: Catalogue | None) -> Mapping[str, int]:
    """Gives the most that a claim may turn out to take, while it is not known what it will be."""
    if catalogue is None:
        return {}
    wanted = next((each.values for each in claim.spec.requirements if each.key == INSTANCE_TYPE), ())
    largest: dict[str, int] = {}
    for kind in catalogue.types:
        if kind.name in wanted:
            for resource, amount in kind.capacity.items():
                largest[resource] = max(largest.get(resource, 0), amount)
    return largest


def _by_name(each: DaemonSet) -> tuple[str, str]:
    return each.metadata.namespace, each.metadata.name
