# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patches: merge patches that know which lists of the built-in kinds are keyed.

Decides by the shape's strategies and merge keys and by the directives in the patch: ``$patch`` (replace, delete),
``$deleteFromPrimitiveList/...``, ``$setElementOrder/...`` and ``$retainKeys``. The input is never changed.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.api.schema import gotext
from karpenter.sandbox.kube.kinds.shapes import Field, Shape

__all__ = ["StrategicPatchError", "strategic_patch"]

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


class StrategicPatchError(Exception):
    """A patch that does not say what it must."""


def strategic_patch(target: dict[str, Any], patch: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """Gives the target with the patch merged in.

    Raises:
        StrategicPatchError: an item of a keyed list has no key, or a directive is unknown.
    """
    return _merged(target, patch, shape)


def _merged(target: dict[str, Any], patch: dict[str, Any], shape: Shape | None) -> dict[str, Any]:  # noqa: C901 - one directive after the other
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: _clean(value) for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise StrategicPatchError(f"unknown patch type: {directive} in map: {_as_go(patch)}")
    merged = dict(target)
    if _RETAIN in patch:
        kept = set(patch[_RETAIN])
        merged = {key: value for key, value in merged.items() if key in kept}
    for key, value in patch.items():
        if key in {_PATCH, _RETAIN} or key.startswith((_DELETE, _ORDER)):
            continue
        if value is None:
            merged.pop(key, None)
            continue
        merged[key] = _merged_field(merged.get(key), value, _field(shape, key), patch, key)
    for key, gone in patch.items():
        if key.startswith(_DELETE):
            name = key.removeprefix(_DELETE)
            merged[name] = [item for item in merged.get(name) or [] if item not in gone]
    for key, order in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            if isinstance(merged.get(name), list):
                merged[name] = _ordered(merged[name], order, _field(shape, name), target.get(name) or [])
    return merged


def _field(shape: Shape | None, key: str) -> Field | None:
    if shape is None:
        return None
    if shape.kind == "struct":
        return shape.fields.get(key)
    return Field(shape.element) if shape.kind == "map" and shape.element is not None else None


def _merged_field(old: Any, value: Any, told: Field | None, patch: dict[str, Any], key: str) -> Any:
    inner = told.shape if told else None
    if isinstance(value, dict):
        if told is not None and "replace" in told.strategies:
            return _clean(value)
        return _merged(old if isinstance(old, dict) else {}, value, inner)
    if isinstance(value, list):
        if told is None or "merge" not in told.strategies:
            return _clean(value)
        before = old if isinstance(old, list) else []
        if told.merge_key:
            merged = _merged_items(before, value, told.merge_key, inner.element if inner else None)
            return _ordered(merged, value, told, before)
        gone = patch.get(f"{_DELETE}{key}", ())
        added = [*before, *(item for item in value if item not in before and item not in gone)]
        return _ordered(added, value, told, before)
    return value


def _merged_items(old: list[Any], patch: list[Any], merge_key: str, shape: Shape | None) -> list[Any]:
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in patch):
        return [
            _clean(item) for item in patch if item != {_PATCH: "replace"} and item.get(_PATCH) != "replace"
        ]
    merged = list(old)
    for item in patch:
        if not isinstance(item, dict):
            raise StrategicPatchError(f"list element type: map expected, got {item!r}")
        if merge_key not in item:
            raise StrategicPatchError(f"map: {_as_go(item)} does not contain declared merge key: {merge_key}")
        wanted = item[merge_key]
        at = [
            index
            for index, each in enumerate(merged)
            if isinstance(each, dict) and each.get(merge_key) == wanted
        ]
        if item.get(_PATCH) == "delete":
            merged = [each for index, each in enumerate(merged) if index not in at]
        elif at:
            merged[at[0]] = _merged(merged[at[0]], item, shape)
        else:
            merged.append(_merged({}, item, shape))
    return merged


def _ordered(items: list[Any], order: list[Any], told: Field | None, live: list[Any]) -> list[Any]:
    """Puts the items that the order names first, in that order; others go before what they stood before."""
    key = told.merge_key if told else ""

    def name(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    wanted = [name(item) for item in order]
    stood = [name(item) for item in live]
    named = sorted(
        (item for item in items if name(item) in wanted), key=lambda item: wanted.index(name(item))
    )
    others = [item for item in items if name(item) not in wanted]
    result: list[Any] = []
    while others or named:
        if not named or (
            others
            and name(others[0]) in stood
            and name(named[0]) in stood
            and (stood.index(name(others[0])) < stood.index(name(named[0])))
        ):
            result.append(others.pop(0))
        else:
            result.append(named.pop(0))
    return result


def _clean(value: Any) -> Any:
    """Gives a value without directives and nulls."""
    if isinstance(value, dict):
        return {
            key: _clean(inner)
            for key, inner in value.items()
            if inner is not None and key not in {_PATCH, _RETAIN} and not key.startswith((_DELETE, _ORDER))
        }
    return [_clean(item) for item in value] if isinstance(value, list) else value


def _as_go(item: dict[str, Any]) -> str:
    return gotext.plain(item)
