# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from karpenter.api.schema import Problem, ProblemType, load_crds
from karpenter.api.schema.structural import Node, Rule
from tests.corpus.cases import CASES, ValidationCase


@pytest.mark.parametrize("case", CASES, ids=str)
def test_our_verdict_is_the_one_recorded_from_a_real_server(case: ValidationCase) -> None:
    verdict = case.judged(load_crds())

    assert verdict.accepted == (case.verdict == "accepted"), verdict.problems
    assert verdict.unreadable == (case.verdict == "unreadable")
    if case.verdict == "refused":
        assert {(problem.field, str(problem.type)) for problem in verdict.problems} == case.problems


def test_every_definition_has_good_and_bad_cases() -> None:
    verdicts = Counter((case.object["apiVersion"], case.object["kind"], case.verdict) for case in CASES)

    for definition in load_crds().definitions:
        name = (definition.api_version, definition.kind)
        assert verdicts[*name, "accepted"] >= 2, name
        assert verdicts[*name, "refused"] >= 1, name


def test_every_rule_of_every_definition_is_broken_by_some_case() -> None:
    registry = load_crds()
    complaints: dict[tuple[str, str], set[str]] = {}
    for case in CASES:
        kind = (case.object["apiVersion"], case.object["kind"])
        complaints.setdefault(kind, set()).update(problem.detail for problem in _rule_problems(case))

    unbroken = [
        f"{definition.api_version} {definition.kind}: {rule.message}"
        for definition in registry.definitions
        for rule in _rules(definition.node)
        if rule.message not in complaints[definition.api_version, definition.kind]
    ]

    assert unbroken == []


def _rule_problems(case: ValidationCase) -> Iterator[Problem]:
    for problem in case.judged(load_crds()).problems:
        if problem.type is ProblemType.INVALID:
            yield problem


def _rules(node: Node) -> Iterator[Rule]:
    yield from node.rules
    for below in (*node.properties.values(), node.additional, node.items):
        if below is not None:
            yield from _rules(below)
