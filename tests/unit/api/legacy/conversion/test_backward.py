# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.labels import V1BETA1_UBUNTU
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


def back(*objects: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return converted(*objects, to="v1beta1")


def refused(*objects: dict[str, Any]) -> list[str]:
    return [field for field, _ in refusals(convert(objects, to="v1beta1"))]


def test_a_pool_goes_back_with_its_classs_kubelet_settings() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    given = node_pool(
        requirements=[{"key": "x", "operator": "Gt", "values": ["3"]}],
        taints=[taint],
        expireAfter="48h",
        disruption={
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "1m",
            "budgets": [{"nodes": "3"}],
        },
    )
    given["spec"] |= {"limits": {"cpu": "5"}, "weight": 2}
    given["spec"]["template"]["metadata"] = {"labels": {"l": "m"}}

    pool, group = back(given, node_class(kubelet={"maxPods": 5}))

    assert pool["apiVersion"] == "karpenter.sh/v1beta1"
    assert pool["spec"] == {
        "template": {
            "metadata": {"labels": {"l": "m"}},
            "spec": {
                "requirements": [{"key": "x", "operator": "Gt", "values": ["3"]}],
                "taints": [taint],
                "kubelet": {"maxPods": 5},
                "nodeClassRef": {
                    "apiVersion": "karpenter.k8s.aws/v1beta1",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
            },
        },
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "1m",
            "budgets": [{"nodes": "3"}],
            "expireAfter": "48h",
        },
        "limits": {"cpu": "5"},
        "weight": 2,
    }
    assert "kubelet" not in group["spec"]


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ({"consolidateAfter": "0s"}, {"consolidationPolicy": "WhenUnderutilized"}),
        (
            {"consolidateAfter": "Never"},
            {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "Never"},
        ),
        (
            {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"},
            {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"},
        ),
        (None, {"consolidationPolicy": "WhenUnderutilized"}),
    ],
)
def test_consolidation_goes_back(now: dict[str, Any] | None, before: dict[str, Any]) -> None:
    pool, _ = back(node_pool(disruption=now), node_class())

    assert pool["spec"]["disruption"] == before


def test_a_class_goes_back_to_its_family_and_the_hop_limit_of_v1_is_written_out() -> None:
    (group,) = back(node_class(amiSelectorTerms=[{"alias": "bottlerocket@latest"}], tags={"a": "b"}))

    assert group["apiVersion"] == "karpenter.k8s.aws/v1beta1"
    assert group["spec"]["amiFamily"] == "Bottlerocket"
    assert "amiSelectorTerms" not in group["spec"]
    assert group["spec"]["metadataOptions"] == {"httpPutResponseHopLimit": 1}
    assert group["spec"]["tags"] == {"a": "b"}


def test_image_terms_go_back_with_their_family() -> None:
    (group,) = back(node_class(amiSelectorTerms=[{"id": "ami-1"}], amiFamily="Custom"))

    assert (group["spec"]["amiSelectorTerms"], group["spec"]["amiFamily"]) == ([{"id": "ami-1"}], "Custom")


@pytest.mark.parametrize("disks", [None, [{"deviceName": "a", "ebs": {"volumeSize": "5Gi"}}]])
def test_ubuntu_comes_back_as_ubuntu(disks: list[Any] | None) -> None:
    old = beta_class(amiFamily="Ubuntu", amiSelectorTerms=[{"id": "ami-1"}], blockDeviceMappings=disks)
    old["metadata"]["annotations"] = {"keep": "me"}

    (there,) = converted(old)
    (again,) = back(there)

    assert V1BETA1_UBUNTU in there["metadata"]["annotations"]
    assert again["metadata"]["annotations"] == {"keep": "me"}
    assert again["spec"]["amiFamily"] == "Ubuntu"
    assert again["spec"].get("blockDeviceMappings") == disks


def test_disks_that_were_changed_since_stay() -> None:
    (there,) = converted(beta_class(amiFamily="Ubuntu", amiSelectorTerms=[{"id": "ami-1"}]))
    there["spec"]["blockDeviceMappings"][0]["ebs"]["volumeSize"] = "50Gi"

    (again,) = back(there)

    assert again["spec"]["blockDeviceMappings"] == there["spec"]["blockDeviceMappings"]


def test_a_claim_goes_back_without_expiry_of_its_own() -> None:
    conversion = convert([node_claim(resources={"requests": {"cpu": "1"}}), node_class()], to="v1beta1")

    assert conversion.refusals == ()
    assert conversion.objects[0]["spec"] == {
        "requirements": [],
        "nodeClassRef": {
            "apiVersion": "karpenter.k8s.aws/v1beta1",
            "kind": "EC2NodeClass",
            "name": "default",
        },
        "resources": {"requests": {"cpu": "1"}},
    }
    assert {field for _, field in warned_fields(conversion)} == {"spec.expireAfter", "status"}


def test_a_pool_whose_class_is_absent_is_warned_of() -> None:
    conversion = convert([node_pool()], to="v1beta1")

    assert warned_fields(conversion) == {("NodePool default", "spec.template.spec.nodeClassRef")}


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        (node_pool(terminationGracePeriod="1h"), ["spec.template.spec.terminationGracePeriod"]),
        (
            node_pool(
                requirements=[
                    {"key": "x", "operator": "Gte", "values": ["3"]},
                    {"key": "x", "operator": "Lte", "values": ["9"]},
                ]
            ),
            ["spec.template.spec.requirements[0].operator", "spec.template.spec.requirements[1].operator"],
        ),
        (
            node_pool(nodeClassRef={"group": "x.io", "kind": "Foo", "name": "default"}),
            ["spec.template.spec.nodeClassRef"],
        ),
        (node_pool(disruption={"consolidateAfter": "5m"}), ["spec.disruption.consolidateAfter"]),
        (
            node_pool(disruption={"consolidationPolicy": "Balanced", "consolidateAfter": "0s"}),
            ["spec.disruption.consolidationPolicy"],
        ),
        (
            node_pool(
                disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "1", "reasons": ["Empty"]}]}
            ),
            ["spec.disruption.budgets[0].reasons"],
        ),
    ],
)
def test_what_a_beta_pool_cannot_say_is_refused(given: dict[str, Any], fields: list[str]) -> None:
    assert refused(given, node_class()) == fields


def test_static_pools_are_refused() -> None:
    given = node_pool()
    given["spec"] |= {"replicas": 0, "limits": {"nodes": 5}}

    assert refused(given, node_class()) == ["spec.limits.nodes", "spec.replicas"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"amiSelectorTerms": [{"alias": "al2023@v20240807"}]}, "spec.amiSelectorTerms[0].alias"),
        ({"amiSelectorTerms": [{"alias": "windows2025@latest"}]}, "spec.amiFamily"),
        ({"amiFamily": "Custom"}, "spec.amiFamily"),
        (
            {"amiSelectorTerms": [{"ssmParameter": "x"}], "amiFamily": "AL2"},
            "spec.amiSelectorTerms[0].ssmParameter",
        ),
        ({"kubelet": {"maxPods": 5}}, "spec.kubelet"),
        ({"ipPrefixCount": 1}, "spec.ipPrefixCount"),
    ],
)
def test_what_a_beta_class_cannot_say_is_refused(spec: dict[str, Any], field: str) -> None:
    assert field in refused(node_class(**spec))


def test_broken_v1_objects_are_refused_for_what_is_broken() -> None:
    assert refused(node_pool(expireAfter="30")) == ["spec.template.spec.expireAfter"]


def test_kinds_older_than_beta_are_refused_with_the_way_round() -> None:
    conversion = convert([provisioner(), node_template()], to="v1beta1")

    assert conversion.objects == ()
    assert {refusal.hint for refusal in conversion.refusals} == {"convert to v1 first, then to v1beta1"}


def test_beta_and_foreign_objects_pass_through() -> None:
    given = (beta_pool(), beta_class(), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})

    assert convert(given, to="v1beta1").objects == given
