# SPDX-License-Identifier: Apache-2.0
"""Rearranges a board that is full: finds places for pods that have none, and cheaper nodes for those that have.

Levelling places before nodes exist, or taking the first node that admits a pod, can end in a corner: a zone that the
next pod cannot use, a node that one more pod makes dear. Here pods of one or two nodes are taken off and put back
another way. A change is kept only if it places more pods or costs less, and breaks nobody's rules; the number of
changes tried is bounded. Meant for boards with few nodes, where one node too many matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, permutations

from karpenter.scheduling.board import Board, Entry, Host
from karpenter.scheduling.sequential import place_thriftily
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Template
from karpenter.scheduling.verification import offenders

__all__ = ["Rearrangement"]

# Of the ways to place a single pod so many are tried.
_MOST_WAYS = 100

# Two prices that differ by less are the same.
_PRICE_STEP = 1e-9


class Rearrangement:
    """Changes to one board, each tried and kept or taken back.

    Args:
        board: The board.
        left: How many pods of each class, by its index, have no place.
        levels: The stances of each class, by its index, the strictest first.
        most_work: How many pods may be tried on how many nodes, all in all.
        expired: Asked now and then; once it says true, nothing more is tried.
    """

    def __init__(
        self,
        board: Board,
        left: dict[int, int],
        levels: Mapping[int, Sequence[Stance]],
        most_work: int,
        expired: Callable[[], bool],
    ) -> None:
        self._board = board
        self._left = left
        self._levels = levels
        self._work_left = most_work
        self._expired = expired
        # Classes that some node could hold; of the others nobody ever finds a place.
        self._hopeful = [index for index in left if board.admission.might_hold(levels[index][-1])]
        # How many changes were kept, and after how many of them a change was last tried in vain.
        self._kept = 0
        self._in_vain: dict[tuple[object, ...], int] = {}
        # What a board must cost less than to be better than the one that is being changed.
        self._ceiling = math.inf

    def run(self) -> None:
        """Look for places for pods that have none, then for cheaper nodes, then once more for places."""
        self._place_more()
        self._save()
        # What nobody stands in the way of is not a matter of effort.
        self._place_singly()

    def _place_more(self) -> None:
        progress = True
        while progress and self._may_try():
            progress = self._try(self._place_all_again) or self._place_singly()
            for index in self._hopeful:
                if self._left[index] and self._may_try():
                    progress = self._make_room(self._levels[index]) or progress

    def _place_singly(self) -> bool:
        """Find places for pods that have none, one by one: all together some may spoil it for the others."""
        found = False
        for index in self._hopeful:
            while self._left[index] and not self._expired() and self._placed_one(index):
                found = True
        return found

    def _placed_one(self, index: int) -> bool:
        """Find a place for one pod of a class: the cheapest, or else any that breaks nobody's rules."""
        if self._try(partial(self._place_one, index)):
            return True
        ways = (way for stance in self._levels[index] for way in self._every_way(stance))
        return any(self._try(way) for way in islice(ways, _MOST_WAYS))

    def _every_way(self, stance: Stance) -> Iterator[Callable[[], None]]:
        """Yield each way to place a pod of the class: on every host, and on a new node in every place."""
        board = self._board
        for host in chain(board.admission.candidates(stance), board.hosts[board.standing :]):
            entry = board.entry(stance, host)
            if entry is not None:
                yield partial(self._enter, stance, host, entry)
        for template in board.templates:
            admitted = board.admission.admitted(stance, template) & template.listed
            for key in stance.keys:
                for part in template.reach(key).values():
                    if part & admitted:
                        yield partial(self._open, stance, template, part & admitted)

    def _save(self) -> None:
        progress = True
        while progress and self._may_try():
            progress = False
            for host in self._bought():
                progress = self._replaced([host]) or progress
            for one, other in permutations(self._board.occupied(), 2):
                if one.template is not None or other.template is not None:
                    progress = self._replaced([one, other]) or progress

    def _may_try(self) -> bool:
        return self._work_left > 0 and not self._expired()

    def _bought(self) -> list[Host]:
        return [host for host in self._board.occupied() if host.template is not None]

    def _replaced(self, hosts: Sequence[Host]) -> bool:
        """Buy something else for the pods of some nodes: one node for all, or whatever each of them finds."""
        if not self._may_try() or not all(host.contents for host in hosts):
            return False
        alike = tuple(map(_likeness, hosts))
        cheaply = (self._scatter_cheaply, *alike)
        if self._may_rebuy(hosts) and self._try_once(
            (self._rebuy, len(hosts), frozenset(alike)), partial(self._rebuy, hosts)
        ):
            return True
        self._board.passed_over_cheaper = False
        if self._try_once((self._scatter, *alike), partial(self._scatter, hosts)):
            return True
        if not self._board.passed_over_cheaper:
            # Everybody had the cheapest place anyway: it would come out the same.
            self._in_vain.setdefault(cheaply, self._kept)
        return self._try_once(cheaply, partial(self._scatter_cheaply, hosts))

    def _make_room(self, levels: Sequence[Stance]) -> bool:
        """Find a place for one more pod of a class by moving those who are in its way."""
        for host in self._board.occupied():
            if not host.contents or not self._may_try():
                continue
            alike, index = _likeness(host), levels[0].pods.index
            if (
                host.template is not None
                and self._may_rebuy([host], levels[-1])
                and self._try_once((self._rebuy, index, alike), partial(self._rebuy, [host], levels[-1]))
            ):
                return True
            if self._try_once((self._displace, index, alike), partial(self._displace, host, levels)):
                return True
        return False

    # Changes.

    def _enter(self, stance: Stance, host: Host, entry: Entry) -> None:
        self._board.enter(stance, host, entry)
        self._left[stance.pods.index] -= 1

    def _open(self, stance: Stance, template: Template, among: int) -> None:
        entry = self._board.opening(stance, template, among)
        if entry is not None:
            self._board.enter(stance, self._board.open(template), entry)
            self._left[stance.pods.index] -= 1

    def _place_one(self, index: int) -> None:
        if place_thriftily(self._board, self._levels[index]):
            self._left[index] -= 1

    def _place_all_again(self) -> None:
        """Put pods that have no place wherever they find one, again while that helps."""
        progress = True
        while progress:
            progress = False
            self._work_left -= sum(
                self._board.breadth(self._levels[index][-1]) for index, number in self._left.items() if number
            )
            for index in self._left:
                while self._left[index] and place_thriftily(self._board, self._levels[index]):
                    self._left[index] -= 1
                    progress = True

    def _rebuy(self, hosts: Sequence[Host], guest: Stance | None = None) -> None:
        """Buy one node for all pods of some nodes, and for one more."""
        crowd = self._emptied(hosts)
        if guest is not None:
            crowd[guest] = crowd.get(guest, 0) + 1
            self._left[guest.pods.index] -= 1
        if not self._bought_for(crowd):
            for stance, number in crowd.items():
                self._left[stance.pods.index] += number

    def _scatter(self, hosts: Sequence[Host]) -> None:
        """Let the pods of some nodes find places one by one, those of the first node first."""
        crowds = [self._emptied([host]) for host in hosts]
        for crowd in crowds:
            for stance, number in crowd.items():
                levels = self._levels[stance.pods.index]
                placed = 0
                while placed < number and self._may_pay() and place_thriftily(self._board, levels):
                    placed += 1
                self._left[stance.pods.index] += number - placed
        if self._may_pay():
            self._place_all_again()

    def _may_pay(self) -> bool:
        """Tell whether the board may still become better; whoever is placed now does not make it cheaper."""
        return self._board.price() < self._ceiling

    def _scatter_cheaply(self, hosts: Sequence[Host]) -> None:
        """Do the same, but take the cheapest place that the rules allow instead of the emptiest."""
        self._board.cheapest_first = True
        self._scatter(hosts)
        self._board.cheapest_first = False

    def _displace(self, host: Host, levels: Sequence[Stance]) -> None:
        """Let one pod have the place of all that came to a host; they look for another."""
        index = levels[0].pods.index
        for stance, number in self._emptied([host]).items():
            self._left[stance.pods.index] += number
        if place_thriftily(self._board, levels):
            self._left[index] -= 1
            self._place_all_again()

    def _emptied(self, hosts: Iterable[Host]) -> dict[Stance, int]:
        crowd: dict[Stance, int] = {}
        for host in hosts:
            for stance, number in list(host.contents.items()):
                self._work_left -= number * self._board.breadth(stance)
                self._board.leave(stance, host, number)
                crowd[stance] = crowd.get(stance, 0) + number
        return dict(sorted(crowd.items(), key=lambda each: (each[0].pods.index, each[0].level)))

    def _may_rebuy(self, hosts: Sequence[Host], guest: Stance | None = None) -> bool:
        """Tell whether some node might hold all pods of some nodes, and one more or else for less than they cost."""
        crowd: dict[Stance, int] = {guest: 1} if guest is not None else {}
        for host in hosts:
            for stance, number in host.contents.items():
                crowd[stance] = crowd.get(stance, 0) + number
        below = math.inf
        if guest is None:
            below = sum(host.template.price(host.mask) for host in hosts if host.template) - _PRICE_STEP
        return any(mask and template.price(mask) < below for template, mask in self._holding(crowd))

    def _holding(self, crowd: Mapping[Stance, int]) -> Iterator[tuple[Template, int]]:
        """Yield each template with the offerings that have room for a crowd and suit each of it."""
        whole = tuple(
            sum(amounts)
            for amounts in zip(
                *([number * ask for ask in stance.requests] for stance, number in crowd.items()), strict=True
            )
        )
        for template in self._board.templates:
            mask = template.fitting(whole)
            for stance in crowd:
                mask &= self._board.admission.admitted(stance, template)
            yield template, mask

    def _bought_for(self, crowd: Mapping[Stance, int]) -> bool:
        """Buy one node for a crowd, of the first template that has one; tell whether there is."""
        for template, mask in self._holding(crowd):
            for reservation, among in (*template.reserved.items(), ("", template.listed)):
                if mask & among and self._entered(crowd, template.index, reservation, mask & among):
                    return True
        return False

    def _entered(self, crowd: Mapping[Stance, int], template: int, reservation: str, among: int) -> bool:
        """Open a node of some offerings and let a crowd enter it in any order that goes."""
        board = self._board
        if reservation and board.left_of_reservation(reservation, board.templates[template]) <= 0:
            return False
        waiting = dict(crowd)
        host: Host | None = None
        progress = True
        while progress:
            progress = False
            for stance in list(waiting):
                while waiting.get(stance):
                    entry = (
                        board.opening(stance, board.templates[template], among)
                        if host is None
                        else board.entry(stance, host)
                    )
                    if entry is None:
                        break
                    host = host or board.open(board.templates[template], reservation)
                    board.enter(stance, host, entry)
                    waiting[stance] -= 1
                    progress = True
        if host is not None and any(waiting.values()):
            for stance, number in list(host.contents.items()):
                board.leave(stance, host, number)
        return host is not None and not any(waiting.values())

    # Judging.

    def _try_once(self, key: tuple[object, ...], change: Callable[[], None]) -> bool:
        """Try a change, unless it was tried in vain and nothing has changed since."""
        if self._in_vain.get(key) == self._kept:
            return False
        kept = self._try(change)
        if not kept:
            self._in_vain[key] = self._kept
        return kept

    def _try(self, change: Callable[[], None]) -> bool:
        """Make a change; keep it if it is for the better, else take it back; tell whether it is kept."""
        before, cost = self._board.remember(), self._cost()
        left = dict(self._left)
        waiting = any(self._left[index] for index in self._hopeful)
        self._ceiling = math.inf if waiting else cost[1] - _PRICE_STEP
        change()
        unplaced, price = self._cost()
        better = unplaced < cost[0] or (unplaced == cost[0] and price < cost[1] - _PRICE_STEP)
        if better and next(offenders(self._board), None) is None:
            self._kept += 1
            return True
        self._board.restore(before)
        self._left.update(left)
        return False

    def _cost(self) -> tuple[int, float]:
        return sum(self._left.values()), self._board.price()


def _likeness(host: Host) -> object:
    """Return what is equal for nodes of which one is as good as the other: each to be bought for the like of it."""
    if host.template is None:
        return host.index
    return (
        host.template.index,
        host.mask,
        frozenset(host.pins.items()),
        frozenset(host.contents.items()),
    )
