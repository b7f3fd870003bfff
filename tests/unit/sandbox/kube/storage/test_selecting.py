# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.storage.selecting import (
    field_selector,
    field_value,
    label_selector,
    matches_labels,
    supported_fields,
)

_LABELS = {"colour": "red", "size": "5", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("colour=red", True),
        ("colour==blue", False),
        ("colour!=blue", True),
        ("missing!=x", True),
        ("colour in (red, blue)", True),
        ("colour notin (red)", False),
        ("missing notin (red)", True),
        ("colour", True),
        ("!colour", False),
        ("!missing,colour=red", True),
        ("size>4", True),
        ("size<4", False),
        ("colour>4", False),
        ("empty=", True),
        ("colour=", False),
    ],
)
def test_labels_are_selected(selector: str, selected: bool) -> None:  # noqa: FBT001
    selects = label_selector(selector)

    assert selects is not None
    assert selects({"metadata": {"labels": _LABELS}}) is selected


@pytest.mark.parametrize("selector", ["a b", "=x", "a in b", "a in (b", "a>x", "a~b", "(", "a=b c"])
def test_a_selector_that_cannot_be_read_is_a_bad_request(selector: str) -> None:
    with pytest.raises(ApiError) as refused:
        label_selector(selector)

    assert refused.value.code == 400


def test_an_empty_selector_selects_everything() -> None:
    assert label_selector(" ") is None
    assert field_selector("", "/pods") is None


def test_selector_objects_mean_what_they_say() -> None:
    expression = {"matchExpressions": [{"key": "colour", "operator": "In", "values": ["red"]}]}

    assert matches_labels(expression, _LABELS)
    assert matches_labels({}, _LABELS)
    assert not matches_labels(None, _LABELS)
    assert not matches_labels({"matchLabels": {"colour": "blue"}}, _LABELS)
    assert not matches_labels({"matchExpressions": [{"key": "colour", "operator": "DoesNotExist"}]}, _LABELS)


def test_fields_are_selected_by_equality() -> None:
    obj = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {}}

    selects = field_selector("spec.nodeName=n,status.phase!=Running", "/pods")

    assert selects is not None
    assert selects(obj)
    assert not selects({**obj, "spec": {}})


def test_a_field_that_the_kind_does_not_offer_is_refused() -> None:
    assert "spec.nodeName" in supported_fields("/pods")
    for selector, kind in (
        ("spec.color=red", "/pods"),
        ("data.a=b", "/configmaps"),
        ("metadata.name", "/pods"),
    ):
        with pytest.raises(ApiError):
            field_selector(selector, kind)


def test_absent_fields_have_the_values_that_they_stand_for() -> None:
    assert field_value({"metadata": {}}, "status.phase", "/pods") == "Pending"
    assert field_value({"metadata": {}}, "spec.unschedulable", "/nodes") == "false"
    assert field_value({"spec": {"unschedulable": True}}, "spec.unschedulable", "/nodes") == "true"
    assert field_value({"status": {"succeeded": 2}}, "status.successful", "batch/jobs") == "2"
    assert field_value({"metadata": {"name": "a"}}, "metadata.name", "batch/jobs") == "a"
    assert field_value({"source": {"component": "kubelet"}}, "source", "/events") == "kubelet"
    assert field_value({}, "status.replicas", "apps/replicasets") == "0"
