# SPDX-License-Identifier: Apache-2.0
"""Lists of objects, as the API answers them, and one decoder for each kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Generic, TypeVar

import msgspec

from karpenter.api.base import Frozen
from karpenter.api.meta import ListMeta

__all__ = ["KubeList", "decode", "decode_list"]

T = TypeVar("T", bound=Frozen)


class KubeList(Frozen, Generic[T]):
    """One page of a list; the items of built-in lists carry no apiVersion and kind of their own.

    Aggregated API servers may send null for no items: iterate over the list itself, not over `items`.
    """

    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] | None = ()

    def __iter__(self) -> Iterator[T]:
        return iter(self.items or ())

    def __len__(self) -> int:
        return len(self.items or ())


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decode one object.

    Raises:
        msgspec.ValidationError: The data is JSON of another shape.
        msgspec.DecodeError: The data is not JSON.
    """
    decoder: msgspec.json.Decoder[T] = _decoder(kind)
    return decoder.decode(data)


def decode_list(data: bytes | str, kind: type[T]) -> KubeList[T]:
    """Decode one page of a list; raises as `decode` does."""
    decoder: msgspec.json.Decoder[KubeList[T]] = _list_decoder(kind)
    return decoder.decode(data)


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


@cache
def _list_decoder(kind: type[T]) -> msgspec.json.Decoder[KubeList[T]]:
    # mypy cannot see that a class in a variable is a valid type argument.
    return msgspec.json.Decoder(KubeList[kind])  # type: ignore[valid-type]
