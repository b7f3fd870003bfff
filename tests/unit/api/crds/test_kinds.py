# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from karpenter.api import crds
from karpenter.api.base import EMPTY
from karpenter.api.crds.kinds import KINDS
from karpenter.api.crds.vocabulary import Kind, Version
from karpenter.api.legacy.v1beta1 import nodepool as nodepool_v1beta1

VERSIONS = [
    pytest.param(kind, version, id=f"{kind.group}/{version.name} {kind.name}")
    for kind in KINDS
    for version in kind.versions
]
KEPT = "Known to "


def schema_of(kind: Kind, version: Version) -> dict[str, Any]:
    served = crds.read(kind.file_name)["spec"]["versions"]
    schema: dict[str, Any] = next(each for each in served if each["name"] == version.name)["schema"]
    return dict(schema["openAPIV3Schema"])


def structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the struct types that an annotation speaks of, without going into them."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from structs(argument)


def fields(
    struct: type[msgspec.Struct], schema: dict[str, Any], path: str = ""
) -> Iterator[tuple[str, Any, msgspec.structs.FieldInfo, dict[str, Any]]]:
    """Yield each field below a type with its path, its annotation and its schema."""
    hints = typing.get_type_hints(struct)
    own = {name: each for name, each in schema["properties"].items() if not _is_kept(each)}
    known = {field.encode_name for field in msgspec.structs.fields(struct)}
    assert set(own) == known, f"{path}: the definition and {struct.__name__} differ in their fields"
    for field in msgspec.structs.fields(struct):
        if not path and field.name in ("api_version", "kind", "metadata"):
            continue
        place, below = f"{path}.{field.encode_name}", own[field.encode_name]
        yield place, hints[field.name], field, below
        for inner in structs(hints[field.name]):
            yield from fields(inner, _object_in(below), place)


def _is_kept(schema: dict[str, Any]) -> bool:
    return str(schema.get("description", "")).startswith(KEPT)


def _object_in(schema: dict[str, Any]) -> dict[str, Any]:
    while "properties" not in schema:
        schema = schema["items"] if "items" in schema else schema["additionalProperties"]
    return schema


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_the_definition_and_the_type_have_the_same_fields(kind: Kind, version: Version) -> None:
    found = list(fields(version.type, schema_of(kind, version)))

    assert len(found) > 5


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_every_field_is_described_in_one_sentence(kind: Kind, version: Version) -> None:
    for path, _, _, schema in fields(version.type, schema_of(kind, version)):
        description = schema.get("description", "")

        assert description.endswith("."), path
        assert len(description) <= 110, path
        assert "\n" not in description, path


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_a_type_defaults_to_what_the_definition_defaults_to(kind: Kind, version: Version) -> None:
    for path, annotation, field, schema in fields(version.type, schema_of(kind, version)):
        if "default" in schema:
            assert msgspec.convert(schema["default"], annotation) == field.default, path


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_a_type_invents_no_default_that_the_definition_lacks(kind: Kind, version: Version) -> None:
    # The API server must not fill these in, or v1 would read values it does not know (ADR 0003).
    told_apart = (
        {"consolidationPolicy", "expireAfter"} if version.type is nodepool_v1beta1.NodePool else set()
    )

    for path, annotation, field, schema in fields(version.type, schema_of(kind, version)):
        invented = "default" not in schema and not field.required and field.encode_name not in told_apart
        if invented and not path.endswith(".conditions.status"):
            assert field.default == _nothing(annotation), path


def _nothing(annotation: Any) -> Any:
    """Return the value of a type that stands for an absent field."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return None
    if origin is tuple:
        return ()
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return EMPTY
    return annotation()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.crd_name)
def test_exactly_one_version_is_stored_and_it_is_the_newest(kind: Kind) -> None:
    assert [version.storage for version in kind.versions] == [True, *[False] * (len(kind.versions) - 1)]


def test_kinds_that_are_served_twice_keep_each_others_fields() -> None:
    twice = [kind for kind in KINDS if len(kind.versions) > 1]

    for kind in twice:
        first, second = (_paths(schema_of(kind, version)) for version in kind.versions)

        assert first == second, kind.crd_name
    assert [kind.name for kind in twice] == ["NodePool", "NodeClaim", "EC2NodeClass"]


def _paths(schema: dict[str, Any], path: str = "") -> set[str]:
    found = {path}
    for name, inner in schema.get("properties", {}).items():
        found |= _paths(inner, f"{path}.{name}")
    for place in ("items", "additionalProperties"):
        if place in schema:
            found |= _paths(schema[place], f"{path}[]")
    return found
