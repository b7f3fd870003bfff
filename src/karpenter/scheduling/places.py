# SPDX-License-Identifier: Apache-2.0
"""Settles places on counts, before any node exists: how many pods of each class go to which zone.

Whoever a rule over zones (or any label but the hostname) speaks of gets a place here: owners of the rule, and pods
that it merely counts, for they too decide whether the rule holds in the end. Everybody else stays free. Once
settled, a zone is just a narrower choice of offerings, and packing needs to know nothing of rules over places.

Pods that a spread counts are levelled whether they own the rule or not: then it holds in the end, in whatever
order pods are bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from karpenter.model.catalogue import lowest_bit
from karpenter.scheduling.board import Board
from karpenter.scheduling.stances import PlaceRule, Stance
from karpenter.scheduling.templates import NOWHERE

__all__ = ["Portion", "settle"]

_Pins = tuple[tuple[str, str], ...]
_Scales = tuple[list[tuple[dict[str, int], str]], list[tuple[dict[str, int], str]]]


@dataclass(slots=True, eq=False)
class Portion:
    """Some pods of a class with their places settled and counted; no pins where none matters."""

    stance: Stance
    number: int
    pins: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Spot:
    """A combination of places that nodes can have, and how cheap the cheapest offering there is."""

    pins: _Pins
    rank: int


def settle(board: Board, pending: Iterable[tuple[Stance, int]]) -> tuple[list[Portion], dict[Stance, int]]:
    """Settle the places of pods and count them.

    Returns:
        Portions, in the order in which they were settled, and the pods for which no place is open.
    """
    return _Settlement(board, pending).run()


class _Settlement:
    """One settling, with the load that each spot has got so far."""

    def __init__(self, board: Board, pending: Iterable[tuple[Stance, int]]) -> None:
        self._board = board
        self._pending = list(pending)
        self._spots_of: dict[tuple[object, ...], tuple[_Spot, ...]] = {}
        self._scales_of: dict[tuple[int, int], dict[_Pins, _Scales]] = {}
        self._load: dict[_Pins, int] = {}
        # Groups by which somebody levels: owners of a spread, placed now or waiting.
        self._levelled = 0
        self._somebody_keeps_apart = any(board.kept_apart)
        for stance, _ in self._pending:
            for rules in stance.places.values():
                for rule in rules:
                    if rule.kind == "spread":
                        self._levelled |= 1 << rule.group
                    self._somebody_keeps_apart |= rule.kind == "apart"

    def run(self) -> tuple[list[Portion], dict[Stance, int]]:
        portions: list[Portion] = []
        refused: dict[Stance, int] = {}
        placed: list[tuple[tuple[int, int, int], Stance, int, tuple[_Spot, ...]]] = []
        for stance, number in self._pending:
            if not stance.keys:
                portions.append(Portion(stance, number, {}))
                continue
            spots = self._spots(stance, stance.keys)
            placed.append((_rank(stance, len(spots)), stance, number, spots))
        placed.sort(key=lambda each: each[0])
        for _, stance, number, spots in placed:
            by_spot, left = self._spread_out(stance, number, spots)
            portions += [Portion(stance, count, dict(pins)) for pins, count in by_spot.items()]
            if left:
                refused[stance] = left
        return portions, refused

    def _spread_out(
        self, stance: Stance, number: int, spots: tuple[_Spot, ...]
    ) -> tuple[dict[_Pins, int], int]:
        """Give each pod of a class the open spot with the fewest of its kind, and count it there at once."""
        board = self._board
        scales = self._all_scales(stance, spots)
        # Who owns no rule and meets nobody who keeps apart finds every place open.
        unbound = not stance.places and not (
            self._somebody_keeps_apart
            and any(board.kept_apart[group] for groups in stance.counted_by.values() for group in groups)
        )
        found: dict[_Pins, int] = {}
        for settled in range(number):
            best: _Spot | None = None
            best_appeal: tuple[int, int, int, int] = (0, 0, 0, 0)
            for spot, (levels, own) in zip(spots, scales, strict=True):
                level = 0
                for counts, place in levels:
                    level += counts.get(place, 0)
                # Asked first, for it is cheap and mostly enough.
                if best is not None and level > best_appeal[0]:
                    continue
                if not unbound and not all(board.is_open(stance, key, place) for key, place in spot.pins):
                    continue
                appeal = (
                    level,
                    sum([counts.get(place, 0) for counts, place in own]),
                    self._load.get(spot.pins, 0),
                    spot.rank,
                )
                if best is None or appeal < best_appeal:
                    best, best_appeal = spot, appeal
            if best is None:
                return found, number - settled
            board.count(stance, dict(best.pins), 1)
            self._load[best.pins] = self._load.get(best.pins, 0) + 1
            found[best.pins] = found.get(best.pins, 0) + 1
        return found, 0

    def _all_scales(self, stance: Stance, spots: tuple[_Spot, ...]) -> list[_Scales]:
        # Stances that count alike share these very objects, which live as long as this settling.
        known = self._scales_of.setdefault((id(stance.counted_by), id(stance.places)), {})
        for spot in spots:
            if spot.pins not in known:
                known[spot.pins] = self._scales(stance, spot)
        return [known[spot.pins] for spot in spots]

    def _scales(self, stance: Stance, spot: _Spot) -> _Scales:
        """Return the counts to level in a spot: of spreads that count the class, and of spreads it owns."""
        board = self._board
        levels: list[tuple[dict[str, int], str]] = []
        own: list[tuple[dict[str, int], str]] = []
        for key, place in spot.pins:
            levels += [
                (board.counts[group], place)
                for group in stance.counted_by.get(key, ())
                if self._levelled >> group & 1
            ]
            own += [
                (board.counts[rule.group], place)
                for rule in stance.places.get(key, ())
                if rule.kind == "spread"
            ]
        return levels, own

    def _spots(self, stance: Stance, keys: tuple[str, ...]) -> tuple[_Spot, ...]:
        """Return every combination of places that the class could have, on new or on standing nodes."""
        board = self._board
        masks = tuple(board.admission.admitted(stance, template) for template in board.templates)
        standing = board.admission.matching(stance)
        known = self._spots_of.get((keys, masks, standing))
        if known is None:
            known = self._spots_of[keys, masks, standing] = self._combinations(keys, masks, standing)
        return known

    def _combinations(
        self, keys: tuple[str, ...], masks: tuple[int, ...], standing: tuple[int, ...]
    ) -> tuple[_Spot, ...]:
        ranks: dict[_Pins, int] = {}
        for template, mask in zip(self._board.templates, masks, strict=True):
            reach = [template.reach(key) for key in keys]
            for places in product(*reach) if mask else ():
                pins = tuple(zip(keys, places, strict=True))
                part = mask
                for each, place in zip(reach, places, strict=True):
                    part &= each[place]
                if part and self._board.keeps_min_values(template, part):
                    ranks.setdefault(pins, lowest_bit(part))
        for index in standing:
            node = self._board.hosts[index].node
            assert node is not None
            # A place on a standing node costs nothing, so among equals it comes first.
            ranks[tuple((key, node.labels.get(key, NOWHERE)) for key in keys)] = -1
        return tuple(_Spot(pins, rank) for pins, rank in sorted(ranks.items()))


def _rank(stance: Stance, choices: int) -> tuple[int, int, int]:
    """Order classes so that those with little choice come first, and those that others depend on before these."""
    rules = [rule for found in stance.places.values() for rule in found]
    return (_turn(stance, rules, choices), choices, stance.pods.index)


def _turn(stance: Stance, rules: list[PlaceRule], choices: int) -> int:
    if any(rule.kind == "apart" and rule.hard and not rule.counts_itself for rule in rules):
        return 6  # Shuts others out of its place: once they have theirs, it takes what is left.
    if choices <= 1:
        return 0
    if any(rule.kind == "apart" for rule in rules):
        return 1
    if any(rule.kind == "together" for rule in rules):
        return 3 if all(rule.counts_itself for rule in rules) else 4
    if rules:
        return 5
    return 2 if stance.counted else 7
