# SPDX-License-Identifier: Apache-2.0
"""Which part of an old object a part of the new one is, so that what did not change is not held against anyone.

An object stored under an older, laxer schema may be updated as long as its bad parts stay as they are
("ratcheting"). Fields of objects and entries of mappings are matched by name, items of a list of type
``map`` by their keys; other lists are matched as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from karpenter.api.schema.structural import Node, json_type

__all__ = ["Correlation", "ListIndex", "same"]


class ListIndex:
    """The items of an old list, found by the keys of a new item; finds nothing in a list that has no keys."""

    def __init__(self, node: Node, items: Sequence[Any]) -> None:
        self._keys = node.list_map_keys if node.list_type == "map" else ()
        self._items: dict[Any, Any] = {}
        for item in items:
            if (key := self._key(item)) is not None:
                self._items.setdefault(key, item)

    def get(self, item: Any) -> Any:
        """Return the first old item with the same keys, or None."""
        return self._items.get(self._key(item))

    def _key(self, item: Any) -> Any:
        if not self._keys or not isinstance(item, dict):
            return None
        values = [item.get(key) for key in self._keys]
        if any(value is None or isinstance(value, (dict, list)) for value in values):
            return None
        return tuple((json_type(value), value) for value in values)


class Correlation:
    """A value, what it was before, and the schema that tells how their parts belong together."""

    __slots__ = ("_equal", "_index", "_parts", "new", "node", "old")

    def __init__(self, new: Any, old: Any, node: Node) -> None:
        self.new = new
        self.old = old
        self.node = node
        self._equal: bool | None = None
        self._index: ListIndex | None = None
        self._parts: dict[str | int, Correlation | None] = {}

    def field(self, name: str) -> Correlation | None:
        """Return the correlation of a field, or None if one of the two objects lacks it."""
        if name not in self._parts:
            self._parts[name] = self._field(name)
        return self._parts[name]

    def item(self, index: int) -> Correlation | None:
        """Return the correlation of a list item, or None if no old item has its keys."""
        if index not in self._parts:
            self._parts[index] = self._item(index)
        return self._parts[index]

    def unchanged(self) -> bool:
        """Return whether the value is what it was; the order of a keyed list does not matter."""
        if self._equal is None:
            self._equal = self._compare()
        return self._equal

    def _field(self, name: str) -> Correlation | None:
        below = self.node.below(name)
        if below is None or not isinstance(self.new, dict) or not isinstance(self.old, dict):
            return None
        if name not in self.new or name not in self.old:
            return None
        return Correlation(self.new[name], self.old[name], below)

    def _item(self, index: int) -> Correlation | None:
        if self.node.items is None or not isinstance(self.new, list) or not isinstance(self.old, list):
            return None
        if self._index is None:
            self._index = ListIndex(self.node, self.old)
        old = self._index.get(self.new[index])
        return None if old is None else Correlation(self.new[index], old, self.node.items)

    def _compare(self) -> bool:
        if isinstance(self.new, dict) and isinstance(self.old, dict):
            return len(self.new) == len(self.old) and all(_unchanged(self.field(name)) for name in self.new)
        if isinstance(self.new, list) and isinstance(self.old, list) and self.node.list_type == "map":
            return len(self.new) == len(self.old) and all(
                _unchanged(self.item(index)) for index in range(len(self.new))
            )
        return same(self.new, self.old)


def same(new: Any, old: Any) -> bool:
    """Return whether two JSON values are equal in type and value: 1 is neither 1.0 nor true."""
    if json_type(new) != json_type(old):
        return False
    if isinstance(new, dict):
        return new.keys() == old.keys() and all(same(value, old[key]) for key, value in new.items())
    if isinstance(new, list):
        return len(new) == len(old) and all(map(same, new, old))
    return bool(new == old)


def _unchanged(part: Correlation | None) -> bool:
    return part is not None and part.unchanged()
