# SPDX-License-Identifier: Apache-2.0
"""Keeps pods from coming to nodes where they are not wanted, as far as there is room for them elsewhere.

Left alone, the scheduler likes best what is emptiest: the very nodes that a plan takes away next, where every pod that
comes is moved a second time, and the new ones, which are meant for others. So nodes carry a taint that the scheduler
respects where it can (PreferNoSchedule): those that go later, while the plan is under way; replacements, until the
pods are told to go that they were bought for; and while nodes are being drained all but those that the plan has room
on for their pods, unless there are so many nodes that writing to all of them would take longer than the draining.

Nothing depends on it: a taint that cannot be written is tried again at the next look.
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
from karpenter.state import Cluster

__all__ = ["Discouraging"]

_AT_ONCE: Final = 20
# A round of writes to so many nodes takes a second or two at the client's default rate.
_MOST_STEERED: Final = 250


class Discouraging:
    """Writes the taint, and takes it off."""

    def __init__(self, client: Client, cluster: Cluster) -> None:
        self._client = client
        self._cluster = cluster
        self._log = get_log("disruption")

    async def settle(self, unwanted: Collection[str], wanted: Collection[str]) -> None:
        """Lets nodes of ours carry the taint, and no others.

        Args:
            unwanted: Those that pods had better not come to.
            wanted: Those that pods are on their way to.
        """
        nodes = {
            member.name: member.node
            for member in self._cluster.members()
            if member.node is not None and member.is_managed and not self._cluster.is_leaving(member)
        }
        is_steered = bool(wanted) and len(nodes) <= _MOST_STEERED
        shunned = frozenset(nodes if is_steered else unwanted).difference(wanted)
        free = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(
            *(
                self._set(node, free, on=name in shunned)
                for name, node in nodes.items()
                if is_tainted(node, DISRUPTED_LATER_TAINT) != (name in shunned)
            )
        )

    async def _set(self, node: Node, free: asyncio.Semaphore, *, on: bool) -> None:
        async with free:
            try:
                await set_taint(self._client, self._cluster, node, on=on, taint=DISRUPTED_LATER_TAINT)
            except KubeError as error:
                self._log.debug("could not write a taint", Node={"name": node.metadata.name}, error=error)
