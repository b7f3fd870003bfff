# SPDX-License-Identifier: Apache-2.0
"""Lets botocore read of a service's description only what our calls need.

botocore describes a service in one document with every call and its documentation, and keeps it for good: of EC2 alone
that is seven hundred calls, of which we make a few dozen. What no call of the call table leads to is left out before
it is kept, and so is all documentation. A call that is not in the table cannot be made at all, so nobody misses it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import botocore.session

from karpenter.cloud.aws.calls import CALLS

__all__ = ["described_session"]

_DESCRIPTION: Final = "service-2"
_PACKED: Final = ".gz"


def described_session() -> botocore.session.Session:
    """Makes a session of botocore whose clients know the calls of the call table."""
    session = botocore.session.get_session()
    session.get_component("data_loader").file_loader = _Sparing()
    return session


class _Sparing:
    """Reads botocore's documents as its own reader does, without what is not needed."""

    def exists(self, file_path: str) -> bool:
        return any(path.is_file() for path in _paths(file_path))

    def load_file(self, file_path: str) -> Any:
        path = next((path for path in _paths(file_path) if path.is_file()), None)
        if path is None:
            return None
        raw = path.read_bytes()
        text = gzip.decompress(raw) if path.suffix == _PACKED else raw
        document = json.loads(text, object_pairs_hook=_without_words)
        if not file_path.endswith(_DESCRIPTION):
            return document
        # .../botocore/data/SERVICE/VERSION/service-2
        service = path.parent.parent.name
        return _needed(document, {name for known, name in CALLS if known == service})


def _paths(file_path: str) -> tuple[Path, Path]:
    return Path(f"{file_path}.json"), Path(f"{file_path}.json{_PACKED}")


def _needed(document: Mapping[str, Any], operations: set[str]) -> dict[str, Any]:
    """Gives a description with some operations and the shapes that they lead to."""
    kept = {name: each for name, each in document["operations"].items() if name in operations}
    shapes: dict[str, Any] = {}
    ahead = [name for each in kept.values() for name in _shapes(each)]
    while ahead:
        name = ahead.pop()
        if name not in shapes:
            shapes[name] = document["shapes"][name]
            ahead.extend(_shapes(shapes[name]))
    return {**document, "operations": kept, "shapes": shapes}


def _without_words(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    # A member of a structure may have that name too; then its value is no text.
    return {key: value for key, value in pairs if not (key == "documentation" and isinstance(value, str))}


def _shapes(node: Any) -> Iterable[str]:
    """Yields the names of the shapes that a part of a description refers to."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "shape" and isinstance(value, str):
                yield value
            else:
                yield from _shapes(value)
    elif isinstance(node, list):
        for value in node:
            yield from _shapes(value)
