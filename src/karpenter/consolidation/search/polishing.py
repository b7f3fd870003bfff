# SPDX-License-Identifier: Apache-2.0
"""Improves a rearrangement by small changes: wasteful hosts are emptied together, removed nodes are brought back.

Each try is kept only if the cost falls. Choices come from a small generator with a given seed, and tries are counted,
so the same question has the same answer on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import mul

from karpenter.consolidation.search.copy import Contents, Copy, together
from karpenter.consolidation.search.sweeping import Sweep
from karpenter.scheduling.packing.improving import Chance

__all__ = ["polish"]

# How many hosts are emptied at once, at most, and how many bought ones are packed anew when a node comes back.
_MOST_HOSTS = 12
_MOST_REPACKED = 6
# Waste is worked out anew after so many tries.
_FRESH = 32
_LEAST_GAIN = 1e-9


def polish(copy: Copy, sweep: Sweep, tries: int, seed: int, stop: Callable[[], bool]) -> None:
    """Improve a copy by at most so many tries."""
    chance = Chance(seed)
    wasteful: list[int] = []
    for number in range(tries):
        if stop():
            return
        if number % _FRESH == 0:
            wasteful = _by_waste(copy, sweep)
            if not wasteful:
                return
        if number % 3 == 2:
            _bring_back(copy, sweep, chance)
        else:
            _empty_some(copy, sweep, chance, wasteful)


def _by_waste(copy: Copy, sweep: Sweep) -> list[int]:
    """Return the hosts that may go, those first whose room is worth least for what they cost."""
    prices = sweep.prices
    ranked = []
    kinds = copy.terrain.kinds
    everyone = prices.on((1 << len(prices.by_group)) - 1)
    for host in copy.hosts():
        if copy.may_leave(host):
            weights = prices.on(prices.groups_on[host]) if host < copy.standing else everyone
            used = sum(
                number * sum(map(mul, weights, kinds[kind].size))
                for kind, number in copy.contents(host).items()
            )
            gain = copy.worth_of_leaving(host)
            if gain > 0.0:
                ranked.append((used - gain, host))
    return [host for _, host in sorted(ranked)]


def _empty_some(copy: Copy, sweep: Sweep, chance: Chance, wasteful: list[int]) -> None:
    """Empty a few hosts together, the wasteful ones more often."""
    chosen: set[int] = set()
    for _ in range(1 + chance.below(min(_MOST_HOSTS, len(wasteful)))):
        # The least of three draws: the front, where the wasteful are, comes up more often.
        draw = min(chance.below(len(wasteful)), chance.below(len(wasteful)), chance.below(len(wasteful)))
        if copy.may_leave(wasteful[draw]):
            chosen.add(wasteful[draw])
    if chosen:
        sweep.exchange(sorted(chosen), copy.open_hosts())


def _bring_back(copy: Copy, sweep: Sweep, chance: Chance) -> None:
    """Bring back a node that was taken away, with its own pods, and pack anew the bought nodes that lose them."""
    gone = [node for node in range(copy.standing) if not copy.is_open[node]]
    if not gone:
        return
    node = gone[chance.below(len(gone))]
    sweep.tries += 1
    before = copy.cost
    mark = copy.mark()
    poorer = _recall(copy, dict(copy.terrain.nodes[node].contents), chance)
    if poorer is not None:
        copy.open_again(node)
        contents = together([copy.close(host) for host in poorer])
        if sweep.settle(contents, copy.open_hosts(), before - _LEAST_GAIN):
            copy.forget()
            return
    copy.take_back(mark)


def _recall(copy: Copy, wanted: Contents, chance: Chance) -> list[int] | None:
    """Take pods of the wanted kinds from where they went, from few bought hosts; return those that lost some."""
    bought = [host for host in range(copy.standing, len(copy.is_open)) if copy.is_open[host]]
    start = chance.below(len(bought)) if bought else 0
    poorer: list[int] = []
    for host in (*bought[start:], *bought[:start], *range(copy.standing)):
        if not wanted:
            break
        if copy.guests[host] and (host < copy.standing or len(poorer) < _MOST_REPACKED):
            lost = _take(copy, host, wanted)
            if lost and host >= copy.standing:
                poorer.append(host)
    return None if wanted else poorer


def _take(copy: Copy, host: int, wanted: Contents) -> bool:
    """Take what is wanted from a host, as far as it came there; tell whether there was any."""
    kinds = [kind for kind in wanted if kind in copy.guests[host]]
    for kind in kinds:
        number = min(wanted[kind], copy.guests[host][kind])
        copy.put(host, kind, -number)
        wanted[kind] -= number
        if not wanted[kind]:
            del wanted[kind]
    return bool(kinds)
