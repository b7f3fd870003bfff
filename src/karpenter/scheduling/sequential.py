# SPDX-License-Identifier: Apache-2.0
"""Places pods one by one: the first host that admits a pod takes it, else a new node of the first template that can.

This is Karpenter's own way, correct for every rule because every rule is asked at every step. It is the floor of
every plan, and the way for pods that cannot be placed in bulk: those that follow others onto a host, and those that
the bulk left over.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from karpenter.scheduling.board import Board, Host
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Template

__all__ = ["place_one_by_one"]


def place_one_by_one(board: Board, stance: Stance, number: int) -> int:
    """Place pods of a class; return how many found no place."""
    left = number
    for host in chain(board.candidates(stance), _in_order(board.hosts[board.standing :])):
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


def _open(board: Board, stance: Stance, template: Template) -> Host | None:
    """Open a new node with one pod on it, on a reservation if one has room."""
    reserved = board.reserved_opening(stance, template)
    if reserved is not None:
        reservation, entry = reserved
        host = board.open(template, reservation)
    else:
        opening = board.opening(stance, template)
        if opening is None:
            return None
        host, entry = board.open(template), opening
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
    """Return nodes to be bought in the order of the pools."""
    return sorted(hosts, key=lambda host: (host.template.index if host.template else -1, host.index))
