# SPDX-License-Identifier: Apache-2.0
"""Any value of any of our types, read off the annotations, so that a new field needs no line here."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st

# Short texts and few items: a kind has a hundred fields, and it is their names that are on trial.
_TEXT = st.text(alphabet="ab/.%-1é", max_size=4)
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXT,
    bool: st.booleans(),
    int: st.integers(min_value=-(2**31), max_value=2**31),
    float: st.floats(allow_nan=False, allow_infinity=False),
    datetime: st.datetimes(timezones=st.just(UTC)),
    types.NoneType: st.none(),
    Any: st.one_of(st.booleans(), _TEXT),
}


@cache
def anything(annotation: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for all values of an annotation, absent fields included."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return anything(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return st.one_of([anything(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(anything(arguments[0]), max_size=2).map(tuple)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(_TEXT, anything(arguments[1]), max_size=2)
    return _struct(annotation)


def _struct(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(kind):
        group = required if field.required else optional
        group[field.name] = anything(hints[field.name])
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: kind(**values))
