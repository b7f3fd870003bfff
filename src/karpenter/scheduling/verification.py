# SPDX-License-Identifier: Apache-2.0
"""Checks the board as it stands in the end: every need of every pod, against the final counts.

Rules are asked when a pod enters, but pods that come later move the counts. A plan promises the end, whatever the order
in which pods are bound, so whoever's own rule is broken in the end is taken out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from karpenter.api.labels import HOSTNAME
from karpenter.scheduling.board import Board, Host
from karpenter.scheduling.stances import PlaceRule, Stance
from karpenter.scheduling.templates import NOWHERE

__all__ = ["Bound", "bound_in_the_end", "counting_places", "followed_places", "offenders", "place_of"]


# With more followers than this, one order of founding is tried.
_MOST_ORDERS = 40

# How many pods of a group are bound in a place.
Bound = dict[tuple[int, object], int]


class _Follower(NamedTuple):
    """Pods of a class on a host that follow others, with their rules and the places where these must hold."""

    stance: Stance
    host: Host
    rules: tuple[tuple[PlaceRule, object], ...]


def offenders(board: Board) -> Iterator[tuple[Stance, Host]]:
    """Yield classes with a host on which one of their needs does not hold; the board may change meanwhile."""
    rootless = _rootless(board)
    for host in board.occupied():
        for stance in list(host.contents):
            if stance.has_needs and (
                (stance, host) in rootless
                or not (_holds_on_host(stance, host) and _holds_in_places(board, stance, host))
            ):
                yield stance, host


def _rootless(board: Board) -> set[tuple[Stance, Host]]:
    """Return followers that nobody could be bound before: they have only each other where they stand.

    Whoever follows a group can be bound once somebody of the group is bound in its place. The first of a group may
    found it, if it counts itself and nobody whom it follows is bound anywhere by the time that nobody else can be
    bound. Who founds first can matter, so where somebody is left over, each founder is given the first turn once.
    """
    followers = [
        _Follower(stance, host, tuple(followed_places(stance, host)))
        for host in board.occupied()
        for stance in host.contents
        if stance.followed
    ]
    if not followers:
        return set()
    bound, waiting = _joined(_bound_at_once(board, followers), followers)
    stranded = _stranded(bound, waiting)
    if len(waiting) <= _MOST_ORDERS:
        for first in waiting:
            if stranded and _may_found(first, bound):
                others = [each for each in waiting if each is not first]
                stranded = min(stranded, _stranded(_with(bound, first), others), key=len)
    return {(each.stance, each.host) for each in stranded}


def _stranded(bound: Bound, waiting: list[_Follower]) -> list[_Follower]:
    """Let founders have their turn while any may; return those who are never bound."""
    while True:
        bound, waiting = _joined(bound, waiting)
        founder = next((each for each in waiting if _may_found(each, bound)), None)
        if founder is None:
            return waiting
        waiting.remove(founder)
        bound = _with(bound, founder)


def _joined(bound: Bound, waiting: Iterable[_Follower]) -> tuple[Bound, list[_Follower]]:
    """Bind whoever finds somebody to follow, as long as that helps; return who is bound then and who is not."""
    bound, left = dict(bound), list(waiting)
    while True:
        still = []
        for each in left:
            if all(bound.get((rule.group, place), 0) > 0 for rule, place in each.rules):
                for where in counting_places(each.stance, each.host):
                    bound[where] = bound.get(where, 0) + 1
            else:
                still.append(each)
        if len(still) == len(left):
            return bound, still
        left = still


def _may_found(each: _Follower, bound: Bound) -> bool:
    groups = {rule.group for rule, _ in each.rules}
    return all(rule.counts_itself and place != NOWHERE for rule, place in each.rules) and not any(
        number > 0 for (group, _), number in bound.items() if group in groups
    )


def _with(bound: Bound, each: _Follower) -> Bound:
    """Return who is bound once a follower is, too."""
    more = dict(bound)
    for where in counting_places(each.stance, each.host):
        more[where] = more.get(where, 0) + 1
    return more


def _bound_at_once(board: Board, waiting: list[_Follower]) -> Bound:
    """Return how many pods of each followed group stand in each place and wait for nobody."""
    found = bound_in_the_end(board, {rule.group for each in waiting for rule, _ in each.rules})
    for each in waiting:
        for where in counting_places(each.stance, each.host):
            if where in found:
                found[where] -= each.host.contents[each.stance]
    return found


def bound_in_the_end(board: Board, groups: Iterable[int]) -> Bound:
    """Return how many pods of some groups stand in each place, and on each host, once everybody is bound."""
    found: Bound = {}
    for group in groups:
        found |= {(group, place): count for place, count in board.counts[group].items()}
        found |= {(group, host.index): host.counts[group] for host in board.hosts if host.counts.get(group)}
    return found


def counting_places(stance: Stance, host: Host) -> Iterator[tuple[int, object]]:
    """Yield the groups that may count a pod of the class on a host, each with the place where."""
    for key, groups in stance.counted_by.items():
        place: object = host.index if key == HOSTNAME else place_of(host, key)
        for group in groups:
            yield group, place


def followed_places(stance: Stance, host: Host) -> Iterator[tuple[PlaceRule, object]]:
    """Yield what a class on a host needs to follow, each with the place where somebody must be."""
    yield from ((rule, host.index) for rule in stance.near if rule.hard)
    for key, rules in stance.places.items():
        for rule in rules:
            if rule.hard and rule.kind == "together":
                yield rule, place_of(host, key)


def place_of(host: Host, key: str) -> str:
    """Return the place that a host is in by a key, as far as it is settled."""
    return host.pins.get(key, NOWHERE) if host.node is None else host.node.labels.get(key, NOWHERE)


def _holds_on_host(stance: Stance, host: Host) -> bool:
    return all(
        host.counts.get(group, 0) <= cap for group, cap in stance.caps if stance.hard_caps >> group & 1
    )


def _holds_in_places(board: Board, stance: Stance, host: Host) -> bool:
    for key, rules in stance.places.items():
        place = place_of(host, key)
        for rule in rules:
            if rule.hard and not _holds(board, rule, stance, place):
                return False
    return True


def _holds(board: Board, rule: PlaceRule, stance: Stance, place: str) -> bool:
    if place == NOWHERE:
        return rule.kind == "apart"
    count = board.counts[rule.group].get(place, 0)
    if rule.kind == "apart":
        return count <= int(rule.counts_itself)
    return rule.kind == "together" or count - board.emptiest(rule, stance) <= rule.max_skew
