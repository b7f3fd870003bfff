# SPDX-License-Identifier: Apache-2.0
"""What is said about removing nodes: which command and why, what it saves, what came of it, and why others stay.

The same facts go to the log, to Events, to metrics and to the DecisionLog. Why a node stays is said on the node when
the reason changes, and repeated rarely: most nodes stay for the same reason for days.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.api import labels as names
from karpenter.api.nodeclaim import NodeClaim
from karpenter.consolidation.budgets import Quota
from karpenter.consolidation.types import Command, Reason, Situation, Verdict, VerdictKind
from karpenter.kube import Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, NODE_POOLS, NODES
from karpenter.model.pods import is_daemon
from karpenter.model.snapshot import Snapshot
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log
from karpenter.state import Cluster, Member

__all__ = ["Act", "Teller"]

_QUIET_S: Final = 900.0
_MOST_NAMED: Final = 20
# What Karpenter shows where no budget bounds the number of nodes.
_NO_BOUND: Final = 2**31 - 1

# What no person need do anything about, or what is said elsewhere already.
_UNSAID: Final = frozenset(
    {
        VerdictKind.GOES,
        VerdictKind.LEAVING,
        VerdictKind.NOT_OURS,
        VerdictKind.NOT_INITIALIZED,
        VerdictKind.NOMINATED,
        VerdictKind.RECENT_CHANGE,
        VerdictKind.WAITS,
        VerdictKind.RETRY,
    }
)
# Somebody asked that the node be left alone; the rest is a matter of price and room.
_BLOCKING: Final = frozenset(
    {
        VerdictKind.NO_POOL,
        VerdictKind.NODE_PROTECTED,
        VerdictKind.POD_PROTECTED,
        VerdictKind.PDB,
        VerdictKind.SEVERAL_PDBS,
    }
)


# Nobody asks that the node be left alone: price, room or a budget decides.
_WEIGHED: Final = frozenset(
    {
        VerdictKind.GOES,
        VerdictKind.WAITS,
        VerdictKind.BUDGET,
        VerdictKind.NO_ROOM,
        VerdictKind.NOT_CHEAPER,
        VerdictKind.SAVING,
        VerdictKind.BALANCED,
        VerdictKind.SPOT,
        VerdictKind.LIMITS,
    }
)


@dataclass(frozen=True, slots=True)
class Act:
    """What is said of one command, or of the stage of it that is carried out.

    Attributes:
        id: The command's id.
        reason: Why.
        claims: Who goes.
        replacements: How many come before.
        pods: How many pods move.
        price_before: Dollars an hour of those that go.
        price_after: Dollars an hour of those that come.
        words: One sentence.
    """

    id: str
    reason: str
    claims: tuple[str, ...]
    replacements: int
    pods: int
    price_before: float
    price_after: float
    words: str

    @property
    def decision(self) -> str:
        """Karpenter's word for what is done."""
        return "replace" if self.replacements else "delete"

    @property
    def saving_per_hour(self) -> float:
        """What it promises to take off the bill."""
        return self.price_before - self.price_after

    @property
    def labels(self) -> tuple[str, str, str]:
        """Karpenter's labels of decisions: decision, reason, kind of consolidation."""
        return self.decision, self.reason.lower(), kind_of(self.reason, len(self.claims))


def kind_of(reason: str, nodes: int) -> str:
    """Gives Karpenter's word for the kind of consolidation; empty for what is none."""
    if reason == Reason.EMPTY:
        return "empty"
    if reason == Reason.UNDERUTILIZED:
        return "single" if nodes == 1 else "multi"
    return ""


class Teller:
    """Says what is done and what is not."""

    def __init__(
        self, cluster: Cluster, recorder: Recorder, decisions: DecisionLog, metrics: Metrics
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._decisions = decisions
        self._metrics = metrics
        self._log = get_log("disruption")
        self._verdicts: dict[str, Verdict] = {}
        self._unpriced: set[str] = set()
        # As Karpenter: what has not happened is shown as zero.
        for kind in ("multi", "single"):
            metrics.consolidation_timeouts.labels(kind)

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """Why each node stays, as of the last look."""
        return self._verdicts

    def begun(self, act: Act) -> None:
        """Says that a command is carried out."""
        members = [self._cluster.member(name) for name in act.claims]
        shown = [_described(member) for member in members if member is not None]
        replaced = f", launching {act.replacements} before" if act.replacements else ""
        self._log.info(
            "disrupting node(s)",
            command=f"{act.reason}/{act.id}: {act.decision}, terminating {len(act.claims)} nodes"
            f" ({act.pods} pods){replaced}",
            reason=act.reason.lower(),
            decision=act.decision,
            **{
                "command-id": act.id,
                "disrupted-node-count": len(act.claims),
                "replacement-node-count": act.replacements,
                "pod-count": act.pods,
                "savings-per-hour": round(act.saving_per_hour, 5),
                "disrupted-nodes": shown[:_MOST_NAMED],
            },
            detail=act.words,
        )
        if act.reason == Reason.UNDERUTILIZED:
            self._tell_about(members, "ConsolidationCandidate", act.words)
        self._metrics.disruption_decisions.labels(*act.labels).inc()
        for pool in sorted({member.pool for member in members if member is not None}):
            self._metrics.disruption_decisions_by_pool.labels(*act.labels, pool).inc()
        self._metrics.savings.labels("promised", act.reason.lower()).inc(max(act.saving_per_hour, 0.0))
        self._decisions.record(
            DecisionKind.REPLACE if act.replacements else DecisionKind.DELETE,
            *(f"NodeClaim/{name}" for name in act.claims),
            reason=act.reason,
            message=act.words,
            price_before=act.price_before,
            price_after=act.price_after,
            command=act.id,
            pods=act.pods,
            replacements=act.replacements,
        )

    def waiting(self, claim: NodeClaim, *, launched: bool) -> None:
        """Says on a replacement what is waited for."""
        if launched:
            reason, words = "DisruptionWaitingReadiness", "Waiting on readiness to continue disruption"
        else:
            reason, words = "DisruptionLaunching", "Launching for disruption"
        self._recorder.tell(Subject.of(NODE_CLAIMS, claim), reason, words)

    def terminating(self, claim: NodeClaim, act: Act, policy: str, pods: int) -> None:
        """Says that a claim is deleted for a command."""
        member = self._cluster.member(claim.metadata.name) or Member(claim)
        words = f"Disrupting Node: {act.reason}: {act.words}"
        for subject in _subjects(member):
            self._recorder.tell(subject, "DisruptionTerminating", words)
        labels = act.reason.lower(), member.pool, claim.metadata.labels.get(names.CAPACITY_TYPE, "")
        self._metrics.claims_disrupted.labels(*labels).inc()
        self._metrics.pods_disruption_initiated.labels(*labels, policy).inc(pods)

    def rolled_back(self, act: Act, claims: Sequence[str], problem: str, *, is_blameless: bool) -> None:
        """Says that a command was taken back, and whether that is nobody's fault."""
        named = list(claims)[:_MOST_NAMED]
        if act.reason == Reason.UNDERUTILIZED:
            members = [self._cluster.member(name) for name in claims]
            self._tell_about(members, "ConsolidationRejected", problem)
        if is_blameless:
            self._log.info(
                "taking back a disruption command", command=act.id, detail=problem, nodeclaims=named
            )
        else:
            self._metrics.disruption_failures.labels(*act.labels).inc()
            self._log.error(
                "failed terminating nodes while executing a disruption command",
                command=act.id,
                reason=act.reason.lower(),
                error=problem,
                nodeclaims=named,
            )
        self._decisions.record(
            DecisionKind.ROLL_BACK,
            *(f"NodeClaim/{name}" for name in claims),
            reason=act.reason,
            message=f"command {act.id} is taken back: {problem}",
            command=act.id,
        )

    def settled(self, act: Act, pools: Iterable[str], realised_per_hour: float | None) -> None:
        """Says what came of a command; nothing about money where a price is not known."""
        if realised_per_hour is None:
            self._log.info("disrupted node(s)", command=act.id, reason=act.reason.lower())
            return
        self._metrics.savings.labels("realised", act.reason.lower()).inc(max(realised_per_hour, 0.0))
        self._log.info(
            "disrupted node(s)",
            command=act.id,
            reason=act.reason.lower(),
            **{
                "savings-per-hour": round(realised_per_hour, 5),
                "promised-savings-per-hour": round(act.saving_per_hour, 5),
            },
        )
        words = f"command {act.id} saves {realised_per_hour:.4f} $/h; it promised {act.saving_per_hour:.4f}"
        # Its nodes are gone, and so nobody would see it there.
        for pool in filter(None, map(self._cluster.pool, sorted(pools))):
            self._recorder.tell(Subject.of(NODE_POOLS, pool), "DisruptionSettled", f"{act.reason}: {words}")
        self._decisions.record(
            DecisionKind.SETTLE,
            *(f"NodeClaim/{name}" for name in act.claims),
            reason=act.reason,
            message=words,
            price_before=act.price_before,
            price_after=act.price_before - realised_per_hour,
            command=act.id,
            promised_per_hour=act.saving_per_hour,
            realised_per_hour=realised_per_hour,
        )

    def stay(self, verdicts: Mapping[str, Verdict]) -> None:
        """Says of each node why it stays, where that is news."""
        news = {
            name: verdict
            for name, verdict in verdicts.items()
            if verdict.kind not in _UNSAID and self._is_news(verdict)
        }
        for verdict in news.values():
            self._explain(verdict)
            if verdict.kind is VerdictKind.BALANCED:
                self._count_refused(verdict)
        self._verdicts = dict(verdicts)
        self._count(verdicts.values())
        if news:
            named = list(news)[:_MOST_NAMED]
            self._decisions.record(
                DecisionKind.KEEP,
                *(f"Node/{name}" for name in named),
                reason="Staying",
                message=f"{len(news)} nodes stay: {news[named[0]].words}",
                verdicts={
                    name: {
                        "kind": str(each.kind),
                        "words": each.words,
                        "values": dict(each.values),
                        "cost_per_day": each.cost_per_day,
                    }
                    for name, each in news.items()
                },
            )

    def budgets(self, situation: Situation, now: float) -> None:
        """Says how much budgets allow, and on a pool that they allow nothing."""
        quota = Quota(situation.candidates, situation.policies, now)
        pools = {each.pool for each in situation.candidates if each.initialized_at is not None}
        users = Counter(each.pool for each in situation.candidates if each.leaving or each.not_ready)
        allowances: dict[tuple[str, ...], float] = {}
        used: dict[tuple[str, ...], float] = {}
        for pool in sorted(situation.policies):
            for reason in (Reason.EMPTY, Reason.DRIFTED, Reason.UNDERUTILIZED):
                allowed = quota.allowance(pool, reason)
                key = pool, reason.lower()
                allowances[key] = _NO_BOUND if allowed.nodes is None else allowed.nodes
                used[key] = users[pool]
                if allowed.nodes == 0 and pool in pools:
                    self._tell_pool(pool, reason, allowed.budget)
        self._metrics.pool_allowed_disruptions.replace(allowances)
        self._metrics.pool_consuming_budgets.replace(used)

    def weighed(self, command: Command) -> None:
        """Counts the moves of a command that is about money, and what they score where that was asked for."""
        if command.reason is not Reason.UNDERUTILIZED:
            return
        for stage in command.stages:
            members = map(self._cluster.member, stage.remove)
            for pool in sorted({member.pool for member in members if member is not None}):
                self._count_move("approved", pool, stage.scores.get(pool))

    def _count_move(self, decision: str, name: str, score: float | None) -> None:
        pool = self._cluster.pool(name)
        labels = decision, name, pool.spec.disruption.consolidation_policy if pool is not None else ""
        self._metrics.consolidation_moves.labels(*labels).inc()
        if score is not None:
            self._metrics.consolidation_score.labels(*labels).observe(score)

    def measure(self, snapshot: Snapshot, situation: Situation, verdicts: Mapping[str, Verdict]) -> None:
        """Measures what pools cost, and how many nodes could be taken for each reason."""
        cost = dict.fromkeys(situation.policies, 0.0)
        unpriced = set()
        for node in snapshot.nodes:
            if node.managed and node.pool in cost:
                cost[node.pool] += node.price_per_hour or 0.0
                if node.price_per_hour is None:
                    unpriced.add(node.name)
                    if node.name not in self._unpriced:
                        self._metrics.pool_cost_errors.labels(node.pool).inc()
        self._unpriced = unpriced
        self._metrics.pool_cost.replace({(pool,): dollars for pool, dollars in cost.items()})
        drifted = sum(bool(each.drifted) and not each.leaving for each in situation.candidates)
        weighed = sum(each.kind in _WEIGHED for each in verdicts.values())
        self._metrics.eligible_nodes.labels("drifted").set(drifted)
        self._metrics.eligible_nodes.labels("underutilized").set(weighed)
        occupied = {node.name for node in snapshot.nodes if not all(map(is_daemon, node.pods))}
        empty = sum(each.kind in _WEIGHED and each.node not in occupied for each in verdicts.values())
        self._metrics.eligible_nodes.labels("empty").set(empty)

    def _tell_about(self, members: Iterable[Member | None], reason: str, words: str) -> None:
        """Says something on the nodes of a command, and on their claims; rarely the same."""
        for member in members:
            for subject in _subjects(member) if member is not None else ():
                self._recorder.tell(subject, reason, words, quiet_s=_QUIET_S)

    def _tell_pool(self, name: str, reason: Reason, budget: str) -> None:
        pool = self._cluster.pool(name)
        if pool is not None:
            self._recorder.tell(
                Subject.of(NODE_POOLS, pool),
                "DisruptionBlocked",
                f"No allowed disruptions for reason {reason} due to blocking budget ({budget})",
                quiet_s=_QUIET_S,
                about=f"budget {reason}",
            )

    def _is_news(self, verdict: Verdict) -> bool:
        before = self._verdicts.get(verdict.node)
        return before is None or (before.kind, before.values) != (verdict.kind, verdict.values)

    def _count_refused(self, verdict: Verdict) -> None:
        member = self._cluster.member(verdict.node)
        if member is not None:
            self._count_move("rejected", member.pool, float(verdict.values["score"]))

    def _explain(self, verdict: Verdict) -> None:
        member = self._cluster.member(verdict.node)
        if member is None:
            return
        reason = "DisruptionBlocked" if verdict.kind in _BLOCKING else "Unconsolidatable"
        cost = f" ({verdict.cost_per_day:.2f} $ a day)" if verdict.cost_per_day is not None else ""
        for subject in _subjects(member):
            self._recorder.tell(
                subject, reason, f"{verdict.words}{cost}", quiet_s=_QUIET_S, about=str(verdict.kind)
            )

    def _count(self, verdicts: Iterable[Verdict]) -> None:
        nodes: dict[tuple[str, ...], float] = {}
        cost: dict[tuple[str, ...], float] = {}
        for verdict in verdicts:
            member = self._cluster.member(verdict.node)
            key = (member.pool if member is not None else "", str(verdict.kind))
            nodes[key] = nodes.get(key, 0) + 1
            cost[key] = cost.get(key, 0.0) + (verdict.cost_per_day or 0.0)
        self._metrics.staying_nodes.replace(nodes)
        self._metrics.staying_cost.replace(cost)


def _subjects(member: Member) -> list[Subject]:
    found = []
    if member.node is not None:
        found.append(Subject.of(NODES, member.node))
    if member.claim is not None:
        found.append(Subject.of(NODE_CLAIMS, member.claim))
    return found


def _described(member: Member) -> dict[str, object]:
    labels = member.labels
    return {
        "Node": {"name": member.name},
        "NodeClaim": {"name": member.claim.metadata.name if member.claim is not None else ""},
        "capacity-type": labels.get(names.CAPACITY_TYPE, ""),
        "instance-type": labels.get(names.INSTANCE_TYPE, ""),
    }
