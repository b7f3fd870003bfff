# SPDX-License-Identifier: Apache-2.0
"""Lists as tables (``meta.k8s.io/v1 Table``), which is what ``kubectl get`` shows.

Built-in kinds have columns of their own; custom kinds show what their definition's printer columns point at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from karpenter.api.schema import gotext
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.serving.cells import CELLS, age

__all__ = ["columns_of", "row", "table", "wants_table"]

Object = dict[str, Any]
_FILTER: Final = re.compile(r"\[\?\(@\.([\w.]+)\s*==\s*[\"']([^\"']*)[\"']\)\]")
_STEP: Final = re.compile(r"\.?((?:\\.|[^.\[\\])+)|\[(\d+|\*)\]|(\[\?\(@[^\]]*\])")


def wants_table(accept: str) -> bool:
    """Tells whether a client prefers a table."""
    return any(
        "as=Table" in each and "g=meta.k8s.io" in each and "v=v1" in each for each in accept.split(",")
    )


def columns_of(resource: Resource) -> list[Object]:
    """Gives the columns of a kind."""
    if resource.version_spec is None:
        return [
            {"name": name, "type": kind, "format": form, "description": "", "priority": priority}
            for name, kind, form, priority in resource.columns
        ]
    columns: list[Object] = [
        {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
    ]
    more = [
        {
            "name": each["name"],
            "type": each["type"],
            "format": each.get("format", ""),
            "description": each.get("description", ""),
            "priority": each.get("priority", 0),
        }
        for each in _printer_columns(resource)
    ]
    return [*columns, *more]


def _printer_columns(resource: Resource) -> list[Object]:
    assert resource.version_spec is not None  # noqa: S101 - the caller looked
    told = resource.version_spec.get("additionalPrinterColumns")
    return (
        list(told) if told else [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    )


def _cells(resource: Resource, obj: Mapping[str, Any], now: datetime) -> list[Any]:
    if resource.version_spec is not None:
        return [
            obj["metadata"]["name"],
            *(_custom_cell(obj, each, now) for each in _printer_columns(resource)),
        ]
    made = CELLS.get(resource.storage_key)
    if made is not None:
        return made(obj, now)
    born = obj["metadata"].get("creationTimestamp")
    return [
        obj["metadata"]["name"],
        *([""] * (len(resource.columns) - 2)),
        born if resource.columns[-1][1] == "date" else age(born, now),
    ]


def _custom_cell(obj: Mapping[str, Any], column: Mapping[str, Any], now: datetime) -> Any:  # noqa: PLR0911 - one answer a type
    found = list(_values(obj, column["jsonPath"]))
    if not found:
        return None
    value = found[0]
    kind = column["type"]
    if kind == "date":
        return age(value, now) if isinstance(value, str) else None
    if kind == "integer":
        return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if kind == "number":
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list)):
        return gotext.compact_json(value)
    return str(value)


def _values(value: Any, path: str) -> Iterable[Any]:
    """Gives what a JSONPath of a printer column points at; a subset of JSONPath that definitions use."""
    found = [value]
    for match in _STEP.finditer(path.removeprefix("$")):
        name, index, condition = match.groups()
        following: list[Any] = []
        for each in found:
            if name is not None and isinstance(each, Mapping):
                key = name.replace("\\", "")
                following += [each[key]] if each.get(key) is not None else []
            elif index is not None and isinstance(each, list):
                following += each if index == "*" else each[int(index) : int(index) + 1]
            elif condition is not None and isinstance(each, list):
                told = _FILTER.match(condition)
                if told is not None:
                    following += [item for item in each if _at(item, told[1]) == told[2]]
        found = following
    return found


def _at(item: Any, path: str) -> str:
    for step in path.split("."):
        item = item.get(step) if isinstance(item, Mapping) else None
    return str(item).lower() if isinstance(item, bool) else str(item)


def row(resource: Resource, obj: Mapping[str, Any], now: datetime, include: str) -> Object:
    """Gives one row; ``include`` says how much of the object comes with it: Metadata, Object or None."""
    made: Object = {"cells": _cells(resource, obj, now)}
    if include == "Object":
        made["object"] = obj
    elif include == "None":
        made["object"] = None
    else:
        made["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"],
        }
    return made


def table(
    resource: Resource, objects: Iterable[Mapping[str, Any]], metadata: Object, now: datetime, include: str
) -> Object:
    """Gives a whole table."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns_of(resource),
        "rows": [row(resource, obj, now, include) for obj in objects],
    }
