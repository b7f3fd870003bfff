# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from typing import Any

import pytest

from karpenter.api.schema import (
    Registry,
    SchemaError,
    UnknownKindError,
    ValidationFailedError,
    load_crds,
)
from karpenter.api.schema.admission import Admission

_SPEC = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "x"},
        "count": {"type": "integer", "minimum": 1},
        "keys": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "free": {"x-kubernetes-preserve-unknown-fields": True},
        "fixed": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}],
        },
        "pod": {"type": "object", "x-kubernetes-embedded-resource": True},
        "replicas": {"x-kubernetes-preserve-unknown-fields": True},
    },
}
_STATUS = {
    "type": "object",
    "properties": {"phase": {"type": "string", "enum": ["A"]}, "replicas": {"type": "integer"}},
    "anyOf": [{"required": ["phase"]}, {"required": ["replicas"]}],
}


def crd(
    *, scope: str = "Cluster", status: bool = True, scale: bool = False, **version: Any
) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}} if status else {}
    if scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": _SPEC, "status": _STATUS},
                        }
                    },
                    **version,
                },
                {"name": "v0", "served": False, "storage": False, "schema": {"openAPIV3Schema": {}}},
            ],
        },
    }


def thing(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}


def texts(admission: Admission) -> list[str]:
    return [str(problem) for problem in admission.problems]


THINGS = Registry([crd()])


def test_an_object_is_pruned_defaulted_and_left_as_it_was() -> None:
    obj = thing(count=1, unknown=5, keys=None) | {"metadata": {"name": "a", "odd": 1}}
    before = copy.deepcopy(obj)

    admission = THINGS.admit(obj)

    assert admission.accepted
    assert admission.check() == thing(count=1, name="x")
    assert admission.pruned == ("metadata.odd", "spec.unknown")
    assert obj == before


def test_strict_reading_makes_unknown_fields_problems() -> None:
    admission = THINGS.admit(thing(unknown=5), strict=True)

    assert texts(admission) == ['unknown field "spec.unknown"']
    assert not admission.unreadable


def test_every_problem_comes_at_once_and_rules_come_last() -> None:
    admission = THINGS.admit(thing(count=0, keys=["a", "a"], fixed="b") | {"metadata": {"name": "A"}})

    assert [problem.field for problem in admission.problems] == [
        "metadata.name",
        "spec.count",
        "spec.keys[1]",
    ]


def test_rules_wait_until_types_are_right() -> None:
    admission = THINGS.admit(thing(count="1"))

    assert texts(admission)[-1] == (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )


def test_without_rules_nobody_waits_for_them() -> None:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}

    assert len(Registry([crd(schema=schema)]).admit(thing() | {"spec": "x"}).problems) == 1


def test_unreadable_metadata_ends_everything() -> None:
    obj = thing(count=0) | {"metadata": {"name": 5}}

    admission = THINGS.admit(obj)

    assert admission.unreadable
    assert not admission.accepted
    assert [problem.field for problem in admission.problems] == ["metadata.name"]
    assert admission.object == obj


def test_embedded_objects_are_read_and_judged() -> None:
    good = THINGS.admit(thing(pod={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "odd": 1}}))
    bad = THINGS.admit(thing(pod={"kind": "Pod"}))
    unreadable = THINGS.admit(thing(pod={"kind": 5}))

    assert good.object["spec"]["pod"]["metadata"] == {"name": "p"}
    assert good.pruned == ("spec.pod.metadata.odd",)
    assert texts(bad)[0] == "spec.pod.apiVersion: Required value"
    assert unreadable.unreadable


@pytest.mark.parametrize("levels", [400, 700, 900, 5000])
def test_an_object_nested_beyond_reason_is_unreadable(levels: int) -> None:
    deep: Any = "x"
    for _ in range(levels):
        deep = [deep]

    admission = THINGS.admit(thing(free=deep))

    assert admission.accepted or admission.unreadable
    if levels == 5000:
        assert texts(admission) == ['<nil>: Invalid value: "object": is nested too deeply to be read']


def test_a_namespaced_object_goes_to_a_namespace() -> None:
    namespaced = Registry([crd(scope="Namespaced")])

    assert namespaced.admit(thing()).object["metadata"]["namespace"] == "default"
    assert namespaced.admit(thing(), namespace="team").object["metadata"]["namespace"] == "team"
    stored = namespaced.admit(thing(), namespace="team").object
    assert namespaced.admit(thing(), stored).object["metadata"]["namespace"] == "team"
    assert namespaced.admit(thing(), stored).accepted


def test_a_cluster_wide_object_loses_its_namespace() -> None:
    admission = THINGS.admit(thing() | {"metadata": {"name": "a", "namespace": "b"}})

    assert admission.check()["metadata"] == {"name": "a"}


def test_a_new_object_has_no_status_if_that_is_a_subresource() -> None:
    obj = thing() | {"status": {"phase": "B"}}

    assert "status" not in THINGS.admit(obj).check()
    without = Registry([crd(status=False)]).admit(obj)
    assert without.object["status"] == {"phase": "B"}
    assert [problem.field for problem in without.problems] == ["status.phase", "<nil>"]


def test_an_update_keeps_identity_and_status() -> None:
    metadata = {"name": "a", "uid": "u", "resourceVersion": "5", "creationTimestamp": "2025-01-01T00:00:00Z"}
    old = thing(name="b") | {"metadata": metadata, "status": {"phase": "A"}}

    admission = THINGS.admit(thing(name="c") | {"status": {"phase": "ignored"}}, old)

    assert admission.check() == thing(name="c") | {"metadata": metadata, "status": {"phase": "A"}}


def test_an_update_of_what_has_no_status_sets_none() -> None:
    assert "status" not in THINGS.admit(thing() | {"status": {"phase": "A"}}, thing()).check()


def test_a_status_that_is_no_subresource_is_a_field_like_any_other() -> None:
    plain = Registry([crd(status=False)])

    assert plain.admit(thing() | {"status": {"phase": "A"}}, thing()).check()["status"] == {"phase": "A"}


def test_an_update_may_not_change_what_is_fixed() -> None:
    assert texts(THINGS.admit(thing(fixed="b"), thing(fixed="a"))) == [
        'spec.fixed: Invalid value: "string": is fixed'
    ]
    assert texts(THINGS.admit(thing() | {"metadata": {"name": "b"}}, thing())) == [
        'metadata.name: Invalid value: "b": field is immutable'
    ]


def test_an_update_is_not_blamed_for_what_was_wrong_before() -> None:
    old = thing(count=0, keys=["a", "a"])

    assert THINGS.admit(thing(count=0, keys=["a", "a"], name="new"), old).accepted
    assert texts(THINGS.admit(thing(count=-1), old)) == [
        "spec.count: Invalid value: -1: spec.count in body should be greater than or equal to 1"
    ]


def test_the_status_subresource_changes_the_status_alone() -> None:
    old = thing(name="b")

    good = THINGS.admit(thing(name="c") | {"status": {"phase": "A"}}, old, subresource="status")
    gone = THINGS.admit(thing(name="c"), old | {"status": {"phase": "A"}}, subresource="status")

    assert good.check() == old | {"status": {"phase": "A"}}
    assert gone.check() == old


def test_a_bad_status_is_refused_where_it_stands() -> None:
    admission = THINGS.admit(thing() | {"status": {"replicas": "x"}}, thing(), subresource="status")

    assert [str(problem) for problem in admission.problems[:1]] == [
        'status.replicas: Invalid value: "string": replicas in body must be of type integer: "string"'
    ]
    empty = THINGS.admit(thing() | {"status": {}}, thing(), subresource="status")
    assert {problem.field for problem in empty.problems} == {"status", "status.phase", "<nil>"}


def test_a_status_without_a_schema_is_pruned_and_taken() -> None:
    bare = Registry([crd(schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}})])

    admission = bare.admit(thing() | {"status": {"phase": "A"}}, thing(), subresource="status")

    assert admission.accepted
    assert admission.pruned == ("status",)


@pytest.mark.parametrize(
    ("replicas", "words"),
    [
        (3, None),
        (None, None),
        (-1, "should be a non-negative integer"),
        (2**31, "should be less than or equal to 2147483647"),
        ("3", "3 is of the type string, expected int64"),
        ([1], "[1] is of the type []interface {}, expected int64"),
    ],
)
def test_what_can_be_scaled_has_a_count(replicas: Any, words: str | None) -> None:
    admission = Registry([crd(scale=True)]).admit(thing(replicas=replicas))

    assert admission.accepted == (words is None)
    if words is not None:
        assert admission.problems[0].field == ".spec.replicas"
        assert words in admission.problems[0].detail


def test_what_can_be_scaled_needs_a_place_for_its_count() -> None:
    admission = Registry([crd(scale=True)]).admit(thing() | {"spec": "x"})

    assert "x is of the type string, expected map[string]interface{}" in " ".join(texts(admission))


def test_a_refused_object_is_named_by_its_error() -> None:
    with pytest.raises(ValidationFailedError) as caught:
        THINGS.admit(thing(count=0)).check()
    with pytest.raises(ValidationFailedError) as generated:
        THINGS.admit(thing(count=0) | {"metadata": {"generateName": "b-"}}).check()
    with pytest.raises(ValidationFailedError) as nameless:
        THINGS.admit(thing() | {"metadata": []}).check()

    assert (caught.value.kind, caught.value.name) == ("Thing", "a")
    assert generated.value.name == "b-"
    assert nameless.value.name == ""


def test_an_unknown_kind_is_told_what_it_might_have_meant() -> None:
    with pytest.raises(UnknownKindError) as wrong_version:
        THINGS.admit({"apiVersion": "example.com/v0", "kind": "Thing"})
    with pytest.raises(UnknownKindError) as wrong_case:
        Registry([crd()]).definition("completely.different.example/v1alpha17", "thing")
    with pytest.raises(UnknownKindError) as unlike:
        THINGS.definition("v1", "Pod")

    assert wrong_version.value.message == "example.com/v0 Thing is not a kind we serve"
    assert wrong_version.value.hint == "did you mean example.com/v1 Thing? known are example.com/v1 Thing"
    assert wrong_case.value.hint.startswith("did you mean example.com/v1 Thing?")
    assert unlike.value.hint == "known are example.com/v1 Thing"


@pytest.mark.parametrize(
    ("obj", "missing"),
    [({"kind": "Thing"}, "apiVersion"), ({"apiVersion": "example.com/v1", "kind": 5}, "kind")],
)
def test_an_object_without_a_kind_is_told_so(obj: dict[str, Any], missing: str) -> None:
    with pytest.raises(UnknownKindError, match=f"the object has no {missing}"):
        THINGS.admit(obj)


def test_only_definitions_make_a_registry() -> None:
    with pytest.raises(SchemaError, match="Pod is not a CustomResourceDefinition"):
        Registry([{"kind": "Pod"}])


def test_our_own_definitions_are_loaded_once_and_all_compile() -> None:
    registry = load_crds()

    assert load_crds() is registry
    kinds = {(definition.api_version, definition.kind) for definition in registry.definitions}
    assert {
        ("karpenter.sh/v1", "NodePool"),
        ("karpenter.sh/v1", "NodeClaim"),
        ("karpenter.sh/v1alpha1", "NodeOverlay"),
        ("karpenter.k8s.aws/v1", "EC2NodeClass"),
        ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer"),
        ("karpenter.sh/v1alpha5", "Provisioner"),
    } <= kinds
    for definition in registry.definitions:
        assert definition.node.properties
        assert definition.rules is None or definition.rules.properties
