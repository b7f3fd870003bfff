# SPDX-License-Identifier: Apache-2.0
"""Instance types and where they are offered, from the catalogue of facts, in EC2's shapes.

Only types that the region offers are known, as in EC2. The shapes never change while the model runs, so each is
made once, rendered once, and shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from karpenter import facts
from karpenter.facts import Accelerator, TypeFacts
from karpenter.sandbox.ec2.compute.filters import Field, cut, matching
from karpenter.sandbox.ec2.compute.seam import Params
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError, Rendered

__all__ = ["describe_instance_type_offerings", "describe_instance_types", "facts_of", "type_view"]

_FIELDS: Final[Mapping[str, Field]] = {
    "instance-type": lambda each: each.name,
    "auto-recovery-supported": lambda each: each.auto_recovery,
    "bare-metal": lambda each: each.bare_metal,
    "burstable-performance-supported": lambda each: each.burstable,
    "current-generation": lambda each: each.current_generation,
    "dedicated-hosts-supported": lambda each: each.dedicated_hosts,
    "ebs-info.ebs-optimized-support": lambda each: each.ebs_optimized,
    "ebs-info.encryption-support": lambda _: "supported",
    "ebs-info.nvme-support": lambda each: each.ebs_nvme,
    "free-tier-eligible": lambda each: each.free_tier,
    "hibernation-supported": lambda each: each.hibernation,
    "hypervisor": lambda each: each.hypervisor,
    "instance-storage-info.nvme-support": lambda each: each.storage_nvme if each.storage_gb else None,
    "instance-storage-info.total-size-in-gb": lambda each: each.storage_gb or None,
    "instance-storage-supported": lambda each: each.storage_gb > 0,
    "memory-info.size-in-mib": lambda each: each.memory_mib,
    "network-info.efa-supported": lambda each: each.efa_max > 0,
    "network-info.ena-support": lambda each: each.ena,
    "network-info.encryption-in-transit-supported": lambda each: each.encryption_in_transit,
    "network-info.ipv4-addresses-per-interface": lambda each: each.ipv4_per_interface,
    "network-info.ipv6-addresses-per-interface": lambda each: each.ipv6_per_interface,
    "network-info.ipv6-supported": lambda each: each.ipv6,
    "network-info.maximum-network-cards": lambda each: len(each.network_cards),
    "network-info.maximum-network-interfaces": lambda each: each.max_interfaces,
    "network-info.network-performance": lambda each: each.network_performance,
    "nitro-enclaves-support": lambda each: "supported" if each.nitro_enclaves else "unsupported",
    "nitro-tpm-support": lambda each: "supported" if each.nitro_tpm else "unsupported",
    "processor-info.supported-architecture": lambda each: each.architectures,
    "processor-info.supported-features": lambda each: each.processor_features,
    "processor-info.sustained-clock-speed-in-ghz": lambda each: each.clock_ghz,
    "supported-boot-mode": lambda each: each.boot_modes,
    "supported-root-device-type": lambda each: each.root_device_types,
    "supported-usage-class": lambda each: each.usage_classes,
    "supported-virtualization-type": lambda each: each.virtualization_types,
    "vcpu-info.default-cores": lambda each: each.cores,
    "vcpu-info.default-threads-per-core": lambda each: each.threads_per_core,
    "vcpu-info.default-vcpus": lambda each: each.vcpus,
}


def facts_of(ec2: Store, name: str) -> TypeFacts | None:
    """Gives the facts of a type that the region offers."""
    return facts.instance_types().get(name) if name in ec2.prices.offered else None


def describe_instance_types(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeInstanceTypes in pages of at most 100, by name."""
    named = params.get("InstanceTypes")
    if named and (absent := [name for name in named if facts_of(ec2, name) is None]):
        raise ModelError(
            "InvalidInstanceType",
            f"The following supplied instance types do not exist: [{', '.join(absent)}]",
        )
    known = [
        each for each in (facts_of(ec2, name) for name in sorted(set(named or ec2.prices.offered))) if each
    ]
    passed = matching(known, params.get("Filters") or (), _FIELDS)
    page, token = cut(passed, params, lambda each: each.name, at_most=100, by_itself=not named)
    views: Sequence[Any] = (
        [_rendered(ec2, each.name) for each in page] if ec2.render else [type_view(each) for each in page]
    )
    return {"InstanceTypes": views, **token}


@dataclass(frozen=True, slots=True)
class _Offering:
    instance_type: str
    location: str
    tags: Mapping[str, str]

    @property
    def key(self) -> str:
        return f"{self.instance_type}\x1f{self.location}"


def describe_instance_type_offerings(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeInstanceTypeOfferings by region, zone or zone id, in pages of at most 1,000."""
    kind = params.get("LocationType") or "region"
    rows = [
        _Offering(name, place, {})
        for name, zones in ec2.prices.offered.items()
        for place in _places(ec2, kind, zones)
    ]
    fields: dict[str, Field] = {
        "instance-type": lambda row: row.instance_type,
        "location": lambda row: row.location,
    }
    passed = sorted(matching(rows, params.get("Filters") or (), fields), key=lambda row: row.key)
    page, token = cut(passed, params, lambda row: row.key, by_itself=True)
    views = [
        {"InstanceType": row.instance_type, "LocationType": kind, "Location": row.location} for row in page
    ]
    return {"InstanceTypeOfferings": views, **token}


def _places(ec2: Store, kind: str, zones: tuple[str, ...]) -> Sequence[str]:
    if kind == "availability-zone":
        return zones
    if kind == "availability-zone-id":
        return [ec2.zones()[zone] for zone in zones]
    return [ec2.account.region] if kind == "region" else []


@cache
def _xml(render: Any, name: str) -> Rendered:
    return Rendered(render("InstanceTypeInfo", type_view(facts.instance_types()[name])))


def _rendered(ec2: Store, name: str) -> Rendered:
    return _xml(ec2.render, name)


def type_view(each: TypeFacts) -> dict[str, Any]:
    """Gives a type as DescribeInstanceTypes shows it."""
    view: dict[str, Any] = {
        "InstanceType": each.name,
        "CurrentGeneration": each.current_generation,
        "FreeTierEligible": each.free_tier,
        "SupportedUsageClasses": list(each.usage_classes),
        "SupportedRootDeviceTypes": list(each.root_device_types),
        "SupportedVirtualizationTypes": list(each.virtualization_types),
        "BareMetal": each.bare_metal,
        "ProcessorInfo": _processor(each),
        "VCpuInfo": {"DefaultVCpus": each.vcpus},
        "MemoryInfo": {"SizeInMiB": each.memory_mib},
        "InstanceStorageSupported": each.storage_gb > 0,
        "EbsInfo": _ebs(each),
        "NetworkInfo": _network(each),
        "PlacementGroupInfo": {"SupportedStrategies": list(each.placement_strategies)},
        "HibernationSupported": each.hibernation,
        "BurstablePerformanceSupported": each.burstable,
        "DedicatedHostsSupported": each.dedicated_hosts,
        "AutoRecoverySupported": each.auto_recovery,
        "SupportedBootModes": list(each.boot_modes),
        "NitroEnclavesSupport": "supported" if each.nitro_enclaves else "unsupported",
        "NitroTpmSupport": "supported" if each.nitro_tpm else "unsupported",
    }
    if each.cores:
        view["VCpuInfo"] |= {"DefaultCores": each.cores, "DefaultThreadsPerCore": each.threads_per_core}
    if each.hypervisor:
        view["Hypervisor"] = each.hypervisor
    if each.storage_gb:
        view["InstanceStorageInfo"] = {
            "TotalSizeInGB": each.storage_gb,
            "Disks": [{"SizeInGB": d.size_gb, "Count": d.count, "Type": d.kind} for d in each.disks],
            "NvmeSupport": each.storage_nvme,
            "EncryptionSupport": "required" if each.storage_nvme != "unsupported" else "unsupported",
        }
    return view | _accelerators(each)


def _processor(each: TypeFacts) -> dict[str, Any]:
    info: dict[str, Any] = {
        "SupportedArchitectures": list(each.architectures),
        "Manufacturer": each.processor_manufacturer,
    }
    if each.clock_ghz is not None:
        info["SustainedClockSpeedInGhz"] = each.clock_ghz
    if each.processor_features:
        info["SupportedFeatures"] = list(each.processor_features)
    return info


def _ebs(each: TypeFacts) -> dict[str, Any]:
    info: dict[str, Any] = {
        "EbsOptimizedSupport": each.ebs_optimized,
        "EncryptionSupport": "supported",
        "NvmeSupport": each.ebs_nvme,
    }
    if each.ebs_max_attachments:
        info["MaximumEbsAttachments"] = each.ebs_max_attachments
    if each.ebs_max_mbps:
        info["EbsOptimizedInfo"] = {
            "BaselineBandwidthInMbps": each.ebs_baseline_mbps,
            "BaselineThroughputInMBps": each.ebs_baseline_mbps / 8,
            "BaselineIops": each.ebs_baseline_iops,
            "MaximumBandwidthInMbps": each.ebs_max_mbps,
            "MaximumThroughputInMBps": each.ebs_max_mbps / 8,
            "MaximumIops": each.ebs_max_iops,
        }
    return info


def _network(each: TypeFacts) -> dict[str, Any]:
    info: dict[str, Any] = {
        "NetworkPerformance": each.network_performance,
        "MaximumNetworkInterfaces": each.max_interfaces,
        "MaximumNetworkCards": len(each.network_cards),
        "DefaultNetworkCardIndex": each.default_network_card,
        "NetworkCards": [
            {
                "NetworkCardIndex": index,
                "NetworkPerformance": card.performance,
                "MaximumNetworkInterfaces": card.max_interfaces,
                "BaselineBandwidthInGbps": card.baseline_gbps,
                "PeakBandwidthInGbps": card.peak_gbps,
                "InterfaceTypes": ["interface", "efa", "efa-only"] if card.efa else ["interface"],
            }
            for index, card in enumerate(each.network_cards)
        ],
        "Ipv4AddressesPerInterface": each.ipv4_per_interface,
        "Ipv6AddressesPerInterface": each.ipv6_per_interface,
        "Ipv6Supported": each.ipv6,
        "EnaSupport": each.ena,
        "EfaSupported": each.efa_max > 0,
        "EncryptionInTransitSupported": each.encryption_in_transit,
        "EnaSrdSupported": each.ena_srd,
    }
    if each.efa_max:
        info["EfaInfo"] = {"MaximumEfaInterfaces": each.efa_max}
    return info


def _accelerators(each: TypeFacts) -> dict[str, Any]:
    view: dict[str, Any] = {}
    if each.gpus:
        view["GpuInfo"] = {
            "Gpus": [
                {
                    "Name": gpu.name,
                    "Manufacturer": gpu.manufacturer,
                    "Count": gpu.count,
                    "LogicalGpuCount": gpu.logical_count or gpu.count,
                    "GpuPartitionSize": gpu.partition_size,
                    "MemoryInfo": {"SizeInMiB": gpu.memory_mib},
                }
                for gpu in each.gpus
            ],
            "TotalGpuMemoryInMiB": sum(max(gpu.count, 1) * gpu.memory_mib for gpu in each.gpus),
        }
    if each.neuron_devices:
        view["NeuronInfo"] = {
            "NeuronDevices": [
                {
                    "Name": device.name,
                    "Count": device.count,
                    "CoreInfo": {"Count": device.cores_per_device, "Version": device.core_version},
                    "MemoryInfo": {"SizeInMiB": device.memory_mib},
                }
                for device in each.neuron_devices
            ],
            "TotalNeuronDeviceMemoryInMiB": sum(d.count * d.memory_mib for d in each.neuron_devices),
        }
    for key, inner, total, some in (
        (
            "InferenceAcceleratorInfo",
            "Accelerators",
            "TotalInferenceMemoryInMiB",
            each.inference_accelerators,
        ),
        ("MediaAcceleratorInfo", "Accelerators", "TotalMediaMemoryInMiB", each.media_accelerators),
        ("FpgaInfo", "Fpgas", "TotalFpgaMemoryInMiB", each.fpgas),
    ):
        if some:
            view[key] = {
                inner: [_accelerator(one) for one in some],
                total: sum(one.count * one.memory_mib for one in some),
            }
    return view


def _accelerator(one: Accelerator) -> dict[str, Any]:
    return {
        "Name": one.name,
        "Manufacturer": one.manufacturer,
        "Count": one.count,
        "MemoryInfo": {"SizeInMiB": one.memory_mib},
    }
