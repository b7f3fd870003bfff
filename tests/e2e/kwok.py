# SPDX-License-Identifier: Apache-2.0
"""The cloud of the Go Karpenter's kwok build, for us too: its machines are Node objects, and nothing else.

Both sides read the same price list. A machine is a Node whose provider id begins with ``kwok://``, whoever made it, so
each side sees what the other has launched. Nodes have no kubelet: `attended` stands in for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.live.papercloud import read_types

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.cloud.protocol import GroupKind, Machine
from karpenter.kube import Client, ConflictError, NotFoundError
from karpenter.kube.kinds import NODES, PODS
from karpenter.model.resources import Resources
from tests.e2e.papercloud import PaperCloud

__all__ = ["KwokCloud", "attended", "write_types"]

_PREFIX = "kwok://"
_ZONE = "test-zone-a"
# Twice the size for twice the price: no set of nodes that holds the same pods is cheaper than another.
_SOLD = {"c-2x-amd64-linux": (2, 0.05), "c-4x-amd64-linux": (4, 0.10)}
_HEARTBEAT_S = 1.0


def write_types(path: Path) -> Path:
    """Write the price list as the kwok build reads it, and give its path."""
    path.write_text(_listed(), encoding="utf-8")
    return path


def _listed() -> str:
    def requires(key: str, value: str) -> dict[str, Any]:
        return {"key": key, "operator": "In", "values": [value]}

    listed = [
        {
            "name": name,
            "architecture": names.AMD64,
            "operatingSystems": [names.LINUX],
            "resources": {"cpu": str(cpu), "memory": f"{2 * cpu}Gi", "pods": "16"},
            "offerings": [
                {
                    "Price": price,
                    "Available": True,
                    "Requirements": [
                        requires(names.CAPACITY_TYPE, names.ON_DEMAND),
                        requires(names.ZONE, _ZONE),
                    ],
                }
            ],
        }
        for name, (cpu, price) in _SOLD.items()
    ]
    return json.dumps(listed)


class KwokCloud(PaperCloud):
    """Launches by creating Nodes, and finds those that others created."""

    name = "kwok"
    node_class_kind = GroupKind("karpenter.kwok.sh", "KWOKNodeClass")

    def __init__(self, client: Client) -> None:
        super().__init__(read_types(_listed()))
        self.ended: list[str] = []
        self._client = client

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Machine:
        """Make the Node of a claim, once."""
        del node_class
        known = self.launched_for(claim)
        if known is not None:
            return known
        kind = self.allowed(claim)[0]
        node = f"kwok-{claim.metadata.name}-{secrets.token_hex(4)}"
        settled = {
            names.INSTANCE_TYPE: kind.name,
            names.ZONE: _ZONE,
            names.CAPACITY_TYPE: names.ON_DEMAND,
            **kind.labels,
        }
        machine = Machine(
            _PREFIX + node,
            labels=settled,
            capacity=kind.capacity,
            allocatable=kind.allocatable,
            claim_uid=claim.metadata.uid,
            created_at=datetime.now(UTC),
        )
        self.machines[machine.provider_id] = machine
        await self._client.create(NODES, _node(node, claim, machine))
        self.launched.append(claim.metadata.uid)
        return machine

    async def delete(self, provider_id: str) -> None:
        """Remember what nobody should have ordered."""
        if provider_id in self.ended:
            raise NodeClaimNotFoundError(provider_id)
        self.ended.append(provider_id)

    async def get(self, provider_id: str) -> Machine:
        """Look at the Node of that name."""
        try:
            node = await self._client.get(NODES, provider_id.removeprefix(_PREFIX))
        except NotFoundError:
            raise NodeClaimNotFoundError(provider_id) from None
        return _machine(node)

    async def list(self) -> Sequence[Machine]:
        """Look at all Nodes that are machines."""
        nodes = (await self._client.list(NODES)).items
        return [_machine(node) for node in nodes if node.spec.provider_id.startswith(_PREFIX)]


def _machine(node: Node) -> Machine:
    return Machine(
        node.spec.provider_id,
        labels=node.metadata.labels,
        capacity=Resources.parse(node.status.capacity),
        allocatable=Resources.parse(node.status.allocatable),
        created_at=node.metadata.creation_timestamp,
    )


def _node(name: str, claim: NodeClaim, machine: Machine) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "labels": {
                **claim.metadata.labels,
                **machine.labels,
                names.HOSTNAME: name,
                "kwok.x-k8s.io/node": "fake",
            },
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {
            "providerID": machine.provider_id,
            "taints": [{"key": names.UNREGISTERED_TAINT.key, "effect": "NoExecute"}],
        },
        "status": {
            "capacity": Resources(machine.capacity).to_quantities(),
            "allocatable": Resources(machine.allocatable).to_quantities(),
        },
    }


@asynccontextmanager
async def attended(client: Client) -> AsyncIterator[None]:
    """Stand in for the kubelets of all machines: nodes stay ready, and their pods run."""
    task = asyncio.ensure_future(_attend(client))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _attend(client: Client) -> None:
    while True:
        now = _text(datetime.now(UTC))
        with contextlib.suppress(NotFoundError, ConflictError):
            for node in (await client.list(NODES)).items:
                ready = {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": _text(node.metadata.creation_timestamp or datetime.now(UTC)),
                }
                status = {"status": {"conditions": [ready]}}
                await client.patch(NODES, node.metadata.name, status, subresource="status")
            for pod in (await client.list(PODS)).items:
                if pod.spec.node_name and pod.status.phase == "Pending":
                    await _run(client, pod.metadata.name, pod.metadata.namespace, now)
        await asyncio.sleep(_HEARTBEAT_S)


async def _run(client: Client, name: str, namespace: str, now: str) -> None:
    holds = [
        {"type": each, "status": "True", "lastTransitionTime": now}
        for each in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    status = {"phase": "Running", "startTime": now, "conditions": holds}
    await client.patch(PODS, name, {"status": status}, namespace, subresource="status")


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
