# SPDX-License-Identifier: Apache-2.0
"""Keeps pods from coming to nodes where they are not wanted, as far as there is room for them elsewhere.

Left alone, the scheduler likes best what is emptiest: the very nodes that a plan takes away next, where every pod that
comes is moved a second time, and the new ones, which are meant for others. So nodes carry a taint that the scheduler
respects where it can (PreferNoSchedule). Which nodes those are says `conducting`.

Nothing depends on it: a taint that cannot be written is tried again the next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from karpenter.api.core import Node
from karpenter.api.labels import DISRUPTED_LATER_TAINT
from karpenter.controllers.tainting import is_tainted, set_taint
from karpenter.kube import Client, KubeError
from karpenter.observe import get_log
from karpenter.state import Cluster, Member

__all__ = ["Discouraging"]

_AT_ONCE: Final = 20


class Discouraging:
    """Writes the taint, and takes it off."""

    def __init__(self, client: Client, cluster: Cluster) -> None:
        self._client = client
        self._cluster = cluster
        self._log = get_log("disruption")

    def nodes(self) -> dict[str, Node]:
        """Gives the nodes that may carry the taint: those of ours that stay, once their startup taints are off.

        Startup taints keep pods away themselves, and whoever takes them off expects to find no others.
        """
        return {
            member.name: member.node
            for member in self._cluster.members()
            if member.node is not None
            and member.is_managed
            and not self._cluster.is_leaving(member)
            and not _is_starting(member)
        }

    async def settle(self, shunned: Collection[str]) -> None:
        """Lets these nodes carry the taint, as far as they stay and are ours, and no others."""
        free = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(
            *(
                self._set(node, free, on=name in shunned)
                for name, node in self.nodes().items()
                if is_tainted(node, DISRUPTED_LATER_TAINT) != (name in shunned)
            )
        )

    async def _set(self, node: Node, free: asyncio.Semaphore, *, on: bool) -> None:
        async with free:
            try:
                await set_taint(self._client, self._cluster, node, on=on, taint=DISRUPTED_LATER_TAINT)
            except KubeError as error:
                self._log.debug("could not write a taint", Node={"name": node.metadata.name}, error=error)


def _is_starting(member: Member) -> bool:
    """Tells whether a node still carries a startup taint of its claim."""
    startup = member.claim.spec.startup_taints if member.claim is not None else ()
    return member.node is not None and any(is_tainted(member.node, each) for each in startup)
