# SPDX-License-Identifier: Apache-2.0
"""Taints that we put on nodes and take off, whoever else writes to the node meanwhile."""

from __future__ import annotations

from typing import Final, TypeVar

from karpenter.api import labels as names
from karpenter.api.base import Frozen, to_wire
from karpenter.api.core import Node, Taint
from karpenter.kube import Client, ConflictError, Kind, NotFoundError
from karpenter.kube.kinds import NODES, metadata_of
from karpenter.model.taints import same_taint
from karpenter.state import Cluster

__all__ = ["is_tainted", "reread", "set_taint"]

T = TypeVar("T", bound=Frozen)

_TRIES: Final = 4


def is_tainted(node: Node, taint: Taint = names.DISRUPTED_TAINT) -> bool:
    """Tells whether a node carries a taint, by default that of those on their way out."""
    return any(same_taint(each, taint) for each in node.spec.taints)


async def reread(client: Client, kind: Kind[T], name: str) -> T | None:
    """Gives an object as the server has it now; None if it is gone.

    It is listed by its name: whoever may follow a kind may do that too.
    """
    listing = await client.list(kind, fields=f"metadata.name={name}")
    return next((each for each in listing.items if metadata_of(each).name == name), None)


async def set_taint(
    client: Client, cluster: Cluster, node: Node, *, on: bool, taint: Taint = names.DISRUPTED_TAINT
) -> bool:
    """Puts a taint on a node or takes it off, and tells whether the node is there.

    Raises:
        ConflictError: Somebody writes to the node again and again.
    """
    for _ in range(_TRIES):
        if is_tainted(node, taint) == on:
            return True
        others = [each for each in node.spec.taints if not same_taint(each, taint)]
        wanted = [*others, taint] if on else others
        change = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [to_wire(each) for each in wanted]},
        }
        try:
            cluster.informers.nodes.observe(await client.patch(NODES, node.metadata.name, change))
        except NotFoundError:
            return False
        except ConflictError:
            # Kubelets write to their nodes all the time: look again at what it is now.
            current = await reread(client, NODES, node.metadata.name)
            if current is None:
                return False
            node = current
            continue
        return True
    raise ConflictError(f"node {node.metadata.name} is written to without end", status=409)
