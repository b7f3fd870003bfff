# SPDX-License-Identifier: Apache-2.0
"""Reads the two packages that the tables come from. Only figures are taken; no code of theirs is run.

moto (PyPI, Apache-2.0) holds what EC2 answered to DescribeInstanceTypes and DescribeInstanceTypeOfferings, and
the zone ids. The Go module github.com/aws/karpenter-provider-aws (Apache-2.0) holds generated tables of list
prices, network bandwidth and branch interfaces. A table that cannot be found or is empty is an error: a rebuild
must not quietly lose one.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from karpenter.errors import KarpenterError

__all__ = ["SourceError", "bandwidths", "branches", "offers", "prices", "types", "zone_ids"]

_ENTRY: Final = re.compile(r'"([a-z0-9-]+\.[a-z0-9-]+)":\s*([0-9.]+),')
_REGION: Final = re.compile(r'^\t"([a-z0-9-]+)": \{$(.*?)^\t\}', re.MULTILINE | re.DOTALL)
_LIMIT: Final = re.compile(r'^\t"([a-z0-9-]+\.[a-z0-9-]+)": \{$(.*?)^\t\}', re.MULTILINE | re.DOTALL)
_TRUNKING: Final = re.compile(r"IsTrunkingCompatible:\s*true")
_BRANCHES: Final = re.compile(r"BranchInterface:\s*(\d+)")


class SourceError(KarpenterError):
    """A source lacks a table, or the table is not written as expected."""


def types(moto: Path) -> Mapping[str, Mapping[str, Any]]:
    """Returns every described type in the shape of DescribeInstanceTypes, by name."""
    entries = _gzipped(moto / "ec2/resources/instance_types.json.gz")
    return dict(sorted(entries.items()))


def offers(moto: Path, location: str = "availability-zone") -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Returns for each region the types that are sold there, each with its zones (or zone ids)."""
    folder = moto / "ec2/resources/instance_type_offerings" / location
    found: dict[str, dict[str, frozenset[str]]] = {}
    for path in sorted(_files(folder, "*.json.gz")):
        sold: dict[str, set[str]] = {}
        for offer in _gzipped(path):
            sold.setdefault(offer["InstanceType"], set()).add(offer["Location"])
        found[path.name.removesuffix(".json.gz")] = {name: frozenset(where) for name, where in sold.items()}
    return found


def zone_ids(moto: Path) -> Mapping[str, str]:
    """Returns the id of every zone that moto names; read as text, so that nothing of it runs."""
    source = _text(moto / "ec2/models/availability_zones_and_regions.py")
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    found = {}
    for call in calls:
        given = {word.arg: word.value.value for word in call.keywords if isinstance(word.value, ast.Constant)}
        if isinstance(call.func, ast.Name) and call.func.id == "Zone" and {"name", "zone_id"} <= set(given):
            found[str(given["name"])] = str(given["zone_id"])
    return _not_empty(found, "zone ids in moto")


def prices(karpenter: Path) -> Mapping[str, Mapping[str, float]]:
    """Returns on-demand list prices by region and type; prices of zero are left out."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(_files(karpenter / "pkg/providers/pricing", "zz_generated.pricing_*.go")):
        for region, body in _REGION.findall(_text(path)):
            found[region] = {name: float(price) for name, price in _ENTRY.findall(body) if float(price) > 0}
    return _not_empty(dict(sorted(found.items())), "prices in the Go module")


def bandwidths(karpenter: Path) -> Mapping[str, int]:
    """Returns the network bandwidth in megabits a second by type."""
    text = _text(karpenter / "pkg/providers/instancetype/zz_generated.bandwidth.go")
    return _not_empty({name: int(figure) for name, figure in _ENTRY.findall(text)}, "network bandwidths")


def branches(karpenter: Path) -> Mapping[str, int]:
    """Returns how many branch interfaces a type may have; 0 where it cannot have any."""
    text = _text(karpenter / "pkg/providers/instancetype/zz_generated.vpclimits.go")
    found = {}
    for name, body in _LIMIT.findall(text):
        count = _BRANCHES.search(body)
        found[name] = int(count[1]) if count and _TRUNKING.search(body) else 0
    return _not_empty(found, "branch interfaces")


def _not_empty(table: dict[str, Any], what: str) -> dict[str, Any]:
    if not table:
        raise SourceError(
            f"found no {what}", hint="the source is written in another way now; adapt tools/facts"
        )
    return table


def _files(folder: Path, pattern: str) -> Iterable[Path]:
    found = list(folder.glob(pattern))
    if not found:
        raise SourceError(
            f"{folder} has no file {pattern}",
            hint="--moto is the folder of the package moto, --karpenter the root of the Go module",
        )
    return found


def _gzipped(path: Path) -> Any:
    return json.loads(gzip.decompress(_bytes(path)))


def _text(path: Path) -> str:
    return _bytes(path).decode()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(
            f"cannot read {path}: {error.strerror}",
            hint="--moto is the folder of the package moto, --karpenter the root of the Go module",
        ) from error
