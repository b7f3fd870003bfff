# SPDX-License-Identifier: Apache-2.0
"""Sets of fields, as ``managedFields`` records who owns what.

A field is a path: a tuple of steps, each in the spelling of ``fieldsV1`` (``f:name``, ``k:{...}``, ``v:...``). Sets
of them are made from values by their shapes, compared, and written as the trees that ``fieldsV1`` holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from karpenter.api.schema import gotext
from karpenter.sandbox.kube.kinds.shapes import ANYTHING, Shape

__all__ = [
    "Path",
    "changed",
    "children",
    "fields_of",
    "from_tree",
    "holds_any",
    "prefixes_of",
    "remove_fields",
    "to_tree",
]

Path = tuple[str, ...]


def children(value: Any, shape: Shape) -> Iterator[tuple[str, Any, Shape, Any]]:
    """Gives the parts of a composite: the step, the part, its shape, and its key or place in the value.

    Scalars, atomic values and nulls have none.
    """
    if isinstance(value, dict) and not shape.atomic:
        for key, inner in value.items():
            yield f"f:{key}", inner, shape.below(key) or ANYTHING, key
    elif isinstance(value, list) and shape.kind == "list" and shape.list_type != "atomic":
        element = shape.element or ANYTHING
        for place, item in enumerate(value):
            yield item_step(item, shape), item, element, place


def item_step(item: Any, shape: Shape) -> str:
    """Gives the step to an item of a set or of a keyed list."""
    if shape.list_type == "set" or not isinstance(item, dict):
        return f"v:{gotext.compact_json(item)}"
    element = shape.element
    keys = {}
    for key in shape.keys:
        told = element.fields.get(key) if element is not None and element.kind == "struct" else None
        value = item.get(key, told.default if told else None)
        if value is not None:
            keys[key] = value
    return f"k:{gotext.compact_json(keys)}"


def _is_leaf(value: Any, shape: Shape) -> bool:
    if isinstance(value, dict):
        return shape.atomic or not value
    if isinstance(value, list):
        return shape.kind != "list" or shape.list_type == "atomic"
    return True


def fields_of(value: Any, shape: Shape, at: Path = ()) -> Iterator[Path]:
    """Gives the fields that an applied configuration claims: leaves, items of lists, keys of maps."""
    for step, inner, below, _ in children(value, shape):
        path = (*at, step)
        if _is_leaf(inner, below):
            yield path
        else:
            if step[0] != "f" or shape.kind != "struct" or step[2:] not in shape.fields:
                yield path
            yield from fields_of(inner, below, path)


def changed(old: Any, new: Any, shape: Shape, at: Path = ()) -> Iterator[tuple[str, Path]]:
    """Gives what differs: ``+`` added, ``-`` removed, ``~`` modified; a new composite counts itself and its parts."""
    before = {step: (inner, below) for step, inner, below, _ in children(old, shape)}
    for step, inner, below, _ in children(new, shape):
        path = (*at, step)
        known = before.pop(step, None)
        if known is None:
            yield "+", path
            for added in _all_below(inner, below, path):
                yield "+", added
        elif known[0] is not inner and known[0] != inner:
            both_open = isinstance(inner, dict) and isinstance(known[0], dict) and not below.atomic
            leaf = _is_leaf(inner, below) or (known[0] is not None and _is_leaf(known[0], below))
            if leaf and not both_open:
                yield "~", path
            else:
                yield from changed(known[0], inner, below, path)
    for step, (inner, below) in before.items():
        path = (*at, step)
        yield "-", path
        for removed in _all_below(inner, below, path):
            yield "-", removed


def _all_below(value: Any, shape: Shape, at: Path) -> list[Path]:
    """Gives every part of a value, and the parts of those; a loop, because every write comes through here."""
    found: list[Path] = []
    waiting = [(value, shape, at)]
    while waiting:
        holder, told, where = waiting.pop()
        for step, inner, below, _ in children(holder, told):
            path = (*where, step)
            found.append(path)
            if isinstance(inner, (dict, list)):
                waiting.append((inner, below, path))
    return found


def to_tree(paths: Iterable[Path]) -> dict[str, Any]:
    """Gives the tree of ``fieldsV1``."""
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    return _without_lonely_dots(tree)


def _without_lonely_dots(tree: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {} if key == "." or inner.keys() == {"."} else _without_lonely_dots(inner)
        for key, inner in tree.items()
    }


def from_tree(tree: dict[str, Any], at: Path = ()) -> Iterator[Path]:
    """Gives the paths of a ``fieldsV1`` tree."""
    for step, inner in tree.items():
        if step == ".":
            yield at
        elif not inner:
            yield (*at, step)
        else:
            yield from from_tree(inner, (*at, step))


def holds_any(tree: dict[str, Any], paths: Iterable[Path]) -> bool:
    """Tells whether a ``fieldsV1`` tree has one of these paths."""
    for path in paths:
        node: Any = tree
        for step in path:
            node = node.get(step)
            if node is None:
                break
        else:
            if not node or "." in node:
                return True
    return False


def prefixes_of(paths: Iterable[Path]) -> set[Path]:
    """Gives every path and all that lead to it."""
    return {path[:length] for path in paths for length in range(1, len(path) + 1)}


def remove_fields(value: Any, shape: Shape, gone: set[Path], at: Path = ()) -> Any:
    """Gives a value without the fields in ``gone``."""
    if isinstance(value, dict) and not shape.atomic:
        kept: Any = {}
        for step, inner, below, key in children(value, shape):
            path = (*at, step)
            if path not in gone:
                kept[key] = remove_fields(inner, below, gone, path)
        return kept
    if isinstance(value, list) and shape.kind == "list" and shape.list_type != "atomic":
        return [
            remove_fields(inner, below, gone, (*at, step))
            for step, inner, below, _ in children(value, shape)
            if (*at, step) not in gone
        ]
    return value


_EXPECTED = {
    "integer": "numeric (int or float)",
    "number": "numeric (int or float)",
    "boolean": "boolean",
    "string": "string",
}


def mistyped(value: Any, shape: Shape, path: str = "") -> Iterator[str]:
    """Gives what keeps an applied configuration from being of its kind, in the words of the merge library."""
    if value is None or shape.kind == "any":
        return
    if shape.kind in {"struct", "map"}:
        if not isinstance(value, dict):
            yield f"{path}: expected map, got {_got(value)}"
            return
        for key, inner in value.items():
            below = shape.below(key)
            if below is None:
                yield f"{path}.{key}: field not declared in schema"
            else:
                yield from mistyped(inner, below, f"{path}.{key}")
    elif shape.kind == "list":
        if not isinstance(value, list):
            yield f"{path}: expected list, got {_got(value)}"
            return
        for place, item in enumerate(value):
            yield from mistyped(item, shape.element or ANYTHING, f"{path}[{_item_name(item, place, shape)}]")
    elif shape.scalar in _EXPECTED and _got(value) not in _TAKEN.get(shape.scalar, (shape.scalar,)):
        yield f"{path}: expected {_EXPECTED[shape.scalar]}, got {_got(value)}"


_TAKEN = {"integer": ("int", "float"), "number": ("int", "float")}


def _item_name(item: Any, place: int, shape: Shape) -> str:
    """Return an item as the merge library names it: by its keys, its value, or its place."""
    if shape.list_type == "map" and isinstance(item, dict):
        keys = {key: item[key] for key in sorted(shape.keys) if key in item}
        return ",".join(f"{key}={gotext.compact_json(value)}" for key, value in keys.items())
    return f"={gotext.compact_json(item)}" if shape.list_type == "set" else str(place)


def _got(value: Any) -> str:
    names: dict[type, str] = {
        dict: "map",
        list: "list",
        str: "string",
        bool: "boolean",
        int: "int",
        float: "float",
    }
    return names[type(value)]
