# SPDX-License-Identifier: Apache-2.0
"""Whether what came is what a claim asked for: the machine by its labels, the Node by its name.

A Node names its instance itself, so anything that may create Nodes could have one adopted by a claim that waits for its
node: with the claim's labels, its taints taken off, and the claim's pods sent to it. The cloud knows what the instance
is called; a Node of another name is refused, and told as an event on the claim and on the Node before anything of it is
touched. The claim goes on waiting for its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.cloud.protocol import CloudProvider, Machine
from karpenter.kube import Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.model.requirements import Requirements
from karpenter.observe import get_log
from karpenter.state import Cluster

__all__ = ["NodeMatcher", "unmet_requirement"]


def unmet_requirement(claim: NodeClaim, machine: Machine) -> str:
    """Return which requirement of a claim its machine does not meet, with what it has; empty if it meets all.

    A custom label that the claim leaves open is not judged, because the cloud does not set it; nor is one that the
    cloud will tell later, which is there without a value.
    """
    for requirement in Requirements.from_expressions(claim.spec.requirements):
        key = requirement.key
        value = machine.labels.get(key, claim.metadata.labels.get(key))
        if value == "" or (value is None and key not in names.WELL_KNOWN):
            continue
        if not requirement.allows(value):
            return f"{requirement} is asked for, and the machine has {value or 'no such label'}"
    return ""


class NodeMatcher:
    """Finds the Node of a claim, and refuses others that name its instance."""

    def __init__(self, cluster: Cluster, cloud: CloudProvider[EC2NodeClass], recorder: Recorder) -> None:
        self._cluster = cluster
        self._cloud = cloud
        self._recorder = recorder
        self._log = get_log("nodeclaim.lifecycle")
        # By claim: the names of the Nodes that are not its own, and why.
        self._refused: dict[str, Mapping[str, str]] = {}

    def named(self, claim: NodeClaim) -> tuple[Node, ...]:
        """Return the Nodes that name a claim's instance and were not refused."""
        refused = self._refused.get(claim.metadata.name, {})
        found = self._cluster.informers.nodes.by("provider_id", claim.status.provider_id)
        return tuple(node for node in found if node.metadata.name not in refused)

    def registered(self, claim: NodeClaim) -> Node | None:
        """Return the Node of a claim that has registered."""
        found = self._cluster.informers.nodes.by("provider_id", claim.status.provider_id)
        own = [node for node in found if node.metadata.name == claim.status.node_name]
        return own[0] if own else found[0] if len(found) == 1 else None

    async def joined(self, claim: NodeClaim) -> Node | None:
        """Return the one Node that may register for a claim, and refuse those that may not.

        Raises:
            LaunchPendingError: The cloud cannot tell yet.
            KarpenterError: The cloud did not answer.
        """
        found = self._cluster.informers.nodes.by("provider_id", claim.status.provider_id)
        if not found:
            self._refused.pop(claim.metadata.name, None)
            return None
        node_class = self._cluster.node_class(claim.spec.node_class_ref.name)
        known = self._refused.get(claim.metadata.name, {})
        refused: dict[str, str] = {}
        for node in found:
            try:
                why = await self._cloud.node_mismatch(claim.status.provider_id, node, node_class)
            except NodeClaimNotFoundError:
                # An instance that is gone has no node; the search for the dead will find it.
                return None
            if why:
                refused[node.metadata.name] = why
                self._cluster.disown(node)
                if node.metadata.name not in known:
                    self._tell(claim, node, why)
        self._refused[claim.metadata.name] = refused
        own = self.named(claim)
        return own[0] if len(own) == 1 else None

    def refused(self, claim: NodeClaim) -> str:
        """Return why Nodes that name a claim's instance are not its own; empty if none was refused."""
        return "; ".join(self._refused.get(claim.metadata.name, {}).values())

    def forget(self, name: str) -> None:
        """Forget a claim that is gone."""
        self._refused.pop(name, None)

    def _tell(self, claim: NodeClaim, node: Node, why: str) -> None:
        message = f"Node {node.metadata.name} is not registered for NodeClaim {claim.metadata.name}: {why}"
        self._log.error(
            "refused node",
            NodeClaim={"name": claim.metadata.name},
            Node={"name": node.metadata.name},
            error=message,
        )
        for subject in (Subject.of(NODE_CLAIMS, claim), Subject.of(NODES, node)):
            self._recorder.tell(subject, "NodeRefused", message, type="Warning")
