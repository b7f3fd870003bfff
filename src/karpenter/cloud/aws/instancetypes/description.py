# SPDX-License-Identifier: Apache-2.0
"""Reads one entry of a DescribeInstanceTypes answer into ``TypeFacts``.

EC2 leaves out what does not apply; so does this. Bandwidth and branch interfaces are in no answer of EC2 and
come from the tables of the package. An entry without a name, processors, memory or a network card cannot be
placed on or priced, and is refused as a value (``None``): one odd new type must not hide the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from karpenter import facts
from karpenter.facts import Accelerator, Disks, Gpu, NetworkCard, NeuronDevice, TypeFacts

__all__ = ["read_type"]

_NONE: Final[Mapping[str, Any]] = {}


def read_type(info: Mapping[str, Any], *, untold: tuple[int | None, int] | None = None) -> TypeFacts | None:
    """Returns the facts of one described type; ``None`` where the description lacks what no type can lack.

    Args:
        info: One entry of ``InstanceTypes``, in the shape that boto3 gives.
        untold: Its network bandwidth in Mbps and its branch interfaces, which EC2 does not tell; from the
            package's tables unless given.
    """
    name = info.get("InstanceType", "")
    vcpus = info.get("VCpuInfo", _NONE).get("DefaultVCpus", 0)
    memory_mib = info.get("MemoryInfo", _NONE).get("SizeInMiB", 0)
    network = info.get("NetworkInfo", _NONE)
    cards = _cards(network)
    default_card = network.get("DefaultNetworkCardIndex", 0)
    bandwidth_mbps, branches = untold or (facts.network_bandwidth_mbps(name), facts.branch_interfaces(name))
    if not (name and vcpus and memory_mib and default_card < len(cards)):
        return None
    return TypeFacts(
        name=name,
        vcpus=vcpus,
        memory_mib=memory_mib,
        network_cards=cards,
        default_network_card=default_card,
        network_bandwidth_mbps=bandwidth_mbps,
        branch_interfaces=branches,
        **_processor(info),
        **_nature(info),
        **_disks(info),
        **_network(network),
        **_devices(info),
    )


def _processor(info: Mapping[str, Any]) -> dict[str, Any]:
    processor, vcpu = info.get("ProcessorInfo", _NONE), info["VCpuInfo"]
    return {
        "cores": vcpu.get("DefaultCores", 0),
        "threads_per_core": vcpu.get("DefaultThreadsPerCore", 0),
        "architectures": tuple(processor.get("SupportedArchitectures", ())),
        "processor_manufacturer": processor.get("Manufacturer", ""),
        "clock_ghz": processor.get("SustainedClockSpeedInGhz"),
        "processor_features": tuple(processor.get("SupportedFeatures", ())),
    }


def _nature(info: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "hypervisor": info.get("Hypervisor", ""),
        "bare_metal": info.get("BareMetal", False),
        "burstable": info.get("BurstablePerformanceSupported", False),
        "current_generation": info.get("CurrentGeneration", True),
        "free_tier": info.get("FreeTierEligible", False),
        "dedicated_hosts": info.get("DedicatedHostsSupported", False),
        "auto_recovery": info.get("AutoRecoverySupported", False),
        "hibernation": info.get("HibernationSupported", False),
        "usage_classes": tuple(info.get("SupportedUsageClasses", ())),
        "virtualization_types": tuple(info.get("SupportedVirtualizationTypes", ())),
        "root_device_types": tuple(info.get("SupportedRootDeviceTypes", ())),
        "boot_modes": tuple(info.get("SupportedBootModes", ())),
        "placement_strategies": tuple(info.get("PlacementGroupInfo", _NONE).get("SupportedStrategies", ())),
        "nitro_enclaves": info.get("NitroEnclavesSupport") == "supported",
        "nitro_tpm": info.get("NitroTpmSupport") == "supported",
    }


def _disks(info: Mapping[str, Any]) -> dict[str, Any]:
    ebs, storage = info.get("EbsInfo", _NONE), info.get("InstanceStorageInfo", _NONE)
    optimized = ebs.get("EbsOptimizedInfo", _NONE)
    return {
        "ebs_optimized": ebs.get("EbsOptimizedSupport", "unsupported"),
        "ebs_nvme": ebs.get("NvmeSupport", "unsupported"),
        "ebs_max_attachments": ebs.get("MaximumEbsAttachments", 0),
        "ebs_baseline_mbps": optimized.get("BaselineBandwidthInMbps", 0),
        "ebs_max_mbps": optimized.get("MaximumBandwidthInMbps", 0),
        "ebs_baseline_iops": optimized.get("BaselineIops", 0),
        "ebs_max_iops": optimized.get("MaximumIops", 0),
        "storage_gb": storage.get("TotalSizeInGB", 0),
        "storage_nvme": storage.get("NvmeSupport", "unsupported"),
        "disks": tuple(
            Disks(disk.get("Count", 0), disk.get("SizeInGB", 0), disk.get("Type", "ssd"))
            for disk in storage.get("Disks", ())
        ),
    }


def _network(network: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "network_performance": network.get("NetworkPerformance", ""),
        "max_interfaces": network.get("MaximumNetworkInterfaces", 0),
        "ipv4_per_interface": network.get("Ipv4AddressesPerInterface", 0),
        "ipv6_per_interface": network.get("Ipv6AddressesPerInterface", 0),
        "ipv6": network.get("Ipv6Supported", False),
        "ena": network.get("EnaSupport", "unsupported"),
        "ena_srd": network.get("EnaSrdSupported", False),
        "efa_max": network.get("EfaInfo", _NONE).get("MaximumEfaInterfaces", 0),
        "encryption_in_transit": network.get("EncryptionInTransitSupported", False),
    }


def _cards(network: Mapping[str, Any]) -> tuple[NetworkCard, ...]:
    cards = sorted(network.get("NetworkCards", ()), key=lambda card: card.get("NetworkCardIndex", 0))
    return tuple(
        NetworkCard(
            max_interfaces=card.get("MaximumNetworkInterfaces", 0),
            performance=card.get("NetworkPerformance", ""),
            baseline_gbps=card.get("BaselineBandwidthInGbps", 0.0),
            peak_gbps=card.get("PeakBandwidthInGbps", 0.0),
            efa="efa-only" in card.get("InterfaceTypes", ()),
        )
        for card in cards
    )


def _devices(info: Mapping[str, Any]) -> dict[str, Any]:
    gpus = info.get("GpuInfo", _NONE).get("Gpus", ())
    neuron = info.get("NeuronInfo", _NONE).get("NeuronDevices", ())
    return {
        "gpus": tuple(
            Gpu(
                name=gpu.get("Name", ""),
                manufacturer=gpu.get("Manufacturer", ""),
                count=gpu.get("Count", 0),
                memory_mib=gpu.get("MemoryInfo", _NONE).get("SizeInMiB", 0),
                logical_count=gpu.get("LogicalGpuCount", 0),
                partition_size=gpu.get("GpuPartitionSize", 1.0),
            )
            for gpu in gpus
        ),
        "neuron_devices": tuple(
            NeuronDevice(
                name=device.get("Name", ""),
                count=device.get("Count", 0),
                cores_per_device=device.get("CoreInfo", _NONE).get("Count", 0),
                memory_mib=device.get("MemoryInfo", _NONE).get("SizeInMiB", 0),
                core_version=device.get("CoreInfo", _NONE).get("Version", 0),
            )
            for device in neuron
        ),
        "inference_accelerators": _accelerators(
            info.get("InferenceAcceleratorInfo", _NONE).get("Accelerators", ())
        ),
        "media_accelerators": _accelerators(info.get("MediaAcceleratorInfo", _NONE).get("Accelerators", ())),
        "fpgas": _accelerators(info.get("FpgaInfo", _NONE).get("Fpgas", ())),
    }


def _accelerators(entries: Iterable[Mapping[str, Any]]) -> tuple[Accelerator, ...]:
    return tuple(
        Accelerator(
            name=entry.get("Name", ""),
            manufacturer=entry.get("Manufacturer", ""),
            count=entry.get("Count", 0),
            memory_mib=entry.get("MemoryInfo", _NONE).get("SizeInMiB", 0),
        )
        for entry in entries
    )
