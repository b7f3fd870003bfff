# SPDX-License-Identifier: Apache-2.0
"""ReplicaSets: as many pods as are asked for, the least useful removed first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.workloads.podstate import (
    Availability,
    claim_pods,
    is_active,
    template_pod,
    victims_first,
)
from karpenter.sandbox.workloads.resources import (
    POD,
    REPLICA_SET,
    Wire,
    controller_of,
    is_deleted,
    key_of,
    with_condition,
)
from karpenter.sandbox.workloads.selecting import selectors_of
from karpenter.sandbox.workloads.world import Controller

__all__ = ["ReplicaSets"]


class ReplicaSets(Controller):
    """Keeps ReplicaSets at their number of pods."""

    name = "replicaset"
    source = "replicaset-controller"
    resource = REPLICA_SET

    def subscribe(self) -> None:
        """Looks at a set when it or one of its pods changes, or when a pod without an owner may be its own."""
        super().subscribe()
        self.world.store(POD).subscribe(self._owner_changed)
        self.world.store(POD).subscribe(self._orphan_changed)

    def _orphan_changed(self, _old: Wire | None, new: Wire | None) -> None:
        if new is None or controller_of(new):
            return
        for each in selectors_of(self.world.store(REPLICA_SET), new):
            self.queue.add(key_of(each))

    async def reconcile(self, wire: Wire) -> float | None:
        """Makes or deletes pods until their number is right, and says how it stands."""
        pods = [each for each in await claim_pods(self.world, REPLICA_SET, wire) if is_active(each)]
        failure = None
        if not is_deleted(wire):
            failure = await self._scale(wire, pods)
            owned = self.world.store(POD).owned_by(wire["metadata"]["uid"])
            pods = [each for each in owned if is_active(each)]
        again_s = await self._tell_status(wire, pods, failure)
        if failure is not None:
            raise failure
        return again_s

    async def _scale(self, wire: Wire, pods: list[Wire]) -> ApiError | None:
        wanted = wire["spec"].get("replicas", 1)
        burst = self.world.settings.pod_burst
        if len(pods) < wanted:
            return await self._create(wire, min(wanted - len(pods), burst))
        if len(pods) > wanted:
            related = self._related(wire)
            order = victims_first(related)
            for pod in sorted(pods, key=order)[: min(len(pods) - wanted, burst)]:
                await self.world.delete(POD, pod)
                name = pod["metadata"]["name"]
                self.event(wire, "SuccessfulDelete", f"Deleted pod: {name}")
        return None

    async def _create(self, wire: Wire, count: int) -> ApiError | None:
        """Makes pods in growing batches, so that a server that refuses them is asked little."""
        left, batch = count, 1
        while left > 0:
            batch = min(batch, left)
            answers = await asyncio.gather(
                *(self._create_one(wire) for _ in range(batch)), return_exceptions=True
            )
            for answer in answers:
                if isinstance(answer, ApiError):
                    return answer
                if isinstance(answer, BaseException):
                    raise answer
            left -= batch
            batch *= 2
        return None

    async def _create_one(self, wire: Wire) -> None:
        try:
            made = await self.world.create(POD, template_pod(wire["spec"]["template"], wire, REPLICA_SET))
        except ApiError as refused:
            self.event(wire, "FailedCreate", f"Error creating: {refused.message}", warning=True)
            raise
        self.event(wire, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    def _related(self, wire: Wire) -> dict[str, int]:
        """Counts the pods per node of this set and of those with the same owner."""
        owner = controller_of(wire)
        sets = [wire] if owner is None else self.world.store(REPLICA_SET).owned_by(owner["uid"])
        counts: dict[str, int] = {}
        for each in sets:
            for pod in self.world.store(POD).owned_by(each["metadata"]["uid"]):
                node = pod["spec"].get("nodeName")
                if node and is_active(pod):
                    counts[node] = counts.get(node, 0) + 1
        return counts

    async def _tell_status(self, wire: Wire, pods: Iterable[Wire], failure: ApiError | None) -> float | None:
        standing = list(pods)
        counted = Availability(standing, wire["spec"].get("minReadySeconds", 0), self.world.now())
        labels = (wire["spec"].get("template") or {}).get("metadata", {}).get("labels") or {}
        labelled = [
            each for each in standing if labels.items() <= (each["metadata"].get("labels") or {}).items()
        ]
        old = wire.get("status") or {}
        conditions = [each for each in old.get("conditions") or () if each["type"] != "ReplicaFailure"]
        if failure is not None:
            said = {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": failure.message,
            }
            conditions = with_condition(old.get("conditions") or (), said, self.world.now())
        new = {
            "replicas": len(standing),
            "fullyLabeledReplicas": len(labelled),
            "readyReplicas": counted.ready,
            "availableReplicas": counted.available,
            "observedGeneration": wire["metadata"].get("generation", 0),
            "conditions": conditions,
        }
        if any(old.get(name, 0 if name != "conditions" else []) != value for name, value in new.items()):
            await self.world.patch(REPLICA_SET, wire, {"status": new}, "status")
        return counted.again_s
