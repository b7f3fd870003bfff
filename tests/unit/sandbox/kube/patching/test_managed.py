# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.kinds.shapes import builtin_shape
from karpenter.sandbox.kube.patching.fieldsets import changed, fields_of, from_tree, mistyped, to_tree
from karpenter.sandbox.kube.patching.managed import Writer, applied, tracked

_DEPLOYMENT = builtin_shape("io.k8s.api.apps.v1.Deployment")
_STEP = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])


def _writer(manager: str, operation: str = "Apply") -> Writer:
    return Writer(manager, operation, "apps/v1", "2026-01-01T00:00:00Z")


def _config(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def _live(obj: dict[str, Any], managed: list[dict[str, Any]]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "managedFields": managed}}


def _containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": "i"} for name in names]}}


@given(st.sets(st.lists(_STEP, min_size=1, max_size=4).map(tuple), max_size=8))
def test_a_set_of_fields_survives_being_written_as_a_tree(paths: set[tuple[str, ...]]) -> None:
    assert set(from_tree(to_tree(paths))) == paths


def test_a_first_apply_owns_what_it_says() -> None:
    outcome = applied(None, _config(replicas=2), _DEPLOYMENT, _writer("one"), force=False)

    assert outcome.object["spec"] == {"replicas": 2}
    assert outcome.managed_fields[0]["manager"] == "one"
    assert outcome.managed_fields[0]["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


def test_another_manager_that_wants_another_value_is_told_of_the_conflict() -> None:
    first = applied(None, _config(replicas=2), _DEPLOYMENT, _writer("one"), force=False)
    live = _live(first.object, first.managed_fields)

    with pytest.raises(ApiError) as refused:
        applied(live, _config(replicas=3), _DEPLOYMENT, _writer("two"), force=False)

    assert refused.value.code == 409
    assert 'conflict with "one": .spec.replicas' in refused.value.message


def test_insisting_takes_the_field_over() -> None:
    first = applied(None, _config(replicas=2), _DEPLOYMENT, _writer("one"), force=False)
    live = _live(first.object, first.managed_fields)

    outcome = applied(live, _config(replicas=3), _DEPLOYMENT, _writer("two"), force=True)

    assert outcome.object["spec"]["replicas"] == 3
    assert [entry["manager"] for entry in outcome.managed_fields] == ["two"]


def test_two_may_own_a_field_that_they_agree_on() -> None:
    first = applied(None, _config(replicas=2), _DEPLOYMENT, _writer("one"), force=False)
    live = _live(first.object, first.managed_fields)

    outcome = applied(live, _config(replicas=2), _DEPLOYMENT, _writer("two"), force=False)

    assert sorted(entry["manager"] for entry in outcome.managed_fields) == ["one", "two"]


def test_a_field_that_is_no_longer_applied_goes_unless_someone_else_has_it() -> None:
    first = applied(None, _config(template=_containers("a", "b")), _DEPLOYMENT, _writer("one"), force=False)
    live = _live(first.object, first.managed_fields)
    second = applied(live, _config(template=_containers("b")), _DEPLOYMENT, _writer("two"), force=False)
    shared = _live(second.object, second.managed_fields)

    outcome = applied(shared, _config(), _DEPLOYMENT, _writer("one"), force=False)

    left = outcome.object["spec"]["template"]["spec"]["containers"]
    owners = {entry["manager"]: entry["fieldsV1"] for entry in outcome.managed_fields}
    assert [each["name"] for each in left] == ["b"]
    assert owners["one"] == {"f:spec": {}}
    assert "f:template" in owners["two"]["f:spec"]


def test_conflicts_with_several_fields_are_all_listed() -> None:
    old = _config()
    new = _config(replicas=1, minReadySeconds=5)
    managed = tracked(old, new, _DEPLOYMENT, _writer("edit", "Update"))
    live = _live(new, managed)

    with pytest.raises(ApiError) as refused:
        applied(live, _config(replicas=2, minReadySeconds=6), _DEPLOYMENT, _writer("one"), force=False)

    assert refused.value.message.startswith(
        'Apply failed with 2 conflicts: conflicts with "edit" using apps/v1:'
    )
    assert refused.value.details is not None
    assert len(refused.value.details["causes"]) == 2


def test_a_plain_write_takes_what_it_changes_from_others() -> None:
    first = applied(None, _config(replicas=2), _DEPLOYMENT, _writer("one"), force=False)
    live = _live(first.object, first.managed_fields)

    entries = tracked(live, _config(replicas=5), _DEPLOYMENT, _writer("edit", "Update"))

    assert [entry["manager"] for entry in entries] == ["edit"]


def test_items_are_interleaved_where_they_stood() -> None:
    first = applied(
        None, _config(template=_containers("a", "b", "c")), _DEPLOYMENT, _writer("one"), force=False
    )
    live = _live(first.object, first.managed_fields)

    outcome = applied(live, _config(template=_containers("x", "b")), _DEPLOYMENT, _writer("two"), force=False)

    names = [each["name"] for each in outcome.object["spec"]["template"]["spec"]["containers"]]
    assert sorted(names) == ["a", "b", "c", "x"]
    assert names.index("x") < names.index("b") < names.index("c")


def test_added_removed_and_modified_fields_are_told_apart() -> None:
    found = set(
        changed(
            {"spec": {"replicas": 1, "paused": True}},
            {"spec": {"replicas": 2, "minReadySeconds": 1}},
            _DEPLOYMENT,
        )
    )

    assert found == {
        ("~", ("f:spec", "f:replicas")),
        ("-", ("f:spec", "f:paused")),
        ("+", ("f:spec", "f:minReadySeconds")),
    }


def test_an_empty_map_is_a_field_of_its_own() -> None:
    assert list(fields_of({"spec": {"template": {}}}, _DEPLOYMENT)) == [("f:spec", "f:template")]


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"spec": {"replicas": "x"}}, ".spec.replicas: expected numeric (int or float), got string"),
        ({"nonsense": 1}, ".nonsense: field not declared in schema"),
        ({"spec": []}, ".spec: expected map, got list"),
        ({"metadata": {"finalizers": "x"}}, ".metadata.finalizers: expected list, got string"),
    ],
)
def test_a_configuration_of_the_wrong_shape_is_described(config: dict[str, Any], complaint: str) -> None:
    assert list(mistyped(config, _DEPLOYMENT)) == [complaint]
