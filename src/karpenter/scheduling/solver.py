# SPDX-License-Identifier: Apache-2.0
"""The decision: which nodes for these pods, at the lowest price, and why not for the rest.

One pure function. The controller, consolidation, what-if questions and benchmarks call it alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from karpenter.api.core import Pod
from karpenter.model.affinity import NodeRules
from karpenter.model.catalogue import lowest_bit
from karpenter.model.pools import in_order
from karpenter.model.snapshot import Snapshot
from karpenter.model.topology import CountGroup, TopologyRules
from karpenter.scheduling.board import Board
from karpenter.scheduling.bulk import is_plain, place_in_bulk
from karpenter.scheduling.classes import PodClass, Profile, encode, fold, profiles_of, read
from karpenter.scheduling.explanation import Explainer, sentence, unreadable
from karpenter.scheduling.groups import GroupTable
from karpenter.scheduling.options import SolveOptions, never
from karpenter.scheduling.outcome import write_plan
from karpenter.scheduling.plan import Plan, Rejection
from karpenter.scheduling.proof import lower_bound
from karpenter.scheduling.reasons import Explanation
from karpenter.scheduling.sequential import place_one_by_one
from karpenter.scheduling.stances import Stance, Stances
from karpenter.scheduling.templates import Daemon, compile_daemons, templates_of
from karpenter.scheduling.verification import offenders

__all__ = ["solve"]

# How often pods taken out at the end are tried again; beyond this they go round in circles.
_REPAIRS = 3

# Chains of followers longer than this are cut: whoever comes later is placed with the last.
_LONGEST_CHAIN = 8

# Up to so many pods are also placed one by one, the original's way, and the cheaper plan counts. Levelling places
# before nodes exist can cost a node too many, which matters only while there are few.
_FEW = 150

# Everybody has a place, for nothing: no other way of placing can do better.
_NOTHING_LEFT_TO_GAIN = (0, 0.0)


def solve(snapshot: Snapshot, pods: Iterable[Pod], options: SolveOptions | None = None) -> Plan:
    """Place pods on standing nodes and on nodes to be bought.

    Args:
        snapshot: The cluster.
        pods: The pods that have no place, in any order; the answer does not depend on it.
        options: How to decide; the controller's way if left out.
    """
    asked = tuple(pods)
    chosen = options or SolveOptions()
    attempts: list[_Solve] = []
    for in_bulk in (True, False) if len(asked) <= _FEW else (True,):
        attempts.append(_Solve(snapshot, asked, chosen, in_bulk=in_bulk))
        attempts[-1].place()
        if attempts[-1].cost() == _NOTHING_LEFT_TO_GAIN:
            break
    return min(attempts, key=_Solve.cost).plan()


class _Solve:
    """One solve."""

    def __init__(
        self, snapshot: Snapshot, pods: Iterable[Pod], options: SolveOptions, *, in_bulk: bool
    ) -> None:
        self.snapshot = snapshot
        self.in_bulk = in_bulk
        self.options = options
        readings = read(pods, snapshot.storage)
        self.unreadable = readings.unreadable
        self.table = GroupTable(snapshot.namespaces)
        for each in readings.compiled:
            for spread in each.topology.spreads:
                self.table.number_of_rule(spread, each)
            for affinity in each.topology.affinities:
                self.table.number_of_rule(affinity, each)
        self._number_standing_rules(readings.compiled)
        self.classes = fold(readings.compiled, self.table.counting)
        daemons = compile_daemons(snapshot.daemons)
        self.resources = _resources(self.classes, daemons)
        wanted = [term.requirements for each in self.classes for term in each.node.alternatives]
        self.board = Board(
            snapshot,
            self.table,
            templates_of(in_order(snapshot.pools), wanted, daemons, self.resources),
            daemons,
            self.resources,
            best_effort=options.min_values == "BestEffort",
        )
        self.profiles = self._profiles()
        self._taker = Stances(self.table, self.resources)
        self._stances: dict[tuple[int, int], Stance] = {}
        self.left = {each.index: len(each.pods) for each in self.classes}
        # Classes that the deadline kept from being tried to the end.
        self.cut_short: set[int] = set()

    def place(self) -> None:
        """Place what can be placed; ``left`` says how many pods of each class, by its index, found no place."""
        self._followers_first(self.left)
        for tier in self._tiers():
            for level in range(max(len(self.profiles[each.index]) for each in tier)):
                if self.in_bulk:
                    self._in_bulk(self.left, tier, level)
                self._one_by_one(self.left, tier, level)
        self._second_chances(self.left)
        self._take_out_offenders(self.left)

    def cost(self) -> tuple[int, float]:
        """Return what makes one outcome worse than another: pods without a place first, then the price."""
        return sum(self.left.values()), sum(
            host.template.catalogue.prices[lowest_bit(host.mask)]
            for host in self.board.hosts
            if host.template is not None and host.contents
        )

    def plan(self) -> Plan:
        """Return the outcome, with reasons for those who found no place."""
        rejections = [_rejection((pod,), unreadable(trouble)) for pod, trouble in self.unreadable]
        unfinished: list[Pod] = []
        explainer: Explainer | None = None
        for each in self.classes:
            if not self.left[each.index]:
                continue
            pods = each.pods[-self.left[each.index] :]
            if each.index in self.cut_short:
                unfinished += pods
                continue
            explainer = explainer or Explainer(self.board, self._would_place)
            last_level = len(self.profiles[each.index]) - 1
            rejections.append(_rejection(pods, explainer.explain(self.stance(each, last_level))))
        return write_plan(
            self.board,
            rejections,
            self.options,
            lower_bound=lower_bound(self.board),
            unfinished=unfinished,
        )

    def _would_place(self, snapshot: Snapshot, pod: Pod) -> bool:
        """Tell whether a pod alone would find a place in a cluster: how a fix is tried."""
        alone = _Solve(snapshot, (pod,), replace(self.options, expired=never), in_bulk=False)
        alone.place()
        return not alone.unreadable and not any(alone.left.values())

    def _tiers(self) -> list[list[PodClass]]:
        """Part the classes into those that must be placed before others.

        Whom others follow goes before them: a group may found itself anywhere only while nobody whom it follows has
        a place. Higher priority goes first where limits may run out; else all are placed together, which is cheaper.
        """
        limited = any(pool.limits for pool in self.snapshot.pools)
        steps = self._steps()
        tiers: dict[tuple[int, int], list[PodClass]] = {}
        for each in self.classes:
            key = (-each.priority if limited else 0, steps[each.index])
            tiers.setdefault(key, []).append(each)
        return [tiers[key] for key in sorted(tiers)]

    def _steps(self) -> list[int]:
        """Return, for each class, how many others must go before it, one after the other; circles count once."""
        stances = [self.stance(each, 0) for each in self.classes]
        followed: list[int] = []
        for stance in stances:
            groups = 0
            for rule in (*stance.near, *(rule for rules in stance.places.values() for rule in rules)):
                if rule.kind == "together" and rule.hard:
                    groups |= 1 << rule.group
            followed.append(groups)
        steps = [0] * len(stances)
        leading: dict[int, list[int]] = {
            groups: [other for other, stance in enumerate(stances) if stance.counted & groups]
            for groups in set(followed)
            if groups
        }
        for _ in range(min(len(stances), _LONGEST_CHAIN) if leading else 0):
            changed = False
            for index, groups in enumerate(followed):
                if not groups:
                    continue
                # Whoever follows this class in turn cannot be waited for: that would be a circle.
                before = [
                    steps[other]
                    for other in leading[groups]
                    if other != index and not followed[other] & stances[index].counted
                ]
                step = 1 + max(before) if before else 0
                changed = changed or step != steps[index]
                steps[index] = step
            if not changed:
                break
        return steps

    def _followers_first(self, left: dict[int, int]) -> None:
        """Place those who follow others onto a host, after those they follow, before the room is gone."""
        targets = 0
        for each in self.classes:
            for rule in self.stance(each, 0).near:
                targets |= 1 << rule.group
        if not targets:
            return
        steps = self._steps()
        involved = [
            each
            for each in self.classes
            if self.stance(each, 0).near or self.stance(each, 0).counted & targets
        ]
        for step in sorted({steps[each.index] for each in involved}):
            self._place(left, [each for each in involved if steps[each.index] == step], 0)

    def _second_chances(self, left: dict[int, int]) -> None:
        """Try everybody again while it helps: who gave way late may be whom somebody else waits for."""
        before = -1
        while any(left.values()) and sum(left.values()) != before:
            before = sum(left.values())
            for level in range(max(map(len, self.profiles))):
                self._one_by_one(left, self.classes, level)

    def _take_out_offenders(self, left: dict[int, int]) -> None:
        """Take out pods whose own rules the end breaks, and try them again while that may help."""
        turns = 0
        while True:
            found = False
            for stance, host in offenders(self.board):
                found = True
                self.board.leave(stance, host, 1)
                left[stance.pods.index] += 1
            if not found:
                return
            turns += 1
            if turns <= _REPAIRS:
                for level in range(max(map(len, self.profiles), default=0)):
                    self._one_by_one(left, self.classes, level)

    def _in_bulk(self, left: dict[int, int], classes: list[PodClass], level: int) -> None:
        pending = [
            (stance, left[each.index])
            for each in classes
            if left[each.index] and level < len(self.profiles[each.index])
            for stance in (self.stance(each, level),)
            if is_plain(stance)
        ]
        if pending:
            remaining = place_in_bulk(self.board, pending, self.options)
            for stance, _ in pending:
                left[stance.pods.index] = remaining.get(stance, 0)

    def _one_by_one(self, left: dict[int, int], classes: Iterable[PodClass], level: int) -> None:
        self._place(left, [each for each in classes if level < len(self.profiles[each.index])], level)

    def _place(self, left: dict[int, int], classes: list[PodClass], level: int) -> None:
        """Try classes one by one, again as long as it helps: one pod's place may open another's."""
        progress = True
        while progress:
            progress = False
            for each in classes:
                before = left[each.index]
                if before and self.options.expired():
                    self.cut_short.add(each.index)
                elif before:
                    left[each.index] = place_one_by_one(self.board, self.stance(each, level), before)
                    progress = progress or left[each.index] < before

    def stance(self, pod_class: PodClass, level: int) -> Stance:
        known = self._stances.get((pod_class.index, level))
        if known is None:
            known = self._taker.take(pod_class, level, self.profiles[pod_class.index])
            self._stances[pod_class.index, level] = known
        return known

    def _profiles(self) -> list[tuple[Profile, ...]]:
        """Return what each class insists on, level by level; classes that say the same share it."""
        respect = self.options.preferences == "Respect"
        taint_wishes = self._has_taint_wishes()
        known: dict[tuple[NodeRules, TopologyRules], tuple[Profile, ...]] = {}
        found = []
        for each in self.classes:
            key = (each.node, each.topology)
            if key not in known:
                known[key] = profiles_of(each, respect_preferences=respect, taint_wishes=taint_wishes)
            found.append(known[key])
        return found

    def _number_standing_rules(self, pending: Iterable[PodClass]) -> None:
        """Number the groups that standing pods keep away from, as far as they count anybody who needs a place."""
        crowds = {(each.namespace, tuple(each.labels.items())): each for each in pending}
        pairs = {pair for _, labels in crowds for pair in labels}
        found: list[CountGroup] = []
        for census in self.snapshot.censuses():
            for group in census.groups_apart():
                known = group.selector.pairs
                if known and known[0] not in pairs:
                    continue
                if any(self._counts(group, each) for each in crowds.values()):
                    found.append(group)
        # Numbers decide between equals: the order of nodes and pods must not.
        for group in sorted(found, key=encode):
            self.table.number(group)

    def _counts(self, group: CountGroup, pods: PodClass) -> bool:
        return group.counts(pods.namespace, pods.labels, self.snapshot.namespaces.get(pods.namespace, {}))

    def _has_taint_wishes(self) -> bool:
        places = (
            *(pool.taints for pool in self.snapshot.pools),
            *(node.taints for node in self.snapshot.nodes),
        )
        return any(taint.effect == "PreferNoSchedule" for taints in places for taint in taints)


def _resources(classes: Iterable[PodClass], daemons: Iterable[Daemon]) -> tuple[str, ...]:
    """Return the resources that anybody asks for; the others cannot run out."""
    asked = {"cpu", "memory", "pods"}
    for pods in classes:
        asked.update(pods.requests)
    for daemon in daemons:
        asked.update(daemon.requests)
    return tuple(sorted(asked))


def _rejection(pods: Sequence[Pod], explanation: Explanation) -> Rejection:
    return Rejection(tuple(pods), explanation.reasons, sentence(explanation), explanation)
