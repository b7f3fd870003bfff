# SPDX-License-Identifier: Apache-2.0
"""Tells on each object that does not decode that it does not, and what waits for it."""

from __future__ import annotations

from typing import Final

from karpenter.kit.clock import Clock
from karpenter.kube import Recorder, Subject, Undecodable
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from karpenter.state import Cluster

__all__ = ["UnreadableObjects"]

_EVERY_S: Final = 10.0
_QUIET_S: Final = 600.0
# What waits for an object of a kind to be readable.
_WAITS: Final = {
    NODE_CLAIMS.name: "until it can, no instance and no NodeClaim is garbage collected",
    NODES.name: "until it can, no instance and no NodeClaim is garbage collected",
    PODS.name: "until it can, its node is not disrupted and its instance is not ended",
}


class UnreadableObjects:
    """Publishes an Event on each object that does not decode; ``run`` must be kept running by a supervisor."""

    def __init__(self, *, cluster: Cluster, recorder: Recorder, clock: Clock) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._clock = clock

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            for each in self._cluster.informers.unreadable:
                self._tell(each)
            await self._clock.sleep(_EVERY_S)

    def _tell(self, item: Undecodable) -> None:
        subject = Subject(item.kind, item.api_version, item.name, item.namespace, item.uid)
        waits = _WAITS.get(item.kind, "until it can, it counts as it was read last")
        self._recorder.tell(
            subject,
            "Unreadable",
            f"Karpenter cannot read this object: {item.problem}; {waits}",
            type="Warning",
            quiet_s=_QUIET_S,
        )
