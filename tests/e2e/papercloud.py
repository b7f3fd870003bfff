# SPDX-License-Identifier: Apache-2.0
"""A cloud on paper for the controllers on a real API server: sells two types, and its machines join as nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.provider import AwsProvider
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.cloud.protocol import Machine, NodeClassReadiness, RepairPolicy
from karpenter.kit.clock import SystemClock
from karpenter.kube import Client
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.resources import Resources
from karpenter.state import STORED_NODE_CLASSES

__all__ = ["PaperCloud", "make_ready"]

_ZONE = "us-west-2a"


def _sold(name: str, cpu: int, price: float) -> InstanceType:
    capacity = Resources.parse({"cpu": cpu, "memory": f"{4 * cpu}Gi", "pods": "29"})
    labels = {names.ARCH: "amd64", names.OS: "linux"}
    return InstanceType(name, labels, capacity, capacity, (Offering(_ZONE, "on-demand", price),))


async def make_ready(client: Client, name: str = "default", **found: Any) -> None:
    """Say on a node class that it is ready, and what else its controller would find."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"conditions": [ready], **found}
    await client.patch(STORED_NODE_CLASSES, name, {"status": status}, subresource="status")


class PaperCloud:
    """Launches at once, remembers everything, forgets what was deleted."""

    name = "paper"
    node_class_kind = AwsProvider.node_class_kind

    def __init__(self, types: Sequence[InstanceType] | None = None) -> None:
        self.types = types or (_sold("m5.large", 2, 0.096), _sold("m5.xlarge", 4, 0.192))
        self.machines: dict[str, Machine] = {}
        self.launched: list[str] = []

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Machine:
        """Launch the first type that the claim allows, once per claim."""
        del node_class
        known = self.launched_for(claim)
        if known is not None:
            return known
        kind = self.allowed(claim)[0]
        provider_id = f"aws:///{_ZONE}/i-{len(self.launched):017x}"
        machine = Machine(
            provider_id,
            image_id="ami-paper",
            labels={
                names.INSTANCE_TYPE: kind.name,
                names.ZONE: _ZONE,
                names.CAPACITY_TYPE: "on-demand",
                **kind.labels,
            },
            capacity=kind.capacity,
            allocatable=kind.allocatable,
            claim_uid=claim.metadata.uid,
            created_at=SystemClock().now(),
        )
        self.machines[provider_id] = machine
        self.launched.append(claim.metadata.uid)
        return machine

    def launched_for(self, claim: NodeClaim) -> Machine | None:
        """Give the machine of a claim, if there is one."""
        return next((each for each in self.machines.values() if each.claim_uid == claim.metadata.uid), None)

    def allowed(self, claim: NodeClaim) -> list[InstanceType]:
        """Give the types that a claim names."""
        wanted = next(each.values for each in claim.spec.requirements if each.key == names.INSTANCE_TYPE)
        return [each for each in self.types if each.name in wanted]

    async def delete(self, provider_id: str) -> None:
        """Forget a machine."""
        if self.machines.pop(provider_id, None) is None:
            raise NodeClaimNotFoundError(provider_id)

    async def get(self, provider_id: str) -> Machine:
        """Look at a machine."""
        if provider_id not in self.machines:
            raise NodeClaimNotFoundError(provider_id)
        return self.machines[provider_id]

    async def list(self) -> Sequence[Machine]:
        """Look at all."""
        return list(self.machines.values())

    async def instance_types(self, pool: NodePool, node_class: EC2NodeClass) -> Sequence[InstanceType]:
        """Sell the same to everybody."""
        del pool, node_class
        return self.types

    async def node_mismatch(self, provider_id: str, node: Node, node_class: EC2NodeClass | None) -> str:
        """Every node of paper is its machine's."""
        del provider_id, node, node_class
        return ""

    async def drift_reason(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        """Nothing drifts on paper."""
        del claim, node_class
        return ""

    def readiness(self, node_class: EC2NodeClass) -> NodeClassReadiness:
        """Every class is ready."""
        del node_class
        return NodeClassReadiness(ready=True)

    def repair_policies(self) -> Sequence[RepairPolicy]:
        """Nothing is repaired on paper."""
        return ()
