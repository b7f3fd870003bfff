# SPDX-License-Identifier: Apache-2.0
"""The scheduler's hands: bindings, conditions, chosen nodes and preemptions, written through the API."""

from __future__ import annotations

from typing import Final

from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.scheduler import NotCarriedOutError
from karpenter.sandbox.workloads.resources import CLAIM, POD, Wire, with_condition
from karpenter.sandbox.workloads.world import World

__all__ = ["ApiHands"]

_SOURCE: Final = "default-scheduler"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


class ApiHands:
    """Carries the scheduler's decisions out."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def bind(self, pod: Wire, node: str) -> None:
        """Binds a pod to a node.

        Raises:
            NotCarriedOutError: The server refused.
        """
        metadata = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._world.api.create(POD.path_of(pod, "binding"), body)
        except ApiError as refused:
            raise NotCarriedOutError(refused.message) from refused
        words = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
        self._world.recorder.record(_whole(pod), "Scheduled", words, source=_SOURCE)

    async def refuse(self, pod: Wire, message: str, nominated: str | None) -> None:
        """Says on the pod why it has no node."""
        known = self._world.store(POD).by_uid(pod["metadata"]["uid"])
        if known is None:
            return
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        old = (known.get("status") or {}).get("conditions") or ()
        status: Wire = {"conditions": with_condition(old, said, self._world.now())}
        if nominated is not None:
            status["nominatedNodeName"] = nominated or None
        change = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        try:
            await self._world.patch(POD, known, change, "status")
        except ApiError as refused:
            raise NotCarriedOutError(refused.message) from refused

    def tell_refused(self, pod: Wire, message: str) -> None:
        """Tells of a refusal in an event."""
        self._world.recorder.record(_whole(pod), "FailedScheduling", message, source=_SOURCE, kind="Warning")

    async def choose_node(self, claim: Wire, node: str) -> None:
        """Says for which node a claim's volume is to be made.

        Raises:
            NotCarriedOutError: The server refused.
        """
        try:
            await self._world.patch(CLAIM, claim, {"metadata": {"annotations": {_SELECTED_NODE: node}}})
        except ApiError as refused:
            raise NotCarriedOutError(refused.message) from refused

    async def evict(self, victim: Wire, by: Wire, node: str) -> None:
        """Removes a pod to make room for another.

        Raises:
            NotCarriedOutError: The server refused.
        """
        known = self._world.store(POD).by_uid(victim["metadata"]["uid"])
        if known is None:
            return
        said = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{_SOURCE}: preempting to accommodate a higher priority pod",
        }
        conditions = with_condition(known["status"].get("conditions") or (), said, self._world.now())
        try:
            await self._world.patch(POD, known, {"status": {"conditions": conditions}}, "status")
            await self._world.delete(POD, known)
        except ApiError as refused:
            raise NotCarriedOutError(refused.message) from refused
        words = f"Preempted by pod {by['metadata']['uid']} on node {node}"
        self._world.recorder.record(_whole(victim), "Preempted", words, source=_SOURCE)


def _whole(pod: Wire) -> Wire:
    return {"apiVersion": "v1", "kind": "Pod", **pod}
