# SPDX-License-Identifier: Apache-2.0
"""Takes out of an answer what two servers cannot agree on: times, uids, resource versions, random names, addresses."""

from __future__ import annotations

import re
from typing import Any

from tests.e2e.conformance.sending import Answer

__all__ = ["normal"]

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# In an object that a message quotes: who owns its fields stands in the order of seconds, which is chance.
_QUOTED_OWNERS = re.compile(r'(\\+"managedFields\\+":)\[.*\]')
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_AGE = re.compile(r"(\d+[smhd])+|<invalid>")
_MOUNT = re.compile(r"kube-api-access-\w{5}")
_GENERATED = re.compile(r"([Gg]enerated-)\w{5}")
_ADDRESS = re.compile(r"10\.\d+\.\d+\.\d+")
# What the real server says after this is a printout of two Go structs.
_STRUCTS = re.compile(r"(pod updates may not change fields other than.*?)\n.*", re.DOTALL)
_VERSION_TEXT = re.compile(
    r"(too old resource version: |Too large resource version: |current: |precondition: |object meta: |in record \()"
    r"\d+( \(\d+\))?"
)
# Where a refusal prints the whole object.
_QUOTED_VERSION = re.compile(r'(resourceVersion\\*":\\*")\d+')
_RANDOM_KEYS = {
    "resourceVersion": "<version>",
    "continue": "<token>",
    "nodePort": "<port>",
    "token": "<token>",
}
# Prose, and what is a fact about one build.
_LEFT_OUT = {"description", "storageVersionHash"}


def normal(answer: Answer) -> dict[str, Any]:
    """Gives an answer as it is compared."""
    return {"status": answer.status, "body": _value(answer.body, ""), "warning": _text(answer.warning)}


def _value(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {
            name: _value(inner, name)
            for name, inner in value.items()
            if not (name in _LEFT_OUT and ("priority" in value or "verbs" in value or "jsonPath" in value))
        }
    if isinstance(value, list):
        items = [_value(item, key) for item in value]
        # Entries of the same second, and kinds that were defined together, come in any order.
        if key == "managedFields":
            items.sort(
                key=lambda item: [str(item.get(word, "")) for word in ("manager", "operation", "subresource")]
            )
        elif key == "resources" and all(isinstance(item, dict) and "name" in item for item in items):
            items.sort(key=lambda item: str(item["name"]))
        return [
            "<age>" if key == "cells" and isinstance(item, str) and _AGE.fullmatch(item) else item
            for item in items
        ]
    if isinstance(value, str):
        return _RANDOM_KEYS[key] if key in _RANDOM_KEYS and value else _text(value)
    return _RANDOM_KEYS[key] if key == "nodePort" and value else value


def _text(text: str) -> str:
    text = _STRUCTS.sub(r"\1", text)
    for pattern, told in (
        (_UID, "<uid>"),
        (_TIME, "<time>"),
        (_MOUNT, "kube-api-access-<random>"),
        (_ADDRESS, "<address>"),
    ):
        text = pattern.sub(told, text)
    text = _QUOTED_OWNERS.sub(r"\1[<owners>]", text)
    text = _VERSION_TEXT.sub(r"\1<version>", text)
    text = _QUOTED_VERSION.sub(r"\1<version>", text)
    return _GENERATED.sub(r"\1<random>", text)
