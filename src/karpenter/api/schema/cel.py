# SPDX-License-Identifier: Apache-2.0
"""CEL expressions, compiled once and evaluated with the API server's words for what goes wrong.

The evaluator is the ``common-expression-language`` package: the core of the language in Rust. Around it
stand Kubernetes' own functions (``celfunctions``), the typing of JSON by schema (an integer in a ``number``
field is a double, a field named ``namespace`` is ``self.__namespace__``), and the translation of its
errors.

An expression that does not compile, or names a function that neither side has, is a defect of a definition
and raises. The evaluator differs from the server's in three known ways; the first is refused, the others do
not occur in our definitions: ``size()`` of a text counts bytes; inside ``all`` and ``exists`` an error in
one item is not outweighed by a decisive later item; ``.?`` and ``[?`` do not parse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import cel

from karpenter.api.schema import gotext
from karpenter.api.schema.celfunctions import FUNCTIONS
from karpenter.api.schema.correlation import ListIndex
from karpenter.api.schema.structural import Node, SchemaError, json_type
from karpenter.kit.durations import DurationError, parse_duration

__all__ = [
    "CelValue",
    "EvaluationError",
    "Expression",
    "compile_expression",
    "escape",
    "is_exposed",
    "to_cel",
]

_NATIVE_FUNCTIONS: Final = frozenset(
    {
        "bytes",
        "contains",
        "double",
        "duration",
        "dyn",
        "endsWith",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getFullYear",
        "getHours",
        "getMilliseconds",
        "getMinutes",
        "getMonth",
        "getSeconds",
        "hasValue",
        "int",
        "of",
        "none",
        "or",
        "orValue",
        "size",
        "startsWith",
        "string",
        "timestamp",
        "type",
        "uint",
        "value",
    }
)

# One token: a string (kept as it is), a comment, a name, or anything else.
_TOKEN: Final = re.compile(
    r"""(?P<text>[rRbB]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))"""
    r"""|//[^\n]*|(?P<name>[A-Za-z_]\w*)|.""",
    re.DOTALL | re.ASCII,
)
_SELECTION: Final = re.compile(r"\s*\.\s*([A-Za-z_]\w*)(?!\w*\s*\()", re.ASCII)

_RESERVED: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPABLE: Final = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*", re.ASCII)

_FUNCTION_FAILED: Final = re.compile(
    r"Function '(\w+)' error: (?:Python function call failed: \w+: )?(.*)", re.DOTALL
)
_UNDEFINED: Final = re.compile(r"Undefined variable or function: '([^']*)'")
_ADVICE: Final = " Check function arguments and their types."

_POISON: Final = "a_field_that_does_not_exist"
_SAID: Final = {OverflowError: "integer overflow", TypeError: "no such overload"}

_COLLECTIONS: Final = {"object": "a map", "array": "an array"}
_SCALARS: Final = {"integer": "int", "number": "float", "boolean": "bool"}

_NOTHING: Final[Mapping[str, str]] = {}


class EvaluationError(Exception):
    """An expression that has no value for these inputs; the text is the API server's."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A compiled expression over ``self`` and perhaps ``oldSelf``."""

    source: str
    uses_old_self: bool
    # The fields of self it reads, if it reads nothing but fields; the rest need not be converted.
    fields: frozenset[str] | None
    names: frozenset[str]
    # Those of Kubernetes' functions that it calls; giving the evaluator all of them costs more than the
    # evaluation.
    functions: Mapping[str, Callable[..., Any]]
    program: cel.Program

    def evaluate(self, context: cel.Context, untyped: Mapping[str, str] = _NOTHING) -> Any:
        """Return the value of the expression; to look at one of the ``untyped`` fields is an error.

        Raises:
            EvaluationError: a key is missing, types do not fit, a number does not parse, and so on.
        """
        poisoned = frozenset(untyped.keys() & self.names)
        if "self" in poisoned:
            raise EvaluationError(untyped["self"])
        program = compile_expression(self.source, poisoned).program if poisoned else self.program
        try:
            return program.execute(context)
        except KeyError as error:
            missing = error.args[0]
            complaint = untyped[min(poisoned)] if missing == _POISON else f"no such key: {missing}"
            raise EvaluationError(complaint) from error
        except Exception as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> EvaluationError | SchemaError:
        text = str(error)
        if undefined := _UNDEFINED.match(text):
            if undefined[1] not in _NATIVE_FUNCTIONS and undefined[1] not in FUNCTIONS:
                return SchemaError(f"rule {self.source!r} names {undefined[1]}, which does not exist")
            return EvaluationError("no such overload")
        if failed := _FUNCTION_FAILED.match(text):
            return EvaluationError(_function_failure(failed[1], failed[2]))
        said = _SAID.get(type(error), text.removesuffix(" in CEL expression").replace("modulo", "modulus"))
        return EvaluationError(said)


def _function_failure(name: str, text: str) -> str:
    if name in {"int", "uint", "double"}:
        return f"type conversion error from 'string' to '{name}'"
    return text.removesuffix(_ADVICE).rstrip(".")


@lru_cache(maxsize=4096)
def compile_expression(source: str, poisoned: frozenset[str] = frozenset()) -> Expression:
    """Return the expression, compiled once.

    Args:
        source: The text of the expression.
        poisoned: Fields that it may name but not look at; even ``has()`` of one is an error.

    Raises:
        SchemaError: it does not parse, or calls what nobody provides.
    """
    rewritten, names, fields = _rewritten(source, poisoned)
    try:
        program = cel.compile(rewritten)
    except ValueError as error:
        raise SchemaError(f"rule {source!r} does not compile: {str(error).splitlines()[0]}") from error
    references = program.references()
    called = [name for name in references["functions"] if name[0] not in "_@!-"]
    # A call like sets.contains() is listed by its last name only.
    used = {name: call for name, call in FUNCTIONS.items() if name.rpartition(".")[2] in called}
    provided = _NATIVE_FUNCTIONS | {name.rpartition(".")[2] for name in used}
    if missing := [name for name in called if name not in provided]:
        raise SchemaError(f"rule {source!r} calls {missing[0]}(), which this engine does not have")
    uses_old_self = "oldSelf" in references["variables"]
    return Expression(source, uses_old_self, fields, names, used, program)


def escape(name: str) -> str | None:
    """Return a field's name as CEL can spell it, or None where it cannot."""
    if name in _RESERVED:
        return f"__{name}__"
    if not _ESCAPABLE.fullmatch(name):
        return None
    return re.sub(r"__|[-./]", lambda found: _ESCAPES[found.group()], name)


def is_exposed(node: Node) -> bool:
    """Return whether values of the node can be seen by rules; what has no type cannot."""
    if node.int_or_string:
        return True
    if node.type == "array":
        return node.items is not None and is_exposed(node.items)
    if node.type == "object":
        return node.additional is None or is_exposed(node.additional)
    return bool(node.type)


@dataclass(frozen=True, slots=True)
class CelValue:
    """A value as the evaluator needs it, and what in it the server could not type.

    Attributes:
        value: Typed by the schema.
        untyped: The server's complaint about a value that passed its schema and yet is not of its type, like
            1.0 in an integer field, by the name of the field. A rule that names the field fails there. Bare
            items of lists and mappings have no name and are let pass.
    """

    value: Any
    untyped: Mapping[str, str]


def to_cel(value: Any, node: Node, fields: frozenset[str] | None = None, like: Any = None) -> CelValue:
    """Return the value of ``self``, typed by its schema.

    Args:
        value: The JSON value.
        node: Its schema.
        fields: The fields to keep, by their CEL names, at the first level; all if None.
        like: For an old value, the new one. Lists whose order means nothing are put in the new one's order,
            so that comparing the two ignores order.
    """
    conversion = _Conversion()
    return CelValue(conversion.converted(value, node, "self", like, fields), conversion.untyped)


class _Conversion:
    def __init__(self) -> None:
        self.untyped: dict[str, str] = {}

    def converted(
        self, value: Any, node: Node | None, name: str, like: Any, fields: frozenset[str] | None = None
    ) -> Any:
        # What has no schema stays as it is; it is good for comparison alone.
        if node is None:
            return value
        if complaint := _mismatch(value, node):
            return self._noted(name, complaint, value)
        if isinstance(value, dict):
            return self._object(value, node, like if isinstance(like, dict) else {}, fields)
        if isinstance(value, list):
            likes = like if isinstance(like, list) else []
            index = ListIndex(node, likes)
            items = _in_order_of(likes, value, node)
            return [self.converted(item, node.items, "", index.get(item)) for item in items]
        return self._scalar(value, node, name)

    def _object(
        self, value: dict[str, Any], node: Node, like: dict[str, Any], fields: frozenset[str] | None
    ) -> dict[str, Any]:
        if not node.properties:
            return {
                key: self.converted(inner, node.additional, "", like.get(key)) for key, inner in value.items()
            }
        converted = {}
        for key, inner in value.items():
            # In an object, unlike in a mapping, a field that is null is a field that is absent.
            if inner is None:
                continue
            spelled = escape(key) or key
            if fields is None or spelled in fields:
                converted[spelled] = self.converted(inner, node.properties.get(key), spelled, like.get(key))
        return converted

    def _scalar(self, value: Any, node: Node, name: str) -> Any:
        if node.type == "number" and value is not None:
            return float(value)
        if not node.format or not isinstance(value, str):
            return value
        try:
            return _formatted(value, node.format)
        except (DurationError, ValueError):
            return self._noted(name, f"Invalid {node.format} formatted string {value}", value)

    def _noted(self, name: str, complaint: str, value: Any) -> Any:
        if name:
            self.untyped[name] = complaint
        return value


def _formatted(value: str, format_: str) -> datetime | timedelta | str:
    if format_ == "duration":
        return parse_duration(value).timedelta
    if format_ in {"date", "date-time"}:
        return datetime.fromisoformat(value if "T" in value else f"{value}T00:00:00+00:00")
    return value


def _mismatch(value: Any, node: Node) -> str:
    """Return the server's words for a value that is not of its schema's type, or nothing."""
    kind = json_type(value)
    if kind == "null":
        return "" if node.nullable else "invalid data, got null for schema with nullable=false"
    if node.int_or_string:
        wanted = "XIntOrString value to be either a string or integer"
        return "" if kind in {"integer", "string"} else f"invalid data, expected {wanted}"
    if not node.type or kind == node.type or (kind == "integer" and node.type == "number"):
        return ""
    if node.type in _COLLECTIONS:
        return (
            f"invalid data, expected {_COLLECTIONS[node.type]} for the provided schema with type={node.type}"
        )
    return f"invalid data, expected {_SCALARS.get(node.type, node.type)}, got {gotext.type_name(value)}"


def _in_order_of(likes: list[Any], items: list[Any], node: Node) -> list[Any]:
    if not likes or node.list_type not in {"map", "set"}:
        return items
    if node.list_type == "set":
        return sorted(items, key=lambda item: likes.index(item) if item in likes else len(likes))
    index = ListIndex(node, items)
    matched = [old for old in (index.get(like) for like in likes) if old is not None]
    return matched + [item for item in items if not any(item is old for old in matched)]


def _rewritten(source: str, poisoned: frozenset[str]) -> tuple[str, frozenset[str], frozenset[str] | None]:
    """Return the source with some names changed, its names, and the fields of self if it reads fields alone."""
    pieces: list[str] = []
    names: set[str] = set()
    fields: set[str] = set()
    whole = False
    for token in _TOKEN.finditer(source):
        name = token["name"]
        if name in {"self", "oldSelf"}:
            selection = _SELECTION.match(source, token.end())
            whole = whole or selection is None
            fields |= {selection[1]} if selection else set()
        names |= {name} if name else set()
        # Reading a field of a field that does not exist is an error even inside has().
        pieces.append(f"{_POISON}." if name in poisoned and "".join(pieces).rstrip().endswith(".") else "")
        pieces.append("matchesAsGo" if name == "matches" else token.group())
    return "".join(pieces), frozenset(names), None if whole else frozenset(fields)
