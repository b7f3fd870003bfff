# SPDX-License-Identifier: Apache-2.0
"""Taints that we put on nodes and take off, whoever else writes to the node meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from karpenter.api import labels as names
from karpenter.api.base import to_wire
from karpenter.api.core import Node, Taint
from karpenter.controllers.patches import patch_decided
from karpenter.kube import Client
from karpenter.model.taints import same_taint
from karpenter.state import Cluster

__all__ = ["is_tainted", "set_taint"]


def is_tainted(node: Node, taint: Taint = names.DISRUPTED_TAINT) -> bool:
    """Tells whether a node carries a taint, by default that of those on their way out."""
    return any(same_taint(each, taint) for each in node.spec.taints)


async def set_taint(
    client: Client, cluster: Cluster, node: Node, *, on: bool, taint: Taint = names.DISRUPTED_TAINT
) -> bool:
    """Puts a taint on a node or takes it off, and tells whether the node is there.

    Raises:
        ConflictError: Somebody writes to the node again and again.
    """

    def decide(found: Node) -> Mapping[str, Any]:
        if is_tainted(found, taint) == on:
            return {}
        others = [each for each in found.spec.taints if not same_taint(each, taint)]
        wanted = [*others, taint] if on else others
        return {"spec": {"taints": [to_wire(each) for each in wanted]}}

    return await patch_decided(client, cluster.informers.nodes, node, decide) is not None
