# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import cel
import pytest

from karpenter.api.schema.cel import EvaluationError, compile_expression, escape, is_exposed, to_cel
from karpenter.api.schema.structural import SchemaError, compile_schema


def evaluated(source: str, **variables: Any) -> Any:
    expression = compile_expression(source)
    return expression.evaluate(cel.Context(variables, dict(expression.functions)))


@pytest.mark.parametrize(
    ("source", "value", "words"),
    [
        ("self.a", {}, "no such key: a"),
        ("self['a']", {}, "no such key: a"),
        ("self[1]", [1], "index out of bounds: 1"),
        ("int(self)", "x", "type conversion error from 'string' to 'int'"),
        ("double(self)", "x", "type conversion error from 'string' to 'double'"),
        ("10 / self", 0, "division by zero"),
        ("10 % self", 0, "modulus by zero"),
        ("self + 9223372036854775807", 1, "integer overflow"),
        ("self > 1", "x", "no such overload"),
        ("self.startsWith('a')", 5, "no such overload"),
    ],
)
def test_an_error_has_the_words_of_the_server(source: str, value: Any, words: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluated(source, self=value)

    assert str(caught.value) == words


def test_an_error_beside_a_decisive_operand_does_not_matter() -> None:
    assert evaluated("self.a || true", self={}) is True
    assert evaluated("self.a && false", self={}) is False


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("self ==", "does not compile"),
        ("self.?a.orValue(1) == 1", "does not compile"),
        ("ip(self).family() == 4", "which this engine does not have"),
        ("self.getFoo() == 4", "which this engine does not have"),
    ],
)
def test_an_expression_we_cannot_run_is_a_defect(source: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        compile_expression(source)


def test_a_name_that_nobody_defines_is_a_defect_too() -> None:
    with pytest.raises(SchemaError, match="names selff, which does not exist"):
        evaluated("selff == 1", self=1)


def test_an_expression_knows_what_it_reads() -> None:
    fields = compile_expression("has(self.a) && self . b == oldSelf.c && 'self.d' != \"self.e\" // self.f")
    whole = compile_expression("self == oldSelf")
    method = compile_expression("self.all(x, x == 1)")

    assert fields.fields == frozenset({"a", "b", "c"})
    assert fields.uses_old_self
    assert whole.fields is None
    assert method.fields is None
    assert not method.uses_old_self


def test_a_field_that_may_not_be_looked_at_is_an_error_only_if_it_is() -> None:
    complaint = {"a": "not an int"}

    for source in ("self.a > 1", "has(self.a)", "true && self.a == 1"):
        expression = compile_expression(source)
        with pytest.raises(EvaluationError, match="not an int"):
            expression.evaluate(cel.Context({"self": {"a": 1.0}}), complaint)
    for source in ("has(self.b) || true", "true || self.a > 1", "self.b == 'self.a'"):
        expression = compile_expression(source)
        assert expression.evaluate(cel.Context({"self": {"a": 1.0, "b": "self.a"}}), complaint) is True
    with pytest.raises(EvaluationError, match="no such key: c"):
        compile_expression("self.c + self.a == 1").evaluate(cel.Context({"self": {"a": 1.0}}), complaint)
    with pytest.raises(EvaluationError, match="not an int"):
        compile_expression("self > 1").evaluate(cel.Context({"self": 1.0}), {"self": "not an int"})


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("plain", "plain"),
        ("namespace", "__namespace__"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("a b", None),
        ("1a", None),
        ("", None),
    ],
)
def test_field_names_are_escaped(name: str, spelled: str | None) -> None:
    assert escape(name) == spelled


def test_values_are_typed_by_their_schema() -> None:
    node = compile_schema(
        {
            "type": "object",
            "properties": {
                "number": {"type": "number"},
                "integer": {"type": "integer"},
                "a-b": {"type": "string"},
                "empty": {"type": "string", "nullable": True},
                "when": {"type": "string", "format": "date-time"},
                "day": {"type": "string", "format": "date"},
                "long": {"type": "string", "format": "duration"},
                "bytes": {"type": "string", "format": "byte"},
                "map": {"type": "object", "additionalProperties": {"type": "number", "nullable": True}},
            },
        }
    )

    converted = to_cel(
        {
            "number": 1,
            "integer": 1,
            "a-b": "x",
            "empty": None,
            "when": "2025-01-01T00:00:00Z",
            "day": "2025-01-01",
            "long": "1h",
            "bytes": "YQ==",
            "map": {"a-b": 1, "c": None},
            "unknown": {"x": 1},
        },
        node,
    )

    assert converted.untyped == {}
    assert isinstance(converted.value["number"], float)
    assert converted.value == {
        "number": 1.0,
        "integer": 1,
        "a__dash__b": "x",
        "when": datetime(2025, 1, 1, tzinfo=UTC),
        "day": datetime(2025, 1, 1, tzinfo=UTC),
        "long": timedelta(hours=1),
        "bytes": "YQ==",
        "map": {"a-b": 1.0, "c": None},
        "unknown": {"x": 1},
    }
    assert to_cel({"number": 1, "integer": 2}, node, frozenset({"integer"})).value == {"integer": 2}


def test_values_that_passed_their_schema_without_its_type_are_named() -> None:
    node = compile_schema(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "b": {"x-kubernetes-int-or-string": True},
                "c": {"type": "string", "format": "date-time"},
                "d": {"type": "string", "format": "duration"},
                "e": {"type": "array", "items": {"type": "integer"}},
            },
        }
    )

    converted = to_cel({"a": 1.0, "b": 1.0, "c": "2025-01-01T00:00:00zt", "d": "5 min", "e": [1.0]}, node)

    assert converted.untyped == {
        "a": "invalid data, expected int, got float64",
        "b": "invalid data, expected XIntOrString value to be either a string or integer",
        "c": "Invalid date-time formatted string 2025-01-01T00:00:00zt",
        "d": "Invalid duration formatted string 5 min",
    }


def test_an_old_list_without_order_is_put_in_the_order_of_the_new_one() -> None:
    keyed = compile_schema(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}},
        }
    )
    as_set = compile_schema({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}})
    plain = compile_schema({"type": "array", "items": {"type": "string"}})
    a, b, c = {"k": "a"}, {"k": "b"}, {"k": "c"}

    assert to_cel([b, c, a], keyed, like=[a, b]).value == [a, b, c]
    assert to_cel(["b", "c", "a"], as_set, like=["a", "b"]).value == ["a", "b", "c"]
    assert to_cel(["b", "a"], plain, like=["a", "b"]).value == ["b", "a"]
    assert to_cel([b, a], keyed, like="text").value == [b, a]


@pytest.mark.parametrize(
    ("schema", "exposed"),
    [
        ({"type": "string"}, True),
        ({"x-kubernetes-int-or-string": True}, True),
        ({"x-kubernetes-preserve-unknown-fields": True}, False),
        ({"type": "array", "items": {"type": "string"}}, True),
        ({"type": "array"}, False),
        ({"type": "array", "items": {}}, False),
        ({"type": "object"}, True),
        ({"type": "object", "additionalProperties": {}}, False),
    ],
)
def test_only_what_has_a_type_is_seen_by_rules(schema: dict[str, Any], exposed: bool) -> None:  # noqa: FBT001
    assert is_exposed(compile_schema(schema)) is exposed
