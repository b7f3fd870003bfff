# SPDX-License-Identifier: Apache-2.0
"""Places pods one by one: the first host that admits a pod takes it, else a new node of the first template that can.

This is Karpenter's own way, correct for every rule because every rule is asked at every step. It is the floor of
every plan, and the way for pods that cannot be placed in bulk: those that follow others onto a host, and those that
the bulk left over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

from karpenter.scheduling.board import Board, Entry, Host
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Template

__all__ = ["place_in_turn", "place_one_by_one", "place_thriftily"]


def place_one_by_one(board: Board, stance: Stance, number: int) -> int:
    """Place pods of a class; return how many found no place."""
    left = number
    for host in chain(board.admission.candidates(stance), _in_order(board.hosts[board.standing :])):
        left = _fill(board, stance, host, left)
        if not left:
            return 0
    for template in board.templates:
        while left:
            opened = _open(board, stance, template)
            if opened is None:
                break
            left = _fill(board, stance, opened, left - 1)
    return left


def place_in_turn(board: Board, stances: Sequence[Stance]) -> bool:
    """Place one pod of a class, which gives way at once where it must; tell whether it found a place.

    Of the nodes to be bought, the one with the fewest pods comes first: the original's order.
    """
    bought = sorted(
        (host for host in board.hosts[board.standing :] if host.mask),
        key=lambda host: (sum(host.contents.values()), host.index),
    )
    for stance in stances:
        for host in chain(board.admission.candidates(stance), bought):
            if not _fill(board, stance, host, 1):
                return True
        if any(_open(board, stance, template) for template in board.templates):
            return True
    return False


def place_thriftily(board: Board, stances: Sequence[Stance]) -> bool:
    """Place one pod of a class where it costs least, and tell whether it found a place; it gives way at once.

    Standing nodes cost nothing. A node to be bought costs what the pod adds to its price, a new one its own.
    """
    for stance in stances:
        best: tuple[float, Host, Entry] | None = None
        for host in chain(board.admission.candidates(stance), _in_order(board.hosts[board.standing :])):
            entry = board.entry(stance, host, best[0] if best is not None else math.inf)
            if entry is None:
                continue
            if host.template is None:
                board.enter(stance, host, entry)
                return True
            extra = host.template.price(entry.mask) - host.template.price(host.mask)
            if extra <= 0.0:
                # Nothing is cheaper than nothing.
                board.enter(stance, host, entry)
                return True
            if best is None or extra < best[0]:
                best = (extra, host, entry)
        fresh = next((found for each in board.templates if (found := _opening(board, stance, each))), None)
        if fresh is not None:
            template, reservation, entry = fresh
            if best is None or template.price(entry.mask) < best[0]:
                board.enter(stance, board.open(template, reservation), entry)
                return True
        if best is not None:
            board.enter(stance, best[1], best[2])
            return True
    return False


def _opening(board: Board, stance: Stance, template: Template) -> tuple[Template, str, Entry] | None:
    """Return how a pod would open a new node of a template, on a reservation if one has room."""
    reserved = board.reserved_opening(stance, template)
    if reserved is not None:
        return template, *reserved
    opening = board.opening(stance, template)
    return None if opening is None else (template, "", opening)


def _open(board: Board, stance: Stance, template: Template) -> Host | None:
    """Open a new node with one pod on it, on a reservation if one has room."""
    found = _opening(board, stance, template)
    if found is None:
        return None
    _, reservation, entry = found
    host = board.open(template, reservation)
    board.enter(stance, host, entry)
    return host


def _fill(board: Board, stance: Stance, host: Host, number: int) -> int:
    while number:
        entry = board.entry(stance, host)
        if entry is None:
            break
        board.enter(stance, host, entry)
        number -= 1
    return number


def _in_order(hosts: Sequence[Host]) -> list[Host]:
    """Return nodes to be bought in the order of the pools; not those given up again."""
    return sorted(
        (host for host in hosts if host.mask),
        key=lambda host: (host.template.index if host.template else -1, host.index),
    )
