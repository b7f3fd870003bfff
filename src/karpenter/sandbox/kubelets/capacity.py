# SPDX-License-Identifier: Apache-2.0
"""How large a machine turns out to be, as its kubelet finds it, and what it leaves to pods.

Reckoned from public facts and from what the kubelet was told, apart from the provider's own arithmetic, so that both
can disagree: the memory that Linux sees is less than what EC2 sells by a share that can be set, file systems are
smaller than their volumes, and the image's defaults (reserved cpu and memory, eviction thresholds) are AWS's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.api import labels
from karpenter.facts import TypeFacts
from karpenter.kit.quantity import QuantityError, parse_milli, parse_value
from karpenter.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from karpenter.sandbox.kubelets.boot import BOTTLEROCKET, WINDOWS, Boot
from karpenter.sandbox.kubelets.kubeletconfig import BootError, KubeletConfig

__all__ = ["Size", "attachable_volumes", "devices_of", "size_of"]

_MIB: Final = 1024**2
_GIB: Final = 1024**3
_HUGE_PAGES: Final = "hugepages-2Mi"

# A file system's own tables: 20 GiB of xfs hold this much less than 20 GiB.
_FILE_SYSTEM_LOSS: Final = 0.0006
_EVICTION: Final = {"memory.available": "100Mi", "nodefs.available": "10%"}
_DATA_DISK: Final = {BOTTLEROCKET: "/dev/xvdb"}


@dataclass(frozen=True, slots=True)
class Size:
    """What a node has and what of it pods may have; without devices, which come later."""

    capacity: Resources
    allocatable: Resources


def size_of(
    facts: TypeFacts, boot: Boot, disks_gib: Mapping[str, int], *, memory_loss: float, root_device: str = ""
) -> Size:
    """Gives the size that the kubelet reports.

    Args:
        facts: The machine's type.
        boot: What it was told.
        disks_gib: Its volumes by device name.
        memory_loss: The share of the memory that is sold which the operating system does not see.
        root_device: The volume that it booted from; pods' files are there, except on Bottlerocket.

    Raises:
        BootError: An amount cannot be read, so that the kubelet does not start.
    """
    config = boot.kubelet
    pods = _pods(facts, boot)
    huge_pages = boot.huge_pages * 2 * _MIB
    capacity = Resources(
        {
            CPU: facts.vcpus * 1000,
            MEMORY: int(facts.memory_mib * 1024 * (1 - memory_loss)) * 1024,
            EPHEMERAL_STORAGE: _storage(facts, boot, disks_gib, root_device),
            PODS: pods,
            **({_HUGE_PAGES: huge_pages} if huge_pages else {}),
        }
    )
    kept = [
        _reserved(
            "kubeReserved",
            _over(_kube_defaults(facts, boot), config.kube_reserved, "kube-reserved" in config.by_flag),
        ),
        _reserved("systemReserved", config.system_reserved or {}),
        _eviction(config, capacity),
        # Set aside, they are no memory for other pods.
        {MEMORY: huge_pages},
    ]
    left = dict(capacity)
    for amounts in kept:
        for name, amount in amounts.items():
            left[name] = max(left.get(name, 0) - amount, 0)
    return Size(capacity, Resources(left))


def devices_of(facts: TypeFacts, family: str) -> Resources:
    """Gives the devices that plugins report once they run."""

    def gpus(manufacturer: str) -> int:
        return sum(each.count for each in facts.gpus if each.manufacturer == manufacturer)

    neuron = facts.neuron_devices
    return Resources(
        {
            labels.NVIDIA_GPU: gpus("NVIDIA"),
            labels.AMD_GPU: gpus("AMD"),
            labels.HABANA_GAUDI: gpus("Habana"),
            labels.NEURON: sum(each.count for each in neuron),
            labels.NEURON_CORE: sum(each.count * each.cores_per_device for each in neuron),
            labels.POD_ENI: 0 if family == WINDOWS else facts.branch_interfaces,
            labels.EFA: facts.efa_max,
            labels.PRIVATE_IPV4_ADDRESS: facts.ipv4_per_interface - 1 if family == WINDOWS else 0,
        }
    )


def attachable_volumes(facts: TypeFacts, own_volumes: int) -> int:
    """Gives how many volumes the EBS driver says it can attach beside those that the machine booted with."""
    most = facts.ebs_max_attachments or (27 if facts.hypervisor == "nitro" else 39)
    return max(most - max(own_volumes, 1), 1)


def _pods(facts: TypeFacts, boot: Boot) -> int:
    config = boot.kubelet
    most = config.max_pods if config.max_pods is not None else _addressable_pods(facts, boot.family)
    # Bottlerocket's settings have no such limit.
    return min(most, config.pods_per_core * facts.vcpus) if config.pods_per_core else most


def _addressable_pods(facts: TypeFacts, family: str) -> int:
    per_interface = facts.ipv4_per_interface - 1
    if family == WINDOWS:
        return per_interface
    return facts.network_cards[facts.default_network_card].max_interfaces * per_interface + 2


def _storage(facts: TypeFacts, boot: Boot, disks_gib: Mapping[str, int], root_device: str) -> int:
    if boot.raid0 and facts.storage_gb:
        return int(facts.storage_gb * 10**9 * (1 - _FILE_SYSTEM_LOSS))
    device = _DATA_DISK.get(boot.family, root_device)
    size_gib = disks_gib.get(device) or next(iter(disks_gib.values()), 0) or 20
    return int(size_gib * _GIB * (1 - _FILE_SYSTEM_LOSS)) // 1024 * 1024


def _kube_defaults(facts: TypeFacts, boot: Boot) -> dict[str, str]:
    """Gives what AWS's images reserve: of the cores ever smaller shares, of the memory a little for each pod."""
    # 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the others.
    tenths = sum(
        600 if core == 0 else 100 if core == 1 else 50 if core < 4 else 25 for core in range(facts.vcpus)
    )
    memory_mib = 255 + 11 * _addressable_pods(facts, boot.family)
    return {CPU: f"{tenths // 10}m", MEMORY: f"{memory_mib}Mi", EPHEMERAL_STORAGE: "1Gi"}


def _over(defaults: Mapping[str, str], told: Mapping[str, str] | None, alone: bool) -> dict[str, str]:  # noqa: FBT001
    return dict(told or {}) if alone else {**defaults, **(told or {})}


def _reserved(field: str, amounts: Mapping[str, str]) -> dict[str, int]:
    try:
        return {
            name: parse_milli(text) if name == CPU else parse_value(text)
            for name, text in amounts.items()
            if name in {CPU, MEMORY, EPHEMERAL_STORAGE}
        }
    except QuantityError as wrong:
        raise BootError(f"the kubelet cannot read {field}: {wrong.message}") from wrong


def _eviction(config: KubeletConfig, capacity: Resources) -> dict[str, int]:
    thresholds = _over(_EVICTION, config.eviction_hard, "eviction-hard" in config.by_flag)
    signals = {"memory.available": MEMORY, "nodefs.available": EPHEMERAL_STORAGE}
    return {
        signals[signal]: _threshold(signal, str(text), capacity[signals[signal]])
        for signal, text in thresholds.items()
        if signal in signals
    }


def _threshold(signal: str, text: str, of: int) -> int:
    try:
        if text.endswith("%"):
            share = float(text[:-1]) / 100
            return 0 if share >= 1 else int(of * share)
        return parse_value(text)
    except (ValueError, QuantityError) as wrong:
        raise BootError(f"the kubelet cannot read evictionHard[{signal}]: {text!r}") from wrong
