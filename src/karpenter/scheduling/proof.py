# SPDX-License-Identifier: Apache-2.0
"""Proves how cheap a plan could be at best: no nodes that hold the same pods, pool by pool, cost less.

Which pool takes which pods is taken as decided, for weights decide it. Places and rules between pods are left out,
which can only make the bound lower, never wrong.
"""

from __future__ import annotations

import math

from karpenter.model.catalogue import lowest_bit
from karpenter.scheduling.board import Board
from karpenter.scheduling.packing import Lot, Shape, bound
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Template

__all__ = ["lower_bound"]


def lower_bound(board: Board) -> float:
    """Return a price per hour that no set of new nodes for the pods placed on new nodes is below."""
    placed: dict[int, dict[Stance, int]] = {}
    prices: dict[int, float] = {}
    for host in board.hosts:
        template = host.template
        if template is None or not host.contents:
            continue
        prices[template.index] = (
            prices.get(template.index, 0.0) + template.catalogue.prices[lowest_bit(host.mask)]
        )
        counts = placed.setdefault(template.index, {})
        for stance, number in host.contents.items():
            counts[stance] = counts.get(stance, 0) + number
    return math.fsum(
        _bound_of(board, board.templates[index], counts, prices[index]) for index, counts in placed.items()
    )


def _bound_of(board: Board, template: Template, counts: dict[Stance, int], price: float) -> float:
    ordered = sorted(counts, key=lambda stance: (stance.pods.index, stance.level))
    shapes = tuple(
        Shape(
            size=stance.requests,
            count=counts[stance],
            mask=board.admission.allowed(stance, template),
            counted=stance.counted & board.watched_hosts,
            caps=tuple((group, cap) for group, cap in stance.caps if stance.hard_caps >> group & 1),
            order=stance.pods.index,
        )
        for stance in ordered
    )
    return bound(
        Lot(
            catalogue=template.catalogue,
            resources=board.resources,
            shapes=shapes,
            overheads=tuple((mask, overhead) for mask, overhead, _ in template.overheads),
        ),
        price,
    )
