# SPDX-License-Identifier: Apache-2.0
"""What differs between two sets of tables, as lines that a reviewer can read.

Types and prices one by one, because each is a decision about money or room; zones and offers counted per region,
because they move by the hundred. A line starts with + for what came, - for what went, ~ for what changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from karpenter.facts import TypeFacts
from tools.facts.tables import Tables

__all__ = ["changes"]


def changes(before: Tables, after: Tables) -> Iterator[str]:
    """Yields one line for each difference, in the order of the tables; nothing where there is none."""
    yield from _types(before.types, after.types)
    yield from _regions(before.regions, after.regions)
    yield from _prices(before.prices, after.prices)
    for sign, name, old, new in _differences(before.network, after.network):
        yield f"{sign} network {name}: {_was(old)}{new}"


def _types(before: Mapping[str, TypeFacts], after: Mapping[str, TypeFacts]) -> Iterator[str]:
    for sign, name, old, new in _differences(before, after):
        if old is None or new is None:
            yield f"{sign} type {name}"
            continue
        fields = [
            field for field in TypeFacts.__struct_fields__ if getattr(old, field) != getattr(new, field)
        ]
        told = "; ".join(f"{field} {getattr(old, field)} -> {getattr(new, field)}" for field in fields)
        yield f"{sign} type {name}: {told}"


def _regions(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    for sign, region, old, new in _differences(before, after):
        if old is None or new is None:
            yield f"{sign} region {region}"
            continue
        for zone_sign, zone, was, now in _differences(old["zones"], new["zones"]):
            yield f"{zone_sign} zone {zone}: {_was(was)}{now}"
        was_sold, is_sold = _offers(old), _offers(new)
        if was_sold != is_sold:
            yield (
                f"{sign} offers {region}: {len(is_sold - was_sold)} more, {len(was_sold - is_sold)} fewer "
                f"(type and zone)"
            )


def _prices(
    before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    for sign, region, old, new in _differences(before, after):
        if old is None or new is None:
            yield f"{sign} prices {region}: {len(new or old or ())}"
            continue
        for price_sign, name, was, now in _differences(old, new):
            if was is None or now is None:
                yield f"{price_sign} price {region} {name}: {was or now}"
            else:
                yield f"{price_sign} price {region} {name}: {was} -> {now} ({now / was - 1:+.1%})"


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield ("+" if old is None else "-" if new is None else "~"), key, old, new


def _offers(region: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {
        (name, letter) for letters, names in region["offered"].items() for name in names for letter in letters
    }


def _was(old: object) -> str:
    return "" if old is None else f"{old} -> "
