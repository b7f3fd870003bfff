# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
)
from karpenter.model.affinity import node_rules, term_matches

KEYS, VALUES = "abc", ("", "x", "1", "2", "3")

label_sets = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Wat"])
expressions = st.builds(
    NodeSelectorRequirement,
    key=st.sampled_from(KEYS),
    operator=operators,
    values=st.lists(st.sampled_from(VALUES), max_size=2).map(tuple),
)
terms = st.builds(NodeSelectorTerm, match_expressions=st.lists(expressions, max_size=3).map(tuple))


def readable(expression: NodeSelectorRequirement) -> bool:
    count = len(expression.values)
    if expression.operator in ("In", "NotIn"):
        return count > 0
    if expression.operator in ("Exists", "DoesNotExist"):
        return count == 0
    return expression.operator in ("Gt", "Lt") and count == 1 and expression.values[0].isdigit()


def holds(expression: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    number = int(value) if value and value.isdigit() else None
    match expression.operator:
        case "In":
            return value is not None and value in expression.values
        case "NotIn":
            return value is None or value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return number is not None and number > int(expression.values[0])
        case _:
            return number is not None and number < int(expression.values[0])


def naive(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    parts = term.match_expressions
    return bool(parts) and all(map(readable, parts)) and all(holds(part, labels) for part in parts)


@given(terms, label_sets)
def test_a_term_matches_where_all_its_parts_do(term: NodeSelectorTerm, labels: dict[str, str]) -> None:
    assert term_matches(term, labels) is naive(term, labels)


@given(st.lists(terms, min_size=1, max_size=3), label_sets, label_sets)
def test_a_pod_goes_where_the_selector_and_one_of_the_terms_say_so(
    required: list[NodeSelectorTerm], selector: dict[str, str], labels: dict[str, str]
) -> None:
    affinity = NodeAffinity(required=NodeSelector(node_selector_terms=tuple(required)))
    pod = Pod(spec=PodSpec(node_selector=selector, affinity=Affinity(node_affinity=affinity)))

    rules = node_rules(pod)

    expected = selector.items() <= labels.items() and any(naive(term, labels) for term in required)
    assert rules.matches(labels) is expected
    # None of these keys has an older name, so what a plan asks for is the same.
    assert any(each.requirements.allows(labels) for each in rules.alternatives) is expected
