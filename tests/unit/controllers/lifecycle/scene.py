# SPDX-License-Identifier: Apache-2.0
"""One claim, the machine it gets, and the controller that brings both together."""

from __future__ import annotations

from typing import Any

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.cloud.protocol import Machine
from karpenter.controllers.lifecycle import Lifecycle, LifecycleSettings
from karpenter.controllers.lifecycle.disarming import ANSWER
from karpenter.kit.clock import FakeClock
from karpenter.kube import Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.model.resources import CPU
from karpenter.observe import DecisionLog, Metrics
from karpenter.state import STORED_NODE_CLASSES
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node, stored_class

MACHINE = Machine(
    "aws:///us-west-2a/i-1",
    image_id="ami-1",
    labels={names.INSTANCE_TYPE: "m5.large", names.ZONE: "us-west-2a", names.CAPACITY_TYPE: "on-demand"},
    annotations={names.EC2NODECLASS_HASH: "7"},
    capacity={CPU: 2000},
    allocatable={CPU: 1930},
)
READY = [{"type": "Ready", "status": "True"}]
JOINED = [
    {"key": names.UNREGISTERED_TAINT.key, "effect": "NoExecute"},
    {"key": "foreign", "effect": "NoSchedule"},
]
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
BOOTING: dict[str, Any] = {"taints": [*JOINED, NOT_READY], "conditions": []}


class Cloud:
    """Launches one machine, or fails as told."""

    name = "paper"

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[str] = []
        self.died = ""
        self.lists = True
        self.machine = MACHINE
        # By the name of a Node: why it is not the machine's, or what the cloud answers with instead.
        self.mismatches: dict[str, str | Exception] = {}

    async def get(self, provider_id: str) -> Machine:
        """Look after it."""
        if self.died:
            raise NodeClaimNotFoundError(provider_id, hint=self.died, has_ended=True)
        if not self.lists:
            raise NodeClaimNotFoundError(provider_id)
        return self.machine

    async def node_mismatch(self, provider_id: str, node: Node, node_class: EC2NodeClass | None) -> str:
        """Say as told."""
        del provider_id, node_class
        found = self.mismatches.get(node.metadata.name, "")
        if isinstance(found, Exception):
            raise found
        return found

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Machine:
        """Give the next answer."""
        self.asked.append(f"{claim.metadata.name}/{node_class.metadata.name}")
        answer = self.answers.pop(0) if self.answers else MACHINE
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Machine)
        return answer


class Scene:
    """One claim and the controller that brings it to life."""

    def __init__(self, **settings: float) -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.cloud = Cloud()
        self.recorder = Recorder(self.client, clock=self.clock)
        self.decisions = DecisionLog(self.clock)
        self.failures: list[str] = []
        self.lifecycle = Lifecycle(
            client=self.client,
            cluster=self.cluster,
            cloud=self.cloud,  # type: ignore[arg-type]
            recorder=self.recorder,
            decisions=self.decisions,
            metrics=Metrics(),
            clock=self.clock,
            settings=LifecycleSettings(**settings),  # type: ignore[arg-type]
            on_failure=lambda _, failure: self.failures.append(failure.cause),
        )
        self.client.store(STORED_NODE_CLASSES, stored_class())
        created = {"creationTimestamp": "2026-01-01T00:00:00Z"}
        self.client.store(
            NODE_CLAIMS, claim("c1", metadata={**created, "finalizers": [names.TERMINATION_FINALIZER]})
        )

    @property
    def claim(self) -> NodeClaim:
        """The claim as it is stored."""
        found = self.cluster.informers.claims.get("c1")
        assert found is not None
        return found

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of a condition."""
        return next(
            ((each.status, each.reason) for each in self.claim.status.conditions if each.type == kind),
            ("", ""),
        )

    def join(self, **parts: Any) -> None:
        """Let the node of the machine appear."""
        annotated = {"annotations": {ANSWER: "0"}}
        parts = {"taints": JOINED, "conditions": READY, "metadata": annotated, **parts}
        self.client.store(NODES, node("n1", MACHINE.provider_id, parts.pop("labels", {}), **parts))

    async def settle(self, times: int = 4) -> None:
        """Look at the claim a few times, and let the controller manager look at the node in between."""
        for _ in range(times):
            await self.lifecycle.reconcile("c1")
            await self.answer()

    async def answer(self) -> None:
        """Let the controller manager see the node as it is."""
        raw = self.client.raw_object(NODES, "n1")
        if raw is not None and ANSWER not in raw["metadata"].get("annotations", {}):
            await self.client.patch(NODES, "n1", {"metadata": {"annotations": {ANSWER: "0"}}})

    @property
    def node(self) -> Node:
        """The machine's node as it is stored."""
        found = self.cluster.informers.nodes.get("n1")
        assert found is not None
        return found

    @property
    def taints(self) -> list[tuple[str, str]]:
        """The node's taints."""
        return [(each.key.rpartition("/")[2], each.effect) for each in self.node.spec.taints]

    @property
    def told(self) -> list[str]:
        """Reasons of the events."""
        return [each.reason for each in self.recorder._queue]
