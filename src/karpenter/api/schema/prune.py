# SPDX-License-Identifier: Apache-2.0
"""Pruning: fields that no schema knows are left out, and named, before anything else looks at an object.

Follows apiextensions-apiserver: metadata is judged apart, ``x-kubernetes-preserve-unknown-fields`` keeps
what is below it, and afterwards a null goes where its field may not be null and has no default. The input
is never changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from karpenter.api.schema.problems import child, indexed
from karpenter.api.schema.structural import INT64, META_FIELDS, MISSING, Node

__all__ = ["Pruned", "drop_nulls", "prune"]


@dataclass(frozen=True, slots=True)
class Pruned:
    """A copy without unknown fields, and the sorted paths of what is gone."""

    object: dict[str, Any]
    paths: tuple[str, ...]


def prune(obj: dict[str, Any], node: Node) -> Pruned:
    """Return a deep copy of a whole object without the fields that its schema does not know."""
    paths: list[str] = []
    pruned = _pruned(obj, node, "", paths, root=True)
    return Pruned(pruned, tuple(sorted(paths)))


def drop_nulls(value: Any, node: Node | None) -> Any:
    """Return a copy without the nulls of fields that may not be null and have no default; list items stay."""
    if isinstance(value, dict):
        kept = {}
        for key, inner in value.items():
            below = node.below(key) if node else None
            if inner is None and below and not below.nullable and below.default is MISSING:
                continue
            kept[key] = drop_nulls(inner, below)
        return kept
    if isinstance(value, list):
        return [drop_nulls(item, node.items if node else None) for item in value]
    return value


def _pruned(value: Any, node: Node | None, path: str, paths: list[str], *, root: bool = False) -> Any:
    if node and node.preserve_unknown:
        return _preserved(value, node, path, paths, root=root)
    if isinstance(value, list):
        items = node.items if node else None
        return [_pruned(item, items, indexed(path, index), paths) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return _leaf(value)
    kept = {}
    for key, inner in value.items():
        if node and (root or node.embedded) and key in META_FIELDS:
            kept[key] = _copy(inner)
        elif node and key in node.properties:
            kept[key] = _pruned(inner, node.properties[key], child(path, key), paths)
        elif node and node.has_additional:
            kept[key] = _pruned(inner, node.additional, child(path, key), paths)
        else:
            paths.append(child(path, key))
    return kept


def _preserved(value: Any, node: Node, path: str, paths: list[str], *, root: bool = False) -> Any:
    """Return a copy with every field, pruning only where the schema speaks again further down."""
    if isinstance(value, list):
        if node.items is None:
            return _copy(value)
        return [_preserved(item, node.items, indexed(path, index), paths) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return _leaf(value)
    kept = {}
    for key, inner in value.items():
        if (root or node.embedded) and key in META_FIELDS:
            kept[key] = _copy(inner)
        elif key in node.properties or node.has_additional:
            kept[key] = _pruned(inner, node.below(key), child(path, key), paths)
        else:
            kept[key] = _copy(inner)
    return kept


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else _leaf(value)


def _leaf(value: Any) -> Any:
    # The server reads a number that 64 bits cannot hold as a float; so does every client of it.
    return float(value) if isinstance(value, int) and value not in INT64 else value
