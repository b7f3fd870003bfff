# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.legacy import convert
from tests.unit.api.legacy.builders import beta_class, converted, node_template, refusals, warned_fields


def spec_of(*objects: dict[str, Any], **options: Any) -> dict[str, Any]:
    (new,) = converted(*objects, **options)
    result = new["spec"]
    assert isinstance(result, dict)
    return result


def test_a_template_becomes_a_class_of_the_same_name() -> None:
    (new,) = converted(
        node_template("a", userData="#!/bin/sh", detailedMonitoring=True, context="ctx", tags={"team": "x"})
    )

    assert new == {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "a"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "example"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "example"}}],
            "instanceProfile": "profile",
            "userData": "#!/bin/sh",
            "detailedMonitoring": True,
            "context": "ctx",
            "tags": {"team": "x"},
            "metadataOptions": {"httpPutResponseHopLimit": 2},
        },
    }


def test_detailed_monitoring_that_is_off_stays_written() -> None:
    assert spec_of(node_template(detailedMonitoring=False))["detailedMonitoring"] is False


def test_a_launch_template_is_refused_with_what_to_do() -> None:
    old = node_template(launchTemplate="mine")
    del old["spec"]["instanceProfile"]

    conversion = convert([old])

    assert refusals(conversion) == [
        ("spec.launchTemplate", "a launch template of your own cannot be used in v1")
    ]
    assert "user data" in conversion.refusals[0].hint


def test_a_template_without_profile_is_refused_with_both_remedies() -> None:
    conversion = convert([node_template(instanceProfile=None)])

    (refusal,) = conversion.refusals
    assert refusal.field == "spec.instanceProfile"
    assert "karpenter-global-settings" in refusal.hint
    assert "--default-instance-profile" in refusal.hint


def test_a_default_profile_serves_templates_without_one() -> None:
    assert (
        spec_of(node_template(instanceProfile=None), default_instance_profile="d")["instanceProfile"] == "d"
    )
    assert spec_of(node_template(), default_instance_profile="d")["instanceProfile"] == "profile"


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("30Gi", "30Gi"),
        ("20G", "20G"),
        ("1Ti", "1Ti"),
        ("64T", "64T"),
        ("30720Mi", "30Gi"),
        ("0.5Ti", "512Gi"),
        (32212254720, "30Gi"),
        ("1500M", "2Gi"),
    ],
)
def test_sizes_of_disks_are_written_as_v1_takes_them(written: str | int, size: str) -> None:
    disks = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": written}}]

    assert spec_of(node_template(blockDeviceMappings=disks))["blockDeviceMappings"] == [
        {"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}
    ]


def test_a_disk_from_a_snapshot_needs_no_size() -> None:
    disks = [{"deviceName": "/dev/xvda", "ebs": {"snapshotID": "snap-1"}}]

    assert spec_of(node_template(blockDeviceMappings=disks))["blockDeviceMappings"] == disks


@pytest.mark.parametrize("size", ["99Ti", "100000Gi"])
def test_a_disk_that_ec2_does_not_have_is_refused(size: str) -> None:
    disks = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}]

    conversion = convert([node_template(blockDeviceMappings=disks)])

    assert [field for field, _ in refusals(conversion)] == ["spec.blockDeviceMappings[0].ebs.volumeSize"]


@pytest.mark.parametrize("size", ["30 GB", "1e5000"])
def test_a_size_that_is_no_quantity_is_refused_with_a_hint(size: str) -> None:
    disks = [{"deviceName": "a", "ebs": {"volumeSize": size}}]

    (refusal,) = convert([node_template(blockDeviceMappings=disks)]).refusals

    assert refusal.field == "spec.blockDeviceMappings[0].ebs.volumeSize"
    assert refusal.hint


@pytest.mark.parametrize(
    "key",
    [
        "karpenter.sh/managed-by",
        "karpenter.sh/provisioner-name",
        "karpenter.sh/nodepool",
        "eks:eks-cluster-name",
        "karpenter.k8s.aws/ec2nodeclass",
    ],
)
def test_tags_that_karpenter_sets_itself_are_dropped_with_a_warning(key: str) -> None:
    for old in (node_template(tags={key: "x", "team": "y"}), beta_class(tags={key: "x", "team": "y"})):
        conversion = convert([old])

        assert conversion.objects[0]["spec"]["tags"] == {"team": "y"}
        assert (f"{old['kind']} default", f"spec.tags[{key}]") in warned_fields(conversion)


def test_the_own_clusters_tag_is_dropped_and_another_clusters_is_refused() -> None:
    assert "tags" not in spec_of(node_template(tags={"kubernetes.io/cluster/mine": "owned"}))

    conversion = convert([node_template(tags={"kubernetes.io/cluster/other": "shared"})])

    assert [field for field, _ in refusals(conversion)] == ["spec.tags[kubernetes.io/cluster/other]"]


def test_tags_that_are_no_map_are_refused_by_the_schema() -> None:
    assert [field for field, _ in refusals(convert([node_template(tags=["a"])]))] == ["spec.tags"]


@pytest.mark.parametrize("options", [{}, {"httpEndpoint": "enabled"}])
def test_metadata_options_in_part_keep_ec2s_own_defaults(options: dict[str, Any]) -> None:
    conversion = convert([node_template(metadataOptions=options)])

    assert conversion.objects[0]["spec"]["metadataOptions"] == options
    assert ("AWSNodeTemplate default", "spec.metadataOptions.httpTokens") in warned_fields(conversion)


def test_metadata_options_with_tokens_are_kept_without_a_warning() -> None:
    options = {"httpTokens": "optional", "httpPutResponseHopLimit": 3}

    conversion = convert([node_template(metadataOptions=options)])

    assert conversion.objects[0]["spec"]["metadataOptions"] == options
    assert ("AWSNodeTemplate default", "spec.metadataOptions.httpTokens") not in warned_fields(conversion)


@pytest.mark.parametrize(
    ("options", "limit"), [(None, 2), ({"httpTokens": "optional"}, 2), ({"httpPutResponseHopLimit": 1}, 1)]
)
def test_the_hop_limit_of_a_beta_class_is_written_out(options: dict[str, Any] | None, limit: int) -> None:
    result = spec_of(beta_class(metadataOptions=options))["metadataOptions"]

    assert result == {**(options or {}), "httpPutResponseHopLimit": limit}


def test_a_beta_class_keeps_everything_else() -> None:
    same: dict[str, Any] = {
        "instanceStorePolicy": "RAID0",
        "associatePublicIPAddress": False,
        "userData": "x",
        "detailedMonitoring": True,
        "context": "c",
        "tags": {"a": "b"},
        "blockDeviceMappings": [{"deviceName": "a", "rootVolume": True, "ebs": {"volumeSize": "5Gi"}}],
    }

    result = spec_of(beta_class(**same))

    assert {name: result[name] for name in same} == same


def test_the_input_is_left_as_it_was() -> None:
    old = node_template(
        tags={"karpenter.sh/managed-by": "x"},
        blockDeviceMappings=[{"deviceName": "a", "ebs": {"volumeSize": "1024Mi"}}],
    )
    copy = node_template(
        tags={"karpenter.sh/managed-by": "x"},
        blockDeviceMappings=[{"deviceName": "a", "ebs": {"volumeSize": "1024Mi"}}],
    )

    convert([old])

    assert old == copy
