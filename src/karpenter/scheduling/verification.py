# SPDX-License-Identifier: Apache-2.0
"""Checks the board as it stands in the end: every need of every pod, against the final counts.

Rules are asked when a pod enters, but pods that come later move the counts. A plan promises the end, whatever the order
in which pods are bound, so whoever's own rule is broken in the end is taken out again.
"""

from __future__ import annotations

from collections.abc import Iterator

from karpenter.api.labels import HOSTNAME
from karpenter.scheduling.board import Board, Host
from karpenter.scheduling.stances import PlaceRule, Stance
from karpenter.scheduling.templates import NOWHERE

__all__ = ["offenders"]


def offenders(board: Board) -> Iterator[tuple[Stance, Host]]:
    """Yield classes with a host on which one of their needs does not hold; the board may change meanwhile."""
    rootless = _rootless(board)
    for host in board.hosts:
        for stance in list(host.contents):
            if (stance, host) in rootless or not (
                _holds_on_host(stance, host) and _holds_in_places(board, stance, host)
            ):
                yield stance, host


def _rootless(board: Board) -> set[tuple[Stance, Host]]:
    """Return followers that nobody could be bound before: they have only each other where they stand.

    Whoever follows a group can be bound once somebody of the group is bound in its place. The first of a group may
    found it, if it counts itself and nobody of the group stands anywhere else.
    """
    waiting = [
        (stance, host, rules)
        for host in board.hosts
        for stance in host.contents
        if (rules := list(_followed(stance, host)))
    ]
    if not waiting:
        return set()
    bindable = _bindable_at_once(board, waiting)
    progress = True
    while progress and waiting:
        progress = False
        still: list[tuple[Stance, Host, list[tuple[PlaceRule, object]]]] = []
        for stance, host, rules in waiting:
            if all(_rooted(board, rule, place, bindable) for rule, place in rules):
                progress = True
                for group, place in _counting_places(stance, host):
                    bindable[group, place] = bindable.get((group, place), 0) + 1
            else:
                still.append((stance, host, rules))
        waiting = still
    return {(stance, host) for stance, host, _ in waiting}


def _bindable_at_once(
    board: Board, waiting: list[tuple[Stance, Host, list[tuple[PlaceRule, object]]]]
) -> dict[tuple[int, object], int]:
    """Return how many pods of each followed group stand in each place and wait for nobody."""
    groups = {rule.group for _, _, rules in waiting for rule, _ in rules}
    found: dict[tuple[int, object], int] = {}
    for group in groups:
        found |= {(group, place): count for place, count in board.counts[group].items()}
        found |= {(group, host.index): host.counts[group] for host in board.hosts if host.counts.get(group)}
    for stance, host, _ in waiting:
        for key in _counting_places(stance, host):
            if key in found:
                found[key] -= host.contents[stance]
    return found


def _counting_places(stance: Stance, host: Host) -> Iterator[tuple[int, object]]:
    for key, groups in stance.counted_by.items():
        place: object = host.index if key == HOSTNAME else _place(host, key)
        for group in groups:
            yield group, place


def _rooted(board: Board, rule: PlaceRule, place: object, bindable: dict[tuple[int, object], int]) -> bool:
    if bindable.get((rule.group, place), 0) > 0:
        return True
    group = board.table.groups[rule.group]
    here = (
        board.hosts[place].counts.get(rule.group, 0)
        if group.by_host and isinstance(place, int)
        else board.counts[rule.group].get(str(place), 0)
    )
    return rule.counts_itself and here == board.total[rule.group]


def _followed(stance: Stance, host: Host) -> Iterator[tuple[PlaceRule, object]]:
    for rule in stance.near:
        if rule.hard:
            yield rule, host.index
    for key, rules in stance.places.items():
        for rule in rules:
            if rule.hard and rule.kind == "together":
                yield rule, _place(host, key)


def _place(host: Host, key: str) -> str:
    return host.pins.get(key, NOWHERE) if host.node is None else host.node.labels.get(key, NOWHERE)


def _holds_on_host(stance: Stance, host: Host) -> bool:
    return all(
        host.counts.get(group, 0) <= cap for group, cap in stance.caps if stance.hard_caps >> group & 1
    )


def _holds_in_places(board: Board, stance: Stance, host: Host) -> bool:
    for key, rules in stance.places.items():
        place = _place(host, key)
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
