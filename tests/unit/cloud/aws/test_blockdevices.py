# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.ec2nodeclass import EBS, BlockDeviceMapping, EC2NodeClass, EC2NodeClassSpec
from karpenter.cloud.aws.blockdevices import block_device_mappings, storage_bytes

GIB = 2**30


def node_class(*mappings: BlockDeviceMapping, family: str = "AL2023", policy: str = "") -> EC2NodeClass:
    spec = EC2NodeClassSpec(ami_family=family, block_device_mappings=mappings, instance_store_policy=policy)
    return EC2NodeClass(spec=spec)


def disk(device: str, size: str = "", *, root: bool = False) -> BlockDeviceMapping:
    ebs = EBS(volume_size=size) if size else EBS(snapshot_id="snap-1")
    return BlockDeviceMapping(device_name=device, ebs=ebs, root_volume=root)


def test_every_field_of_a_volume_reaches_the_launch_template() -> None:
    ebs = EBS(
        delete_on_termination=False,
        encrypted=True,
        iops=3000,
        kms_key_id="key",
        snapshot_id="snap-1",
        throughput=125,
        volume_initialization_rate=100,
        volume_size="30Gi",
        volume_type="gp3",
    )

    written = block_device_mappings(node_class(BlockDeviceMapping(device_name="/dev/xvda", ebs=ebs)))

    assert written == [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {
                "DeleteOnTermination": False,
                "Encrypted": True,
                "Iops": 3000,
                "KmsKeyId": "key",
                "SnapshotId": "snap-1",
                "Throughput": 125,
                "VolumeInitializationRate": 100,
                "VolumeSize": 30,
                "VolumeType": "gp3",
            },
        }
    ]


def test_what_is_not_said_is_left_to_ec2() -> None:
    bare = BlockDeviceMapping(ebs=EBS(snapshot_id="snap-1", iops=0, throughput=0))

    assert block_device_mappings(node_class(bare)) == [{"Ebs": {"SnapshotId": "snap-1"}}]
    assert block_device_mappings(node_class(BlockDeviceMapping(device_name="/dev/xvda"))) == [
        {"DeviceName": "/dev/xvda"}
    ]


@pytest.mark.parametrize(
    ("size", "gib"), [("1Gi", 1), ("20Gi", 20), ("100G", 94), ("1Ti", 1024), ("1T", 932), ("1073741825", 2)]
)
def test_sizes_are_rounded_up_to_whole_gib(size: str, gib: int) -> None:
    assert block_device_mappings(node_class(disk("/dev/xvda", size)))[0]["Ebs"]["VolumeSize"] == gib


def test_a_family_brings_its_disks_unless_the_class_has_its_own() -> None:
    encrypted = {"Encrypted": True, "VolumeType": "gp3"}

    assert block_device_mappings(node_class(family="Bottlerocket")) == [
        {"DeviceName": "/dev/xvda", "Ebs": {**encrypted, "VolumeSize": 4}},
        {"DeviceName": "/dev/xvdb", "Ebs": {**encrypted, "VolumeSize": 20}},
    ]
    assert block_device_mappings(node_class(family="Custom")) == []
    assert len(block_device_mappings(node_class(disk("/dev/xvdb", "9Gi"), family="Bottlerocket"))) == 1


@pytest.mark.parametrize(
    ("of", "gib"),
    [
        (node_class(), 20),
        (node_class(family="Windows2022"), 50),
        (node_class(family="Bottlerocket"), 20),
        (node_class(family="Custom"), 20),
        (node_class(disk("/dev/xvda", "30Gi"), disk("/dev/xvdb", "40Gi")), 30),
        (node_class(disk("/dev/xvda", "30Gi"), disk("/dev/xvdb", "40Gi", root=True)), 40),
        (node_class(disk("/dev/xvda", "30Gi"), disk("/dev/xvdb", "40Gi"), family="Bottlerocket"), 40),
        (node_class(disk("/dev/a", "30Gi"), disk("/dev/b", "40Gi"), family="Custom"), 40),
        (node_class(disk("/dev/other", "30Gi")), 20),
        (node_class(disk("/dev/sda1", root=True), family="Windows2022"), 50),
        (node_class(disk("/dev/a", "30Gi"), disk("/dev/b"), family="Custom"), 20),
        (node_class(BlockDeviceMapping(device_name="/dev/xvda")), 20),
    ],
)
def test_pods_storage_lies_on_the_root_volume_else_on_the_familys_device(of: EC2NodeClass, gib: int) -> None:
    assert storage_bytes(of) == gib * GIB


def test_disks_of_the_instance_count_only_when_joined_and_there() -> None:
    joined, apart = node_class(policy="RAID0"), node_class()

    assert storage_bytes(joined, local_disks_bytes=75 * 10**9) == 75 * 10**9
    assert storage_bytes(joined) == 20 * GIB
    assert storage_bytes(apart, local_disks_bytes=75 * 10**9) == 20 * GIB
