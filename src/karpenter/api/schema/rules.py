# SPDX-License-Identifier: Apache-2.0
"""``x-kubernetes-validations``: every rule of a schema against every value it governs.

Rules run only on an object whose types are right, top down, and each speaks for the value at its own place.
A rule that mentions ``oldSelf`` compares with the old value and is skipped where there is none; a rule that
fails on something that did not change is forgiven; a rule that cannot be evaluated has failed.

The API server also meters the cost of rules; here the size of manifests is bounded instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import cel

from karpenter.api.schema.cel import EvaluationError, Expression, compile_expression, is_exposed, to_cel
from karpenter.api.schema.correlation import Correlation, ListIndex
from karpenter.api.schema.problems import (
    NO_FIELD,
    Problem,
    child,
    duplicate,
    forbidden,
    indexed,
    invalid,
    required,
)
from karpenter.api.schema.structural import Node, Rule, SchemaError

__all__ = ["RuleTree", "compile_rules", "rule_problems"]

_LONGEST_MESSAGE_BYTES: Final = 5 * 1024
_PATH_STEP: Final = re.compile(r"\.([^.\[\]']+)|\['((?:\\.|[^'\\])*)'\]")
_SIZE_OF_SELF: Final = re.compile(r"\bself\s*\.\s*size\s*\(|\bsize\s*\(\s*self\s*\)")
_TEXT: Final = Node(type="string", types=("string",))


@dataclass(frozen=True, slots=True)
class _CompiledRule:
    rule: Rule
    expression: Expression
    message_expression: Expression | None
    # Where below its node the rule's complaints belong.
    place: str

    @property
    def title(self) -> str:
        return self.rule.message or self.rule.rule


@dataclass(frozen=True, slots=True, eq=False)
class RuleTree:
    """The rules at one node and below; parts of the schema without rules are not in it."""

    node: Node
    rules: tuple[_CompiledRule, ...]
    properties: Mapping[str, RuleTree] = field(default_factory=dict)
    additional: RuleTree | None = None
    items: RuleTree | None = None

    @property
    def expressions(self) -> list[Expression]:
        """Return every expression evaluated at this node."""
        spoken = [rule.message_expression for rule in self.rules if rule.message_expression]
        return [rule.expression for rule in self.rules] + spoken


@dataclass(frozen=True, slots=True)
class _Ratchet:
    """The old counterpart of the current value, or failing that of the nearest value above that has one."""

    here: Correlation | None = None
    above: Correlation | None = None

    def forgives(self) -> bool:
        nearest = self.here or self.above
        return nearest is not None and nearest.unchanged()

    def field(self, name: str) -> _Ratchet:
        if self.here is None:
            return self
        return _Ratchet(self.here.field(name), self.here)

    def item(self, index: int) -> _Ratchet:
        return self if self.here is None else _Ratchet(self.here.item(index), self.here)


def compile_rules(node: Node, path: str = "") -> RuleTree | None:
    """Return the rules of a schema, or None where it has none; ``path`` is for messages.

    Raises:
        SchemaError: a rule does not compile, or stands where rules see nothing.
    """
    if not path or node.embedded:
        node = _with_identity(node)
    if node.rules and not is_exposed(node):
        raise SchemaError(
            f"{path}: rules need a schema with a type", hint="correct the CustomResourceDefinition"
        )
    tree = RuleTree(
        node,
        tuple(_compiled(rule, node, path) for rule in node.rules if rule.rule),
        {
            name: below
            for name, inner in node.properties.items()
            if (is_exposed(inner) or inner.rules) and (below := compile_rules(inner, child(path, name)))
        },
        compile_rules(node.additional, child(path, "*")) if node.additional else None,
        compile_rules(node.items, indexed(path, "*")) if node.items else None,
    )
    return tree if tree.rules or tree.properties or tree.additional or tree.items else None


def rule_problems(
    tree: RuleTree, value: Any, old: Any = None, correlation: Correlation | None = None
) -> Iterator[Problem]:
    """Yield a problem for each rule that fails; ``old`` is what the value was, if it was."""
    yield from _walk(tree, value, old, "", _Ratchet(correlation))


def _walk(tree: RuleTree, value: Any, old: Any, path: str, ratchet: _Ratchet) -> Iterator[Problem]:
    if value is None:
        return
    if tree.rules:
        yield from _judge(tree, value, old, path, ratchet)
    if isinstance(value, list) and tree.items:
        index = ListIndex(tree.node, old if isinstance(old, list) else [])
        for number, item in enumerate(value):
            at = indexed(path, number)
            yield from _walk(tree.items, item, index.get(item), at, ratchet.item(number))
    elif isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for key, inner in value.items():
            if key in tree.properties:
                at, below = child(path, key), tree.properties[key]
            elif tree.additional:
                at, below = indexed(path, key), tree.additional
            else:
                continue
            yield from _walk(below, inner, before.get(key), at, ratchet.field(key))


def _judge(tree: RuleTree, value: Any, old: Any, path: str, ratchet: _Ratchet) -> Iterator[Problem]:
    scope = _Scope(tree, value, old)
    for compiled in tree.rules:
        expression, rule = compiled.expression, compiled.rule
        if expression.uses_old_self and old is None and not rule.optional_old_self:
            continue
        try:
            passed = scope.passes(expression, optional=rule.optional_old_self)
        except EvaluationError as error:
            yield invalid(path or NO_FIELD, tree.node.type, _failure(str(error), compiled))
            continue
        if not passed and (expression.uses_old_self or not ratchet.forgives()):
            yield _complaint(compiled, tree.node, path, scope)


class _Scope:
    """The values that the rules at one place see; converted when first asked for, and once."""

    def __init__(self, tree: RuleTree, value: Any, old: Any) -> None:
        self._tree = tree
        self._value = value
        self._old = old
        self._contexts: dict[bool, cel.Context] = {}
        self._untyped: Mapping[str, str] = {}

    def passes(self, expression: Expression, *, optional: bool) -> bool:
        if isinstance(self._value, str) and self._tree.node.type == "string" and not expression.uses_old_self:
            return _passes_text(expression, self._value)
        return self.evaluated(expression, optional=optional) is True

    def evaluated(self, expression: Expression, *, optional: bool) -> Any:
        if optional not in self._contexts:
            self._contexts[optional] = self._context(optional=optional)
        return expression.evaluate(self._contexts[optional], self._untyped)

    def _context(self, *, optional: bool) -> cel.Context:
        expressions = self._tree.expressions
        reads = [expression.fields for expression in expressions]
        fields = None if None in reads else frozenset().union(*(read for read in reads if read is not None))
        functions = {name: call for expression in expressions for name, call in expression.functions.items()}
        new = to_cel(self._value, self._tree.node, fields)
        variables = {"self": new.value}
        self._untyped = new.untyped
        if self._old is not None and any(expression.uses_old_self for expression in expressions):
            before = to_cel(self._old, self._tree.node, fields, like=self._value)
            self._untyped = {**before.untyped, **new.untyped}
            variables["oldSelf"] = cel.OptionalValue.of(before.value) if optional else before.value
        elif optional:
            variables["oldSelf"] = cel.OptionalValue.none()
        return cel.Context(variables, functions)


@lru_cache(maxsize=8192)
def _passes_text(expression: Expression, text: str) -> bool:
    # The same label keys and values come by again and again; a rule's verdict on one never changes.
    return expression.evaluate(cel.Context({"self": text}, dict(expression.functions))) is True


def _complaint(compiled: _CompiledRule, node: Node, path: str, scope: _Scope) -> Problem:
    at = child(path, compiled.place) if compiled.place else path or NO_FIELD
    message = _spoken(compiled, scope) or compiled.rule.message or f"failed rule: {compiled.rule.rule}"
    if compiled.rule.reason == "FieldValueRequired":
        return required(at, message)
    if compiled.rule.reason == "FieldValueForbidden":
        return forbidden(at, message)
    if compiled.rule.reason == "FieldValueDuplicate":
        return duplicate(at, node.type)
    return invalid(at, node.type, message)


def _spoken(compiled: _CompiledRule, scope: _Scope) -> str:
    """Return the text of the rule's message expression, or nothing if it has none that is fit to print."""
    if compiled.message_expression is None:
        return ""
    try:
        spoken = scope.evaluated(compiled.message_expression, optional=compiled.rule.optional_old_self)
    except EvaluationError:
        return ""
    text = spoken.strip() if isinstance(spoken, str) else ""
    return "" if "\n" in text or len(text.encode()) > _LONGEST_MESSAGE_BYTES else text


def _failure(error: str, compiled: _CompiledRule) -> str:
    if error.startswith("no such overload"):
        what = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error}': {what}: {compiled.title}"
    return f"{error} evaluating rule: {compiled.title}"


def _with_identity(node: Node) -> Node:
    """Return the node of a whole object with the fields that rules may read though no schema names them."""
    metadata = node.properties.get("metadata", Node(type="object"))
    names = {"name": _TEXT, "generateName": _TEXT, **metadata.properties}
    identity = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": replace(metadata, properties=names)}
    return replace(node, properties={**node.properties, **identity})


def _compiled(rule: Rule, node: Node, path: str) -> _CompiledRule:
    expression = compile_expression(rule.rule)
    if node.type == "string" and _SIZE_OF_SELF.search(rule.rule):
        raise SchemaError(
            f"{path}: rule {rule.rule!r} asks for the size of a text, which this engine counts in bytes",
            hint="say minLength or maxLength instead",
        )
    spoken = compile_expression(rule.message_expression) if rule.message_expression else None
    return _CompiledRule(rule, expression, spoken, _place(rule.field_path, node, path))


def _place(field_path: str, node: Node, path: str) -> str:
    """Return a rule's fieldPath as it is printed, checked against the schema."""
    place = ""
    at = 0
    below: Node | None = node
    while at < len(field_path):
        step = _PATH_STEP.match(field_path, at)
        name = (step[1] or re.sub(r"\\(.)", r"\1", step[2])) if step else ""
        named = below is not None and bool(below.properties)
        below = (below.properties.get(name) if named else below.additional) if below else None
        if step is None or below is None:
            raise SchemaError(f"{path}: fieldPath {field_path!r} names no field of the schema")
        place = child(place, name) if named else indexed(place, name)
        at = step.end()
    return place
