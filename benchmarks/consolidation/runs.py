# SPDX-License-Identifier: Apache-2.0
"""Runs an algorithm on a cluster until it is quiet, in faked time, and says what that took.

A round takes 15 seconds. Both sides may take away a tenth of the nodes at a time, and nodes that wait for others to be
bought stand in the way for a minute more. The model of Karpenter starts one command a round, as Karpenter does; ours as
many steps as the budgets let go. Workloads with a budget of their own let a tenth of their pods go in a round, which
is asked of ours only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from benchmarks.consolidation.cluster import Cluster, Pod
from benchmarks.consolidation.gomodel import GoModel
from benchmarks.consolidation.landing import Landing

__all__ = ["At", "Outcome", "Plan", "Planner", "run_go", "run_ours"]

ROUND_S = 15.0
LAUNCH_S = 60.0
_MOST_ROUNDS = 3000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to: dollars per hour, evictions, commands, rounds, model minutes and seconds of CPU."""

    price: float
    evictions: int
    actions: int
    rounds: int
    minutes: float
    cpu_s: float
    quiet: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """A step of a plan: what to buy, nodes that go, by number, and the targets of their pods.

    What to buy are pairs of a place, counted over the whole plan, and an offering. A target is a node's number, or for
    the node bought at place i, -1 - i.
    """

    launch: tuple[tuple[int, int], ...]
    remove: tuple[int, ...]
    targets: dict[int, int]


class Planner(Protocol):
    """Says what to do next, in order; nothing if the cluster is fine."""

    def plan(self, cluster: Cluster, now: float) -> list[Plan]:
        """Return the steps of a plan."""

    def bought_back(self, now: float, nodes: int) -> None:
        """Learn that nodes had to be bought because pods found no room."""


class At:
    """A planner at a moment of the week, for a run that counts its time from zero."""

    def __init__(self, planner: Planner, start: float) -> None:
        self._planner = planner
        self._start = start

    def plan(self, cluster: Cluster, now: float) -> list[Plan]:
        """Plan at the moment of the week."""
        return self._planner.plan(cluster, self._start + now)

    def bought_back(self, now: float, nodes: int) -> None:
        """Pass it on."""
        self._planner.bought_back(self._start + now, nodes)


class _Busy:
    """Nodes on their way out that still count against the budget."""

    def __init__(self) -> None:
        self._until: list[tuple[float, int]] = []

    def add(self, until: float, nodes: int) -> None:
        """Count nodes until some moment."""
        self._until.append((until, nodes))

    def at(self, now: float) -> int:
        """Return how many nodes count now."""
        self._until = [(until, nodes) for until, nodes in self._until if until > now]
        return sum(nodes for _, nodes in self._until)

    def end(self) -> float:
        """Return when the last of them is gone."""
        return max((until for until, _ in self._until), default=0.0)


def run_go(cluster: Cluster, landing: Landing, *, balanced: bool = False, most_s: float = 1e9) -> Outcome:
    """Let the model of Karpenter run until it finds nothing more, or time is up."""
    model = GoModel(cluster, balanced=balanced)
    evictions = actions = rounds = 0
    clock = 0.0
    busy = _Busy()
    started = time.process_time()
    quiet = False
    while rounds < _MOST_ROUNDS and clock < most_s:
        waiting = busy.at(clock)
        command = model.next(waiting)
        if command is None and not waiting:
            quiet = True
            break
        rounds += 1
        clock += ROUND_S
        if command is None:
            continue
        actions += 1
        targets = dict(command.targets)
        if command.launch >= 0:
            node = cluster.launch(command.launch)
            targets = {uid: node.number if number < 0 else number for uid, number in targets.items()}
            busy.add(clock + LAUNCH_S, len(command.remove))
        moved = _evict(cluster, command.remove, clock)
        evictions += len(moved)
        landing.land(moved, targets)
    clock = max(clock, busy.end())
    return Outcome(
        cluster.price(), evictions, actions, rounds, clock / 60, time.process_time() - started, quiet
    )


def _evict(cluster: Cluster, numbers: tuple[int, ...], now: float) -> list[Pod]:
    pods = [pod for number in numbers for pod in cluster.nodes[number].pods.values()]
    for number in numbers:
        del cluster.nodes[number]
    for pod in pods:
        pod.moved_at = now
    return pods


def run_ours(
    cluster: Cluster,
    landing: Landing,
    planner: Planner,
    *,
    most_s: float = 1e9,
    most_rounds: int = _MOST_ROUNDS,
) -> Outcome:
    """Carry out plan after plan until there is none; with pods that go astray, a plan is made anew every round."""
    evictions = actions = rounds = 0
    clock = 0.0
    busy = _Busy()
    started = time.process_time()
    quiet = False
    queue: list[Plan] = []
    bought: dict[int, int] = {}
    while rounds < most_rounds and clock < most_s:
        if not queue or landing.follow < 1.0:
            queue = planner.plan(cluster, clock)
            bought = {}
        if not queue:
            quiet = True
            break
        waiting = busy.at(clock)
        chosen, queue = _this_round(cluster, queue, bought, waiting)
        rounds += 1
        clock += ROUND_S
        moved: list[Pod] = []
        targets: dict[int, int] = {}
        for step in chosen:
            bought.update({place: cluster.launch(position).number for place, position in step.launch})
            targets.update(
                {uid: bought[-1 - place] if place < 0 else place for uid, place in step.targets.items()}
            )
            actions += 1
            if step.launch:
                busy.add(clock + LAUNCH_S, len(step.remove))
        for step in chosen:
            moved += _evict(cluster, step.remove, clock)
        evictions += len(moved)
        again = landing.land(moved, targets)
        if again:
            planner.bought_back(clock, again)
    clock = max(clock, busy.end())
    return Outcome(
        cluster.price(), evictions, actions, rounds, clock / 60, time.process_time() - started, quiet
    )


def _this_round(
    cluster: Cluster, queue: list[Plan], bought: dict[int, int], waiting: int
) -> tuple[list[Plan], list[Plan]]:
    """Return the steps that the budgets let go now, and the rest; a step beyond any budget goes alone."""
    budget = ceil(0.1 * (len(cluster.nodes) + waiting)) - waiting
    replicas: dict[int, int] = {}
    for pod in cluster.pods():
        replicas[pod.workload] = replicas.get(pod.workload, 0) + 1
    gone: dict[int, int] = {}
    ready = set(bought)
    chosen: list[Plan] = []
    rest: list[Plan] = []
    for step in queue:
        leaving: dict[int, int] = {}
        for number in step.remove:
            for pod in cluster.nodes[number].pods.values():
                if cluster.workloads[pod.workload].guarded:
                    leaving[pod.workload] = leaving.get(pod.workload, 0) + 1
        over = any(
            gone.get(workload, 0) + number > max(1, ceil(0.1 * replicas[workload]))
            for workload, number in leaving.items()
        )
        own = {place for place, _ in step.launch}
        early = any(target < 0 and -1 - target not in ready | own for target in step.targets.values())
        if early or ((chosen or waiting) and (over or len(step.remove) > budget)):
            rest.append(step)
            continue
        chosen.append(step)
        ready |= own
        budget -= len(step.remove)
        for workload, number in leaving.items():
            gone[workload] = gone.get(workload, 0) + number
    return chosen, rest
