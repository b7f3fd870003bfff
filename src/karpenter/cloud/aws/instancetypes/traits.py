# SPDX-License-Identifier: Apache-2.0
"""The labels that an instance type gives to its nodes.

Names and values equal Karpenter's, odd ones included: bare metal has an empty hypervisor, a processor whose clock
EC2 does not tell runs at 0 MHz, and a machine with several kinds of GPU has no label about GPUs at all. What a
launch settles (zone, capacity type, reservation, tenancy) stands in the offerings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from karpenter.api import labels
from karpenter.cloud.aws.amis.families import Family
from karpenter.cloud.aws.amis.images import ARCHITECTURES
from karpenter.facts import TypeFacts

__all__ = ["architecture", "labels_of"]

_SCHEME: Final = re.compile(r"^([a-z]+)(?:-[0-9]+tb)?([0-9]+).*\.")


def architecture(facts: TypeFacts) -> str:
    """Returns the architecture as Kubernetes names it; empty for one that it has no nodes of."""
    return next((ARCHITECTURES[name] for name in facts.architectures if name in ARCHITECTURES), "")


def labels_of(facts: TypeFacts, region: str, family: Family, *, group: str = "") -> Mapping[str, str]:
    """Returns the labels that every node of the type has, whatever its offering.

    Args:
        facts: The type.
        region: The region that nodes are launched in.
        family: The image family that they run.
        group: Id of the placement group that they are launched into.
    """
    found = {
        labels.INSTANCE_TYPE: facts.name,
        labels.ARCH: architecture(facts),
        labels.OS: family.os,
        labels.REGION: region,
        labels.INSTANCE_CPU: str(facts.vcpus),
        labels.INSTANCE_MEMORY: str(facts.memory_mib),
        labels.INSTANCE_HYPERVISOR: facts.hypervisor,
        labels.INSTANCE_ENCRYPTION_IN_TRANSIT: _word(facts.encryption_in_transit),
        labels.INSTANCE_CPU_MANUFACTURER: _dashed(facts.processor_manufacturer),
        labels.INSTANCE_CPU_CLOCK_SPEED: str(int((facts.clock_ghz or 0.0) * 1000 + 0.5)),
        **_name_labels(facts.name),
        **_device_labels(facts),
    }
    if facts.ebs_optimized == "default" and facts.ebs_max_mbps:
        found[labels.INSTANCE_EBS_BANDWIDTH] = str(facts.ebs_max_mbps)
    if facts.network_bandwidth_mbps is not None:
        found[labels.INSTANCE_NETWORK_BANDWIDTH] = str(facts.network_bandwidth_mbps)
    if facts.storage_gb and facts.storage_nvme != "unsupported":
        found[labels.INSTANCE_LOCAL_NVME] = str(facts.storage_gb)
    if family.windows_build:
        found[labels.WINDOWS_BUILD] = family.windows_build
    if group:
        found[labels.PLACEMENT_GROUP_ID] = group
    return dict(sorted(found.items()))


def _name_labels(name: str) -> dict[str, str]:
    head, _, size = name.partition(".")
    found = {
        labels.INSTANCE_FAMILY: head,
        labels.INSTANCE_SIZE: size,
        labels.INSTANCE_CAPABILITY_FLEX: _word("-flex" in head),
    }
    parts = _SCHEME.match(name)
    if parts:
        found |= {labels.INSTANCE_CATEGORY: parts[1], labels.INSTANCE_GENERATION: parts[2]}
    return found


def _device_labels(facts: TypeFacts) -> dict[str, str]:
    found: dict[str, str] = {}
    if len(facts.gpus) == 1:
        gpu = facts.gpus[0]
        found |= {
            labels.INSTANCE_GPU_NAME: _dashed(gpu.name),
            labels.INSTANCE_GPU_MANUFACTURER: _dashed(gpu.manufacturer),
            labels.INSTANCE_GPU_COUNT: str(gpu.count),
            labels.INSTANCE_GPU_MEMORY: str(gpu.memory_mib),
        }
    # Neuron devices are often listed among the inference accelerators too; they count once, as Neuron.
    kinds = [(device.name, "aws", device.count) for device in facts.neuron_devices] or [
        (each.name, each.manufacturer, each.count) for each in facts.inference_accelerators
    ]
    if len(kinds) == 1:
        name, manufacturer, count = kinds[0]
        found |= {
            labels.INSTANCE_ACCELERATOR_NAME: _dashed(name),
            labels.INSTANCE_ACCELERATOR_MANUFACTURER: _dashed(manufacturer),
            labels.INSTANCE_ACCELERATOR_COUNT: str(count),
        }
    return found


def _dashed(text: str) -> str:
    return text.replace(" ", "-").lower()


def _word(truth: bool) -> str:  # noqa: FBT001  # the truth is the whole argument
    return "true" if truth else "false"
