# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.schema.correlation import Correlation
from karpenter.api.schema.rules import compile_rules, rule_problems
from karpenter.api.schema.structural import SchemaError, compile_schema


def complaints(spec: dict[str, Any], value: Any, old: Any = None, *, ratchet: bool = True) -> list[str]:
    """Return what the rules of ``spec`` say to a value at ``spec``."""
    node = compile_schema({"type": "object", "properties": {"spec": spec}})
    tree = compile_rules(node)
    assert tree is not None
    new, before = {"spec": value}, None if old is None else {"spec": old}
    correlation = Correlation(new, before, node) if before is not None and ratchet else None
    return [str(problem) for problem in rule_problems(tree, new, before, correlation)]


def rule(text: str, **more: Any) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": text, **more}]}


def obj(*rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "x-kubernetes-validations": [each["x-kubernetes-validations"][0] for each in rules],
    }


_INT = {"type": "integer"}
_TEXT = {"type": "string"}


def test_a_schema_without_rules_has_none() -> None:
    assert compile_rules(compile_schema({"type": "object", "properties": {"a": {"type": "string"}}})) is None


def test_a_rule_that_holds_says_nothing() -> None:
    assert complaints(obj(rule("self.a > 1"), a=_INT), {"a": 2}) == []


def test_a_rule_that_fails_names_itself_or_its_message() -> None:
    assert complaints(obj(rule("self.a > 1"), a=_INT), {"a": 1}) == [
        'spec: Invalid value: "object": failed rule: self.a > 1'
    ]
    assert complaints(obj(rule("self.a > 1", message="too small"), a=_INT), {"a": 1}) == [
        'spec: Invalid value: "object": too small'
    ]


def test_a_rule_that_cannot_be_evaluated_has_failed() -> None:
    assert complaints(obj(rule("self.a > 1", message="m"), a=_INT), {}) == [
        'spec: Invalid value: "object": no such key: a evaluating rule: m'
    ]
    assert complaints({"x-kubernetes-int-or-string": True, **rule("self > 1")}, "x") == [
        (
            "spec: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, "
            "function or macro signature for rule: self > 1"
        )
    ]


def test_a_null_and_an_absent_field_are_the_same_to_a_rule() -> None:
    schema = obj(rule("!has(self.a)"), a={"type": "string", "nullable": True})

    assert complaints(schema, {"a": None}) == complaints(schema, {}) == []


def test_rules_speak_for_the_place_at_which_they_stand() -> None:
    schema = obj(
        list={"type": "array", "items": {**_TEXT, **rule("self != 'x'")}},
        map={"type": "object", "additionalProperties": {**_TEXT, **rule("self != 'x'")}},
        nested=obj(a={**_INT, **rule("self > 1")}),
        free={"x-kubernetes-preserve-unknown-fields": True},
    )
    value = {
        "list": ["a", "x", None],
        "map": {"k/1": "x", "k2": "a"},
        "nested": {"a": 1, "b": 1},
        "free": {"a": "x"},
        "unknown": {},
    }

    fields = [text.split(": ")[0] for text in complaints(schema, value)]

    assert fields == ["spec.list[1]", "spec.map[k/1]", "spec.nested.a"]


def test_the_root_sees_its_name() -> None:
    node = compile_schema(
        {"type": "object", "properties": {"spec": _TEXT}, **rule("self.metadata.name != 'x'")}
    )
    tree = compile_rules(node)
    assert tree is not None

    assert [str(problem) for problem in rule_problems(tree, {"metadata": {"name": "x", "labels": {}}})] == [
        "<nil>: Invalid value: \"object\": failed rule: self.metadata.name != 'x'"
    ]


def test_a_rule_may_give_a_place_and_a_reason() -> None:
    inner = obj(a=_INT, b={"type": "object", "additionalProperties": _INT})

    def said(path: str, reason: str) -> list[str]:
        return complaints(
            obj(rule("false", message="m", fieldPath=path, reason=reason), c=inner, d=inner), {}
        )

    assert said(".c.a", "FieldValueRequired") == ["spec.c.a: Required value: m"]
    assert said(".d['b']['x.y']", "FieldValueForbidden") == ["spec.d.b[x.y]: Forbidden: m"]
    assert said(".c", "FieldValueDuplicate") == ['spec.c: Duplicate value: "object"']
    assert said("", "FieldValueInvalid") == ['spec: Invalid value: "object": m']


@pytest.mark.parametrize("path", [".z", "c", ".c.a.x", ".c[0]"])
def test_a_place_that_the_schema_does_not_have_is_a_defect(path: str) -> None:
    with pytest.raises(SchemaError, match="names no field of the schema"):
        complaints(obj(rule("false", fieldPath=path), c=obj(a=_INT)), {})


def test_a_message_may_be_made_by_an_expression() -> None:
    def said(expression: str, value: int = 5) -> str:
        (text,) = complaints({**_INT, **rule("false", message="m", messageExpression=expression)}, value)
        return text.removeprefix('spec: Invalid value: "integer": ')

    assert said("' got ' + string(self) + ' '") == "got 5"
    assert said("'a\\nb'") == "m"
    assert said("'   '") == "m"
    assert said("string(1 / (self - 5))") == "m"
    assert said("self") == "m"
    assert said("'" + "x" * 6000 + "'") == "m"


def test_rules_about_change_need_an_old_value() -> None:
    schema = obj(a={**_INT, **rule("self >= oldSelf", message="only up")})

    assert complaints(schema, {"a": 1}) == []
    assert complaints(schema, {"a": 1}, {}) == []
    assert complaints(schema, {"a": 1}, {"a": 1}) == []
    assert complaints(schema, {"a": 1}, {"a": 2}) == ['spec.a: Invalid value: "integer": only up']


def test_an_optional_old_value_may_be_missing() -> None:
    text = "oldSelf.hasValue() ? self >= oldSelf.value() : self == 0"
    schema = obj(a={**_INT, **rule(text, optionalOldSelf=True, message="m")})

    assert complaints(schema, {"a": 0}) == []
    assert complaints(schema, {"a": 1}) == ['spec.a: Invalid value: "integer": m']
    assert complaints(schema, {"a": 1}, {"a": 0}) == []
    assert complaints(schema, {"a": 0}, {"a": 1}) == ['spec.a: Invalid value: "integer": m']


def test_items_are_compared_by_key_and_other_lists_are_not() -> None:
    item = obj(rule("self.v >= oldSelf.v"), k=_TEXT, v=_INT)
    keyed = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    }
    old = [{"k": "a", "v": 5}, {"k": "b", "v": 5}]
    new = [{"k": "c", "v": 1}, {"k": "b", "v": 1}]

    assert [text.split(":")[0] for text in complaints(keyed, new, old)] == ["spec[1]"]
    assert complaints({"type": "array", "items": item}, new, old) == []
    assert complaints(keyed, new, "text") == []


def test_the_order_of_keyed_lists_does_not_matter_to_equality() -> None:
    schema = {
        "type": "array",
        "items": obj(k=_TEXT, v=_INT),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        **rule("self == oldSelf"),
    }
    a, b = {"k": "a", "v": 1}, {"k": "b", "v": 2}

    assert complaints(schema, [a, b], [b, a]) == []
    assert len(complaints(schema, [a, b], [b, {**a, "v": 3}])) == 1


def test_what_was_wrong_before_and_did_not_change_is_forgiven() -> None:
    schema = obj(
        a={**_INT, **rule("self > 1")},
        b=_INT,
        atomic={"type": "array", "items": {**_INT, **rule("self > 1")}},
    )
    old = {"a": 1, "b": 1, "atomic": [1]}

    assert complaints(schema, {**old, "b": 2}, old) == []
    assert len(complaints(schema, {**old, "b": 2}, old, ratchet=False)) == 2
    assert [text.split(":")[0] for text in complaints(schema, {"a": 0, "atomic": [1, 5]}, old)] == [
        "spec.a",
        "spec.atomic[0]",
    ]


def test_rules_about_change_and_errors_are_never_forgiven() -> None:
    changing = {**_INT, **rule("self != oldSelf")}
    broken = {**_INT, **rule("10 / self > 1")}

    assert len(complaints(changing, 1, 1)) == 1
    assert len(complaints(broken, 0, 0)) == 1


def test_kind_and_version_are_judged_anew_each_time() -> None:
    node = compile_schema({"type": "object", "properties": {"kind": {**_TEXT, **rule("self == 'A'")}}})
    # The root's own fields are plain texts to rules; a deeper field named kind is like any other.
    deeper = compile_schema(
        {"type": "object", "properties": {"spec": obj(kind={**_TEXT, **rule("self == 'A'")})}}
    )
    tree = compile_rules(deeper)
    assert compile_rules(node) is None
    assert tree is not None
    value = {"kind": "B", "spec": {"kind": "B"}}

    assert list(rule_problems(tree, value, value, Correlation(value, value, deeper))) == []


def test_a_value_that_is_not_of_its_type_fails_the_rules_that_look_at_it() -> None:
    schema = obj(rule("self.a > 1"), rule("self.b > 1"), a=_INT, b=_INT)

    assert complaints(schema, {"a": 5.0, "b": 5}) == [
        'spec: Invalid value: "object": invalid data, expected int, got float64 evaluating rule: self.a > 1'
    ]


def test_a_rule_where_nothing_is_seen_is_a_defect() -> None:
    with pytest.raises(SchemaError, match=r"spec\.a: rules need a schema with a type"):
        complaints(obj(a={"x-kubernetes-preserve-unknown-fields": True, **rule("true")}), {})


@pytest.mark.parametrize("text", ["self.size() < 5", "size(self) < 5"])
def test_the_size_of_a_text_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="asks for the size of a text") as caught:
        complaints(obj(a={**_TEXT, **rule(text)}), {})

    assert "maxLength" in caught.value.hint


def test_an_empty_rule_is_no_rule() -> None:
    assert compile_rules(compile_schema({"type": "object", **rule("  ")})) is None
