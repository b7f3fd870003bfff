# SPDX-License-Identifier: Apache-2.0
"""Who owns which field: ``metadata.managedFields``, kept on every write, and server-side apply, which lives on it.

An ordinary write takes the fields it changed. An applied configuration takes all its fields, drops those it had and
no longer names (unless someone else owns them too), and is refused where it would change what another manager owns,
unless it insists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.kinds.shapes import ANYTHING, Shape
from karpenter.sandbox.kube.patching.fieldsets import (
    Path,
    changed,
    children,
    fields_of,
    from_tree,
    holds_any,
    prefixes_of,
    remove_fields,
    to_tree,
)

__all__ = ["Applied", "Writer", "applied", "tracked"]

_STRIPPED: Final = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, how, and when."""

    manager: str
    operation: str
    api_version: str
    time: str
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Gives what tells one owner from another; an applier is the same in every version."""
        version = "" if self.operation == "Apply" else self.api_version
        return (self.manager, self.operation, version, self.subresource)


def _identity(entry: Mapping[str, Any]) -> tuple[str, str, str, str]:
    operation = entry.get("operation", "")
    version = "" if operation == "Apply" else entry.get("apiVersion", "")
    return (entry.get("manager", ""), operation, version, entry.get("subresource", ""))


def _order(entry: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("operation", "time", "manager", "apiVersion", "subresource")
    return tuple(entry.get(name, "") for name in names)


class _Owners:
    """The sets of all managers of one object."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.sets: dict[tuple[str, str, str, str], set[Path]] = {}
        self.heads: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        for entry in entries:
            identity = _identity(entry)
            self.sets.setdefault(identity, set()).update(from_tree(entry.get("fieldsV1") or {}))
            self.heads[identity] = {key: value for key, value in entry.items() if key != "fieldsV1"}

    def give(self, writer: Writer, fields: set[Path]) -> None:
        identity = writer.identity
        if not fields:
            self.sets.pop(identity, None)
            return
        if not writer.time and self.sets.get(identity) == fields:
            return
        self.sets[identity] = fields
        time = writer.time or self.heads.get(identity, {}).get("time", "")
        head = {
            "manager": writer.manager,
            "operation": writer.operation,
            "apiVersion": writer.api_version,
            **({"time": time} if time else {}),
            "fieldsType": "FieldsV1",
        }
        self.heads[identity] = head | ({"subresource": writer.subresource} if writer.subresource else {})

    def take_from_others(
        self, identity: tuple[str, str, str, str], taken: set[Path], removed: set[Path]
    ) -> None:
        for other, fields in list(self.sets.items()):
            if other != identity:
                left = fields - taken - removed
                if len(left) != len(fields):
                    self.sets[other] = left
                    if not left:
                        del self.sets[other]

    def entries(self) -> list[dict[str, Any]]:
        written = []
        for identity in self.sets:
            head = dict(self.heads[identity])
            subresource = head.pop("subresource", "")
            entry = {**head, "fieldsV1": to_tree(self.sets[identity])}
            written.append(entry | ({"subresource": subresource} if subresource else {}))
        return sorted(written, key=_order)


def tracked(
    old: Mapping[str, Any], new: dict[str, Any], shape: Shape, writer: Writer, ignored: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Gives the managed fields after an ordinary write.

    Args:
        old: The object before; an empty one of its kind at creation.
        new: The object to be stored; its own managed fields, if any, stand for the old ones.
        shape: Of the kind.
        writer: Who writes.
        ignored: First-level fields that this write cannot change.
    """
    sent = new["metadata"].get("managedFields")
    kept = (old.get("metadata") or {}).get("managedFields") or []
    entries = [entry for entry in sent if entry.get("operation")] if sent else kept
    taken: set[Path] = set()
    removed: set[Path] = set()
    for sign, path in changed(_bare(old), _bare(new), shape):
        if path in _STRIPPED or path[0][2:] in ignored:
            continue
        (removed if sign == "-" else taken).add(path)
    if not taken and not removed:
        return sorted(entries, key=_order)
    # Most writers change what is their own: the entries of all others stay the very same.
    touched = taken | removed
    concerned = [
        entry
        for entry in entries
        if _identity(entry) == writer.identity or holds_any(entry.get("fieldsV1") or {}, touched)
    ]
    owners = _Owners(concerned)
    owners.take_from_others(writer.identity, taken, removed)
    owners.give(writer, (owners.sets.get(writer.identity, set()) | taken) - removed)
    untouched = [entry for entry in entries if all(entry is not each for each in concerned)]
    return sorted([*untouched, *owners.entries()], key=_order)


def _bare(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = obj.get("metadata") or {}
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome of an apply: the object and who owns it now."""

    object: dict[str, Any]
    managed_fields: list[dict[str, Any]]


def applied(
    live: Mapping[str, Any] | None,
    config: dict[str, Any],
    shape: Shape,
    writer: Writer,
    *,
    force: bool,
    ignored: tuple[str, ...] = (),
) -> Applied:
    """Gives the live object with a configuration applied; defaults are not filled in yet.

    Raises:
        ApiError: another manager owns a field that would change, and ``force`` is not set (409).
    """
    before = _bare(live) if live is not None else {"metadata": {}}
    owners = _Owners(((live or {}).get("metadata") or {}).get("managedFields") or [])
    wanted = {
        path for path in fields_of(config, shape) if path not in _STRIPPED and path[0][2:] not in ignored
    }
    last = owners.sets.get(writer.identity, set())
    merged = _merged(before, {key: value for key, value in config.items() if key not in ignored}, shape)
    others = set().union(*(fields for each, fields in owners.sets.items() if each != writer.identity))
    gone = (last - wanted) - prefixes_of(others) - prefixes_of(wanted)
    result = remove_fields(merged, shape, gone) if gone else merged
    touched = {path for sign, path in changed(before, result, shape) if sign != "-" and path not in _STRIPPED}
    conflicts = [
        (identity, path)
        for identity, fields in owners.sets.items()
        if identity != writer.identity
        for path in sorted(fields & touched)
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    owners.take_from_others(writer.identity, {path for _, path in conflicts}, gone)
    # Who only joins in, and changes nothing, leaves no time.
    owners.give(writer if _bare(result) != before else replace(writer, time=""), wanted)
    return Applied(result, owners.entries())


def _merged(old: Any, new: Any, shape: Shape) -> Any:
    if isinstance(new, dict) and isinstance(old, dict) and not shape.atomic:
        merged = dict(old)
        for key, inner in new.items():
            below = shape.below(key) or ANYTHING
            merged[key] = _merged(old[key], inner, below) if key in old else _merged(None, inner, below)
        return merged
    if (
        isinstance(new, list)
        and isinstance(old, list)
        and shape.kind == "list"
        and shape.list_type != "atomic"
    ):
        return _merged_list(old, new, shape)
    return new


def _merged_list(old: list[Any], new: list[Any], shape: Shape) -> list[Any]:
    """Gives the union: the configuration's items in its order, the others where they stood between them."""
    element = shape.element or ANYTHING
    ours = [(step, item) for step, item, _, _ in children(new, shape)]
    theirs = [(step, item) for step, item, _, _ in children(old, shape)]
    wanted, held = dict(ours), dict(theirs)
    shared = iter([step for step, _ in ours if step in held])
    following = next(shared, None)
    out: list[Any] = []
    left = right = 0
    while left < len(theirs) or right < len(ours):
        if left < len(theirs):
            step, item = theirs[left]
            if step not in wanted:
                out.append(item)
                left += 1
                continue
            if right < len(ours) and step != ours[right][0] and step != following:
                left += 1
                continue
        if right >= len(ours):
            break
        step, item = ours[right]
        out.append(_merged(held[step], item, element) if step in held else item)
        right += 1
        if left < len(theirs) and theirs[left][0] == step:
            left += 1
        if step == following:
            following = next(shared, None)
    return out


def _conflict(conflicts: list[tuple[tuple[str, str, str, str], Path]]) -> ApiError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_named(who)}", "field": _dotted(path)}
        for who, path in conflicts
    ]
    if len(conflicts) == 1:
        who, path = conflicts[0]
        told = f"Apply failed with 1 conflict: conflict with {_named(who)}: {_dotted(path)}"
    else:
        lines = []
        for who in sorted({who for who, _ in conflicts}):
            lines.append(f"conflicts with {_named(who)}:")
            lines += [f"- {_dotted(path)}" for other, path in conflicts if other == who]
        joined = "\n".join(lines)
        told = f"Apply failed with {len(conflicts)} conflicts: {joined}"
    return ApiError(409, "Conflict", told, details={"causes": causes})


def _named(who: tuple[str, str, str, str]) -> str:
    manager, operation, version, subresource = who
    told = f'"{manager}"' + (f' with subresource "{subresource}"' if subresource else "")
    return f"{told} using {version}" if operation == "Update" else told


def _dotted(path: Path) -> str:
    told = ""
    for step in path:
        kind, rest = step[:2], step[2:]
        if kind == "f:":
            told += f".{rest}"
        elif kind == "k:":
            keys = json.loads(rest)
            told += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(keys.items())) + "]"
        else:
            told += f"[={rest}]"
    return told
