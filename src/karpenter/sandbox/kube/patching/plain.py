# SPDX-License-Identifier: Apache-2.0
"""JSON patches (RFC 6902) and merge patches (RFC 7386), which know nothing of kinds.

Neither changes its input. A JSON patch that does not fit is refused with the words of the library that the API
server uses, as far as clients see them.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from karpenter.api.schema import gotext

__all__ = ["JsonPatchError", "json_patch", "merge_patch"]

_MOST_OPERATIONS: Final = 10_000


class JsonPatchError(Exception):
    """A JSON patch that cannot be applied.

    Attributes:
        malformed: The patch itself is not one (400), as opposed to one that does not fit the object (422).
    """

    def __init__(self, message: str, *, malformed: bool = False) -> None:
        super().__init__(message)
        self.malformed = malformed


def merge_patch(target: Any, patch: Any) -> Any:
    """Gives the target with the patch merged in: null removes, objects merge, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Any, operations: Any) -> Any:
    """Gives the target after all operations.

    Raises:
        JsonPatchError: an operation cannot be carried out.
    """
    if not isinstance(operations, list):
        kind = {dict: "object", str: "string", bool: "bool"}.get(type(operations), "number")
        raise JsonPatchError(
            f"json: cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp", malformed=True
        )
    if len(operations) > _MOST_OPERATIONS:
        raise JsonPatchError(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}",
        )
    document = copy.deepcopy(target)
    for operation in operations:
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: Any) -> Any:
    verb = operation.get("op", "") if isinstance(operation, dict) else ""
    path = operation.get("path", "") if isinstance(operation, dict) else ""
    value = operation.get("value") if isinstance(operation, dict) else None
    if verb == "add":
        return _added(document, path, copy.deepcopy(value), "add")
    if verb == "remove":
        return _removed(document, path, "remove")
    if verb == "replace":
        return _replaced(document, path, copy.deepcopy(value))
    if verb == "test":
        return _tested(document, path, value)
    if verb in {"move", "copy"}:
        source = operation.get("from", "")
        held = copy.deepcopy(_value_at(document, source, verb))
        if verb == "move":
            document = _removed(document, source, "move")
        return _added(document, path, held, verb)
    raise JsonPatchError(f"Unexpected kind: {verb}")


def _steps(path: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _missing(verb: str, path: str) -> JsonPatchError:
    return JsonPatchError(
        f"{verb} operation does not apply: doc is missing path: {gotext.quote(path)}: missing value"
    )


def _parent(document: Any, path: str, verb: str) -> tuple[Any, str]:
    steps = _steps(path)
    holder = document
    for step in steps[:-1]:
        holder = _child(holder, step)
        if holder is None or not isinstance(holder, (dict, list)):
            raise _missing(verb, path)
    return holder, steps[-1] if steps else ""


def _child(holder: Any, step: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(step)
    if isinstance(holder, list) and step.lstrip("-").isdigit():
        index = int(step)
        return holder[index] if -len(holder) <= index < len(holder) else None
    return None


def _added(document: Any, path: str, value: Any, verb: str) -> Any:
    if path == "":
        return value
    holder, last = _parent(document, path, verb)
    if isinstance(holder, dict):
        holder[last] = value
    elif last == "-":
        holder.append(value)
    else:
        holder.insert(_index(last, len(holder) + 1, path, verb), value)
    return document


def _removed(document: Any, path: str, verb: str) -> Any:
    holder, last = _parent(document, path, verb)
    if isinstance(holder, dict):
        if last not in holder:
            raise _missing(verb, path)
        del holder[last]
    else:
        del holder[_index(last, len(holder), path, verb)]
    return document


def _replaced(document: Any, path: str, value: Any) -> Any:
    if path == "":
        return value
    holder, last = _parent(document, path, "replace")
    if isinstance(holder, dict):
        # The server's library takes a replacement of what is not there for an addition.
        holder[last] = value
    else:
        holder[_index(last, len(holder), path, "replace")] = value
    return document


def _tested(document: Any, path: str, value: Any) -> Any:
    found = document
    for step in _steps(path):
        found = _child(found, step)
    if found != value:
        raise JsonPatchError(f"testing value {path} failed: test failed")
    return document


def _value_at(document: Any, path: str, verb: str) -> Any:
    holder, last = _parent(document, path, verb)
    found = _child(holder, last)
    if found is None:
        raise _missing(verb, path)
    return found


def _index(last: str, size: int, path: str, verb: str) -> int:
    if not last.lstrip("-").isdigit():
        raise JsonPatchError(
            f"error in {verb} for path: '{path}': strconv.Atoi: parsing {gotext.quote(last)}: invalid syntax"
        )
    index = int(last)
    if not -size <= index < size:
        raise JsonPatchError(f"error in {verb} for path: '{path}': unable to access invalid index: {index}")
    return index if index >= 0 else index + size
