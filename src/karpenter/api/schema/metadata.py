# SPDX-License-Identifier: Apache-2.0
"""``metadata``, which the API server reads with its own types and judges by its own rules, whatever a CRD says.

Reading drops unknown and empty fields; a value of the wrong type makes the whole object unreadable (HTTP
400), before any schema is asked. Judging covers names, labels, annotations, owners and finalizers, and on
update what may not change. Objects embedded in others are read and judged the same way.

Left to whoever stores objects: giving out names, uids, timestamps and resource versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.schema.defaults import apply_defaults
from karpenter.api.schema.names import (
    kind_complaints,
    label_value_complaints,
    name_complaints,
    namespace_complaints,
    qualified_name_complaints,
)
from karpenter.api.schema.problems import Problem, child, forbidden, indexed, invalid, required, too_long
from karpenter.api.schema.prune import drop_nulls, prune
from karpenter.api.schema.structural import Node, compile_schema
from karpenter.api.schema.validate import schema_problems

__all__ = [
    "ReadMetadata",
    "creation_problems",
    "embedded_problems",
    "has_embedded",
    "read_embedded",
    "read_metadata",
    "update_problems",
]

_ANNOTATIONS_LIMIT_BYTES: Final = 256 * 1024

# Names are cut to this before the server adds five characters of its own.
_LONGEST_GENERATED_BASE: Final = 58
_ANY_SUFFIX: Final = "xxxxx"

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string", "default": ""}}
_TIME: Final = {"type": "string", "format": "date-time"}
_METADATA: Final = compile_schema(
    {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "generateName": _TEXT,
            "namespace": _TEXT,
            "selfLink": _TEXT,
            "uid": _TEXT,
            "resourceVersion": _TEXT,
            "generation": {"type": "integer"},
            "creationTimestamp": _TIME,
            "deletionTimestamp": _TIME,
            "deletionGracePeriodSeconds": {"type": "integer"},
            "labels": _TEXTS,
            "annotations": _TEXTS,
            "ownerReferences": {
                "type": "array",
                "items": {
                    "type": "object",
                    "default": {},
                    "properties": {
                        "apiVersion": _TEXT,
                        "kind": _TEXT,
                        "name": _TEXT,
                        "uid": _TEXT,
                        "controller": {"type": "boolean"},
                        "blockOwnerDeletion": {"type": "boolean"},
                    },
                },
            },
            "finalizers": {"type": "array", "items": {"type": "string", "default": ""}},
            "managedFields": {
                "type": "array",
                "items": {
                    "type": "object",
                    "default": {},
                    "properties": {
                        "manager": _TEXT,
                        "operation": _TEXT,
                        "apiVersion": _TEXT,
                        "time": _TIME,
                        "fieldsType": _TEXT,
                        "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        "subresource": _TEXT,
                    },
                },
            },
        },
    }
)

_IMMUTABLE: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


@dataclass(frozen=True, slots=True)
class ReadMetadata:
    """Metadata as the server would hold it, the paths it dropped, and what makes it unreadable."""

    metadata: dict[str, Any]
    pruned: tuple[str, ...]
    problems: tuple[Problem, ...]


def read_metadata(metadata: Any, path: str = "metadata") -> ReadMetadata:
    """Return metadata without unknown and empty fields, and a problem for each value of the wrong type."""
    if metadata is None:
        return ReadMetadata({}, (), ())
    if not isinstance(metadata, dict):
        return ReadMetadata({}, (), tuple(schema_problems(metadata, _METADATA, path)))
    # Pruning takes apiVersion, kind and metadata at the root for fields every object has; inside metadata
    # they are not.
    odd = sorted({"apiVersion", "kind", "metadata"} & metadata.keys())
    pruned = prune({key: value for key, value in metadata.items() if key not in odd}, _METADATA)
    clean = apply_defaults(drop_nulls(pruned.object, _METADATA), _METADATA)
    problems = schema_problems(clean, _METADATA, path)
    kept = {key: value for key, value in clean.items() if value not in ("", {}, []) and value != 0}
    return ReadMetadata(
        kept, tuple(sorted(child(path, name) for name in (*odd, *pruned.paths))), tuple(problems)
    )


def creation_problems(
    metadata: Mapping[str, Any], *, namespaced: bool, path: str = "metadata"
) -> list[Problem]:
    """Return what is wrong with a new object's metadata; a generated name counts as given."""
    problems = []
    generate_name, name = metadata.get("generateName", ""), metadata.get("name", "")
    if generate_name:
        masked = (
            generate_name[:-2] + "a" if len(generate_name) > 1 and generate_name[-1] == "-" else generate_name
        )
        problems += [
            invalid(child(path, "generateName"), generate_name, text) for text in name_complaints(masked)
        ]
        name = name or generate_name[:_LONGEST_GENERATED_BASE] + _ANY_SUFFIX
    if name:
        problems += [invalid(child(path, "name"), name, text) for text in name_complaints(name)]
    else:
        problems.append(required(child(path, "name"), "name or generateName is required"))
    return problems + _common_problems(metadata, namespaced=namespaced, path=path)


def update_problems(new: Mapping[str, Any], old: Mapping[str, Any], *, namespaced: bool) -> list[Problem]:
    """Return what is wrong with an updated object's metadata, given what it was."""
    problems = _common_problems(new, namespaced=namespaced, path="metadata")
    added = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
    if "deletionTimestamp" in old and added:
        listed = ", ".join(f'"{finalizer}"' for finalizer in added)
        text = "no new finalizers can be added if the object is being deleted, found new finalizers "
        problems.append(forbidden("metadata.finalizers", f"{text}[]string{{{listed}}}"))
    problems += [
        invalid(child("metadata", name), new.get(name), "field is immutable")
        for name in _IMMUTABLE
        if new.get(name) != old.get(name)
    ]
    return problems


def has_embedded(node: Node | None) -> bool:
    """Return whether the schema holds objects of other kinds anywhere."""
    if node is None:
        return False
    below = [*node.properties.values(), node.additional, node.items]
    return node.embedded or any(has_embedded(inner) for inner in below)


def read_embedded(value: Any, node: Node | None, path: str = "") -> tuple[Any, list[str], list[Problem]]:
    """Return a copy whose embedded objects have clean metadata, the paths dropped, and what is unreadable."""
    pruned: list[str] = []
    problems: list[Problem] = []

    def read(value: Any, node: Node | None, path: str) -> Any:
        if node is None:
            return value
        if isinstance(value, list):
            return [read(item, node.items, indexed(path, index)) for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        copy = {key: read(inner, node.below(key), _below(path, key, node)) for key, inner in value.items()}
        if node.embedded:
            problems.extend(
                invalid(child(path, key), copy[key], "must be a string")
                for key in ("apiVersion", "kind")
                if not isinstance(copy.get(key, ""), str)
            )
            if "metadata" in copy:
                inner = read_metadata(copy["metadata"], child(path, "metadata"))
                copy["metadata"] = inner.metadata
                pruned.extend(inner.pruned)
                problems.extend(inner.problems)
        return copy

    return read(value, node, path), pruned, problems


def embedded_problems(value: Any, node: Node | None, path: str = "") -> Iterator[Problem]:
    """Yield what is wrong with the identity and metadata of embedded objects."""
    if node is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from embedded_problems(item, node.items, indexed(path, index))
    elif isinstance(value, dict):
        if node.embedded:
            yield from _identity_problems(value, path)
        for key, inner in value.items():
            yield from embedded_problems(inner, node.below(key), _below(path, key, node))


def _below(path: str, key: str, node: Node) -> str:
    return child(path, key) if key in node.properties else indexed(path, key)


def _identity_problems(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for key in ("apiVersion", "kind"):
        if key not in value:
            yield required(child(path, key))
        elif not value[key]:
            yield invalid(child(path, key), value[key], "must not be empty")
    if value.get("apiVersion", "").count("/") > 1:
        text = f"unexpected GroupVersion string: {value['apiVersion']}"
        yield invalid(child(path, "apiVersion"), value["apiVersion"], text)
    if complaints := kind_complaints(value["kind"].lower()) if value.get("kind") else []:
        text = "may have mixed case, but should otherwise match: " + ",".join(complaints)
        yield invalid(child(path, "kind"), value["kind"], text)
    if "metadata" in value:
        named = {"name": "fakename", **value["metadata"]}
        yield from creation_problems(named, namespaced="namespace" in named, path=child(path, "metadata"))


def _common_problems(metadata: Mapping[str, Any], *, namespaced: bool, path: str) -> list[Problem]:
    problems = _namespace_problems(
        metadata.get("namespace", ""), child(path, "namespace"), namespaced=namespaced
    )
    if metadata.get("generation", 0) < 0:
        text = "must be greater than or equal to 0"
        problems.append(invalid(child(path, "generation"), metadata["generation"], text))
    labels = child(path, "labels")
    for key, value in metadata.get("labels", {}).items():
        problems += [invalid(labels, key, text) for text in qualified_name_complaints(key)]
        problems += [invalid(labels, value, text) for text in label_value_complaints(value)]
    problems += _annotation_problems(metadata.get("annotations", {}), child(path, "annotations"))
    problems += _owner_problems(metadata.get("ownerReferences", []), child(path, "ownerReferences"))
    problems += _finalizer_problems(metadata.get("finalizers", []), child(path, "finalizers"))
    return problems


def _namespace_problems(namespace: str, path: str, *, namespaced: bool) -> list[Problem]:
    if not namespaced:
        return [forbidden(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(path)]
    return [invalid(path, namespace, text) for text in namespace_complaints(namespace)]


def _annotation_problems(annotations: Mapping[str, str], path: str) -> list[Problem]:
    # An annotation's key is judged in lower case; it is the only one for which case does not matter.
    problems = [
        invalid(path, key, text) for key in annotations for text in qualified_name_complaints(key.lower())
    ]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    return (
        [*problems, too_long(path, _ANNOTATIONS_LIMIT_BYTES)] if size > _ANNOTATIONS_LIMIT_BYTES else problems
    )


def _owner_problems(owners: list[dict[str, Any]], path: str) -> list[Problem]:
    problems = []
    controllers = []
    for owner in owners:
        group_version = owner.get("apiVersion", "")
        if not group_version.rpartition("/")[2]:
            problems.append(invalid(child(path, "apiVersion"), group_version, "version must not be empty"))
        problems += [
            invalid(child(path, key), "", "must not be empty")
            for key in ("kind", "name", "uid")
            if not owner.get(key)
        ]
        if (group_version, owner.get("kind")) == ("v1", "Event"):
            problems.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind', '')}/{owner.get('name', '')}")
    for other in controllers[1:]:
        text = 'Only one reference can have Controller set to true. Found "true" in references for'
        problems.append(invalid(path, owners, f"{text} {controllers[0]} and {other}"))
    return problems


def _finalizer_problems(finalizers: list[str], path: str) -> list[Problem]:
    problems = [invalid(path, name, text) for name in finalizers for text in qualified_name_complaints(name)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        problems.append(invalid(path, finalizers, text))
    return problems
