# SPDX-License-Identifier: Apache-2.0
"""How large a node of a type will be, and how much of it is left for pods.

Exactly as Karpenter reckons it, because nodes must come up as large as planned: EC2's figures, less what the
hypervisor takes of the memory (a share, until a real node has shown it), less what the kubelet and the system
keep, less the threshold below which the kubelet evicts. Amounts are whole base units: millicores, bytes, counts.
What is left is never below zero: a machine too small for its own overhead has no room, not a debt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClass, KubeletConfiguration, NetworkInterface
from karpenter.cloud.aws.amis.families import Family
from karpenter.cloud.aws.blockdevices import storage_bytes
from karpenter.facts import TypeFacts
from karpenter.kit.quantity import QuantityError, parse_milli, parse_value
from karpenter.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

__all__ = ["Size", "SizeSettings", "interface_limited_pods", "pod_limit", "size_of"]

_MIB: Final = 1024**2
_GIB: Final = 1024**3

# Graviton machines keep this for contiguous allocations; Linux never sees it.
_ARM_RESERVED_MIB: Final = 64

# The kubelet's share of each further slice of cores: up to so many millicores, so many ten-thousandths.
_CPU_SLICES: Final = ((1000, 600), (2000, 100), (4000, 50))
_CPU_BEYOND: Final = 25

_NO_KUBELET: Final = KubeletConfiguration()


@dataclass(frozen=True, slots=True)
class SizeSettings:
    """Settings of the whole installation that sizes depend on.

    Attributes:
        vm_memory_overhead_percent: The share of memory, 0.075 being 7.5 %, that a node is thought to lack.
        reserved_enis: Network interfaces that are not for pods.
    """

    vm_memory_overhead_percent: float = 0.075
    reserved_enis: int = 0

    def __post_init__(self) -> None:
        """Refuse a share that would leave no memory at all, so that no node could be planned and nothing told why."""
        if not 0 <= self.vm_memory_overhead_percent < 1:
            raise ValueError(
                f"vm_memory_overhead_percent={self.vm_memory_overhead_percent:g}: must be from 0 to below 1,"
                " e.g. 0.075 for 7.5 %"
            )


@dataclass(frozen=True, slots=True)
class Size:
    """What a node has and what pods may have of it."""

    capacity: Resources
    allocatable: Resources


def size_of(
    facts: TypeFacts,
    node_class: EC2NodeClass,
    family: Family,
    settings: SizeSettings,
    *,
    learnt_memory_bytes: int | None = None,
) -> Size:
    """Returns the size of a node of this type that is launched from this node class.

    Args:
        facts: The type.
        node_class: The node class.
        family: Its image family.
        settings: The installation's settings.
        learnt_memory_bytes: The memory that a real node of the type had, instead of an estimate.

    Raises:
        QuantityError: An amount in the node class cannot be read; the message names the field.
    """
    spec = node_class.spec
    kubelet = spec.kubelet or _NO_KUBELET
    pods = pod_limit(facts, node_class, family, settings)
    memory = _memory_bytes(facts, settings) if learnt_memory_bytes is None else learnt_memory_bytes
    storage = storage_bytes(node_class, local_disks_bytes=facts.storage_gb * 10**9)
    capacity = Resources(
        {
            CPU: facts.vcpus * 1000,
            MEMORY: memory,
            EPHEMERAL_STORAGE: storage,
            PODS: pods,
            labels.POD_ENI: facts.branch_interfaces,
            labels.EFA: _efas(facts, spec.network_interfaces),
            **_devices(facts),
            labels.PRIVATE_IPV4_ADDRESS: facts.ipv4_per_interface - 1 if family.windows_build else 0,
        }
    )
    pods_reserved_for = pods
    if family.eni_limited_memory_overhead:
        pods_reserved_for = interface_limited_pods(facts, spec.network_interfaces, reserved_enis=0)
    left = dict(capacity)
    for overhead in (
        _kube_reserved(facts.vcpus * 1000, pods_reserved_for, kubelet),
        _quantities("systemReserved", kubelet.system_reserved),
        _eviction(memory, storage, kubelet),
    ):
        for name, amount in overhead.items():
            left[name] = left.get(name, 0) - amount
    return Size(capacity, Resources(left).floored())


def pod_limit(facts: TypeFacts, node_class: EC2NodeClass, family: Family, settings: SizeSettings) -> int:
    """Returns how many pods a node may run; launch templates are told the same."""
    kubelet = node_class.spec.kubelet or _NO_KUBELET
    if kubelet.max_pods is not None:
        pods = kubelet.max_pods
    elif family.fixed_pods is not None:
        pods = family.fixed_pods
    else:
        interfaces = node_class.spec.network_interfaces
        pods = interface_limited_pods(facts, interfaces, reserved_enis=settings.reserved_enis)
    if kubelet.pods_per_core and family.pods_per_core:
        pods = min(pods, kubelet.pods_per_core * facts.vcpus)
    return pods


def interface_limited_pods(
    facts: TypeFacts, interfaces: tuple[NetworkInterface, ...] = (), *, reserved_enis: int = 0
) -> int:
    """Returns how many pods get an address, the first address of each interface being the node's own.

    Only the default network card serves pods. Two pods on the node's network need no address.
    """
    efa_only = sum(nic.network_card_index == 0 and _is_efa_only(nic) for nic in interfaces)
    usable = facts.network_cards[facts.default_network_card].max_interfaces - reserved_enis - efa_only
    return usable * (facts.ipv4_per_interface - 1) + 2 if usable > 0 else 0


def _memory_bytes(facts: TypeFacts, settings: SizeSettings) -> int:
    of_arm = facts.architectures[:1] == ("arm64",)
    mib = facts.memory_mib - (_ARM_RESERVED_MIB if of_arm else 0)
    # In floating point and in this order, so that it rounds as Karpenter does.
    overhead_mib = math.ceil(float(mib * _MIB) * settings.vm_memory_overhead_percent / 1024 / 1024)
    return max(mib - overhead_mib, 0) * _MIB


def _devices(facts: TypeFacts) -> dict[str, int]:
    if not facts.gpus and not facts.neuron_devices:
        return {}

    def gpus(manufacturer: str) -> int:
        return sum(gpu.count for gpu in facts.gpus if gpu.manufacturer == manufacturer)

    return {
        labels.NVIDIA_GPU: gpus("NVIDIA"),
        labels.AMD_GPU: gpus("AMD"),
        labels.HABANA_GAUDI: gpus("Habana"),
        labels.NEURON: sum(device.count for device in facts.neuron_devices),
        labels.NEURON_CORE: sum(device.count * device.cores_per_device for device in facts.neuron_devices),
    }


def _efas(facts: TypeFacts, interfaces: tuple[NetworkInterface, ...]) -> int:
    return sum(map(_is_efa_only, interfaces)) if interfaces else facts.efa_max


def _is_efa_only(interface: NetworkInterface) -> bool:
    return interface.interface_type == "efa-only"


def _kube_reserved(millicores: int, pods: int, kubelet: KubeletConfiguration) -> dict[str, int]:
    defaults = {
        CPU: _kubelet_millicores(millicores),
        MEMORY: (11 * pods + 255) * _MIB,
        EPHEMERAL_STORAGE: _GIB,
    }
    return defaults | _quantities("kubeReserved", kubelet.kube_reserved)


def _kubelet_millicores(millicores: int) -> int:
    reserved, start = 0, 0
    for end, share in _CPU_SLICES:
        reserved += max(min(millicores, end) - start, 0) * share // 10_000
        start = end
    return reserved + max(millicores - start, 0) * _CPU_BEYOND // 10_000


def _eviction(memory: int, storage: int, kubelet: KubeletConfiguration) -> dict[str, int]:
    thresholds = {MEMORY: 100 * _MIB, EPHEMERAL_STORAGE: math.ceil(float(storage) / 100 * 10)}
    for signal, resource, capacity in (
        ("memory.available", MEMORY, memory),
        ("nodefs.available", EPHEMERAL_STORAGE, storage),
    ):
        if signal in kubelet.eviction_hard:
            thresholds[resource] = _threshold(signal, kubelet.eviction_hard[signal], capacity)
    return thresholds


def _threshold(signal: str, text: str, capacity: int) -> int:
    field = f"kubelet.evictionHard[{signal}]"
    if not text.endswith("%"):
        return _value(field, text)
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not 0 <= percent <= 100:
        raise QuantityError(f'{field}: "{text}" is not a percentage', hint='write e.g. "5%" or "500Mi"')
    # The kubelet takes 100% for "switched off".
    return 0 if percent == 100 else math.ceil(float(capacity) / 100 * percent)


def _quantities(field: str, given: Mapping[str, str]) -> dict[str, int]:
    # Not through Resources, which drops zeros: a zero here is said on purpose.
    return {
        name: _value(f"kubelet.{field}[{name}]", text, parse_milli if name == CPU else parse_value)
        for name, text in given.items()
    }


def _value(field: str, text: str, parse: Callable[[str], int] = parse_value) -> int:
    try:
        return parse(text)
    except QuantityError as error:
        raise QuantityError(f"{field}: {error.message}", hint=error.hint) from error
