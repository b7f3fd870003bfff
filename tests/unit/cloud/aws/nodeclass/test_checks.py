# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.ec2nodeclass import AMISelectorTerm, KubeletConfiguration
from karpenter.cloud.aws.nodeclass.checks import (
    INVALID_KUBELET,
    TAG_VALIDATION_FAILED,
    kubelet_problem,
    tag_problem,
)
from tests.unit.cloud.aws.builders import node_class


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ({labels.EKS_CLUSTER_NAME_TAG: "x"}, "eks:eks-cluster-name is reserved"),
        ({"kubernetes.io/cluster/demo": "owned"}, "kubernetes.io/cluster/demo is reserved"),
        ({labels.NODEPOOL: "x"}, "karpenter.sh/nodepool is reserved"),
        ({labels.NODECLAIM_TAG: "x"}, "karpenter.sh/nodeclaim is reserved"),
        ({labels.EC2NODECLASS_TAG: "x"}, "karpenter.k8s.aws/ec2nodeclass is reserved"),
        ({"": "x"}, "a tag has an empty key"),
        ({"AWS:mine": "x"}, "AWS:mine begins with aws:, which AWS keeps for itself"),
        ({"k" * 129: "x"}, "is longer than EC2 takes (128 for keys, 256 for values)"),
        ({"k": "v" * 257}, "k is longer than EC2 takes"),
        ({f"k{n}": "" for n in range(43)}, "43 tags are more than the 42 that EC2 leaves beside our own"),
    ],
)
def test_tags_that_cannot_be_written_are_named(tags: dict[str, str], said: str) -> None:
    problem = tag_problem(node_class(spec={"tags": tags}))

    assert problem is not None
    assert problem.reason == TAG_VALIDATION_FAILED
    assert problem.message.startswith("spec.tags: ")
    assert said in problem.message


def test_ordinary_tags_pass() -> None:
    assert tag_problem(node_class(spec={"tags": {"team": "a", "karpenter.sh/nodepool-owner": "b"}})) is None


def said(family: str = "al2023", **kubelet: Any) -> str:
    terms = (AMISelectorTerm(alias=f"{family}@latest"),)
    problem = kubelet_problem(
        node_class(spec={"kubelet": KubeletConfiguration(**kubelet), "ami_selector_terms": terms})
    )
    if problem is None:
        return ""
    assert problem.reason == INVALID_KUBELET
    assert problem.message.startswith("spec.kubelet: ")
    return problem.message


@pytest.mark.parametrize(
    ("kubelet", "expected"),
    [
        ({"cluster_dns": ("dns",)}, "clusterDNS: 'dns' is not an IP address"),
        ({"max_pods": -1}, "maxPods: -1 is negative"),
        ({"system_reserved": {"gpu": "1"}}, "systemReserved: 'gpu' is none of cpu"),
        ({"kube_reserved": {"cpu": "lots"}}, "kubeReserved.cpu: 'lots' is not a quantity"),
        ({"kube_reserved": {"cpu": "-1"}}, "kubeReserved.cpu: '-1' is not a quantity of zero or more"),
        ({"eviction_hard": {"memory": "5%"}}, "evictionHard: 'memory' is none of"),
        ({"eviction_hard": {"memory.available": "101%"}}, "'101%' is neither a percentage nor a quantity"),
        (
            {"eviction_soft": {"memory.available": "5%"}},
            "evictionSoft and evictionSoftGracePeriod must both name memory.available",
        ),
        (
            {
                "eviction_soft": {"memory.available": "5%"},
                "eviction_soft_grace_period": {"memory.available": "long"},
            },
            "evictionSoftGracePeriod.memory.available: 'long' is not a duration",
        ),
        (
            {"image_gc_high_threshold_percent": 50, "image_gc_low_threshold_percent": 50},
            "imageGCHighThresholdPercent (50) must be above imageGCLowThresholdPercent (50)",
        ),
    ],
)
def test_settings_that_no_kubelet_takes_are_named(kubelet: dict[str, Any], expected: str) -> None:
    assert expected in said(**kubelet)


def test_settings_that_a_kubelet_takes_pass() -> None:
    assert not said(
        cluster_dns=("10.100.0.10", "fd00::a"),
        max_pods=0,
        pods_per_core=5,
        kube_reserved={"cpu": "100m", "memory": "1Gi"},
        eviction_hard={"memory.available": "5%", "nodefs.available": "1Gi"},
        eviction_soft={"memory.available": "10%"},
        eviction_soft_grace_period={"memory.available": "1m30s"},
        image_gc_high_threshold_percent=80,
        image_gc_low_threshold_percent=50,
    )


def test_what_only_some_families_take_is_refused_for_the_others() -> None:
    two = ("10.100.0.10", "10.100.0.11")

    assert "AL2 takes one address, not 2" in said("al2", cluster_dns=two)
    # As the original: it has no effect there.
    assert not said("bottlerocket", pods_per_core=5)
    assert not said("al2", pods_per_core=5)


def test_a_class_without_kubelet_settings_or_with_a_family_that_is_told_elsewhere_passes() -> None:
    odd = node_class(
        spec={"kubelet": KubeletConfiguration(max_pods=-1), "ami_family": "Ubuntu", "ami_selector_terms": ()}
    )

    assert kubelet_problem(node_class()) is None
    assert kubelet_problem(odd) is None
