# SPDX-License-Identifier: Apache-2.0
"""Lists that are really sets or mappings may not hold the same thing twice.

Each value that occurs more than once is reported at its second place only, as the API server does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from karpenter.api.schema.problems import Problem, child, duplicate, indexed, invalid
from karpenter.api.schema.structural import Node, json_type

__all__ = ["duplicate_problems"]


def duplicate_problems(value: Any, node: Node | None, path: str = "") -> Iterator[Problem]:
    """Yield a problem for each duplicate in the lists of type ``set`` and ``map`` at or below the value."""
    if node is None:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            at = child(path, key) if key in node.properties else indexed(path, key)
            yield from duplicate_problems(inner, node.below(key), at)
    elif isinstance(value, list):
        if node.list_type == "set":
            yield from (duplicate(indexed(path, index), value[index]) for index in _repeated(value))
        elif node.list_type == "map":
            yield from _keyed_problems(value, node, path)
        for index, item in enumerate(value):
            yield from duplicate_problems(item, node.items, indexed(path, index))


def _keyed_problems(items: list[Any], node: Node, path: str) -> Iterator[Problem]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            yield invalid(indexed(path, index), item, "must be an object for an array of list-type map")
            return
    keys = [{key: item[key] for key in node.list_map_keys if key in item} if item else {} for item in items]
    yield from (duplicate(indexed(path, index), keys[index]) for index in _repeated(keys))


def _repeated(values: list[Any]) -> Iterator[int]:
    """Yield the index at which a value occurs for the second time."""
    seen: dict[tuple[str, str], int] = {}
    for index, value in enumerate(values):
        mark = (json_type(value), json.dumps(value, sort_keys=True))
        seen[mark] = seen.get(mark, 0) + 1
        if seen[mark] == 2:
            yield index
