# SPDX-License-Identifier: Apache-2.0
"""Puts a rearrangement in an order in which it can be stopped anywhere: nodes that need nothing bought go first.

Pods of one kind are alike, so who goes where is open until the end: a node's pods take places so that it can go early.
Then nodes are bought, the ones that let most go first, and a step ends as soon as it pays for itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from karpenter.consolidation.search.copy import Contents, Copy

__all__ = ["Flow", "Step", "staged"]

# How many of the nodes still to go are compared when the next is chosen.
_LOOKS = 6


@dataclass(frozen=True, slots=True)
class Flow:
    """Pods of a kind that move from one node to a host."""

    kind: int
    source: int
    target: int
    number: int


@dataclass(slots=True)
class Step:
    """Hosts that are bought, nodes that then go, and where their pods do; ``gain`` is what it all gains."""

    launch: list[int] = field(default_factory=list)
    remove: list[int] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    gain: float = 0.0

    def take_in(self, other: Step) -> None:
        """Make another step part of this one."""
        self.launch += other.launch
        self.remove += other.remove
        self.flows += other.flows
        self.gain += other.gain


def staged(copy: Copy) -> list[Step]:
    """Return what was done to a copy as steps, each of which pays."""
    stage = _Stage(copy)
    steps: list[Step] = []
    for step in stage.run():
        if steps and steps[-1].gain <= 0.0:
            steps[-1].take_in(step)
        else:
            steps.append(step)
    while len(steps) > 1 and steps[-1].gain <= 0.0:
        last = steps.pop()
        steps[-1].take_in(last)
    return steps


class _Stage:
    """What is still to be done."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        ghosts = copy.terrain.ghosts
        # Places that wait for pods, by kind: hosts and numbers.
        self._places: dict[int, dict[int, int]] = {}
        self._sum: Contents = {}
        self._coming: dict[int, Contents] = {}
        self._hosts_of: dict[int, list[int]] = {}
        for host in copy.hosts():
            guests = {kind: n for kind, n in copy.guests[host].items() if not ghosts >> kind & 1}
            if host >= copy.standing and copy.is_open[host]:
                self._coming[host] = guests
                for kind in guests:
                    self._hosts_of.setdefault(kind, []).append(host)
            else:
                self._add(host, guests)
        nodes = copy.terrain.nodes
        gone = [node for node in range(copy.standing) if not copy.is_open[node]]
        self._left = sorted(
            gone, key=lambda node: (-nodes[node].gain / (1 + sum(n for _, n in nodes[node].contents)), node)
        )

    def _add(self, host: int, guests: Contents) -> None:
        for kind, number in guests.items():
            self._places.setdefault(kind, {})[host] = number
            self._sum[kind] = self._sum.get(kind, 0) + number

    def run(self) -> list[Step]:
        """Return every node that goes, step by step."""
        steps: list[Step] = []
        # Places only become fewer while nothing is bought, so each node is asked once.
        waiting: list[int] = []
        for node in self._left:
            if self._missing(node):
                waiting.append(node)
            else:
                steps.append(self._remove(node, Step()))
        self._left = waiting
        while self._left:
            step = Step()
            node = self._launch_for_next(step)
            self._left.remove(node)
            steps.append(self._remove(node, step))
        return steps

    def _missing(self, node: int) -> Contents:
        """Return the pods of a node for which no place waits yet."""
        found: Contents = {}
        for kind, number in self._copy.terrain.nodes[node].contents:
            short = number - self._sum.get(kind, 0)
            if short > 0:
                found[kind] = short
        return found

    def _launch_for_next(self, step: Step) -> int:
        """Buy what lets a node go, the one for which that pays best; return the node."""
        choices = []
        for node in self._left[:_LOOKS]:
            hosts = self._cover(self._missing(node))
            gain = self._copy.worth_of_leaving(node)
            cost = sum(self._copy.worth_of_leaving(host) for host in hosts)
            choices.append((cost - gain, node, hosts))
        _, chosen, hosts = min(choices)
        for host in hosts:
            for kind in self._coming[host]:
                self._hosts_of[kind].remove(host)
            self._add(host, self._coming.pop(host))
            step.launch.append(host)
            step.gain -= self._copy.worth_of_leaving(host)
        return chosen

    def _cover(self, missing: Contents) -> list[int]:
        """Return hosts to be bought that have places for some pods, few of them."""
        left = dict(missing)
        found: list[int] = []
        while left:
            covered: dict[int, int] = {}
            for kind, number in left.items():
                for host in self._hosts_of[kind]:
                    if host not in found:
                        covered[host] = covered.get(host, 0) + min(number, self._coming[host][kind])
            best = min(covered, key=lambda host: (-covered[host], host))
            found.append(best)
            for kind, number in self._coming[best].items():
                if kind in left:
                    left[kind] -= number
                    if left[kind] <= 0:
                        del left[kind]
        return found

    def _remove(self, node: int, step: Step) -> Step:
        standing = self._copy.terrain.nodes[node]
        for kind, number in standing.contents:
            self._sum[kind] -= number
            places = self._places[kind]
            missing = number
            while missing:
                host = min(places, key=lambda host: (-min(places[host], missing), host))
                taken = min(places[host], missing)
                step.flows.append(Flow(kind, node, host, taken))
                missing -= taken
                places[host] -= taken
                if not places[host]:
                    del places[host]
        step.remove.append(node)
        step.gain += self._copy.worth_of_leaving(node)
        return step
