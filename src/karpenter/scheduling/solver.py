# SPDX-License-Identifier: Apache-2.0
"""The decision: which nodes for these pods, at the lowest price, and why not for the rest.

One pure function. The controller, consolidation, what-if questions and benchmarks call it alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from karpenter.model.affinity import NodeRules
from karpenter.model.pools import in_order
from karpenter.model.snapshot import Snapshot
from karpenter.model.topology import CountGroup, TopologyRules
from karpenter.scheduling.board import Board
from karpenter.scheduling.bulk import is_plain, place_in_bulk
from karpenter.scheduling.classes import PodClass, Profile, encode, fold, profiles_of, read
from karpenter.scheduling.explanation import Explainer, sentence, unreadable
from karpenter.scheduling.groups import GroupTable
from karpenter.scheduling.hosts import Memory
from karpenter.scheduling.options import SolveOptions, never
from karpenter.scheduling.outcome import write_plan
from karpenter.scheduling.plan import Plan, Rejection, pod_name
from karpenter.scheduling.proof import lower_bound
from karpenter.scheduling.rearranging import Rearrangement
from karpenter.scheduling.reasons import Explanation
from karpenter.scheduling.sequential import place_in_turn, place_one_by_one
from karpenter.scheduling.stances import Stance, Stances
from karpenter.scheduling.templates import Daemon, compile_daemons, templates_of
from karpenter.scheduling.turns import Guest, put_in_turn
from karpenter.scheduling.verification import offenders

__all__ = ["solve"]

# Whole classes by price, class after class, or pod after pod as the original does it.
_Way = Literal["bulk", "classes", "queue"]
_WAYS: Final[tuple[_Way, ...]] = ("bulk", "classes", "queue")

# How often pods taken out at the end are tried again; beyond this they go round in circles.
_REPAIRS = 3

# Chains of followers longer than this are cut: whoever comes later is placed with the last.
_LONGEST_CHAIN = 8

# Up to so many pods are placed in every way, and the cheapest plan counts. Levelling places before nodes exist can cost
# a node too many, which matters only while there are few.
_FEW = 150

# How many pods may be tried on how many nodes while a small plan is rearranged, for each unit of effort.
_WORK_PER_EFFORT = 40


def solve(snapshot: Snapshot, pods: Iterable[Pod], options: SolveOptions | None = None) -> Plan:
    """Place pods on standing nodes and on nodes to be bought.

    Args:
        snapshot: The cluster.
        pods: The pods that have no place, in any order; the answer does not depend on it.
        options: How to decide; the controller's way if left out.
    """
    asked = tuple(pods)
    chosen = options or SolveOptions()
    decision = _Solve(snapshot, asked, chosen)
    if len(asked) <= _FEW:
        decision.place_in_every_way()
        decision.put_in_turn()
    else:
        decision.place(_WAYS[0])
    return decision.plan()


class _Outcome(NamedTuple):
    """Where everybody is at some moment, and who is nowhere."""

    board: Memory
    left: dict[int, int]
    cut_short: set[int]


class _Solve:
    """One solve."""

    def __init__(self, snapshot: Snapshot, pods: Iterable[Pod], options: SolveOptions) -> None:
        self.snapshot = snapshot
        self.options = options
        readings = read(pods, snapshot.storage)
        self.unreadable = readings.unreadable
        self.table = GroupTable(snapshot.namespaces, _on_every_node(snapshot))
        # Equal parts of pods were read once and are the same objects: most pods have nothing new to number.
        met: set[tuple[int, int, int]] = set()
        for each in readings.compiled:
            parts = (id(each.topology), id(each.node), id(each.tolerations))
            if each.topology and parts not in met:
                met.add(parts)
                for spread in each.topology.spreads:
                    self.table.number_of_rule(spread, each)
                for affinity in each.topology.affinities:
                    self.table.number_of_rule(affinity, each)
        self._number_standing_rules(readings.compiled)
        self.classes = _waiting_first(fold(readings.compiled, self.table.counting), options.first)
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
        # By cost: what the nodes to be bought cost at least. Whatever changes a board lowers its cost.
        self._proven: dict[tuple[int, float], float] = {}
        # Where the pods of a class go, the oldest first, by its index, if that was looked at.
        self.order: Mapping[int, Sequence[Guest]] = {}

    def place_in_every_way(self) -> None:
        """Place what can be placed in one way after the other, and keep the best, until it is good enough."""
        beginning = self._remember()
        best: tuple[tuple[int, float], _Outcome] | None = None
        seen: set[tuple[object, ...]] = set()
        for way in _WAYS:
            self._restore(beginning)
            self.place(way)
            found = _arrangement(self.board)
            if found in seen:
                continue
            seen.add(found)
            self.rearrange()
            if best is None or self.cost() < best[0]:
                best = (self.cost(), self._remember())
                if self.is_good_enough():
                    return
        assert best is not None
        self._restore(best[1])

    def put_in_turn(self) -> None:
        """Make the outcome easier to follow for a scheduler that binds one pod at a time."""
        found = put_in_turn(self.board, self.options.effort, self.options.expired)
        self.order = found.order
        if found.is_changed:
            self._proven.clear()

    def _remember(self) -> _Outcome:
        return _Outcome(self.board.remember(), dict(self.left), set(self.cut_short))

    def _restore(self, outcome: _Outcome) -> None:
        self.board.restore(outcome.board)
        self.left, self.cut_short = dict(outcome.left), set(outcome.cut_short)
        self._proven.clear()

    def place(self, way: _Way) -> None:
        """Place what can be placed; ``left`` says how many pods of each class, by its index, found no place."""
        if way == "queue":
            self._in_queue(self.left)
        else:
            self._by_level(self.left, in_bulk=way == "bulk")
        self._take_out_offenders(self.left)

    def _by_level(self, left: dict[int, int], *, in_bulk: bool) -> None:
        """Place class after class; nobody gives way before all who need not have been tried."""
        for waiting in (True, False):
            self._followers_first(left, [each for each in self.classes if self._has_waited(each) == waiting])
        for tier in self._tiers():
            for level in range(max(len(self.profiles[each.index]) for each in tier)):
                if in_bulk:
                    self._in_bulk(left, tier, level)
                self._one_by_one(left, tier, level)
        self._second_chances(left)

    def _in_queue(self, left: dict[int, int]) -> None:
        """Place pod after pod, each giving way at once where it must, while a whole round places anybody."""
        progress = True
        while progress:
            progress = False
            for each in self.classes:
                stances = [self.stance(each, level) for level in range(len(self.profiles[each.index]))]
                while left[each.index] and not self._is_late(each) and place_in_turn(self.board, stances):
                    left[each.index] -= 1
                    progress = True

    def _is_late(self, each: PodClass) -> bool:
        """Tell whether the deadline has come, and note that it kept the class from being tried."""
        late = self.options.expired()
        if late:
            self.cut_short.add(each.index)
        return late

    def cost(self) -> tuple[int, float]:
        """Return what makes one outcome worse than another: pods without a place first, then the price."""
        return sum(self.left.values()), self.board.price()

    def is_good_enough(self) -> bool:
        """Tell whether every pod that can has a place, and no other way would make a plan that is much cheaper.

        Pods that ask for room alone are packed as well as can be. The bound speaks of the pods on new nodes alone:
        where standing nodes have room, fewer pods might need a new one.
        """
        price = self.board.price()
        if any(self.left[each.index] and self._is_hopeful(each) for each in self.classes):
            return False
        if not price or any(self._has_choice(each) for each in self.classes):
            return not price
        if not any(self._is_entangled(each) for each in self.classes):
            return True
        return self._lower_bound() >= price / (1 + self.options.tolerance)

    def _lower_bound(self) -> float:
        """Return what the nodes to be bought cost at least, worked out once for what is on them now."""
        cost = self.cost()
        if cost not in self._proven:
            self._proven[cost] = lower_bound(self.board)
        return self._proven[cost]

    def _has_choice(self, each: PodClass) -> bool:
        """Tell whether a pod of the class might have stood on a node that stands, however it gives way."""
        return next(self.board.admission.candidates(self._last_stance(each)), None) is not None

    def _last_stance(self, each: PodClass) -> Stance:
        return self.stance(each, len(self.profiles[each.index]) - 1)

    def _is_hopeful(self, each: PodClass) -> bool:
        return self.board.admission.might_hold(self._last_stance(each))

    def _is_entangled(self, each: PodClass) -> bool:
        """Tell whether where a pod of the class goes depends on other pods, beyond the room that they take."""
        stance = self.stance(each, 0)
        return bool(stance.keys or stance.near or stance.caps or stance.pods.ports)

    def rearrange(self) -> None:
        """Look for places for those who have none, and for cheaper nodes."""
        if not self.options.effort or self.is_good_enough():
            return
        levels = {
            each.index: [self.stance(each, level) for level in range(len(self.profiles[each.index]))]
            for each in self.classes
        }
        work = self.options.effort * _WORK_PER_EFFORT
        Rearrangement(self.board, self.left, levels, work, self.options.expired).run()

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
            rejections.append(_rejection(pods, explainer.explain(self._last_stance(each))))
        return write_plan(
            self.board,
            rejections,
            self.options,
            lower_bound=self._lower_bound(),
            unfinished=unfinished,
            order=self.order,
        )

    def _would_place(self, snapshot: Snapshot, pod: Pod) -> bool:
        """Tell whether a pod alone would find a place in a cluster: how a fix is tried."""
        alone = _Solve(snapshot, (pod,), replace(self.options, expired=never))
        alone.place("classes")
        return not alone.unreadable and not any(alone.left.values())

    def _tiers(self) -> list[list[PodClass]]:
        """Part the classes into those that must be placed before others.

        Whom others follow goes before them: a group may found itself anywhere only while nobody whom it follows has
        a place. Higher priority goes first where limits may run out; else all are placed together, which is cheaper.
        Pods that a deadline cut off last time go before the others of their priority.
        """
        limited = any(pool.limits for pool in self.snapshot.pools)
        steps = self._steps()
        tiers: dict[tuple[int, bool, int], list[PodClass]] = {}
        for each in self.classes:
            key = (-each.priority if limited else 0, not self._has_waited(each), steps[each.index])
            tiers.setdefault(key, []).append(each)
        return [tiers[key] for key in sorted(tiers)]

    def _has_waited(self, each: PodClass) -> bool:
        return bool(self.options.first) and pod_name(each.pods[0]) in self.options.first

    def _steps(self) -> list[int]:
        """Return, for each class, how many others must go before it, one after the other; circles count once."""
        stances = [self.stance(each, 0) for each in self.classes]
        followed = [sum(1 << group for group in set(stance.followed)) for stance in stances]
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

    def _followers_first(self, left: dict[int, int], classes: list[PodClass]) -> None:
        """Place those who follow others onto a host, after those they follow, before the room is gone."""
        targets = 0
        for each in classes:
            for rule in self.stance(each, 0).near:
                targets |= 1 << rule.group
        if not targets:
            return
        steps = self._steps()
        involved = [
            each for each in classes if self.stance(each, 0).near or self.stance(each, 0).counted & targets
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
                if before and not self._is_late(each):
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


def _waiting_first(classes: Sequence[PodClass], first: frozenset[str]) -> tuple[PodClass, ...]:
    """Part pods that were cut off last time from equal ones that were not, and put them first in their priority."""
    if not first:
        return tuple(classes)
    parts: list[tuple[tuple[int, bool, int], PodClass]] = []
    for each in classes:
        for waited in (True, False):
            pods = [pod for pod in each.pods if (pod_name(pod) in first) == waited]
            if pods:
                parts.append(((-each.priority, not waited, each.index), replace(each, pods=pods)))
    ordered = tuple(each for _, each in sorted(parts, key=lambda part: part[0]))
    for index, each in enumerate(ordered):
        each.index = index
    return ordered


def _arrangement(board: Board) -> tuple[object, ...]:
    """Return who is where, whatever the order in which nodes were opened."""
    return tuple(
        sorted(
            (
                host.index if host.node is not None else board.standing,
                host.mask,
                tuple(sorted(host.pins.items())),
                tuple(
                    sorted((each.pods.index, each.level, number) for each, number in host.contents.items())
                ),
            )
            for host in board.occupied()
        )
    )


def _on_every_node(snapshot: Snapshot) -> frozenset[str]:
    """Return labels that no node lacks, standing or to be bought."""
    bought = (ZONE, CAPACITY_TYPE, INSTANCE_TYPE)
    return frozenset(
        (HOSTNAME, *(key for key in bought if all(key in node.labels for node in snapshot.nodes)))
    )


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
