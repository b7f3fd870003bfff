# SPDX-License-Identifier: Apache-2.0
"""Random catalogues and lots."""

from __future__ import annotations

from hypothesis import strategies as st

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import Lot, Room, Shape
from tests.unit.scheduling.packing.builders import RESOURCES, machine

prices = st.integers(1, 40).map(lambda cents: cents / 16)


@st.composite
def catalogues(draw: st.DrawFn, *, most: int = 6, scales: tuple[int, ...] = (1, 10)) -> Catalogue:
    """Small machines, or ten times as large ones on which many pods fit."""
    scale = draw(st.sampled_from(scales))
    rows = draw(
        st.lists(
            st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 6), prices, st.integers(0, 2)),
            min_size=1,
            max_size=most,
        )
    )
    zones = draw(st.sampled_from([("a",), ("a", "b")]))
    return Catalogue(
        machine(
            f"t{i}",
            cpu=cpu * scale,
            memory=memory * scale,
            pods=pods * scale,
            price=price,
            reserved=reserved,
            zones=zones,
        )
        for i, (cpu, memory, pods, price, reserved) in enumerate(rows)
    )


def masks(catalogue: Catalogue) -> st.SearchStrategy[int]:
    """Mostly everything, sometimes a part."""
    whole = catalogue.everything
    return st.one_of(st.just(whole), st.just(whole), st.integers(0, whole))


@st.composite
def shapes(draw: st.DrawFn, catalogue: Catalogue, *, rules: bool, most: int) -> Shape:
    counted = draw(st.integers(0, 7)) if rules else 0
    caps: tuple[tuple[int, int], ...] = ()
    ports = conflicts = 0
    if rules:
        caps = tuple(draw(st.dictionaries(st.integers(0, 2), st.integers(0, 3), max_size=2)).items())
        ports = draw(st.sampled_from([0, 0, 0, 1, 2]))
        conflicts = draw(st.sampled_from([ports, ports, 0, 3])) if ports else 0
    return Shape(
        size=(draw(st.integers(0, 6)), draw(st.integers(0, 6)), 1),
        count=draw(st.integers(0, most)),
        mask=draw(masks(catalogue)),
        counted=counted,
        caps=caps,
        ports=ports,
        port_conflicts=conflicts,
    )


@st.composite
def rooms(draw: st.DrawFn, catalogue: Catalogue, number: int) -> Room:
    amounts = st.integers(0, 12)
    is_open = draw(st.booleans())
    return Room(
        free=(draw(amounts), draw(amounts), draw(st.integers(0, 6))),
        admits=draw(st.one_of(st.just((1 << number) - 1), st.integers(0, (1 << number) - 1))),
        counts=tuple(draw(st.dictionaries(st.integers(0, 2), st.integers(0, 2), max_size=2)).items()),
        caps=tuple(draw(st.dictionaries(st.integers(0, 2), st.integers(0, 3), max_size=2)).items()),
        ports=draw(st.integers(0, 3)),
        mask=draw(st.integers(1, catalogue.everything)) if is_open else 0,
        used=draw(st.one_of(st.just(()), st.just((0, 0, 0)))) if is_open else (),
    )


@st.composite
def lots(
    draw: st.DrawFn,
    *,
    rules: bool = True,
    with_rooms: bool = True,
    limited: bool = True,
    most_shapes: int = 6,
    most_pods: int = 12,
    most_types: int = 6,
) -> Lot:
    catalogue = draw(catalogues(most=most_types))
    found = draw(st.lists(shapes(catalogue, rules=rules, most=most_pods), min_size=1, max_size=most_shapes))
    found = [
        Shape(
            size=each.size,
            count=each.count,
            mask=each.mask,
            counted=each.counted,
            caps=each.caps,
            ports=each.ports,
            port_conflicts=each.port_conflicts,
            order=order,
        )
        for order, each in enumerate(found)
    ]
    split = draw(st.integers(0, catalogue.everything))
    small = st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 1))
    overheads = draw(
        st.sampled_from(
            [
                ((catalogue.everything, (0, 0, 0)),),
                ((split, draw(small)), (catalogue.everything & ~split, draw(small))),
                ((split, draw(small)),),
            ]
        )
    )
    limits = st.dictionaries(st.sampled_from(["cpu", "memory", "nodes"]), st.integers(0, 30), max_size=2)
    return Lot(
        catalogue=catalogue,
        resources=RESOURCES,
        shapes=tuple(found),
        overheads=overheads,
        rooms=tuple(draw(st.lists(rooms(catalogue, len(found)), max_size=3))) if with_rooms else (),
        limits=tuple(sorted(draw(limits).items())) if limited else (),
    )
