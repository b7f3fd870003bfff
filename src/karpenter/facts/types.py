# SPDX-License-Identifier: Apache-2.0
"""What EC2 tells about one instance type, as a frozen value.

The fields are those of DescribeInstanceTypes that a launch, a node's size or a label depends on, under names
of ours and with units in them, plus two figures that EC2 does not tell through any call: the network bandwidth
and the number of branch interfaces. A field that EC2 leaves out is ``None``, ``0``, ``""`` or ``()``, whichever
means "has none". Derived amounts (allocatable memory, pod density) are not facts and are not here.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Accelerator", "Disks", "Gpu", "NetworkCard", "NeuronDevice", "TypeFacts"]


class NetworkCard(Struct, frozen=True, array_like=True):
    """One network card; its index is its place in ``TypeFacts.network_cards``."""

    max_interfaces: int
    performance: str = ""
    baseline_gbps: float = 0.0
    peak_gbps: float = 0.0
    efa: bool = False


class Disks(Struct, frozen=True, array_like=True):
    """Equal disks of the instance itself: how many, how large each, ``ssd`` or ``hdd``."""

    count: int
    size_gb: int
    kind: str = "ssd"


class Gpu(Struct, frozen=True, array_like=True):
    """GPUs of one kind. A slice of one GPU has ``count`` 0 and ``logical_count`` 1."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int
    logical_count: int = 0
    partition_size: float = 1.0


class Accelerator(Struct, frozen=True, array_like=True):
    """Accelerators of one kind: for inference, for media, or FPGAs."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int


class NeuronDevice(Struct, frozen=True, array_like=True):
    """Neuron devices of one kind, with the cores that each of them has."""

    name: str
    count: int
    cores_per_device: int
    memory_mib: int
    core_version: int = 0


class TypeFacts(Struct, frozen=True, array_like=True, kw_only=True):
    """One EC2 instance type.

    ``hypervisor`` is empty for bare metal. ``storage_gb`` is all disks of the instance together. ``efa_max`` is
    0 where EFA is not supported. ``network_bandwidth_mbps`` is ``None`` where AWS only says "moderate" or
    "high"; ``branch_interfaces`` is 0 where pods cannot have interfaces of their own.
    """

    name: str
    vcpus: int
    cores: int = 0
    threads_per_core: int = 0
    memory_mib: int
    architectures: tuple[str, ...]
    processor_manufacturer: str = ""
    clock_ghz: float | None = None
    processor_features: tuple[str, ...] = ()
    hypervisor: str = ""
    bare_metal: bool = False
    burstable: bool = False
    current_generation: bool = True
    free_tier: bool = False
    dedicated_hosts: bool = False
    auto_recovery: bool = False
    hibernation: bool = False
    usage_classes: tuple[str, ...] = ("on-demand",)
    virtualization_types: tuple[str, ...] = ("hvm",)
    root_device_types: tuple[str, ...] = ("ebs",)
    boot_modes: tuple[str, ...] = ()
    placement_strategies: tuple[str, ...] = ()
    ebs_optimized: str = "unsupported"
    ebs_nvme: str = "unsupported"
    ebs_max_attachments: int = 0
    ebs_baseline_mbps: int = 0
    ebs_max_mbps: int = 0
    ebs_baseline_iops: int = 0
    ebs_max_iops: int = 0
    storage_gb: int = 0
    storage_nvme: str = "unsupported"
    disks: tuple[Disks, ...] = ()
    network_performance: str = ""
    network_cards: tuple[NetworkCard, ...]
    default_network_card: int = 0
    max_interfaces: int = 0
    ipv4_per_interface: int
    ipv6_per_interface: int = 0
    ipv6: bool = False
    ena: str = "unsupported"
    ena_srd: bool = False
    efa_max: int = 0
    encryption_in_transit: bool = False
    gpus: tuple[Gpu, ...] = ()
    neuron_devices: tuple[NeuronDevice, ...] = ()
    inference_accelerators: tuple[Accelerator, ...] = ()
    media_accelerators: tuple[Accelerator, ...] = ()
    fpgas: tuple[Accelerator, ...] = ()
    nitro_enclaves: bool = False
    nitro_tpm: bool = False
    network_bandwidth_mbps: int | None = None
    branch_interfaces: int = 0
