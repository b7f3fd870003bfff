# SPDX-License-Identifier: Apache-2.0
"""An ``openAPIV3Schema`` compiled once into a tree that pruning, defaulting and validation walk fast.

Decides what a schema means, as apiextensions-apiserver reads it: formats it does not check are dropped, an
int-or-string has two types, ``additionalProperties: true`` says nothing of its values. What a structural
schema may not hold (``$ref``, ``patternProperties``, ``uniqueItems``, rules inside ``allOf``, ...) is
refused: a definition is ours, so a mistake in it is our defect and must not wait for a user's object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from karpenter.api.schema.formats import CHECKED_FORMATS, FORMATS_WITHOUT_A_CHECK_HERE, normal_name
from karpenter.api.schema.problems import child
from karpenter.api.schema.regex import GoPattern, PatternError, compile_pattern
from karpenter.errors import KarpenterError

__all__ = ["INT64", "META_FIELDS", "MISSING", "Node", "Rule", "SchemaError", "compile_schema", "json_type"]

# The fields every object has without its schema saying so.
META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


class _Missing:
    """The default of a field that has none; null is a possible default."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

_TYPES: Final = frozenset({"array", "boolean", "integer", "number", "object", "string"})
_LIST_TYPES: Final = frozenset({"atomic", "map", "set"})
_MAP_TYPES: Final = frozenset({"atomic", "granular"})
_REASONS: Final = frozenset(
    {"FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"}
)
INT64: Final = range(-(2**63), 2**63)

_WORDS_WITHOUT_EFFECT: Final = frozenset({"description", "example", "externalDocs", "title"})
_KNOWN_WORDS: Final = _WORDS_WITHOUT_EFFECT | {
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
}


class SchemaError(KarpenterError):
    """A definition that the API server would refuse, or that this engine does not support."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of ``x-kubernetes-validations``, as written."""

    rule: str
    message: str = ""
    message_expression: str = ""
    field_path: str = ""
    reason: str = "FieldValueInvalid"
    optional_old_self: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One node of a schema; two nodes are the same only if they are one object."""

    type: str = ""
    types: tuple[str, ...] = ()
    nullable: bool = False
    default: Any = MISSING
    format: str = ""
    format_check: Callable[[str], bool] | None = None
    enum: tuple[Any, ...] = ()
    pattern: GoPattern | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    required: tuple[str, ...] = ()
    properties: Mapping[str, Node] = field(default_factory=dict)
    # The schema of a mapping's values; without one, has_additional tells `additionalProperties: true` from
    # nothing.
    additional: Node | None = None
    has_additional: bool = False
    items: Node | None = None
    all_of: tuple[Node, ...] = ()
    any_of: tuple[Node, ...] = ()
    one_of: tuple[Node, ...] = ()
    negated: Node | None = None
    preserve_unknown: bool = False
    embedded: bool = False
    int_or_string: bool = False
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    rules: tuple[Rule, ...] = ()

    def below(self, key: str) -> Node | None:
        """Return the node of an object's field or of a mapping's value; none where nothing is said of it."""
        return self.properties.get(key) or self.additional

    def knows(self, key: str) -> bool:
        """Return whether pruning leaves a field or a key of that name in an object."""
        return key in self.properties or self.has_additional or self.preserve_unknown


def compile_schema(schema: Mapping[str, Any]) -> Node:
    """Return the tree of a definition's ``openAPIV3Schema``.

    Raises:
        SchemaError: the schema is not structural, or asks for something this engine does not do.
    """
    return _Compiler().node(schema, "")


def json_type(value: Any) -> str:
    """Return the JSON type of a value; an integer beyond 64 bits is a number, as it is to Go."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, int):
        return "integer" if value in INT64 else "number"
    return "null" if value is None else "number"


class _Compiler:
    """A walk over the schema's dicts; ``path`` is where we are, for messages."""

    def node(self, schema: Mapping[str, Any], path: str, *, nested: bool = False) -> Node:
        if not isinstance(schema, Mapping):
            _refuse(path, f"must be an object, not {schema!r}")
        if unknown := sorted(set(schema) - _KNOWN_WORDS):
            _refuse(path, f"{unknown[0]} is not supported")
        self._check_words(schema, path, nested=nested)
        int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
        type_ = schema.get("type", "")
        format_name = normal_name(schema.get("format", ""))
        additional = schema.get("additionalProperties")
        return Node(
            type=type_,
            types=("integer", "string") if int_or_string else (type_,) if type_ else (),
            nullable=bool(schema.get("nullable")),
            # A default of null is no default to the server.
            default=MISSING if schema.get("default") is None else _as_stored(schema["default"]),
            format=schema.get("format", "") if format_name in CHECKED_FORMATS else "",
            format_check=CHECKED_FORMATS.get(format_name),
            enum=tuple(schema.get("enum", ())),
            pattern=self._pattern(schema, path),
            minimum=schema.get("minimum"),
            maximum=schema.get("maximum"),
            exclusive_minimum=bool(schema.get("exclusiveMinimum")),
            exclusive_maximum=bool(schema.get("exclusiveMaximum")),
            multiple_of=schema.get("multipleOf"),
            min_length=schema.get("minLength"),
            max_length=schema.get("maxLength"),
            min_items=schema.get("minItems"),
            max_items=schema.get("maxItems"),
            min_properties=schema.get("minProperties"),
            max_properties=schema.get("maxProperties"),
            required=tuple(schema.get("required", ())),
            properties={
                name: self.node(inner, child(path, f"properties[{name}]"), nested=nested)
                for name, inner in schema.get("properties", {}).items()
            },
            additional=self._optional(
                additional if isinstance(additional, Mapping) else None,
                child(path, "additionalProperties"),
                nested,
            ),
            has_additional=additional is not None,
            items=self._optional(schema.get("items"), child(path, "items"), nested),
            all_of=self._branches(schema, "allOf", path),
            any_of=self._branches(schema, "anyOf", path),
            one_of=self._branches(schema, "oneOf", path),
            negated=self._nested(schema.get("not"), child(path, "not")),
            preserve_unknown=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
            embedded=bool(schema.get("x-kubernetes-embedded-resource")),
            int_or_string=int_or_string,
            list_type=schema.get("x-kubernetes-list-type", ""),
            list_map_keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
            map_type=schema.get("x-kubernetes-map-type", ""),
            rules=tuple(self._rule(entry, path) for entry in schema.get("x-kubernetes-validations", ())),
        )

    def _optional(self, schema: Mapping[str, Any] | None, path: str, nested: bool) -> Node | None:  # noqa: FBT001
        return None if schema is None else self.node(schema, path, nested=nested)

    def _nested(self, schema: Mapping[str, Any] | None, path: str) -> Node | None:
        return None if schema is None else self.node(schema, path, nested=True)

    def _branches(self, schema: Mapping[str, Any], word: str, path: str) -> tuple[Node, ...]:
        return tuple(
            self.node(branch, child(path, f"{word}[{index}]"), nested=True)
            for index, branch in enumerate(schema.get(word, ()))
        )

    def _check_words(self, schema: Mapping[str, Any], path: str, *, nested: bool) -> None:
        choices = (
            ("type", _TYPES | {""}),
            ("x-kubernetes-list-type", _LIST_TYPES | {""}),
            ("x-kubernetes-map-type", _MAP_TYPES | {""}),
        )
        for word, allowed in choices:
            if schema.get(word, "") not in allowed:
                _refuse(path, f"{word} may not be {schema[word]!r}")
        if normal_name(schema.get("format", "")) in FORMATS_WITHOUT_A_CHECK_HERE:
            _refuse(path, f"format {schema['format']} is checked by the API server but not by this engine")
        if schema.get("additionalProperties") is False:
            _refuse(path, "additionalProperties may not be false")
        if nested and schema.get("x-kubernetes-validations"):
            _refuse(path, "x-kubernetes-validations inside allOf, anyOf, oneOf or not are not supported")
        if schema.get("x-kubernetes-list-type") == "map" and not schema.get("x-kubernetes-list-map-keys"):
            _refuse(path, "x-kubernetes-list-map-keys must name the keys of a list of type map")

    def _pattern(self, schema: Mapping[str, Any], path: str) -> GoPattern | None:
        source = schema.get("pattern", "")
        try:
            return compile_pattern(source) if source else None
        except PatternError as error:
            raise SchemaError(f"{path or 'schema'}: {error.message}", hint=error.hint) from error

    def _rule(self, entry: Mapping[str, Any], path: str) -> Rule:
        if entry.get("reason", "FieldValueInvalid") not in _REASONS:
            _refuse(path, f"a rule's reason may not be {entry['reason']!r}")
        return Rule(
            rule=entry["rule"].strip(),
            message=entry.get("message", "").strip(),
            message_expression=entry.get("messageExpression", "").strip(),
            field_path=entry.get("fieldPath", ""),
            reason=entry.get("reason", "FieldValueInvalid"),
            optional_old_self=bool(entry.get("optionalOldSelf")),
        )


def _as_stored(default: Any) -> Any:
    """Return a default as the server keeps it: JSON does not tell 1.0 from 1."""
    if isinstance(default, dict):
        return {key: _as_stored(inner) for key, inner in default.items()}
    if isinstance(default, list):
        return [_as_stored(item) for item in default]
    return int(default) if isinstance(default, float) and default.is_integer() else default


def _refuse(path: str, why: str) -> NoReturn:
    raise SchemaError(f"{path or 'schema'}: {why}", hint="correct the CustomResourceDefinition")
