# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.legacy import convert
from tests.unit.api.legacy.builders import (
    beta_class,
    beta_pool,
    converted,
    node_template,
    provisioner,
    refusals,
    warned_fields,
)


def disruption_of(**spec: Any) -> dict[str, Any]:
    (new,) = converted(provisioner(**spec))
    result = new["spec"]["disruption"]
    assert isinstance(result, dict)
    return result


def test_labels_annotations_taints_limits_and_weight_find_their_places() -> None:
    taint = {"key": "a", "value": "b", "effect": "NoSchedule"}

    (new,) = converted(
        provisioner(
            labels={"team": "a"},
            annotations={"note": "b"},
            taints=[taint],
            startupTaints=[{**taint, "key": "c"}],
            limits={"resources": {"cpu": 1000, "memory": "1000Gi"}},
            weight=7,
        )
    )

    template = new["spec"]["template"]
    assert template["metadata"] == {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    assert template["spec"]["taints"] == [taint]
    assert template["spec"]["startupTaints"] == [{**taint, "key": "c"}]
    assert template["spec"]["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "default",
    }
    assert new["spec"]["limits"] == {"cpu": 1000, "memory": "1000Gi"}
    assert new["spec"]["weight"] == 7


def test_seconds_after_empty_become_when_empty() -> None:
    assert disruption_of(ttlSecondsAfterEmpty=30) == {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "30s",
    }
    assert disruption_of(ttlSecondsAfterEmpty=0)["consolidateAfter"] == "0s"
    assert disruption_of(ttlSecondsAfterEmpty=7200)["consolidateAfter"] == "2h"


def test_consolidation_becomes_when_empty_or_underutilized_at_once() -> None:
    assert disruption_of(consolidation={"enabled": True}) == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
    }


@pytest.mark.parametrize("spec", [{}, {"consolidation": {"enabled": False}}, {"consolidation": {}}])
def test_neither_means_that_empty_nodes_stay(spec: dict[str, Any]) -> None:
    assert disruption_of(**spec) == {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}


def test_both_are_refused_as_the_old_webhook_did() -> None:
    conversion = convert([provisioner(consolidation={"enabled": True}, ttlSecondsAfterEmpty=30)])

    assert conversion.objects == ()
    assert "got both: ttlSecondsAfterEmpty, consolidation.enabled" in conversion.refusals[0].reason


@pytest.mark.parametrize(("seconds", "text"), [(2592000, "720h"), (90, "90s"), (None, "Never")])
def test_seconds_until_expired_become_expire_after(seconds: int | None, text: str) -> None:
    (new,) = converted(provisioner(ttlSecondsUntilExpired=seconds))

    assert new["spec"]["template"]["spec"]["expireAfter"] == text


def test_what_changes_its_meaning_is_warned_of() -> None:
    conversion = convert(
        [
            provisioner(
                ttlSecondsUntilExpired=90,
                ttlSecondsAfterEmpty=30,
                kubeletConfiguration={"containerRuntime": "dockerd"},
            )
        ]
    )

    assert warned_fields(conversion) == {
        ("Provisioner default", "spec.ttlSecondsUntilExpired"),
        ("Provisioner default", "spec.ttlSecondsAfterEmpty"),
        ("Provisioner default", "spec.kubeletConfiguration.containerRuntime"),
    }


def test_what_keeps_its_meaning_is_not_warned_of() -> None:
    assert convert([provisioner(weight=3)]).warnings == ()


def test_an_inline_provider_is_refused_with_where_to_put_it() -> None:
    old = provisioner(provider={"subnetSelector": {"a": "b"}})
    del old["spec"]["providerRef"]

    conversion = convert([old])

    assert refusals(conversion)[0] == ("spec.provider", "AWS settings inside a pool cannot be used in v1")
    assert "AWSNodeTemplate" in conversion.refusals[0].hint


def test_a_provisioner_without_node_template_is_refused() -> None:
    old = provisioner()
    del old["spec"]["providerRef"]

    assert [field for field, _ in refusals(convert([old]))] == ["spec.providerRef"]


def test_a_reference_to_another_kind_is_refused() -> None:
    old = provisioner(providerRef={"name": "a", "kind": "GCPNodeTemplate"})

    assert refusals(convert([old])) == [
        ("spec.providerRef.kind", "GCPNodeTemplate cannot be converted, only AWSNodeTemplate")
    ]


def test_reserved_resources_become_text_as_v1_takes_them() -> None:
    reserved = {"systemReserved": {"cpu": 1, "memory": "1Gi"}, "kubeReserved": {"pid": 1000}}

    _, node_class = converted(provisioner(kubeletConfiguration=reserved), node_template())

    assert node_class["spec"]["kubelet"] == {
        "systemReserved": {"cpu": "1", "memory": "1Gi"},
        "kubeReserved": {"pid": "1000"},
    }


def test_a_beta_pool_keeps_everything_under_v1_names() -> None:
    old = beta_pool(
        requirements=[{"key": "a", "operator": "Exists", "minValues": 2}],
        nodeClassRef={"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "x"},
        disruption={
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "5m",
            "expireAfter": "Never",
            "budgets": [{"nodes": "2"}],
        },
    )
    old["spec"] |= {"limits": {"cpu": "10"}, "weight": 3}
    old["spec"]["template"]["metadata"] = {"labels": {"a": "b"}}

    (new,) = converted(old)

    assert new["spec"] == {
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "requirements": [{"key": "a", "operator": "Exists", "minValues": 2}],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
                "expireAfter": "Never",
            },
        },
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "5m",
            "budgets": [{"nodes": "2"}],
        },
        "limits": {"cpu": "10"},
        "weight": 3,
    }


def test_a_beta_pool_without_disruption_has_the_old_defaults() -> None:
    (new,) = converted(beta_pool())

    assert new["spec"]["template"]["spec"]["expireAfter"] == "720h"
    assert new["spec"]["disruption"] == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
    }


def test_a_beta_pool_that_never_consolidates_still_never_does() -> None:
    (new,) = converted(
        beta_pool(disruption={"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "Never"})
    )

    assert new["spec"]["disruption"] == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "Never",
    }


def test_a_beta_reference_to_another_kind_is_refused() -> None:
    old = beta_pool(nodeClassRef={"apiVersion": "x.io/v1", "kind": "FooClass", "name": "a"})

    assert refusals(convert([old])) == [
        (
            "spec.template.spec.nodeClassRef",
            "refers to FooClass of x.io, only EC2NodeClass of karpenter.k8s.aws can be converted",
        )
    ]


def test_a_schedule_that_cannot_be_read_is_refused_with_a_hint() -> None:
    budgets = [{"nodes": "1"}, {"nodes": "1", "schedule": "0 25 * * *", "duration": "1h"}]

    conversion = convert([beta_pool(disruption={"budgets": budgets})])

    (refusal,) = conversion.refusals
    assert refusal.field == "spec.disruption.budgets[1].schedule"
    assert "25" in refusal.reason


def test_a_duration_without_unit_is_refused_with_what_to_write() -> None:
    (refusal,) = convert([beta_pool(disruption={"expireAfter": "30"})]).refusals

    assert refusal.field == "spec.disruption.expireAfter"
    assert '"30s"' in refusal.hint


def test_a_quantity_that_cannot_be_read_is_refused_with_a_hint() -> None:
    (refusal,) = convert([provisioner(limits={"resources": {"memory": "1000 GB"}})]).refusals

    assert refusal.field == "spec.limits.resources.memory"
    assert refusal.hint


def test_kubelet_settings_of_a_beta_pool_move_to_its_class() -> None:
    pool, node_class = converted(beta_pool(kubelet={"maxPods": 9}), beta_class())

    assert node_class["spec"]["kubelet"] == {"maxPods": 9}
    assert "kubelet" not in pool["spec"]["template"]["spec"]
