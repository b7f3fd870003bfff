# SPDX-License-Identifier: Apache-2.0
"""Places whole classes at once: places first, then the room there is, then the cheapest nodes for the rest.

Takes every class but those whose pods must be looked at one by one (followers onto a host, host ports, pods that a rule
counts on some nodes only). What finds no place here is handed back, uncounted, for the one-by-one way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from karpenter.scheduling.board import Board, Entry, Host
from karpenter.scheduling.options import SolveOptions
from karpenter.scheduling.packing import Lot, PackOptions, Shape, pack
from karpenter.scheduling.places import Portion, settle
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Template

__all__ = ["is_plain", "place_in_bulk"]

_Pins = tuple[tuple[str, str], ...]


def is_plain(stance: Stance) -> bool:
    """Tell whether pods of the class can be placed many at a time."""
    return not stance.near and not stance.pods.ports and not stance.ambiguous


def place_in_bulk(
    board: Board, pending: Iterable[tuple[Stance, int]], options: SolveOptions
) -> dict[Stance, int]:
    """Place pods of some classes; return how many of each found no place."""
    portions, left = settle(board, list(pending))
    _take_back_offenders(board, portions, left)
    portions = _use_room(board, portions)
    for template in board.templates:
        portions = _buy(board, template, portions, options)
    for portion in portions:
        board.count(portion.stance, portion.pins, -portion.number)
        left[portion.stance] = left.get(portion.stance, 0) + portion.number
    return left


def _take_back_offenders(board: Board, portions: list[Portion], left: dict[Stance, int]) -> None:
    """Take pods out whose own rules the final counts break; later pods may have raised a count after they chose."""
    for portion in portions:
        rules = [
            (rule, place)
            for key, place in portion.pins.items()
            for rule in portion.stance.places.get(key, ())
            if rule.kind == "spread"
        ]
        while portion.number and any(
            board.counts[rule.group].get(place, 0) - board.emptiest(rule, portion.stance) > rule.max_skew
            for rule, place in rules
        ):
            board.count(portion.stance, portion.pins, -1)
            portion.number -= 1
            left[portion.stance] = left.get(portion.stance, 0) + 1


def _use_room(board: Board, portions: list[Portion]) -> list[Portion]:
    """Fill nodes that stand or were opened before; return what is left."""
    if not board.hosts:
        return [portion for portion in portions if portion.number]
    for portion in sorted(portions, key=lambda each: each.stance.pods.index):
        for host in chain(board.admission.candidates(portion.stance), board.hosts[board.standing :]):
            _fill(board, portion, host)
            if not portion.number:
                break
    return [portion for portion in portions if portion.number]


def _fill(board: Board, portion: Portion, host: Host) -> None:
    """Let as many pods of a portion as may enter a host enter it."""
    number = board.capacity_for(portion.stance, host, portion.pins, portion.number)
    if number:
        mask = board.mask_with(portion.stance, host, portion.pins, number)
        board.enter(portion.stance, host, Entry(mask, portion.pins), number, counted=True)
        portion.number -= number


def _buy(board: Board, template: Template, portions: list[Portion], options: SolveOptions) -> list[Portion]:
    """Buy nodes of one template for all portions that may use it; return what is left."""
    usable: list[tuple[Portion, int]] = []
    rest: list[Portion] = []
    within: dict[_Pins, int] = {}
    # Portions that may use the same offerings share one int, which packing knows again without a look at its bits.
    shared: dict[tuple[int, _Pins], int] = {}
    for portion in portions:
        pins = tuple(portion.pins.items())
        if pins not in within:
            within[pins] = template.within(portion.pins)
        if not board.admission.admitted(portion.stance, template) & within[pins]:
            rest.append(portion)
            continue
        allowed = board.admission.allowed(portion.stance, template)
        key = (id(allowed), pins)
        if key not in shared:
            shared[key] = allowed & within[pins] & template.listed
        usable.append((portion, shared[key]))
    if template.reserved:
        _draw(board, template, [portion for portion, _ in usable])
    open_market = [(portion, mask) for portion, mask in usable if portion.number]
    rest += [portion for portion, mask in open_market if not mask]
    for pins, lot in _lots(template, [each for each in open_market if each[1]]).items():
        rest += _pack(board, template, dict(pins), lot, options)
    return [portion for portion in rest if portion.number]


def _draw(board: Board, template: Template, portions: list[Portion]) -> None:
    """Use what is reserved, for it is paid already: each node takes the largest pods that still fit."""
    for portion in portions:
        while portion.number:
            opened = board.reserved_opening(portion.stance, template, portion.pins)
            if opened is None:
                break
            reservation, entry = opened
            host = board.open(template, reservation)
            board.enter(portion.stance, host, entry, counted=True)
            portion.number -= 1
            for other in portions:
                _fill(board, other, host)


def _lots(template: Template, usable: list[tuple[Portion, int]]) -> dict[_Pins, list[tuple[Portion, int]]]:
    """Part portions by place; those that are free to stand anywhere share the places in proportion to their load."""
    lots: dict[_Pins, list[tuple[Portion, int]]] = {}
    free: list[tuple[Portion, int]] = []
    for portion, mask in usable:
        if portion.pins:
            lots.setdefault(tuple(sorted(portion.pins.items())), []).append((portion, mask))
        else:
            free.append((portion, mask))
    if not lots:
        return {(): free} if free else {}
    loads = {pins: sum(portion.number for portion, _ in lot) for pins, lot in lots.items()}
    masks = {pins: template.within(dict(pins)) for pins in lots}
    for portion, mask in free:
        open_lots = [pins for pins in masks if masks[pins] & mask]
        if not open_lots:
            lots.setdefault((), []).append((portion, mask))
            continue
        for pins, number in _shares(portion.number, open_lots, loads):
            lots[pins].append((Portion(portion.stance, number, {}), mask & masks[pins]))
    return lots


def _shares(number: int, lots: list[_Pins], loads: Mapping[_Pins, int]) -> Iterable[tuple[_Pins, int]]:
    """Divide a number over lots in proportion to their loads; the remainders go to the largest fractions."""
    whole = sum(loads[pins] for pins in lots)
    exact = [(number * loads[pins], pins) for pins in lots]
    shares = {pins: amount // whole for amount, pins in exact}
    missing = number - sum(shares.values())
    for _, pins in sorted(exact, key=lambda each: (-(each[0] % whole), each[1]))[:missing]:
        shares[pins] += 1
    return [(pins, share) for pins, share in shares.items() if share]


def _pack(
    board: Board,
    template: Template,
    pins: Mapping[str, str],
    lot: list[tuple[Portion, int]],
    options: SolveOptions,
) -> list[Portion]:
    """Buy the cheapest nodes for a lot and put them on the board; return the portions with what they have left."""
    lot.sort(key=lambda each: each[0].stance.pods.index)
    shapes = tuple(
        Shape(
            size=portion.stance.requests,
            count=portion.number,
            mask=mask,
            counted=portion.stance.counted & board.watched_hosts,
            caps=portion.stance.caps,
            order=portion.stance.pods.index,
        )
        for portion, mask in lot
    )
    packing = pack(
        Lot(
            catalogue=template.catalogue,
            resources=board.resources,
            shapes=shapes,
            overheads=tuple((mask, overhead) for mask, overhead, _ in template.overheads),
            limits=tuple(sorted(board.left_of_limits(template).items())),
        ),
        options=PackOptions(
            tolerance=options.tolerance, effort=options.effort, seed=options.seed, prove=False
        ),
        expired=options.expired,
    )
    for bought in packing.bins:
        if not board.keeps_min_values(template, bought.mask):
            continue
        pods: dict[Stance, int] = {}
        for index, number in bought.contents:
            portion, _ = lot[index]
            pods[portion.stance] = pods.get(portion.stance, 0) + number
            portion.number -= number
        board.move_in(board.open(template), Entry(bought.mask, pins), pods, bought.used)
    return [portion for portion, _ in lot]
