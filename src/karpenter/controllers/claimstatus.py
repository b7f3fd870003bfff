# SPDX-License-Identifier: Apache-2.0
"""Writes the status of a claim that several controllers write to: by version, so that none overwrites another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from karpenter.api.nodeclaim import NodeClaim
from karpenter.kube import Client, ConflictError, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.state import Cluster

__all__ = ["write_status"]


async def write_status(client: Client, cluster: Cluster, claim: NodeClaim, status: Mapping[str, Any]) -> bool:
    """Write a status unless somebody else has written meanwhile; tell whether that is done, or the claim gone."""
    change = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
    try:
        written = await client.patch(NODE_CLAIMS, claim.metadata.name, change, subresource="status")
    except ConflictError:
        return False
    except NotFoundError:
        return True
    cluster.informers.claims.observe(written)
    return True
