# SPDX-License-Identifier: Apache-2.0
"""The number that Go's hashstructure gives for a value, so that a fingerprint of ours equals one of the Go Karpenter's.

Its second format, as Karpenter asks for it: the order of a list does not matter, and fields at their zero value do not
count, so that a new field changes no old number. What is hashed is said in Go's terms: records with the names of their
types and fields, in the order of the type, because the number depends on all three. Whether a list or a mapping is
absent (None) or merely empty makes a difference, as it does in Go.

The sum is FNV-1 of 64 bits: it tells changes, it is no proof against anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["Record", "Value", "struct_hash"]

_BASIS: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Record:
    """A Go struct: the name of its type, and its exported fields in order; None stands for a zero value."""

    type: str
    fields: tuple[tuple[str, Value | None], ...]


# Text, a 64-bit integer, encoded bytes such as a time, a map of texts, a slice, a struct.
Value: TypeAlias = str | int | bytes | Mapping[str, str] | tuple["Value", ...] | Record


def struct_hash(value: Value) -> int:
    """Gives the number of a value."""
    match value:
        case str():
            return _sum(value.encode())
        case bytes():
            return _sum(value)
        case int():
            return _sum((value & _MASK).to_bytes(8, "little"))
        case tuple():
            number = 0
            for each in value:
                number ^= struct_hash(each)
            return number
        case Record():
            return _record(value)
        case _:
            number = 0
            for key, each in value.items():
                number ^= _pair(_sum(key.encode()), _sum(each.encode()))
            return _sealed(number)


def _record(value: Record) -> int:
    number = _sum(value.type.encode())
    for name, field in value.fields:
        if field is not None:
            number = _sealed(number ^ _pair(_sum(name.encode()), struct_hash(field)))
    return number


def _pair(first: int, second: int) -> int:
    return _sum(first.to_bytes(8, "little") + second.to_bytes(8, "little"))


def _sealed(number: int) -> int:
    return _sum(number.to_bytes(8, "little"))


def _sum(data: bytes) -> int:
    number = _BASIS
    for byte in data:
        number = (number * _PRIME & _MASK) ^ byte
    return number
