# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.core import PodAffinityTerm
from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.model.selectors import (
    EVERYTHING,
    NOTHING,
    NamespaceSelection,
    Selector,
    compile_selector,
    select_namespaces,
)


def expressions(*parts: tuple[str, str, tuple[str, ...]]) -> LabelSelector:
    return LabelSelector(
        match_expressions=tuple(
            LabelSelectorRequirement(key=key, operator=operator, values=values)
            for key, operator, values in parts
        )
    )


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert compile_selector(None) == NOTHING
    assert compile_selector(LabelSelector()) == EVERYTHING
    assert EVERYTHING.matches({})
    assert EVERYTHING.selects_everything
    assert not NOTHING.matches({"a": "1"})
    assert not NOTHING.selects_everything


@pytest.mark.parametrize(
    ("selector", "selected", "left_out"),
    [
        (LabelSelector(match_labels={"a": "1"}), [{"a": "1", "b": "2"}], [{}, {"a": "2"}]),
        (expressions(("a", "In", ("1", "2"))), [{"a": "1"}, {"a": "2"}], [{}, {"a": "3"}]),
        (expressions(("a", "NotIn", ("1",))), [{}, {"a": "2"}], [{"a": "1"}]),
        (expressions(("a", "Exists", ())), [{"a": ""}], [{}]),
        (expressions(("a", "DoesNotExist", ())), [{}, {"b": "1"}], [{"a": "1"}]),
        (expressions(("a", "Exists", ()), ("a", "NotIn", ("1",))), [{"a": "2"}], [{}, {"a": "1"}]),
    ],
)
def test_each_operator_selects_its_labels(
    selector: LabelSelector, selected: list[dict[str, str]], left_out: list[dict[str, str]]
) -> None:
    compiled = compile_selector(selector)

    assert [labels for labels in selected if not compiled.matches(labels)] == []
    assert [labels for labels in left_out if compiled.matches(labels)] == []


def test_selectors_that_mean_the_same_are_equal_however_written() -> None:
    one = compile_selector(LabelSelector(match_labels={"a": "1", "b": "2"}))
    other = compile_selector(
        expressions(("b", "In", ("2", "3")), ("a", "In", ("1",)), ("b", "NotIn", ("3",)))
    )

    assert one == other
    assert hash(one) == hash(other)
    assert one.pairs == (("a", "1"), ("b", "2"))
    assert str(one) == "a In [1], b In [2]"


def test_a_selector_that_contradicts_itself_is_the_one_that_selects_nothing() -> None:
    assert compile_selector(expressions(("a", "In", ("1",)), ("a", "NotIn", ("1",)))) == NOTHING


def test_only_labels_with_one_value_serve_an_index() -> None:
    compiled = compile_selector(
        expressions(("a", "In", ("1", "2")), ("b", "NotIn", ("1",)), ("c", "In", ("3",)))
    )

    assert compiled.pairs == (("c", "3"),)


def test_keys_of_pods_are_not_taken_for_old_names_of_node_labels() -> None:
    compiled = compile_selector(LabelSelector(match_labels={"beta.kubernetes.io/arch": "amd64"}))

    assert compiled.matches({"beta.kubernetes.io/arch": "amd64"})


@pytest.mark.parametrize(
    ("operator", "values", "problem"),
    [
        ("Gt", ("1",), 'a: "Gt" is no operator of a label selector'),
        ("In", (), "a: operator In needs values"),
        ("NotIn", (), "a: operator NotIn needs values"),
        ("Exists", ("1",), "a: operator Exists takes no values"),
    ],
)
def test_a_selector_that_cannot_be_read_selects_nothing_and_says_why(
    operator: str, values: tuple[str, ...], problem: str
) -> None:
    compiled = compile_selector(expressions(("a", operator, values)))

    assert compiled == Selector(selects_nothing=True, problem=problem)
    assert not compiled.matches({"a": "1"})
    assert str(compiled) == f"nothing ({problem})"


def test_keys_whose_values_are_the_owners_narrow_the_selector() -> None:
    compiled = compile_selector(
        LabelSelector(match_labels={"app": "x"}),
        {"app": "x", "hash": "1", "tenant": "t"},
        match_keys=("hash", "unknown"),
        mismatch_keys=("tenant", "unknown"),
    )

    assert compiled.matches({"app": "x", "hash": "1"})
    assert not compiled.matches({"app": "x", "hash": "2"})
    assert not compiled.matches({"app": "x", "hash": "1", "tenant": "t"})
    assert str(compiled) == "app In [x], hash In [1], tenant NotIn [t]"


def test_no_key_makes_an_absent_selector_select_anything() -> None:
    assert compile_selector(None, {"hash": "1"}, match_keys=("hash",)) == NOTHING


def test_the_texts_of_both_ends_are_words() -> None:
    assert (str(EVERYTHING), str(NOTHING)) == ("everything", "nothing")


class TestNamespaces:
    def test_a_term_means_the_owners_namespace_unless_it_says_otherwise(self) -> None:
        own = select_namespaces(PodAffinityTerm(topology_key="k"), "mine")
        named = select_namespaces(PodAffinityTerm(topology_key="k", namespaces=("b", "a")), "mine")

        assert own == NamespaceSelection(frozenset({"mine"}))
        assert named == NamespaceSelection(frozenset({"a", "b"}))
        assert named.matches("a", {})
        assert not named.matches("mine", {})

    def test_a_selector_adds_namespaces_to_those_named(self) -> None:
        term = PodAffinityTerm(
            topology_key="k", namespaces=("a",), namespace_selector=LabelSelector(match_labels={"team": "x"})
        )

        selection = select_namespaces(term, "mine")

        assert selection.matches("a", {})
        assert selection.matches("z", {"team": "x"})
        assert not selection.matches("mine", {})

    def test_an_empty_selector_means_every_namespace_and_needs_no_names(self) -> None:
        every = PodAffinityTerm(topology_key="k", namespace_selector=LabelSelector())
        named_too = PodAffinityTerm(topology_key="k", namespaces=("a",), namespace_selector=LabelSelector())

        assert select_namespaces(every, "mine") == select_namespaces(named_too, "mine")
        assert select_namespaces(every, "mine").matches("z", {})

    def test_the_intersection_holds_where_both_do(self) -> None:
        mine = NamespaceSelection(frozenset({"a", "b"}))
        teams = select_namespaces(
            PodAffinityTerm(topology_key="k", namespace_selector=LabelSelector(match_labels={"team": "x"})),
            "mine",
        )

        both = mine.intersection(teams)

        assert both.matches("a", {"team": "x"})
        assert not both.matches("a", {})
        assert not both.matches("z", {"team": "x"})
        assert mine.intersection(mine) is mine
        assert both.intersection(teams) is both


def test_the_intersection_of_selectors_selects_what_both_select() -> None:
    web = compile_selector(LabelSelector(match_labels={"app": "web"}))
    gold = compile_selector(LabelSelector(match_labels={"tier": "gold"}))
    api = compile_selector(LabelSelector(match_labels={"app": "api"}))

    both = web.intersection(gold)

    assert both.matches({"app": "web", "tier": "gold"})
    assert not both.matches({"app": "web"})
    assert web.intersection(api) == NOTHING
    assert web.intersection(NOTHING) == NOTHING
