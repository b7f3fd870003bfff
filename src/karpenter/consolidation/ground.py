# SPDX-License-Identifier: Apache-2.0
"""What a decision stands on: every node of ours with its pods, price and policy, and who is out of the question.

Made once for each decision. A node that is leaving, not ready for work, promised to a waiting pod, protected by its
annotation, of an unknown pool, or that failed a short while ago is out of the question whatever the reason; everything
else depends on the reason and is asked by the methods (emptiness, drift, consolidation).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_TYPE, DO_NOT_DISRUPT, SPOT
from karpenter.consolidation.budgets import Quota
from karpenter.consolidation.policies import consolidatable_at
from karpenter.consolidation.prices import Prices
from karpenter.consolidation.protection import Obstacle, Protection
from karpenter.consolidation.types import Candidate, PoolPolicy, Reason, Situation, Verdict, VerdictKind
from karpenter.consolidation.verdicts import moment, verdict
from karpenter.model.pods import eviction_cost, is_reschedulable
from karpenter.model.snapshot import NodeView, Snapshot

__all__ = ["Ground", "Site"]

# Each pod weighs so much more when all pods of its node were moved within the last hour.
_MOVED_AGAIN = 3.0


@dataclass(frozen=True, slots=True)
class Site:
    """A node of ours that stands and is ready for work.

    Attributes:
        candidate: What the cluster says of it.
        view: The node.
        policy: Its pool's policy.
        price: What it costs per hour; None if that is not known or not to be believed.
        pods: The pods that need another place when it goes, by name.
        weight: What moving all of them weighs.
        disruption: What taking it disturbs, as Karpenter counts: 1, and the eviction cost of its pods.
        obstacle: The pod that holds it, or None.
        quiet_at: From when on it counts as quiet; None for never.
    """

    candidate: Candidate
    view: NodeView
    policy: PoolPolicy
    price: float | None
    pods: tuple[Pod, ...]
    weight: float
    disruption: float
    obstacle: Obstacle | None
    quiet_at: float | None

    @property
    def name(self) -> str:
        """The node's name."""
        return self.candidate.name

    @property
    def pool(self) -> str:
        """Its NodePool's name."""
        return self.candidate.pool

    @property
    def is_empty(self) -> bool:
        """Whether no pod on it is worth keeping: as Karpenter, those of no eviction cost are not."""
        return all(eviction_cost(pod) <= 0 for pod in self.pods)

    @property
    def is_static(self) -> bool:
        """Whether its pool keeps a fixed number of nodes."""
        return self.policy.replicas is not None

    @property
    def is_spot(self) -> bool:
        """Whether it may be taken back by the cloud."""
        return self.view.labels.get(CAPACITY_TYPE) == SPOT

    def says(self, kind: VerdictKind, words: str, **values: str) -> Verdict:
        """Return a verdict on it."""
        return verdict(self.name, kind, words, self.price, values)


class Ground:
    """Everything that the methods decide from.

    Args:
        snapshot: The cluster.
        situation: Everything beside it.
        now: The moment.
        asked_about: Nodes that count as if they were not leaving: a stage that waits asks about its own.
    """

    def __init__(
        self, snapshot: Snapshot, situation: Situation, now: float, asked_about: Iterable[str] = ()
    ) -> None:
        self.prices = Prices(snapshot)
        # The answer does not depend on the order in which nodes and pools are named.
        self.snapshot = replace(
            snapshot,
            nodes=tuple(sorted(snapshot.nodes, key=lambda node: node.name)),
            pools=self.prices.usual(sorted(snapshot.pools, key=lambda pool: pool.name)),
        )
        self.situation = situation
        self.settings = situation.settings
        self.now = now
        self.quota = Quota(situation.candidates, situation.policies, now, asked_about)
        self._protection = Protection(situation.pdbs, now)
        self.sites: dict[str, Site] = {}
        self.barred: dict[str, Verdict] = {}
        spared = frozenset(asked_about)
        # Nodes that should get no more pods.
        self.closed = frozenset(
            each.name
            for each in situation.candidates
            if each.not_ready or (each.leaving and each.name not in spared)
        )
        views = {node.name: node for node in snapshot.nodes}
        for candidate in sorted(situation.candidates, key=lambda each: each.name):
            view = views.get(candidate.name)
            found = self._looked_at(candidate, view, is_spared=candidate.name in spared)
            if isinstance(found, Site):
                self.sites[candidate.name] = found
            else:
                price = None if view is None else self.prices.of(view)
                self.barred[candidate.name] = verdict(candidate.name, *found, price)

    def budget_verdict(self, site: Site, reason: Reason) -> Verdict:
        """Return the verdict on a node that a budget holds."""
        allowed = self.quota.allowance(site.pool, reason)
        words = (
            f"NodePool {site.pool} lets {allowed.nodes} of its nodes go at once for the reason {reason}"
            f" ({allowed.budget}), and no more can start now"
        )
        return site.says(VerdictKind.BUDGET, words, budget=allowed.budget, allowed=str(allowed.nodes))

    def unquiet_verdict(self, site: Site) -> Verdict | None:
        """Return the verdict on a node that has not been quiet for long enough; None if it has."""
        if site.quiet_at is None:
            return site.says(VerdictKind.NEVER, f"NodePool {site.pool} has consolidateAfter Never")
        if self.now < site.quiet_at:
            until = moment(site.quiet_at)
            words = f"pods came or went a short while ago; by consolidateAfter it is quiet from {until} on"
            return site.says(VerdictKind.RECENT_CHANGE, words, until=until)
        return None

    def _looked_at(
        self, candidate: Candidate, view: NodeView | None, *, is_spared: bool
    ) -> Site | tuple[VerdictKind, str]:
        """Return a node with all that is known of it, or why it is out of the question whatever the reason."""
        if candidate.leaving and not is_spared:
            return VerdictKind.LEAVING, "it is already on its way out"
        if view is None or not view.initialized or candidate.initialized_at is None:
            return VerdictKind.NOT_INITIALIZED, "it is not ready for work yet"
        policy = self.situation.policies.get(candidate.pool)
        if policy is None:
            return VerdictKind.NO_POOL, f'its NodePool "{candidate.pool}" is not there'
        retry_at = candidate.retry_at or 0.0
        questions = (
            (candidate.do_not_disrupt, VerdictKind.NODE_PROTECTED, f"it carries {DO_NOT_DISRUPT}"),
            (candidate.nominated, VerdictKind.NOMINATED, "a pod that waits is promised to it"),
            (
                self.now < retry_at,
                VerdictKind.RETRY,
                f"taking it failed; it is tried again from {moment(retry_at)} on",
            ),
        )
        for holds, kind, words in questions:
            if holds:
                return kind, words
        return self._site(candidate, view, policy, self.prices.of(view))

    def _site(self, candidate: Candidate, view: NodeView, policy: PoolPolicy, price: float | None) -> Site:
        bound = [pod for pod in view.pods if pod.spec.node_name]
        pods = tuple(
            sorted(
                (pod for pod in bound if is_reschedulable(pod)),
                key=lambda pod: (pod.metadata.namespace, pod.metadata.name, pod.metadata.uid),
            )
        )
        disturbed = sum(max(0.0, eviction_cost(pod)) for pod in pods)
        memory = self.situation.memory
        moved = sum(memory.was_moved(pod, self.now) for pod in pods)
        factor = 1 + _MOVED_AGAIN * moved / max(1, len(pods))
        return Site(
            candidate=candidate,
            view=view,
            policy=policy,
            price=price,
            pods=pods,
            weight=factor * disturbed,
            disruption=1 + disturbed,
            obstacle=self._protection.obstacle(bound),
            quiet_at=consolidatable_at(candidate, policy),
        )
