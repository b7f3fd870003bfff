# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.schema import Problem, load_crds
from karpenter.api.schema.structural import Node
from tests.corpus.cases import CASES

_TEXTS = st.sampled_from(
    ["", "a", "x y", "10%", "1h", "Never", "-1", "karpenter.sh/x", "é" * 70, "al2@latest"]
)
_SCALARS = st.none() | st.booleans() | st.integers(-5, 200) | st.sampled_from([1.5, 2.0, 2**70]) | _TEXTS
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
_GOOD = [case.object for case in CASES if case.verdict == "accepted"]


def _places(value: Any, way: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    places = [way]
    pairs: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in pairs:
        places += _places(inner, (*way, key))
    return places


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """Return a good object with something put in the place of something else."""
    obj: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(_GOOD)))
    for _ in range(draw(st.integers(1, 3))):
        places = [place for place in _places(obj) if place and place[0] in {"metadata", "spec"}]
        *way, last = draw(st.sampled_from(places or [("spec",)]))
        inner: Any = obj
        for key in way:
            inner = inner[key]
        inner[last] = draw(_JSON)
    return obj


@given(damaged())
def test_any_object_gets_a_verdict_and_is_left_as_it_was(obj: dict[str, Any]) -> None:
    before = copy.deepcopy(obj)

    admission = load_crds().admit(obj)

    assert obj == before
    assert admission.accepted == (not admission.problems)
    assert all(str(problem) for problem in admission.problems)


@given(damaged())
def test_what_was_accepted_is_accepted_again_unchanged(obj: dict[str, Any]) -> None:
    registry = load_crds()
    first = registry.admit(obj)

    if first.accepted:
        again = registry.admit(first.object)
        updated = registry.admit(first.object, first.object)

        assert again.object == first.object
        assert again.pruned == ()
        assert again.accepted
        assert updated.accepted


@given(damaged())
def test_what_is_stored_has_only_fields_that_its_schema_knows(obj: dict[str, Any]) -> None:
    registry = load_crds()
    admission = registry.admit(obj)

    if not admission.unreadable:
        node = registry.definition(obj["apiVersion"], obj["kind"]).node
        assert (
            _unknown(admission.object["spec"], node.properties["spec"]) == []
            if "spec" in admission.object
            else True
        )


@given(damaged())
def test_an_update_that_changes_nothing_is_never_refused_by_the_schema(obj: dict[str, Any]) -> None:
    registry = load_crds()
    stored = registry.admit(obj)

    if not stored.unreadable and "spec" in stored.object:
        problems = registry.admit(stored.object, stored.object).problems

        # Rules that cannot be evaluated are refused each time; so are names that should never have been stored.
        refused = [problem for problem in problems if not _is_evaluation_error(problem)]
        assert [problem for problem in refused if problem.field.startswith("spec")] == []


@given(damaged(), st.randoms(use_true_random=False))
def test_the_order_of_keys_decides_nothing(obj: dict[str, Any], random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            random.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    first, second = load_crds().admit(obj), load_crds().admit(shuffled(obj))

    assert first.pruned == second.pruned
    assert {str(problem) for problem in first.problems} == {str(problem) for problem in second.problems}


def _is_evaluation_error(problem: Problem) -> bool:
    return " evaluating rule: " in problem.detail or problem.detail.startswith("'no such overload'")


def _unknown(value: Any, node: Node | None) -> list[str]:
    if node is None or node.preserve_unknown:
        return []
    if isinstance(value, list):
        return [name for item in value for name in _unknown(item, node.items)]
    if not isinstance(value, dict):
        return []
    found = [] if node.has_additional else [key for key in value if key not in node.properties]
    return found + [name for key, inner in value.items() for name in _unknown(inner, node.below(key))]
