# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.schema.metadata import (
    creation_problems,
    embedded_problems,
    has_embedded,
    read_embedded,
    read_metadata,
    update_problems,
)
from karpenter.api.schema.structural import compile_schema

_OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}


def created(*, namespaced: bool = False, **metadata: Any) -> list[str]:
    return [str(problem) for problem in creation_problems({"name": "a", **metadata}, namespaced=namespaced)]


def test_unknown_and_empty_metadata_goes() -> None:
    read = read_metadata(
        {
            "name": "a",
            "generateName": "",
            "labels": {"a": None, "b": "c"},
            "annotations": {},
            "namespace": None,
            "generation": 0,
            "clusterName": "x",
            "kind": "y",
            "ownerReferences": [{**_OWNER, "extra": 1}],
        }
    )

    assert read.metadata == {"name": "a", "labels": {"a": "", "b": "c"}, "ownerReferences": [_OWNER]}
    assert read.pruned == ("metadata.clusterName", "metadata.kind", "metadata.ownerReferences[0].extra")
    assert read.problems == ()


def test_no_metadata_reads_as_empty() -> None:
    assert read_metadata(None).metadata == {}


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ([], "metadata"),
        ({"name": 5}, "metadata.name"),
        ({"labels": {"a": 5}}, "metadata.labels.a"),
        ({"labels": ["a"]}, "metadata.labels"),
        ({"finalizers": "x"}, "metadata.finalizers"),
        ({"generation": "1"}, "metadata.generation"),
        ({"creationTimestamp": "yesterday"}, "metadata.creationTimestamp"),
        ({"ownerReferences": [{"controller": "yes"}]}, "metadata.ownerReferences[0].controller"),
    ],
)
def test_a_value_of_the_wrong_type_makes_metadata_unreadable(metadata: Any, field: str) -> None:
    (problem,) = read_metadata(metadata).problems

    assert problem.field == field


def test_a_new_object_needs_a_name_or_the_start_of_one() -> None:
    assert created() == []
    assert created(name="", generateName="pool-") == []
    assert created(name="", generateName="x" * 100) == []
    assert created(name="") == ["metadata.name: Required value: name or generateName is required"]
    assert created(name="A")[0].startswith(
        'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain'
    )
    assert [text.split(":")[0] for text in created(name="", generateName="Pool-")] == [
        "metadata.generateName",
        "metadata.name",
    ]
    assert len(created(generateName="-")) == 1


def test_a_namespace_belongs_to_namespaced_objects_alone() -> None:
    assert created(namespaced=True, namespace="default") == []
    assert created(namespaced=True) == ["metadata.namespace: Required value"]
    assert created(namespaced=True, namespace="a.b") == [
        'metadata.namespace: Invalid value: "a.b": must not contain dots'
    ]
    assert created(namespace="default") == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_labels_and_annotations_have_keys_of_their_kind() -> None:
    problems = created(labels={"a b": "c d"}, annotations={"Example.COM/a": "any text", "a b": "c d"})

    assert [problem.split(": name part")[0].split(": a valid")[0] for problem in problems] == [
        'metadata.labels: Invalid value: "a b"',
        'metadata.labels: Invalid value: "c d"',
        'metadata.annotations: Invalid value: "a b"',
    ]


def test_annotations_have_a_total_size() -> None:
    assert created(annotations={"a": "x" * 262144}) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    ]


def test_owners_have_an_identity_and_one_controls() -> None:
    assert created(ownerReferences=[_OWNER]) == []
    assert created(ownerReferences=[{"apiVersion": "apps/"}]) == [
        'metadata.ownerReferences.apiVersion: Invalid value: "apps/": version must not be empty',
        'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
        'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ]
    assert "Kind=Event is disallowed" in created(ownerReferences=[{**_OWNER, "kind": "Event"}])[0]
    two = [{**_OWNER, "controller": True}, {**_OWNER, "name": "m", "controller": True}]
    assert created(ownerReferences=two)[0].endswith("in references for Node/n and Node/m")


def test_finalizers_are_names_that_do_not_contradict_each_other() -> None:
    assert created(finalizers=["karpenter.sh/termination"]) == []
    assert created(finalizers=["a b"])[0].startswith('metadata.finalizers: Invalid value: "a b": name part')
    assert created(finalizers=["orphan", "foregroundDeletion"]) == [
        (
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and '
            "foregroundDeletion cannot be both set"
        )
    ]


def test_a_negative_generation_is_refused() -> None:
    assert created(generation=-1) == [
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0"
    ]


def test_identity_does_not_change() -> None:
    old = {"name": "a", "uid": "u", "creationTimestamp": "2025-01-01T00:00:00Z"}

    assert update_problems({**old, "labels": {"a": "b"}}, old, namespaced=False) == []
    problems = update_problems({**old, "name": "b", "uid": "v"}, old, namespaced=False)
    assert [str(problem) for problem in problems] == [
        'metadata.name: Invalid value: "b": field is immutable',
        'metadata.uid: Invalid value: "v": field is immutable',
    ]


def test_what_is_being_deleted_takes_no_more_finalizers() -> None:
    old = {"name": "a", "deletionTimestamp": "2025-01-01T00:00:00Z", "finalizers": ["a/b"]}

    assert update_problems({**old, "finalizers": []}, old, namespaced=False) == []
    (problem,) = update_problems({**old, "finalizers": ["a/b", "c/d"]}, old, namespaced=False)
    assert str(problem) == (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"c/d"}'
    )


_EMBEDDING = compile_schema(
    {
        "type": "object",
        "properties": {
            "one": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {}}},
            "many": {"type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": True}},
            "named": {"additionalProperties": {"type": "object", "x-kubernetes-embedded-resource": True}},
        },
    }
)
_POD = {"apiVersion": "v1", "kind": "Pod"}


def embedded(**fields: Any) -> list[str]:
    return [str(problem).split(": a DNS")[0] for problem in embedded_problems(fields, _EMBEDDING)]


def test_an_embedded_object_is_found_wherever_it_is() -> None:
    assert has_embedded(_EMBEDDING)
    assert not has_embedded(compile_schema({"items": {"properties": {"a": {}}}}))
    assert embedded(one=_POD, many=[_POD], named={"a": _POD}, unknown={"b": 1}) == []
    assert embedded(many=[{}], named={"x": _POD, "y": {"kind": "", "apiVersion": "a/b/c"}}) == [
        "many[0].apiVersion: Required value",
        "many[0].kind: Required value",
        'named[y].kind: Invalid value: "": must not be empty',
        'named[y].apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
    ]


def test_an_embedded_object_has_a_proper_kind_and_metadata() -> None:
    assert embedded(one={"apiVersion": "v1", "kind": "A b"}) == [
        'one.kind: Invalid value: "A b": may have mixed case, but should otherwise match'
    ]
    assert embedded(one={**_POD, "metadata": {"namespace": "x", "labels": {"a": "b"}}}) == []
    assert len(embedded(one={**_POD, "metadata": {"namespace": "A", "labels": {"a b": "c"}}})) == 2


def test_embedded_metadata_is_read_like_any_other() -> None:
    obj = {
        "one": {**_POD, "metadata": {"name": "a", "odd": 1}},
        "many": [{"kind": 5, "metadata": {"name": 5}}],
        "x": 1,
    }

    read, pruned, problems = read_embedded(obj, _EMBEDDING)

    assert read["one"]["metadata"] == {"name": "a"}
    assert pruned == ["one.metadata.odd"]
    assert [problem.field for problem in problems] == ["many[0].kind", "many[0].metadata.name"]
