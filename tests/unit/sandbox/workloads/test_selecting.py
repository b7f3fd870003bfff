# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from karpenter.sandbox.scheduler.matching import read_selector
from karpenter.sandbox.workloads.caching import Store
from karpenter.sandbox.workloads.resources import BUDGET, POD
from karpenter.sandbox.workloads.selecting import index_labels, index_selectors, selected, selectors_of

_LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))
_EXPRESSION = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, "values": values},
    st.sampled_from("ab"),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(st.sampled_from("xy"), unique=True),
)
_SELECTORS = st.none() | st.fixed_dictionaries(
    {}, optional={"matchLabels": _LABELS, "matchExpressions": st.lists(_EXPRESSION, max_size=2)}
)
_NAMESPACES = st.sampled_from(["here", "there"])


def _object(number: int, namespace: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": f"n{number}", "namespace": namespace, "uid": f"u{number}", **more.pop("metadata", {})}
    return {"metadata": metadata, **more}


def _names(wires: list[dict[str, Any]]) -> list[str]:
    return sorted(each["metadata"]["name"] for each in wires)


@given(st.lists(st.tuples(_NAMESPACES, _LABELS), max_size=8), _SELECTORS)
def test_the_index_finds_whom_a_look_at_everybody_finds(
    pods: list[tuple[str, dict[str, str]]], selector: dict[str, Any] | None
) -> None:
    store = Store(POD)
    index_labels(store)
    for number, (namespace, labels) in enumerate(pods):
        store.put(_object(number, namespace, metadata={"labels": labels}))
    read = read_selector(selector)

    found = selected(store, "here", read)

    everybody = [each for each in store.in_namespace("here") if read.matches(each["metadata"]["labels"])]
    assert _names(found) == _names(everybody)


@given(st.lists(st.tuples(_NAMESPACES, _SELECTORS), max_size=8), _LABELS)
def test_the_index_finds_every_selector_that_selects_an_object(
    budgets: list[tuple[str, dict[str, Any] | None]], labels: dict[str, str]
) -> None:
    store = Store(BUDGET)
    index_selectors(store)
    for number, (namespace, selector) in enumerate(budgets):
        store.put(_object(number, namespace, spec={"selector": selector}))

    found = selectors_of(store, {"metadata": {"namespace": "here", "labels": labels}})

    everybody = [
        each for each in store.in_namespace("here") if read_selector(each["spec"]["selector"]).matches(labels)
    ]
    assert _names(found) == _names(everybody)


def test_a_pod_whose_label_changed_is_found_under_the_new_one_alone() -> None:
    store = Store(POD)
    index_labels(store)
    store.put(_object(1, "here", metadata={"labels": {"a": "x"}, "resourceVersion": "1"}))

    store.put(_object(1, "here", metadata={"labels": {"a": "y"}, "resourceVersion": "2"}))

    assert selected(store, "here", read_selector({"matchLabels": {"a": "x"}})) == []
    assert len(selected(store, "here", read_selector({"matchLabels": {"a": "y"}}))) == 1
