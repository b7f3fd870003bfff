# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.legacy import convert
from tests.unit.api.legacy.builders import (
    beta_class,
    beta_pool,
    converted,
    node_claim,
    node_class,
    node_pool,
    node_template,
    provisioner,
    refusals,
    warned_fields,
)

SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "s"},
    "spec": {"x": [1, None]},
}


def names(objects: tuple[dict[str, Any], ...]) -> list[tuple[str, str]]:
    return [(each["kind"], each["metadata"]["name"]) for each in objects]


def class_of(pool: dict[str, Any]) -> str:
    return str(pool["spec"]["template"]["spec"]["nodeClassRef"]["name"])


def test_each_object_stands_where_its_original_stood() -> None:
    objects = converted(SERVICE, provisioner("a"), node_pool("b"), node_template(), SERVICE)

    assert names(objects) == [
        ("Service", "s"),
        ("NodePool", "a"),
        ("NodePool", "b"),
        ("EC2NodeClass", "default"),
        ("Service", "s"),
    ]


def test_current_and_foreign_objects_pass_through_untouched() -> None:
    given = (SERVICE, node_pool(), node_class(), node_claim())

    conversion = convert(given)

    assert conversion.objects == given
    assert (conversion.warnings, conversion.refusals) == ((), ())
    assert not any(step.converted for step in conversion.steps)


def test_a_current_object_that_the_server_will_refuse_is_passed_through_with_a_warning() -> None:
    broken = node_pool(expireAfter="30")

    conversion = convert([broken])

    assert conversion.objects == (broken,)
    assert warned_fields(conversion) == {("NodePool default", "spec.template.spec.expireAfter")}


def test_a_list_counts_as_its_items() -> None:
    for kind in ("List", "ProvisionerList"):
        given = {"apiVersion": "v1", "kind": kind, "items": [provisioner("a"), provisioner("b"), "odd"]}

        assert names(converted(given)) == [("NodePool", "a"), ("NodePool", "b")]


def test_pools_with_different_kubelet_settings_get_classes_of_their_own() -> None:
    a, b, c, first, second = converted(
        provisioner("a"),
        provisioner("b", kubeletConfiguration={"maxPods": 5}),
        provisioner("c", kubeletConfiguration={"containerRuntime": "containerd"}),
        node_template(tags={"x": "y"}),
    )

    assert names((first, second)) == [("EC2NodeClass", "default"), ("EC2NodeClass", "default-b")]
    assert "kubelet" not in first["spec"]
    assert second["spec"] == {**first["spec"], "kubelet": {"maxPods": 5}}
    assert [class_of(pool) for pool in (a, b, c)] == ["default", "default-b", "default"]


def test_beta_pools_with_different_kubelet_settings_get_classes_of_their_own() -> None:
    a, b, *_classes = converted(
        beta_pool("a", kubelet={"maxPods": 5}), beta_pool("b", kubelet={"maxPods": 6}), beta_class()
    )

    assert [class_of(a), class_of(b)] == ["default", "default-b"]
    assert names(tuple(_classes)) == [("EC2NodeClass", "default"), ("EC2NodeClass", "default-b")]


def test_a_split_class_says_which_pool_uses_which() -> None:
    conversion = convert(
        [provisioner("a"), provisioner("b", kubeletConfiguration={"maxPods": 5}), node_template()]
    )

    (split,) = [str(warning) for warning in conversion.warnings if warning.field == "metadata.name"]
    assert split == (
        "AWSNodeTemplate default: metadata.name: became 2 EC2NodeClasses, as its pools set the kubelet apart: "
        "default for Provisioner a; default-b for Provisioner b"
    )


def test_a_refused_pool_has_no_say_in_the_classes() -> None:
    conversion = convert(
        [
            provisioner("a", kubeletConfiguration={"maxPods": 5}),
            provisioner("b", weight=1000),
            node_template(),
        ]
    )

    assert names(conversion.objects) == [("NodePool", "a"), ("EC2NodeClass", "default")]


def test_kubelet_settings_without_their_class_are_listed() -> None:
    conversion = convert([provisioner(kubeletConfiguration={"maxPods": 5, "podsPerCore": 2})])

    assert class_of(conversion.objects[0]) == "default"
    assert [warning.text for warning in conversion.warnings] == [
        "EC2NodeClass default is not in the input: add to its spec.kubelet maxPods: 5, podsPerCore: 2"
    ]


def test_kubelet_settings_that_a_current_class_has_need_no_word() -> None:
    pool = provisioner(kubeletConfiguration={"maxPods": 5})

    assert convert([pool, node_class(kubelet={"maxPods": 5})]).warnings == ()
    assert "v1 already" in convert([pool, node_class()]).warnings[0].text


def test_kubelet_settings_beside_a_refused_class_are_not_blamed_on_the_input() -> None:
    conversion = convert(
        [provisioner(kubeletConfiguration={"maxPods": 5}), node_template(amiFamily="Ubuntu")]
    )

    assert conversion.warnings == ()
    assert len(conversion.refusals) == 1


def test_kubelet_settings_that_v1_refuses_are_refused() -> None:
    conversion = convert([provisioner(kubeletConfiguration={"evictionHard": {"odd": "5%"}}), node_template()])

    (refusal,) = conversion.refusals
    assert refusal.object.kind == "AWSNodeTemplate"
    assert refusal.field == "spec.kubelet.evictionHard"


def test_two_objects_that_become_one_are_refused() -> None:
    conversion = convert([provisioner(), beta_pool(), node_pool()])

    assert names(conversion.objects) == [("NodePool", "default")]
    assert [reason for _, reason in refusals(conversion)] == [
        "NodePool default is already made of NodePool default (object 3)",
        "NodePool default is already made of NodePool default (object 3)",
    ]


def test_of_two_old_objects_with_one_name_the_second_is_refused() -> None:
    conversion = convert([node_template(), beta_class()])

    assert names(conversion.objects) == [("EC2NodeClass", "default")]
    assert refusals(conversion) == [
        ("metadata.name", "EC2NodeClass default is already made of AWSNodeTemplate default (object 1)")
    ]


@pytest.mark.parametrize("version", ["karpenter.sh/v1alpha4", "karpenter.k8s.aws/v2", "karpenter.sh/v1"])
def test_an_unknown_version_is_refused_with_the_known_ones(version: str) -> None:
    conversion = convert([{**provisioner(), "apiVersion": version}])

    (refusal,) = conversion.refusals
    assert str(refusal) == f"Provisioner default: apiVersion: {version} knows no Provisioner"
    assert "Provisioner (karpenter.sh/v1alpha5)" in refusal.hint
    assert "NodePool (karpenter.sh/v1)" in refusal.hint


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({}, ["apiVersion", "kind"]),
        ({"apiVersion": "v1", "kind": 5}, ["kind"]),
        ({"kind": "Pod"}, ["apiVersion"]),
    ],
)
def test_what_is_no_kubernetes_object_is_refused(given: dict[str, Any], fields: list[str]) -> None:
    assert [field for field, _ in refusals(convert([given]))] == fields


@pytest.mark.parametrize("metadata", [None, {}, {"generateName": "a-"}, "text"])
def test_an_old_object_without_a_name_is_refused(metadata: object) -> None:
    conversion = convert([{**provisioner(), "metadata": metadata}])

    assert [field for field, _ in refusals(conversion)] == ["metadata.name"]
    assert str(conversion.refusals[0]) == "Provisioner (object 1, no name): metadata.name: Required value"
    assert "generateName is not carried over" in conversion.refusals[0].hint


@pytest.mark.parametrize("spec", ["text", 5, ["a"]])
def test_an_old_object_whose_spec_is_no_object_is_refused(spec: object) -> None:
    assert [field for field, _ in refusals(convert([{**provisioner(), "spec": spec}]))] == ["spec"]


def test_requirements_inside_requirements_are_refused_with_the_path_of_the_mistake() -> None:
    inner = {"key": "a", "operator": "Exists"}

    conversion = convert([provisioner(requirements=[{"requirements": [inner]}])])

    assert [str(refusal) for refusal in conversion.refusals] == [
        'Provisioner default: unknown field "spec.requirements[0].requirements"',
        "Provisioner default: spec.requirements[0].key: Required value",
        "Provisioner default: spec.requirements[0].operator: Required value",
    ]
    assert "one level up" in conversion.refusals[0].hint


def test_an_unknown_field_is_refused_with_a_null_too_and_a_null_for_a_known_one_is_no_field() -> None:
    unknown = convert([provisioner(weihgt=None, labels=None, limits={"resource": None})])
    known = convert([provisioner(weight=None, labels=None, limits={"resources": {"cpu": None}})])

    assert [str(refusal) for refusal in unknown.refusals] == [
        'Provisioner default: unknown field "spec.limits.resource"',
        'Provisioner default: unknown field "spec.weihgt"',
    ]
    assert known.refusals == ()
    assert "weight" not in known.objects[0]["spec"]


def test_all_problems_of_all_objects_are_told_at_once() -> None:
    conversion = convert(
        [
            provisioner(weight=1000, limits={"resources": {"cpu": "x"}}),
            node_template(launchTemplate="a", weight=1),
        ]
    )

    assert {(str(refusal.object), refusal.field) for refusal in conversion.refusals} >= {
        ("Provisioner default", "spec.weight"),
        ("Provisioner default", "spec.limits.resources.cpu"),
        ("AWSNodeTemplate default", "spec.launchTemplate"),
        ("AWSNodeTemplate default", "spec.weight"),
    }


def test_what_v1_refuses_is_refused_with_v1s_reason() -> None:
    conversion = convert([provisioner(labels={"karpenter.sh/initialized": "true"})])

    (refusal,) = conversion.refusals
    assert refusal.field == "spec.template.metadata.labels"
    assert refusal.reason.startswith("NodePool of v1 would be refused: ")


def test_converting_the_outcome_again_gives_it_back() -> None:
    once = convert([provisioner(kubeletConfiguration={"maxPods": 5}), node_template(), SERVICE])

    assert convert(once.objects).objects == once.objects
