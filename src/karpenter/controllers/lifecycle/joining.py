# SPDX-License-Identifier: Apache-2.0
"""What a node that joins must get from its claim, and when it is ready for work: pure.

A node is its claim's when it names the same instance. It gets the claim's labels, annotations and taints, our
finalizer and an owner, and loses the taint that kept pods off until then. It is ready for work when the kubelet says
so, its startup taints and the passing ones are gone, and everything that its pods asked for is there.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.api import labels as names
from karpenter.api.base import to_wire
from karpenter.api.core import Node, Taint
from karpenter.api.nodeclaim import NodeClaim
from karpenter.model.resources import Resources
from karpenter.model.taints import is_ephemeral, merge_taints, same_taint

__all__ = ["is_ready", "lacks", "registration_patch", "takes_pods"]

_HIDDEN_ANNOTATIONS: Final = ("kubectl.kubernetes.io/last-applied-configuration",)


def registration_patch(node: Node, claim: NodeClaim) -> dict[str, Any]:
    """Gives the merge patch that makes a node its claim's own; empty if it is already."""
    metadata: dict[str, Any] = {}
    labels = {**claim.metadata.labels, names.REGISTERED: "true"}
    metadata["labels"] = {
        key: value for key, value in labels.items() if node.metadata.labels.get(key) != value
    }
    metadata["annotations"] = {
        key: value
        for key, value in claim.metadata.annotations.items()
        if node.metadata.annotations.get(key) != value and key not in _HIDDEN_ANNOTATIONS
    }
    if names.TERMINATION_FINALIZER not in node.metadata.finalizers:
        metadata["finalizers"] = [*node.metadata.finalizers, names.TERMINATION_FINALIZER]
    if not any(each.uid == claim.metadata.uid for each in node.metadata.owner_references):
        owner = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
            "blockOwnerDeletion": True,
        }
        metadata["ownerReferences"] = [*(to_wire(each) for each in node.metadata.owner_references), owner]
    patch: dict[str, Any] = {}
    metadata = {key: value for key, value in metadata.items() if value}
    taints = _taints(node, claim)
    if taints != node.spec.taints:
        patch["spec"] = {"taints": [to_wire(each) for each in taints]}
    if metadata or patch:
        # Lists are replaced whole by a merge patch, so nobody may have changed them since.
        patch["metadata"] = {**metadata, "resourceVersion": node.metadata.resource_version}
    return patch


def is_ready(node: Node) -> bool:
    """Tells whether the kubelet says that its node is ready."""
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


def takes_pods(node: Node) -> bool:
    """Tells whether nothing but our own taint keeps pods off a node that is not registered yet."""
    others = (taint for taint in node.spec.taints if taint.key != names.UNREGISTERED_TAINT.key)
    return is_ready(node) and not any(map(is_ephemeral, others))


def lacks(node: Node, claim: NodeClaim) -> tuple[str, str]:
    """Gives the reason and the words for which a node is not ready for work; two empty texts if it is."""
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status != "True":
        said = f": {ready.message}" if ready is not None and ready.message else ""
        return "NodeNotReady", f"the kubelet of {node.metadata.name} does not say that it is ready{said}"
    startup = [
        taint.key
        for taint in node.spec.taints
        if any(same_taint(taint, each) for each in claim.spec.startup_taints)
    ]
    if startup:
        return "StartupTaintsExist", f"startup taints are still there: {', '.join(startup)}"
    passing = [taint.key for taint in node.spec.taints if is_ephemeral(taint)]
    if passing:
        return "KnownEphemeralTaintsExist", f"passing taints are still there: {', '.join(passing)}"
    missing = [
        name
        for name, amount in Resources.parse(claim.spec.resources.requests).items()
        if amount and not Resources.parse(node.status.allocatable).get(name, 0)
    ]
    if missing:
        return "ResourceNotRegistered", f"not reported by the node yet: {', '.join(sorted(missing))}"
    return "", ""


def _taints(node: Node, claim: NodeClaim) -> tuple[Taint, ...]:
    found = tuple(taint for taint in node.spec.taints if taint.key != names.UNREGISTERED_TAINT.key)
    if node.metadata.labels.get(names.DO_NOT_SYNC_TAINTS) == "true":
        return found
    return merge_taints(merge_taints(found, claim.spec.taints), claim.spec.startup_taints)
