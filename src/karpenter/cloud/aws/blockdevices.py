# SPDX-License-Identifier: Apache-2.0
"""Disks: what a launch template says about them, and how much of them pods may use.

The node class's own mappings replace those of the image family as a whole. Sizes are rounded up to whole GiB, which is
what EC2 counts in. Pods' storage lies, as Karpenter decides: on the disks of the instance itself if they are joined
(RAID0); else on the mapping marked as root volume; else on the family's device (of Custom, which has none, on the last
mapping); else on what the family has by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from karpenter.api.ec2nodeclass import EBS, BlockDeviceMapping, EC2NodeClass
from karpenter.cloud.aws.amis.families import CUSTOM, Family, family_of
from karpenter.kit.quantity import parse_value

__all__ = ["block_device_mappings", "storage_bytes"]

_GIB: Final = 1 << 30
# What Karpenter assumes of a disk whose size only its image or snapshot knows.
_UNKNOWN_BYTES: Final = 20 * _GIB


def block_device_mappings(node_class: EC2NodeClass) -> list[dict[str, Any]]:
    """Give the disks as a launch template names them; empty means: say nothing, the image decides.

    Raises:
        FamilyError: The node class names a family that does not exist.
    """
    mappings = node_class.spec.block_device_mappings or family_of(node_class).disks
    return [_mapping(mapping) for mapping in mappings]


def storage_bytes(node_class: EC2NodeClass, *, local_disks_bytes: int = 0) -> int:
    """Give the size of the disk that pods' storage lies on.

    Args:
        node_class: Gives the family, the mappings and the policy for disks of the instance.
        local_disks_bytes: The size of the instance type's own disks together; 0 if it has none.

    Raises:
        FamilyError: The node class names a family that does not exist.
    """
    if node_class.spec.instance_store_policy == "RAID0" and local_disks_bytes:
        return local_disks_bytes
    sizes = (parse_value(ebs.volume_size) for ebs in _candidates(node_class) if ebs.volume_size)
    return next(sizes, _UNKNOWN_BYTES)


def _candidates(node_class: EC2NodeClass) -> Iterator[EBS]:
    """Give the volumes on which pods' storage may lie, the surest first."""
    family = family_of(node_class)
    mappings = node_class.spec.block_device_mappings
    chosen = [mapping for mapping in mappings if mapping.root_volume]
    chosen += mappings[-1:] if family is CUSTOM else _on_storage_device(mappings, family)
    chosen += _on_storage_device(family.disks, family)
    return (mapping.ebs for mapping in chosen if mapping.ebs is not None)


def _on_storage_device(mappings: tuple[BlockDeviceMapping, ...], family: Family) -> list[BlockDeviceMapping]:
    return [mapping for mapping in mappings if mapping.device_name == family.storage_device]


def _mapping(mapping: BlockDeviceMapping) -> dict[str, Any]:
    written: dict[str, Any] = {"DeviceName": mapping.device_name} if mapping.device_name else {}
    if mapping.ebs is not None:
        written["Ebs"] = _volume(mapping.ebs)
    return written


def _volume(ebs: EBS) -> dict[str, Any]:
    wanted = {
        "DeleteOnTermination": ebs.delete_on_termination,
        "Encrypted": ebs.encrypted,
        # Zero is how people leave these two to EC2.
        "Iops": ebs.iops or None,
        "Throughput": ebs.throughput or None,
        "KmsKeyId": ebs.kms_key_id or None,
        "SnapshotId": ebs.snapshot_id or None,
        "VolumeInitializationRate": ebs.volume_initialization_rate,
        "VolumeSize": -(-parse_value(ebs.volume_size) // _GIB) if ebs.volume_size else None,
        "VolumeType": ebs.volume_type or None,
    }
    return {name: value for name, value in wanted.items() if value is not None}
