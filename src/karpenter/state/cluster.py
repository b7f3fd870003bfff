# SPDX-License-Identifier: Apache-2.0
"""The cluster as we know it, put together from what the informers follow, ready to be frozen into a Snapshot.

There is no moment at which "everything is synced": each member is counted as soon as anything is known of it,
and a claim that lacks its provider id holds up nobody else. What a member looks like is worked out once and kept
until one of its objects changes, so that a Snapshot of thousands of nodes costs what has changed since the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from karpenter.api.core import DaemonSet, Pod
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import INSTANCE_TYPE
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.kit.clock import Clock, SystemClock
from karpenter.kube import Change
from karpenter.model.catalogue import Catalogue
from karpenter.model.pods import is_reschedulable, is_terminal
from karpenter.model.pools import pool_view
from karpenter.model.requirements import RequirementError
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.model.volumes import Storage, attach_limits
from karpenter.scheduling.problems import daemon_pod
from karpenter.state.effective import Effective, effective
from karpenter.state.informers import Informers
from karpenter.state.nominations import Nominations
from karpenter.state.views import Member, capacity_of, node_view

__all__ = ["Cluster"]


class Cluster:
    """Answers what there is now; holds no copy of its own besides what it has worked out."""

    def __init__(self, informers: Informers, *, clock: Clock | None = None) -> None:
        self.informers = informers
        self.nominations = Nominations(clock or SystemClock())
        self._views: dict[str, NodeView] = {}
        self._effective: Effective | None = None
        self._leaving: set[str] = set()
        informers.pods.on_change(self._pod_changed)
        informers.nodes.on_change(lambda change: self._forget(change.object.metadata.name))
        informers.csi_nodes.on_change(lambda change: self._forget(change.object.metadata.name))
        informers.claims.on_change(self._claim_changed)
        informers.pools.on_change(lambda _: self._reread())
        informers.classes.on_change(lambda _: self._reread())

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
            joined = self.informers.nodes.by("provider_id", claim.status.provider_id)
            return Member(claim, joined[0] if len(joined) == 1 else None)
        claims = self.informers.claims.by("provider_id", node.spec.provider_id)
        return Member(claims[0] if claims else None, node)

    def mark_leaving(self, claim_names: Iterable[str]) -> None:
        """Leaves members out of every Snapshot from now on, before their taints are seen by the informers."""
        self._leaving.update(claim_names)

    def unmark_leaving(self, claim_names: Iterable[str]) -> None:
        """Takes such a mark back."""
        self._leaving.difference_update(claim_names)

    def is_leaving(self, member: Member) -> bool:
        """Tells whether a member is on its way out."""
        marked = member.claim is not None and member.claim.metadata.name in self._leaving
        return marked or member.is_leaving

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Gives the pods bound to a node, those that are over included."""
        return self.informers.pods.by("node", node)

    def unbound(self) -> tuple[Pod, ...]:
        """Gives the pods that have no node, whatever they wait for."""
        return self.informers.pods.by("node", "")

    def displaced(self) -> tuple[Pod, ...]:
        """Gives the pods of members on their way out that need another place."""
        return tuple(
            pod
            for member in self.members()
            if member.node is not None and self.is_leaving(member)
            for pod in self.pods_on(member.name)
            if is_reschedulable(pod)
        )

    def daemons(self) -> tuple[Pod, ...]:
        """Gives one pod for each DaemonSet, as it would be on a new node."""
        return tuple(daemon_pod(each) for each in sorted(self.informers.daemon_sets, key=_by_name))

    def used(self, catalogues: Mapping[str, Catalogue]) -> dict[str, dict[str, int]]:
        """Gives what each pool's members take of its limits, those on their way in and out included.

        A claim that has not been launched counts as the largest type that it may become: a limit is never passed.
        """
        used: dict[str, dict[str, int]] = {}
        for member in self.members():
            if member.pool:
                size: Mapping[str, int] = capacity_of(member)
                if not size and member.claim is not None:
                    size = _largest(member.claim, catalogues.get(member.pool))
                amounts = used.setdefault(member.pool, {})
                for resource, amount in {**size, "nodes": 1}.items():
                    amounts[resource] = amounts.get(resource, 0) + amount
        return used

    def snapshot(self, catalogues: Mapping[str, Catalogue]) -> Snapshot:
        """Freezes the cluster; only the pools that a catalogue is given for may make nodes."""
        used = self.used(catalogues)
        pools = []
        for name, catalogue in sorted(catalogues.items()):
            pool = self.pool(name)
            if pool is not None:
                try:
                    pools.append(pool_view(pool, catalogue, used.get(name, {})))
                except RequirementError:
                    # The pool's own condition says so; the others go on.
                    continue
        views = [self._view(member) for member in self.members() if not self.is_leaving(member)]
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

    def _view(self, member: Member) -> NodeView:
        promised = self.promised_to(member)
        known = self._views.get(member.name) if not promised else None
        if known is None:
            csi = self.informers.csi_nodes.get(member.name)
            bound = (pod for pod in self.pods_on(member.name) if not is_terminal(pod))
            known = node_view(member, (*bound, *promised), attach_limits(csi) if csi is not None else {})
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
            self.nominations.withdraw_all(claim.metadata.name)

    def _forget(self, name: str) -> None:
        self._views.pop(name, None)

    def _reread(self) -> None:
        self._effective = None


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
