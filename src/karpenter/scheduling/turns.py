# SPDX-License-Identifier: Apache-2.0
"""Whether the scheduler can follow a board, pod after pod, and small changes that help where it cannot.

A board holds in the end, but the scheduler binds one pod at a time, by priority and age. A pod whose place does not
take it yet, because its spread wants other pods to stand elsewhere first, does not wait: it goes wherever it may, and
perhaps where it keeps another pod out for good. So the binding is played through, equal pods sharing their places.
Where somebody comes too early, it is swapped with a pod of another place: kept if fewer pods come too early, the rules
of all hold and nothing costs more. Whom a pod must follow comes first in any plan: not our matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

from karpenter.scheduling.board import Board, Host
from karpenter.scheduling.classes import age
from karpenter.scheduling.stances import PlaceRule, Stance
from karpenter.scheduling.verification import (
    bound_in_the_end,
    counting_places,
    followed_places,
    offenders,
    place_of,
)

__all__ = ["Following", "Guest", "follow", "put_in_turn"]

# Two prices that differ by less are the same.
_PRICE_STEP = 1e-9

# Pods of a class on a host.
Guest = tuple[Stance, Host]


class Following(NamedTuple):
    """How a scheduler comes along that binds one pod at a time.

    Attributes:
        never: How many pods never find their place open.
        times: How often a pod finds it closed.
        guests: Who that is, and where.
        order: For each class by its index, the places of its pods in the order in which they open, as far as it matters
            for anybody.
        is_changed: Whether the board was changed for it.
    """

    never: int
    times: int
    guests: tuple[Guest, ...]
    order: Mapping[int, Sequence[Guest]]
    is_changed: bool = False

    @property
    def cost(self) -> tuple[int, int]:
        """What makes one board harder to follow than another."""
        return self.never, self.times


class _Slot(NamedTuple):
    """Room for pods of a class on a host, and the rules that decide when they may come."""

    stance: Stance
    host: Host
    spreads: tuple[tuple[PlaceRule, str], ...]
    followed: tuple[tuple[PlaceRule, object], ...]


def put_in_turn(board: Board, most_tries: int, expired: Callable[[], bool]) -> Following:
    """Change a board so that fewer pods come before their place takes them, and return how it is followed then.

    Args:
        board: The board.
        most_tries: How many changes are tried.
        expired: Asked now and then; once it says true, nothing more is tried.
    """
    found = follow(board)
    changes = _changes(board, found.guests)
    while (change := next(changes, None)) is not None and most_tries > 0 and not expired():
        most_tries -= 1
        better = _tried(board, change, found)
        if better is not None:
            found = better._replace(is_changed=True)
            changes = _changes(board, found.guests)
    return found


def follow(board: Board) -> Following:
    """Play the binding through: who finds a place closed because a spread is not that far yet, who goes where when."""
    return _Binding(board).run() if _has_spreads(board) else Following(0, 0, (), {})


def _has_spreads(board: Board) -> bool:
    return any(_spreads(stance, host) for host in board.occupied() for stance in host.contents)


def _spreads(stance: Stance, host: Host) -> tuple[tuple[PlaceRule, str], ...]:
    return tuple(
        (rule, place_of(host, key))
        for key, rules in stance.places.items()
        for rule in rules
        if rule.hard and rule.kind == "spread"
    )


# Changes.


def _changes(board: Board, guests: tuple[Guest, ...]) -> Iterator[Callable[[], bool]]:
    """Yield swaps that bring a guest into another place of its spreads; each tells whether it can be made."""
    for stance, host in guests:
        here = _spreads(stance, host)
        for other in board.occupied() if _stays(host) else ():
            if not _stays(other) or _spreads(stance, other) == here:
                continue
            for each in sorted(other.contents, key=lambda each: (each.pods.index, each.level)):
                if each.pods.index != stance.pods.index:
                    yield partial(_swap, board, (stance, host), (each, other))


def _stays(host: Host) -> bool:
    """Tell whether a host is still there when one pod leaves it: a node to be bought goes with its last."""
    return host.node is not None or sum(host.contents.values()) > 1


def _swap(board: Board, one: Guest, other: Guest) -> bool:
    for stance, host in (one, other):
        board.leave(stance, host, 1)
    return _entered(board, one[0], other[1]) and _entered(board, other[0], one[1])


def _entered(board: Board, stance: Stance, host: Host) -> bool:
    entry = board.entry(stance, host)
    if entry is not None:
        board.enter(stance, host, entry)
    return entry is not None


def _tried(board: Board, change: Callable[[], bool], found: Following) -> Following | None:
    """Make a change and return who still comes too early; take it back and return nothing if it is no help."""
    before, price = board.remember(), board.price()
    if change() and board.price() < price + _PRICE_STEP and next(offenders(board), None) is None:
        now = follow(board)
        if now.cost < found.cost:
            return now
    board.restore(before)
    return None


# Binding.


class _Binding:
    """The scheduler's way with a board: pods come by priority and age, and take the emptiest place that they may."""

    def __init__(self, board: Board) -> None:
        self._board = board
        slots = [
            _Slot(stance, host, _spreads(stance, host), tuple(followed_places(stance, host)))
            for host in board.occupied()
            for stance in host.contents
        ]
        groups = {rule.group for each in slots for rule, _ in (*each.spreads, *each.followed)}
        self._bound = bound_in_the_end(board, groups)
        counting = [self._counting(each, groups) for each in slots]
        # A class without such a rule that none counts comes and goes unnoticed.
        noticed = {
            each.stance.pods.index
            for each, places in zip(slots, counting, strict=True)
            if places or each.spreads or each.followed
        }
        self._places: dict[Guest, tuple[tuple[int, object], ...]] = {}
        # Places that are still free, by class.
        self._free: dict[int, list[_Slot]] = {}
        self._number: dict[Guest, int] = {}
        for each, places in zip(slots, counting, strict=True):
            if each.stance.pods.index not in noticed:
                continue
            guest, number = (each.stance, each.host), each.host.contents[each.stance]
            self._free.setdefault(each.stance.pods.index, []).append(each)
            self._number[guest], self._places[guest] = number, places
            for where in places:
                self._bound[where] = self._bound.get(where, 0) - number
        self._order: dict[int, list[Guest]] = {index: [] for index in self._free}

    def run(self) -> Following:
        """Bind in round after round whoever may be bound, and note who comes too early."""
        never = times = 0
        guests: dict[Guest, None] = {}
        waiting = self._queue()
        while waiting:
            still, never = [], 0
            for index in waiting:
                reached = [each for each in self._free[index] if self._leads_on(each)]
                slot = min(filter(self._is_level, reached), key=self._crowd, default=None)
                if slot is not None:
                    self._bind(slot)
                    continue
                still.append(index)
                if reached:
                    never += 1
                    guests |= {(each.stance, each.host): None for each in reached}
            times += never
            if len(still) == len(waiting):
                break
            waiting = still
        for guest, number in self._number.items():
            self._order[guest[0].pods.index] += [guest] * number
        return Following(never, times, tuple(guests), self._order)

    def _queue(self) -> list[int]:
        """Return the class of each placed pod, in the order in which the scheduler tries them."""
        turns: list[tuple[tuple[object, ...], int]] = []
        for index, slots in self._free.items():
            pods = slots[0].stance.pods
            number = sum(self._number[each.stance, each.host] for each in slots)
            turns += [((-pods.priority, *age(pod)), index) for pod in pods.pods[:number]]
        return [index for _, index in sorted(turns)]

    def _counting(self, slot: _Slot, groups: AbstractSet[int]) -> tuple[tuple[int, object], ...]:
        """Return the groups that matter and count a class on a host, each with the place where."""
        away = self._board.not_counted_on(slot.stance, slot.host)
        return tuple(
            (group, place)
            for group, place in counting_places(slot.stance, slot.host)
            if group in groups and not away >> group & 1
        )

    def _bind(self, slot: _Slot) -> None:
        guest, index = (slot.stance, slot.host), slot.stance.pods.index
        self._order[index].append(guest)
        self._number[guest] -= 1
        if not self._number[guest]:
            self._free[index].remove(slot)
        for where in self._places[guest]:
            self._bound[where] = self._bound.get(where, 0) + 1

    def _is_level(self, slot: _Slot) -> bool:
        """Tell whether every spread of a class lets one more of it into its place by now."""
        return all(
            self._bound.get((rule.group, place), 0) + rule.counts_itself - self._emptiest(rule, slot.stance)
            <= rule.max_skew
            for rule, place in slot.spreads
        )

    def _emptiest(self, rule: PlaceRule, stance: Stance) -> int:
        places = self._board.eligible(rule.group, stance)
        if len(places) < rule.min_domains:
            return 0
        return min((self._bound.get((rule.group, place), 0) for place in places), default=0)

    def _leads_on(self, slot: _Slot) -> bool:
        """Tell whether a class finds those whom it follows, or may be the first of them."""
        if all(self._bound.get((rule.group, place), 0) > 0 for rule, place in slot.followed):
            return True
        groups = {rule.group for rule, _ in slot.followed}
        return all(rule.counts_itself for rule, _ in slot.followed) and not any(
            number > 0 for (group, _), number in self._bound.items() if group in groups
        )

    def _crowd(self, slot: _Slot) -> int:
        return sum(self._bound.get((rule.group, place), 0) for rule, place in slot.spreads)
