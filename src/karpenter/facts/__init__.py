# SPDX-License-Identifier: Apache-2.0
"""The one catalogue of public facts about EC2: what types exist, where they are sold, and their list prices.

================  ==========================================================================================
``types``         ``TypeFacts``, one instance type as EC2 describes it
``catalogue``     the tables that come with the package, each read once on first use
``data/``         the tables: JSON, one record a line, made by ``python -m tools.facts rebuild``
================  ==========================================================================================

The AWS provider and the EC2 model both stand on this room, so that they cannot disagree about a machine. It
holds data and a reader and decides nothing.
"""

from karpenter.facts.catalogue import (
    DEFAULT_REGION,
    branch_interfaces,
    currency,
    has_prices,
    instance_types,
    network_bandwidth_mbps,
    offered,
    on_demand_prices,
    price_region,
    regions,
    zones,
)
from karpenter.facts.types import Accelerator, Disks, Gpu, NetworkCard, NeuronDevice, TypeFacts

__all__ = [
    "DEFAULT_REGION",
    "Accelerator",
    "Disks",
    "Gpu",
    "NetworkCard",
    "NeuronDevice",
    "TypeFacts",
    "branch_interfaces",
    "currency",
    "has_prices",
    "instance_types",
    "network_bandwidth_mbps",
    "offered",
    "on_demand_prices",
    "price_region",
    "regions",
    "zones",
]
