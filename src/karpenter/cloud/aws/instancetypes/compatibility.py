# SPDX-License-Identifier: Apache-2.0
"""Which instance types a node class can be launched on, and for the others, what is in the way.

A type that does not go with the class keeps its offerings, marked as not available, so that a refusal can name
the cause instead of saying that the type does not exist.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClassSpec, NetworkInterface
from karpenter.cloud.aws.amis.families import Family
from karpenter.cloud.aws.instancetypes.traits import architecture
from karpenter.facts import TypeFacts

__all__ = ["Incompatibility", "PlacementGroup", "incompatibility", "is_launchable"]


class PlacementGroup(Protocol):
    """What is asked of a placement group: its id, its strategy, and how many partitions it has."""

    @property
    def id(self) -> str:
        """The group's id."""

    @property
    def strategy(self) -> str:
        """One of cluster, partition and spread."""

    @property
    def partition_count(self) -> int:
        """How many partitions it has; 0 unless the strategy is partition."""


class Incompatibility(StrEnum):
    """Why a type cannot be launched from a node class."""

    IMAGE_FAMILY = "the image family does not run on this type"
    NO_ENA = "networkInterfaces need an ENA, which this type lacks"
    NETWORK_CARD = "networkInterfaces name a network card that this type lacks"
    DEVICE_INDEX = "networkInterfaces name a device index beyond what the network card holds"
    EFA = "networkInterfaces ask for more EFA devices than this type supports"
    NESTED_VIRTUALIZATION = "cpuOptions.nestedVirtualization is not supported by this type"
    PLACEMENT_STRATEGY = "the placement group's strategy is not supported by this type"
    CONNECTION_TRACKING = "connectionTracking needs a Nitro type"


def is_launchable(facts: TypeFacts) -> bool:
    """Tells whether any node class could run the type: a Kubernetes architecture, and full virtualization."""
    return "hvm" in facts.virtualization_types and bool(architecture(facts))


def incompatibility(
    facts: TypeFacts, spec: EC2NodeClassSpec, family: Family, group: PlacementGroup | None = None
) -> Incompatibility | None:
    """Returns the first thing that keeps the type from being launched from the class; ``None`` if nothing does."""
    checks = (
        _image(facts, family),
        _network(facts, spec.network_interfaces) if spec.network_interfaces else None,
        _processor(facts, spec),
        _placement(facts, spec, group),
    )
    return next((found for found in checks if found is not None), None)


def _image(facts: TypeFacts, family: Family) -> Incompatibility | None:
    windows_elsewhere = family.is_windows and architecture(facts) != labels.AMD64
    # The kernel of Amazon Linux 2023 needs a newer Arm core than the first Graviton has.
    first_graviton = family.name == "AL2023" and facts.name.startswith("a1.")
    return Incompatibility.IMAGE_FAMILY if windows_elsewhere or first_graviton else None


def _processor(facts: TypeFacts, spec: EC2NodeClassSpec) -> Incompatibility | None:
    nested = spec.cpu_options is not None and spec.cpu_options.nested_virtualization == "enabled"
    if nested and "nested-virtualization" not in facts.processor_features:
        return Incompatibility.NESTED_VIRTUALIZATION
    return None


def _placement(
    facts: TypeFacts, spec: EC2NodeClassSpec, group: PlacementGroup | None
) -> Incompatibility | None:
    if group is not None and group.strategy not in facts.placement_strategies:
        return Incompatibility.PLACEMENT_STRATEGY
    if spec.connection_tracking is not None and facts.hypervisor != "nitro":
        return Incompatibility.CONNECTION_TRACKING
    return None


def _network(facts: TypeFacts, interfaces: tuple[NetworkInterface, ...]) -> Incompatibility | None:
    if facts.ena == "unsupported":
        return Incompatibility.NO_ENA
    for interface in interfaces:
        if interface.network_card_index >= len(facts.network_cards):
            return Incompatibility.NETWORK_CARD
        card = facts.network_cards[interface.network_card_index]
        if interface.device_index >= card.max_interfaces:
            return Incompatibility.DEVICE_INDEX
    if sum(interface.interface_type == "efa-only" for interface in interfaces) > facts.efa_max:
        return Incompatibility.EFA
    return None
