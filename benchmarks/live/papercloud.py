# SPDX-License-Identifier: Apache-2.0
"""Our controller on the same cloud as the Go Karpenter's kwok build: `python -m benchmarks.live.papercloud FILE`.

What is sold, and at what price, stands in a file of the kwok provider's format. A launch creates the Node at once, as
that provider does: the cheapest offering of all that the claim allows. A machine is gone as soon as it is deleted.
Everything else is the controller as users run it, with settings from the environment.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.e2e.papercloud import PaperCloud

from karpenter.api import labels as names
from karpenter.api.base import to_wire
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cli.running import told_to_stop
from karpenter.cloud.errors import InsufficientCapacityError, NodeClaimNotFoundError
from karpenter.cloud.protocol import Machine
from karpenter.kit.clock import SystemClock
from karpenter.kube import Client, load_config
from karpenter.kube.kinds import NODES
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.observe import configure
from karpenter.operator.runtime import CloudParts, Operator, Surroundings
from karpenter.operator.settings import read_settings

__all__ = ["ListedCloud", "read_types"]

# What the kwok provider takes off every type.
_RESERVED: Final = {"cpu": 100, "memory": 10 << 20}


def read_types(text: str) -> tuple[InstanceType, ...]:
    """Gives the instance types of a file of the kwok provider's format."""
    found = []
    for each in json.loads(text):
        capacity = Resources.parse(each["resources"])
        allocatable = {name: amount - _RESERVED.get(name, 0) for name, amount in capacity.items()}
        labels = {names.ARCH: each["architecture"], names.OS: each["operatingSystems"][0]}
        offerings = []
        for sold in each["offerings"]:
            values = {rule["key"]: rule["values"][0] for rule in sold["Requirements"]}
            offerings.append(Offering(values[names.ZONE], values[names.CAPACITY_TYPE], sold["Price"]))
        found.append(InstanceType(each["name"], labels, capacity, allocatable, tuple(offerings)))
    return tuple(found)


class ListedCloud(PaperCloud):
    """Sells what is on the list; a machine is its Node."""

    def __init__(self, types: Sequence[InstanceType], client: Client) -> None:
        super().__init__(types)
        self._client = client
        self._numbers = itertools.count(1)

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Machine:
        """Launches the cheapest that a claim allows, once per claim."""
        del node_class
        known = self.launched_for(claim)
        if known is not None:
            return known
        kind, offering = self._cheapest(claim)
        node_name = f"paper-{claim.metadata.name}-{next(self._numbers)}"
        machine = Machine(
            f"kwok://{node_name}",
            image_id="ami-paper",
            labels={
                **kind.labels,
                names.INSTANCE_TYPE: kind.name,
                names.ZONE: offering.zone,
                names.CAPACITY_TYPE: offering.capacity_type,
            },
            capacity=kind.capacity,
            allocatable=kind.allocatable,
            claim_uid=claim.metadata.uid,
            created_at=SystemClock().now(),
        )
        self.machines[machine.provider_id] = machine
        await self._client.create(NODES, _node(node_name, machine))
        return machine

    def _cheapest(self, claim: NodeClaim) -> tuple[InstanceType, Offering]:
        wanted = Requirements.from_expressions(claim.spec.requirements)
        found = [
            (offering.price_per_hour, kind.name, offering.zone, kind, offering)
            for kind in self.allowed(claim)
            for offering in kind.offerings
            if Requirements.from_labels(
                {names.ZONE: offering.zone, names.CAPACITY_TYPE: offering.capacity_type, **kind.labels}
            ).compatible(wanted, frozenset(each.key for each in claim.spec.requirements))
        ]
        if not found:
            raise InsufficientCapacityError(f"nothing on the list suits NodeClaim {claim.metadata.name}")
        *_, kind, offering = min(found, key=lambda each: each[:3])
        return kind, offering

    async def delete(self, provider_id: str) -> None:
        """Ends a machine; it is gone at once."""
        self.machines.pop(provider_id, None)
        raise NodeClaimNotFoundError(provider_id)


def _node(name: str, machine: Machine) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {**machine.labels, names.HOSTNAME: name}},
        "spec": {"providerID": machine.provider_id, "taints": [to_wire(names.UNREGISTERED_TAINT)]},
        "status": {
            "capacity": Resources(machine.capacity).to_quantities(),
            "allocatable": Resources(machine.allocatable).to_quantities(),
        },
    }


async def _run(types: Sequence[InstanceType]) -> None:
    settings = read_settings({}, os.environ)
    configure(level=settings.log_level, human=False, stream=sys.stdout)

    async def make(parts: Surroundings, fence: Callable[[], None]) -> CloudParts:
        del fence
        return CloudParts(ListedCloud(types, parts.client))

    operator = Operator(settings, load_config(), make, identity="benchmark", clock=SystemClock())
    await operator.run(told_to_stop())


if __name__ == "__main__":
    asyncio.run(_run(read_types(Path(sys.argv[1]).read_text(encoding="utf-8"))))
