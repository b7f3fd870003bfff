# SPDX-License-Identifier: Apache-2.0
"""From types to definitions: the Python type says the shape, ``Schema`` and ``RULES`` say the rest.

What comes out is structural: every node has a type, nothing hides in ``allOf``. A type that no schema can
express is refused while generating, never guessed at. Where a kind is served in two versions without a
conversion webhook, each version's schema also carries the fields that only the other knows, bare of defaults
and checks, so that the API server's pruning loses nothing on the way (``carry``).
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from karpenter.api.base import RawQuantity
from karpenter.api.crds.shapes import QUANTITY
from karpenter.api.crds.vocabulary import Column, Kind, Rule, Schema, Version
from karpenter.errors import KarpenterError

__all__ = ["UnknownShapeError", "carry", "definition", "object_schema", "version_schemas"]

JSONSchema: TypeAlias = dict[str, Any]

_SCALARS: Mapping[type, JSONSchema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    datetime: {"type": "string", "format": "date-time"},
}
_QUANTITY_PARTS = frozenset(typing.get_args(RawQuantity))
_NOTHING = Schema()

# Schema attribute to the keyword it becomes, in the order in which a reader wants them.
_KEYWORDS = (
    ("format", "format"),
    ("pattern", "pattern"),
    ("enum", "enum"),
    ("minimum", "minimum"),
    ("maximum", "maximum"),
    ("min_length", "minLength"),
    ("max_length", "maxLength"),
    ("min_items", "minItems"),
    ("max_items", "maxItems"),
    ("max_properties", "maxProperties"),
    ("default", "default"),
    ("list_type", "x-kubernetes-list-type"),
    ("list_keys", "x-kubernetes-list-map-keys"),
    ("map_type", "x-kubernetes-map-type"),
)

# What remains of a field in a version that does not know it.
_SHAPE_KEYWORDS = frozenset(
    {
        "type",
        "anyOf",
        "format",
        "properties",
        "items",
        "additionalProperties",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
    }
)


class UnknownShapeError(KarpenterError):
    """A Python type has no counterpart in structural schemas."""


def definition(kind: Kind) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind, ready to be written."""
    schemas = version_schemas(kind)
    names: dict[str, Any] = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.singular,
        "categories": list(kind.categories),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    spec: dict[str, Any] = {"group": kind.group, "names": names, "scope": kind.scope}
    if len(kind.versions) > 1:
        spec["conversion"] = {"strategy": "None"}
    spec["versions"] = [_version(version, schemas[version.name]) for version in kind.versions]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": spec,
    }


def version_schemas(kind: Kind) -> dict[str, JSONSchema]:
    """Return the schema of each version, with what only the other versions know carried along."""
    own = {version.name: object_schema(version.type) for version in kind.versions}
    result = {}
    for name, schema in own.items():
        carried = schema
        for other, other_schema in own.items():
            if other != name:
                carried = carry(carried, other_schema, other)
        result[name] = carried
    return result


def object_schema(kind: type) -> JSONSchema:
    """Return the schema of a top-level type: apiVersion, kind and metadata are the API server's own."""
    schema = _struct(kind, _NOTHING)
    schema["properties"] |= {
        "apiVersion": {
            "description": "Version of the schema that the object is written in.",
            "type": "string",
        },
        "kind": {"description": "Kind of the object.", "type": "string"},
        "metadata": {"type": "object"},
    }
    return schema


def carry(schema: JSONSchema, other: JSONSchema, other_version: str) -> JSONSchema:
    """Return the schema with the fields that only another version knows, bare of defaults and checks."""
    if "properties" in schema and "properties" in other:
        known, foreign = schema["properties"], other["properties"]
        merged = {
            name: carry(known[name], foreign[name], other_version)
            if name in known and name in foreign
            else known.get(name) or _bare(foreign[name], other_version)
            for name in sorted(known | foreign)
        }
        return schema | {"properties": merged}
    for inner in ("items", "additionalProperties"):
        if inner in schema and inner in other:
            return schema | {inner: carry(schema[inner], other[inner], other_version)}
    return schema


def _bare(schema: JSONSchema, version: str) -> JSONSchema:
    return {
        "description": f"Known to {version} only; kept so that nothing is lost between versions."
    } | _shape(schema)


def _shape(schema: JSONSchema) -> JSONSchema:
    shape = {keyword: value for keyword, value in schema.items() if keyword in _SHAPE_KEYWORDS}
    if "properties" in shape:
        shape["properties"] = {name: _shape(inner) for name, inner in shape["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if inner in shape:
            shape[inner] = _shape(shape[inner])
    return shape


def _version(version: Version, schema: JSONSchema) -> dict[str, Any]:
    result: dict[str, Any] = {"name": version.name, "served": True, "storage": version.storage}
    if version.deprecation:
        result |= {"deprecated": True, "deprecationWarning": version.deprecation}
    if version.columns:
        result["additionalPrinterColumns"] = [_column(column) for column in version.columns]
    result["subresources"] = {"status": {}}
    if version.scale:
        result["subresources"]["scale"] = {
            "specReplicasPath": version.scale.spec_path,
            "statusReplicasPath": version.scale.status_path,
        }
    result["schema"] = {"openAPIV3Schema": schema}
    return result


def _column(column: Column) -> dict[str, Any]:
    result: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.priority:
        result["priority"] = column.priority
    return result


def _of(annotation: Any, said: Schema) -> JSONSchema:
    """Return the schema of an annotation; what is said at the place of use goes before what the type says."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union(annotation, arguments, said)
    if annotation in _SCALARS:
        return _finish(_SCALARS[annotation], said)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _struct(annotation, said)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _finish({"type": "array", "items": _of(arguments[0], said.items or _NOTHING)}, said)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if arguments[1] is Any:
            return _finish({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, said)
        values = _of(arguments[1], said.items or _NOTHING)
        return _finish({"type": "object", "additionalProperties": values}, said)
    raise UnknownShapeError(
        f"no structural schema can express {annotation}",
        hint="use str, int, bool, datetime, a Struct, tuple[T, ...], Mapping[str, T] or RawQuantity",
    )


def _union(annotation: Any, arguments: tuple[Any, ...], said: Schema) -> JSONSchema:
    present = tuple(argument for argument in arguments if argument is not types.NoneType)
    if frozenset(present) == _QUANTITY_PARTS:
        quantity = {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY,
            "x-kubernetes-int-or-string": True,
        }
        return _finish(quantity, said)
    if len(present) != 1:
        raise UnknownShapeError(
            f"no structural schema can express {annotation}",
            hint="name one type, or RawQuantity for a quantity",
        )
    return _of(present[0], said)


def _struct(annotation: type[msgspec.Struct], said: Schema) -> JSONSchema:
    hints = typing.get_type_hints(annotation, include_extras=True)
    properties: dict[str, JSONSchema] = {}
    required = []
    for field in msgspec.structs.fields(annotation):
        hint, own = _split(hints[field.name])
        about = said.fields.get(field.encode_name, own)
        properties[field.encode_name] = _of(hint, about)
        if about.required if about.required is not None else field.required:
            required.append(field.encode_name)
    schema: JSONSchema = {"type": "object", "properties": dict(sorted(properties.items()))}
    if required:
        schema["required"] = sorted(required)
    rules: tuple[Rule, ...] = getattr(annotation, "RULES", ())
    summary = (annotation.__doc__ or "").partition("\n")[0]
    return _finish(schema, said, summary=summary, rules=rules)


def _split(hint: Any) -> tuple[Any, Schema]:
    """Return an annotation without its extras, and the schema among them."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint, _NOTHING
    bare, *extras = typing.get_args(hint)
    return bare, next((extra for extra in extras if isinstance(extra, Schema)), _NOTHING)


def _finish(
    shape: JSONSchema, said: Schema, *, summary: str = "", rules: tuple[Rule, ...] = ()
) -> JSONSchema:
    """Return the shape with its description before it, and keywords and rules after it."""
    result: JSONSchema = {}
    if said.description or summary:
        result["description"] = said.description or summary
    result |= shape
    for attribute, keyword in _KEYWORDS:
        value = getattr(said, attribute)
        if value is not None and value != ():
            result[keyword] = list(value) if isinstance(value, tuple) else value
    every = (*rules, *said.rules)
    if every:
        result["x-kubernetes-validations"] = [_rule(rule) for rule in every]
    return result


def _rule(rule: Rule) -> dict[str, str]:
    result = {"rule": rule.rule, "message": rule.message}
    if rule.field_path:
        result["fieldPath"] = rule.field_path
    return result
