# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import conditions, labels
from karpenter.api.ec2nodeclass import (
    EBS,
    AMISelectorTerm,
    BlockDeviceMapping,
    CapacityReservationSelectorTerm,
    KubeletConfiguration,
    MetadataOptions,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from karpenter.api.meta import Condition
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.nodeclass import claim_annotations, hash_annotations, node_class_hash
from tests.unit.cloud.aws.builders import claim, node_class

PLAIN = node_class_hash(node_class())
ROOT = BlockDeviceMapping(device_name="/dev/xvda", ebs=EBS(volume_size="50Gi"))
DATA = BlockDeviceMapping(device_name="/dev/xvdb", ebs=EBS(volume_size="100Gi"))


@pytest.mark.parametrize(
    "spec",
    [
        {"subnet_selector_terms": (SubnetSelectorTerm(id="subnet-1"),)},
        {"security_group_selector_terms": (SecurityGroupSelectorTerm(id="sg-1"),)},
        {"ami_selector_terms": (AMISelectorTerm(alias="al2023@v20250101"),)},
        {"capacity_reservation_selector_terms": (CapacityReservationSelectorTerm(id="cr-1"),)},
        {"ami_family": "AL2023"},
        {"ip_prefix_count": 2},
        {"metadata_options": MetadataOptions()},
    ],
)
def test_what_is_compared_otherwise_or_means_the_same_leaves_the_fingerprint(spec: dict[str, Any]) -> None:
    assert node_class_hash(node_class(spec=spec)) == PLAIN


@pytest.mark.parametrize(
    "spec",
    [
        {"role": "other"},
        {"tags": {"team": "a"}},
        {"user_data": "echo"},
        {"kubelet": KubeletConfiguration(max_pods=20)},
        {"detailed_monitoring": True},
        {"block_device_mappings": (ROOT,)},
        {"instance_store_policy": "RAID0"},
        {"metadata_options": MetadataOptions(http_put_response_hop_limit=2)},
        {"associate_public_ip_address": False},
        {"context": "abc"},
        {"ami_selector_terms": (AMISelectorTerm(alias="bottlerocket@latest"),)},
        {"ami_selector_terms": (AMISelectorTerm(id="ami-1"),), "ami_family": "Custom"},
    ],
)
def test_what_ends_up_in_an_instance_changes_the_fingerprint(spec: dict[str, Any]) -> None:
    assert node_class_hash(node_class(spec=spec)) != PLAIN


def test_a_new_certificate_of_the_cluster_changes_the_fingerprint() -> None:
    assert node_class_hash(node_class(), ca_bundle="new") != PLAIN


def test_the_order_of_disks_and_tags_means_nothing() -> None:
    one = node_class(spec={"block_device_mappings": (ROOT, DATA), "tags": {"a": "1", "b": "2"}})
    other = node_class(spec={"block_device_mappings": (DATA, ROOT), "tags": {"b": "2", "a": "1"}})

    assert node_class_hash(one) == node_class_hash(other)


def _disk(size: str) -> dict[str, Any]:
    return {
        "block_device_mappings": (BlockDeviceMapping(device_name="/dev/xvda", ebs=EBS(volume_size=size)),)
    }


def _kubelet(**settings: Any) -> dict[str, Any]:
    return {"kubelet": KubeletConfiguration(**settings)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_disk("20Gi"), _disk("20480Mi")),
        (_kubelet(kube_reserved={"memory": "1Gi"}), _kubelet(kube_reserved={"memory": "1024Mi"})),
        (_kubelet(system_reserved={"cpu": "1"}), _kubelet(system_reserved={"cpu": "1000m"})),
        (
            _kubelet(eviction_hard={"memory.available": "5%"}),
            _kubelet(eviction_hard={"memory.available": "5.0%"}),
        ),
        (
            _kubelet(eviction_soft_grace_period={"memory.available": "1m"}),
            _kubelet(eviction_soft_grace_period={"memory.available": "60s"}),
        ),
        (
            _kubelet(cluster_dns=("10.0.0.10", "10.0.0.11")),
            _kubelet(cluster_dns=("10.0.0.11", "10.0.0.10")),
        ),
        ({"detailed_monitoring": False}, {}),
    ],
)
def test_equal_settings_written_differently_are_no_drift(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert node_class_hash(node_class(spec=one)) == node_class_hash(node_class(spec=other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_disk("20Gi"), _disk("20G")),
        (_kubelet(kube_reserved={"memory": "some"}), _kubelet(kube_reserved={"memory": "more"})),
        (
            _kubelet(eviction_soft_grace_period={"memory.available": "1m"}),
            _kubelet(eviction_soft_grace_period={"memory.available": "long"}),
        ),
        (
            _kubelet(eviction_hard={"memory.available": "5%"}),
            _kubelet(eviction_hard={"memory.available": "x%"}),
        ),
        (_kubelet(cluster_dns=("10.0.0.10",)), _kubelet(cluster_dns=("10.0.0.11",))),
    ],
)
def test_other_amounts_and_times_are_drift(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert node_class_hash(node_class(spec=one)) != node_class_hash(node_class(spec=other))


def test_claims_of_the_version_before_are_fingerprinted_anew_and_have_not_drifted() -> None:
    ours = hash_annotations(node_class())
    before = claim(annotations={labels.EC2NODECLASS_HASH: "7", labels.EC2NODECLASS_HASH_VERSION: "py1"})

    assert claim_annotations(before, ours) == ours


def test_annotations_carry_fingerprint_and_version() -> None:
    assert hash_annotations(node_class()) == {
        labels.EC2NODECLASS_HASH: PLAIN,
        labels.EC2NODECLASS_HASH_VERSION: "py2",
    }


def drifted(made: NodeClaim) -> NodeClaim:
    condition = Condition(type=conditions.DRIFTED, status="True")
    return NodeClaim(
        metadata=made.metadata, spec=made.spec, status=type(made.status)(conditions=(condition,))
    )


def test_a_claim_of_another_version_gets_ours_but_drift_is_not_hidden() -> None:
    ours = hash_annotations(node_class())
    go = {labels.EC2NODECLASS_HASH: "77", labels.EC2NODECLASS_HASH_VERSION: "v5"}

    assert claim_annotations(claim(annotations=go), ours) == ours
    assert claim_annotations(drifted(claim(annotations=go)), ours) == {
        labels.EC2NODECLASS_HASH_VERSION: "py2"
    }
    assert claim_annotations(claim(annotations=ours), ours) == {}
