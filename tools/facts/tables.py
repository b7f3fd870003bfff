# SPDX-License-Identifier: Apache-2.0
"""Puts the sources together into the four tables of ``karpenter.facts``, byte for byte the same each time.

One record a line, in the order of the names, so that a new vintage reads as a diff. Types stand as rows without
field names, because 1,400 times the names is most of a file; ``TypeFacts`` names the columns. Plain text, not
gzip: the wheel compresses it anyway, and a reader of the repository sees what changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from karpenter.cloud.aws.instancetypes.description import read_type
from karpenter.facts import TypeFacts
from tools.facts import sources

__all__ = ["Tables", "build", "load", "save"]


@dataclass(frozen=True)
class Tables:
    """The contents of the package's tables."""

    types: Mapping[str, TypeFacts]
    regions: Mapping[str, Mapping[str, Any]]
    prices: Mapping[str, Mapping[str, float]]
    network: Mapping[str, tuple[int | None, int]]


def build(moto: Path, karpenter: Path) -> Tables:
    """Returns the tables that the sources give."""
    bandwidths, branches = sources.bandwidths(karpenter), sources.branches(karpenter)
    types = {}
    for name, info in sources.types(moto).items():
        facts = read_type(info, untold=(bandwidths.get(name), branches.get(name, 0)))
        if facts is not None:
            types[name] = facts
    network = {
        name: (bandwidths.get(name), branches.get(name, 0))
        for name in sorted({*bandwidths, *branches})
        if name not in types
    }
    return Tables(types, _regions(moto), sources.prices(karpenter), network)


def save(tables: Tables, folder: Path) -> None:
    """Writes the tables into the folder of the package."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [_json(facts) for facts in tables.types.values()]
    (folder / "types.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")
    (folder / "regions.json").write_text(_nested(tables.regions))
    (folder / "prices.json").write_text(_nested(tables.prices))
    (folder / "network.json").write_text(_lines(tables.network) + "\n")


def load(folder: Path) -> Tables:
    """Returns the tables that are in the folder; empty ones where there are none yet."""
    types = _read(folder / "types.json", list[TypeFacts], [])
    return Tables(
        {facts.name: facts for facts in types},
        _read(folder / "regions.json", dict[str, dict[str, Any]], {}),
        _read(folder / "prices.json", dict[str, dict[str, float]], {}),
        _read(folder / "network.json", dict[str, tuple[int | None, int]], {}),
    )


def _regions(moto: Path) -> dict[str, dict[str, Any]]:
    ids, ids_sold = sources.zone_ids(moto), sources.offers(moto, "availability-zone-id")
    found: dict[str, dict[str, Any]] = {}
    for region, sold in sources.offers(moto).items():
        names = sorted(set().union(*sold.values()))
        found[region] = {
            "zones": _zones(names, ids, sorted(set().union(*ids_sold[region].values()))),
            "offered": _by_letters(region, sold),
        }
    return found


def _zones(names: list[str], ids: Mapping[str, str], all_ids: list[str]) -> dict[str, str]:
    """Gives a zone that moto does not name one of the ids that are left, in order."""
    taken = {ids[name] for name in names if name in ids}
    left = iter([zone_id for zone_id in all_ids if zone_id not in taken])
    return {name: ids[name] if name in ids else next(left) for name in names}


def _by_letters(region: str, sold: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    """Groups types by the last letters of their zones: most types are in all zones, and few groups result."""
    groups: dict[str, list[str]] = {}
    for name, zones in sorted(sold.items()):
        letters = "".join(sorted(zone.removeprefix(region) for zone in zones))
        groups.setdefault(letters, []).append(name)
    return dict(sorted(groups.items()))


def _nested(table: Mapping[str, Mapping[str, Any]]) -> str:
    parts = [f"{_json(key)}: {_lines(inner)}" for key, inner in table.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(table: Mapping[str, Any]) -> str:
    return "{\n" + ",\n".join(f"{_json(key)}:{_json(value)}" for key, value in table.items()) + "\n}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _read(path: Path, shape: Any, empty: Any) -> Any:
    return msgspec.json.decode(path.read_bytes(), type=shape) if path.exists() else empty
