# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.model.selectors import compile_selector

KEYS, VALUES = "abc", ("", "1", "2")

label_sets = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(tuple)
terms = st.one_of(
    st.builds(
        LabelSelectorRequirement,
        key=st.sampled_from(KEYS),
        operator=st.sampled_from(["In", "NotIn"]),
        values=values,
    ),
    st.builds(
        LabelSelectorRequirement,
        key=st.sampled_from(KEYS),
        operator=st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
selectors = st.builds(
    LabelSelector, match_labels=label_sets, match_expressions=st.lists(terms, max_size=3).map(tuple)
)


def holds(term: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    present = term.key in labels
    if term.operator == "In":
        return present and labels[term.key] in term.values
    if term.operator == "NotIn":
        return not present or labels[term.key] not in term.values
    return present is (term.operator == "Exists")


def naive(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    return selector.match_labels.items() <= labels.items() and all(
        holds(term, labels) for term in selector.match_expressions
    )


@given(selectors, label_sets)
def test_a_compiled_selector_matches_what_its_parts_match(
    selector: LabelSelector, labels: dict[str, str]
) -> None:
    compiled = compile_selector(selector)

    assert compiled.matches(labels) is naive(selector, labels)
    assert not compiled.matches(labels) or set(compiled.pairs) <= labels.items()


@given(selectors, st.randoms(use_true_random=False))
def test_the_order_and_repetition_of_expressions_do_not_matter(
    selector: LabelSelector, random: Random
) -> None:
    shuffled = [*selector.match_expressions, *selector.match_expressions]
    random.shuffle(shuffled)

    again = LabelSelector(match_labels=selector.match_labels, match_expressions=tuple(shuffled))

    assert compile_selector(again) == compile_selector(selector)


@given(selectors, label_sets, label_sets)
def test_keys_of_the_owner_ask_for_its_values(
    selector: LabelSelector, own: dict[str, str], labels: dict[str, str]
) -> None:
    compiled = compile_selector(selector, own, match_keys=("a",), mismatch_keys=("b",))

    same = "a" not in own or labels.get("a") == own["a"]
    different = "b" not in own or labels.get("b") != own["b"]
    assert compiled.matches(labels) is (naive(selector, labels) and same and different)
