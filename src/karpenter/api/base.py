# SPDX-License-Identifier: Apache-2.0
"""The one base of every API object: frozen, camelCase on the wire, trimmed to the fields we read.

Unknown fields are dropped while decoding, so a decoded object is never sent back: writes are patches built
from the change alone. Nothing here checks a value; an object that reached us has passed its schema (see
``api.schema``), and one odd value must not make a whole list undecodable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias, dataclass_transform

import msgspec

__all__ = ["ABSENT", "EMPTY", "Frozen", "IntOrString", "RawQuantity", "Resources", "to_wire"]

# A quantity as it stands on the wire, for `kit.quantity`. Built-in kinds send text, CRDs may carry numbers.
RawQuantity: TypeAlias = str | int | float

# Resource name to quantity, as in `requests` and `capacity`.
Resources: TypeAlias = Mapping[str, RawQuantity]

# A port, a percentage, a count: Kubernetes' own union type.
IntOrString: TypeAlias = int | str


class _Empty(dict[str, Any]):
    """A mapping that stays empty; unlike a mappingproxy it survives pickling, as itself."""

    def __setitem__(self, key: str, value: Any) -> NoReturn:
        raise TypeError("the shared empty mapping is read-only: build a new dict")

    def __reduce__(self) -> str:
        return "EMPTY"

    def __hash__(self) -> int:  # type: ignore[override]
        return 0


# The default of every mapping field: one object for all, so that a long list makes no dicts it does not need.
EMPTY: Mapping[str, Any] = _Empty()


class _Absent(tuple[Any, ...]):
    """An empty tuple that can be told from one that was written empty."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "ABSENT"


# The default of a list where it matters whether it was left out or written and empty: compare with `is`.
ABSENT: tuple[Any, ...] = _Absent()


class _KeywordOnly(msgspec.StructMeta):
    """Makes every field of every subclass keyword-only, which msgspec otherwise wants said class by class."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any
    ) -> _KeywordOnly:
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True, **config})


# Without cycle collection a long list decodes in half the time; trees made by the decoder have no cycles.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Frozen(
    msgspec.Struct, metaclass=_KeywordOnly, frozen=True, rename="camel", omit_defaults=True, gc=False
):
    """A value decoded from the API; compare and replace it, never change it."""


def to_wire(value: Frozen) -> Any:
    """Return the value as plain dicts, lists and scalars under wire names, defaults left out."""
    return msgspec.json.decode(msgspec.json.encode(value))
