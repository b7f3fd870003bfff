# SPDX-License-Identifier: Apache-2.0
"""One pod, one decision: a node, or kube-scheduler's words on why there is none and who must go to make room.

The node that a pod is nominated to is asked first and taken if it fits. Of many nodes only a part is compared, as
kube-scheduler does: it begins where the last pod left off and stops when it has found enough that fit.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.sandbox.scheduler.cluster import Cluster, NodeInfo
from karpenter.sandbox.scheduler.filters import Attempt, Verdict
from karpenter.sandbox.scheduler.pods import PodInfo, Shape
from karpenter.sandbox.scheduler.preemption import Room, ineligible, make_room
from karpenter.sandbox.scheduler.scoring import scores
from karpenter.sandbox.scheduler.storage import CONFLICT

__all__ = ["Decider", "Placed", "Refused"]

_FEWEST_TO_FIND: Final = 100
_FEWEST_PERCENT: Final = 5
_NEW_WORDS_FROM_MINOR: Final = 34
_UNHELPFUL: Final = "Preemption is not helpful for scheduling"


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod goes to this node."""

    node: str


@dataclass(frozen=True, slots=True)
class Refused:
    """No node will do.

    Attributes:
        message: Why, in kube-scheduler's words.
        plugins: Who refused.
        room: Where room is made for it, if it can be.
        gives_up_promise: Whether the node it was promised is no longer its own: no room can be made anywhere.
    """

    message: str
    plugins: frozenset[str]
    room: Room | None = None
    gives_up_promise: bool = False


class Decider:
    """Decides for one pod after the other."""

    def __init__(self, cluster: Cluster, *, seed: int = 0, minor: int = _NEW_WORDS_FROM_MINOR - 1) -> None:
        """Makes a decider.

        Args:
            cluster: What it knows.
            seed: Of the chance by which ties are broken.
            minor: Of Kubernetes 1.x: from 1.34 on refusals are worded otherwise, and speak of device claims too.
        """
        self._cluster = cluster
        self._is_new = minor >= _NEW_WORDS_FROM_MINOR
        self._random = random.Random(seed)  # noqa: S311 - breaks ties, guards nothing
        self._start = 0
        # With the shape itself: another may come to stand where one was that is gone.
        self._refused: dict[int, tuple[int, Shape, Refused]] = {}

    def decide(self, pod: PodInfo) -> Placed | Refused:
        """Gives the node for a pod, or why there is none."""
        # Pods that say the same are refused alike until something changes.
        known = self._refused.get(id(pod.shape))
        if known is not None and known[:2] == (self._cluster.generation, pod.shape) and not pod.nominated:
            return known[2]
        decision = self._decide(pod)
        if isinstance(decision, Refused) and decision.room is None and not pod.nominated:
            if len(self._refused) > 10_000:
                self._refused.clear()
            self._refused[id(pod.shape)] = (self._cluster.generation, pod.shape, decision)
        return decision

    def _decide(self, pod: PodInfo) -> Placed | Refused:
        cluster = self._cluster
        if not cluster.nodes:
            return Refused("no nodes available to schedule pods", frozenset())
        attempt = Attempt(cluster, pod)
        if attempt.refused is not None:
            words, plugin = f" {attempt.refused.reasons[0]}.", frozenset((attempt.refused.plugin,))
            if self._is_new:
                # Kubernetes looks for what it would have noted about devices, had it come that far.
                return Refused(f"0/{len(cluster.nodes)} nodes are available:{words} not found", plugin)
            return self._refuse(attempt, words, {}, plugin)
        nominated = cluster.nodes.get(pod.nominated)
        if nominated is not None and attempt.check(nominated) is None:
            return Placed(nominated.name)
        feasible, verdicts = self._look(attempt)
        if feasible:
            return Placed(self._best(pod, feasible).name)
        plugins = frozenset(each.plugin for each in verdicts.values())
        absent = len(cluster.nodes) - len(verdicts)
        lines = self._histogram(verdicts.values(), "node(s) didn't satisfy plugin(s) [NodeAffinity]", absent)
        return self._refuse(attempt, lines, verdicts, plugins or frozenset(("NodeAffinity",)))

    def _look(self, attempt: Attempt) -> tuple[list[NodeInfo], dict[str, Verdict]]:
        nodes = attempt.nodes()
        enough = _enough(len(nodes))
        start = self._start % len(nodes) if nodes else 0
        feasible: list[NodeInfo] = []
        verdicts: dict[str, Verdict] = {}
        check = attempt.check
        for node in itertools.chain(itertools.islice(nodes, start, None), itertools.islice(nodes, start)):
            verdict = check(node)
            if verdict is not None:
                verdicts[node.name] = verdict
            else:
                feasible.append(node)
                if len(feasible) >= enough:
                    break
        self._start = (self._start + len(feasible) + len(verdicts)) % len(self._cluster.nodes)
        return feasible, verdicts

    def _best(self, pod: PodInfo, nodes: list[NodeInfo]) -> NodeInfo:
        if len(nodes) == 1:
            return nodes[0]
        found = scores(self._cluster, pod, nodes)
        best = max(found)
        return self._random.choice([node for node, score in zip(nodes, found, strict=True) if score == best])

    def _refuse(
        self, attempt: Attempt, words: str, verdicts: Mapping[str, Verdict], plugins: frozenset[str]
    ) -> Refused:
        count = len(self._cluster.nodes)
        message = f"0/{count} nodes are available:{words}"
        devices = " no new claims to deallocate," if self._is_new else ""
        why_not = ineligible(self._cluster, attempt.pod, verdicts)
        if why_not:
            return Refused(f"{message}{devices} preemption: {why_not}", plugins)
        room, refusals = make_room(attempt, verdicts)
        if room is not None:
            return Refused(message, plugins, room)
        lines = self._histogram(refusals.values(), _UNHELPFUL, count - len(refusals))
        words = f"{message}{devices} preemption: 0/{count} nodes are available:{lines}"
        return Refused(words, plugins, gives_up_promise=True)

    def _histogram(self, verdicts: Iterable[Verdict], absent_reason: str, absent: int) -> str:
        counts: dict[str, int] = {absent_reason: absent} if absent else {}
        for verdict in verdicts:
            for reason in verdict.reasons:
                said = _newer(reason) if self._is_new else reason
                counts[said] = counts.get(said, 0) + 1
        lines = sorted(f"{count} {reason}" for reason, count in counts.items())
        return f" {', '.join(lines)}." if lines else ""


def _newer(reason: str) -> str:
    """Gives a reason in the words of Kubernetes 1.34 and later."""
    if reason.startswith("node(s) had untolerated taint {"):
        return "node(s) had untolerated taint(s)"
    return "node(s) didn't match PersistentVolume's node affinity" if reason == CONFLICT else reason


def _enough(count: int) -> int:
    if count < _FEWEST_TO_FIND:
        return count
    percent = max(50 - count // 125, _FEWEST_PERCENT)
    return max(count * percent // 100, _FEWEST_TO_FIND)
