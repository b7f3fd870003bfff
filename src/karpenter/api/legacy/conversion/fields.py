# SPDX-License-Identifier: Apache-2.0
"""Which fields of an object its version does not know, and which were meant instead.

Where two versions of a kind are stored as one, the definition of the older keeps the fields of the newer, so
that nothing is lost on the way through; a schema therefore lets them pass. A manifest that is written in the
older version must not use them, and whether it does is read off the types, which hold what each version
meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import inspect

__all__ = ["nearest_field", "unknown_fields"]


def unknown_fields(value: Any, of: type, path: str) -> Iterator[str]:
    """Yields the path of each field that the type does not have; what has the wrong shape is passed over."""
    yield from _unknown(value, inspect.type_info(of), path)


def nearest_field(of: type, path: Sequence[str]) -> str:
    """Returns the field that was probably meant by the last name of a path; nothing if none is near.

    Args:
        of: The type at which the path begins.
        path: Names of fields and indexes of lists.
    """
    shapes = [inspect.type_info(of)]
    for step in path[:-1]:
        shapes = [below for shape in shapes for below in _below(shape, step)]
    names = [field.encode_name for shape in shapes for field in _fields(shape)]
    return next(iter(difflib.get_close_matches(path[-1], names, n=1)), "")


def _below(shape: inspect.Type, step: str) -> Iterator[inspect.Type]:
    if isinstance(shape, inspect.VarTupleType):
        yield shape.item_type
    for field in _fields(shape):
        if field.encode_name == step:
            yield from field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)


def _fields(shape: inspect.Type) -> tuple[inspect.Field, ...]:
    return shape.fields if isinstance(shape, inspect.StructType) else ()


def _unknown(value: Any, shape: inspect.Type, path: str) -> Iterator[str]:
    if isinstance(shape, inspect.UnionType):
        for choice in shape.types:
            yield from _unknown(value, choice, path)
    elif isinstance(shape, inspect.StructType) and isinstance(value, dict):
        known = {field.encode_name: field.type for field in shape.fields}
        for name, inner in value.items():
            if name not in known:
                yield f"{path}.{name}"
            else:
                yield from _unknown(inner, known[name], f"{path}.{name}")
    elif isinstance(shape, inspect.VarTupleType) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, shape.item_type, f"{path}[{index}]")
