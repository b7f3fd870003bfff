# SPDX-License-Identifier: Apache-2.0
"""NodePools proposed for node groups are ones that the API server takes, and cover what ran there."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter import facts
from karpenter.api.schema import load_crds
from karpenter.cloud.aws.install import Choices, Site
from karpenter.cloud.aws.install.nodegroups import cover

_SITE = Site(
    choices=Choices("prod"),
    region="us-west-2",
    account="111122223333",
    partition="aws",
    endpoint="https://x",
    issuer="",
    provider_arn="",
    by_entries=True,
    by_config_map=False,
    subnets=(),
    groups=(),
)
_ZONES = {"subnet-a": "us-west-2a", "subnet-b": "us-west-2b"}


def _group(**fields: Any) -> dict[str, Any]:
    return {
        "nodegroupName": "general",
        "capacityType": "ON_DEMAND",
        "scalingConfig": {"minSize": 1, "maxSize": 10, "desiredSize": 3},
        "instanceTypes": ["m5.xlarge", "m5a.xlarge"],
        "subnets": ["subnet-a", "subnet-b"],
        "amiType": "AL2023_x86_64_STANDARD",
        "diskSize": 50,
        **fields,
    }


def _covered(*groups: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    manifests, notes = cover(_SITE, groups, _ZONES, facts.instance_types())
    return {f"{each['kind']} {each['metadata']['name']}": each for each in manifests}, notes


def _values(pool: dict[str, Any], key: str) -> list[str]:
    found = pool["spec"]["template"]["spec"]["requirements"]
    return next((each["values"] for each in found if each["key"] == key), [])


def test_a_group_becomes_a_pool_with_its_types_zones_and_largest_size() -> None:
    objects, notes = _covered(_group())

    pool = objects["NodePool general"]
    assert _values(pool, "node.kubernetes.io/instance-type") == ["m5.xlarge", "m5a.xlarge"]
    assert _values(pool, "karpenter.sh/capacity-type") == ["on-demand"]
    assert _values(pool, "topology.kubernetes.io/zone") == ["us-west-2a", "us-west-2b"]
    assert pool["spec"]["limits"] == {"cpu": "40", "memory": "163840Mi"}
    assert notes == []


def test_labels_and_taints_come_along_but_those_of_eks() -> None:
    objects, _ = _covered(
        _group(
            labels={"team": "a", "eks.amazonaws.com/nodegroup": "general"},
            taints=[
                {"key": "dedicated", "value": "a", "effect": "NO_SCHEDULE"},
                {"key": "slow", "effect": "PREFER_NO_SCHEDULE"},
            ],
        )
    )

    template = objects["NodePool general"]["spec"]["template"]
    assert template["metadata"]["labels"] == {"team": "a"}
    assert template["spec"]["taints"] == [
        {"key": "dedicated", "effect": "NoSchedule", "value": "a"},
        {"key": "slow", "effect": "PreferNoSchedule"},
    ]


def test_groups_that_boot_alike_share_a_node_class() -> None:
    objects, _ = _covered(
        _group(),
        _group(nodegroupName="Spot", capacityType="SPOT"),
        _group(nodegroupName="rocket", amiType="BOTTLEROCKET_x86_64"),
    )

    classes = [each for name, each in objects.items() if name.startswith("EC2NodeClass")]
    assert len(classes) == 2
    assert _values(objects["NodePool spot"], "karpenter.sh/capacity-type") == ["spot"]
    rocket = next(each for each in classes if "bottlerocket" in each["metadata"]["name"])
    assert rocket["spec"]["blockDeviceMappings"][0]["deviceName"] == "/dev/xvdb"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"amiType": "CUSTOM"}, "its image is CUSTOM"),
        ({"launchTemplate": {"id": "lt-1"}}, "carry over user data"),
        ({"instanceTypes": []}, "its types stand in its launch template"),
    ],
)
def test_what_has_no_counterpart_is_said(fields: dict[str, Any], words: str) -> None:
    _, notes = _covered(_group(**fields))

    assert any(words in note and note.startswith("general: ") for note in notes)


def test_without_types_the_pool_allows_general_families_of_the_images_architecture() -> None:
    objects, _ = _covered(_group(instanceTypes=[], amiType="AL2023_ARM_64_STANDARD", diskSize=0))

    pool = objects["NodePool general"]
    assert _values(pool, "kubernetes.io/arch") == ["arm64"]
    assert "limits" not in pool["spec"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"labels": {"team": "a"}},
        {"amiType": "WINDOWS_CORE_2022_x86_64"},
        {"instanceTypes": []},
        {"subnets": []},
    ],
)
def test_the_api_server_takes_what_is_proposed(fields: dict[str, Any]) -> None:
    objects, _ = _covered(_group(**fields))
    registry = load_crds()

    for each in objects.values():
        registry.admit(each).check()
