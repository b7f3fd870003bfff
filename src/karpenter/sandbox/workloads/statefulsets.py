# SPDX-License-Identifier: Apache-2.0
"""StatefulSets: pods with names and volumes of their own, made one after the other and removed in reverse.

With podManagementPolicy Parallel nobody waits for anybody. A rolling update replaces the highest ordinal first and
stops at the partition; with OnDelete a pod is replaced when someone deletes it. Claims are made from their templates
before the pod, and are kept when it goes, unless the retention policy says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.workloads.podstate import (
    availability,
    claim_pods,
    is_active,
    is_finished,
    is_ready,
    template_pod,
)
from karpenter.sandbox.workloads.resources import CLAIM, POD, STATEFUL_SET, Wire, is_deleted, owner_reference
from karpenter.sandbox.workloads.revisions import HASH, History, mark_of, settle_history
from karpenter.sandbox.workloads.rolling import resolve
from karpenter.sandbox.workloads.world import Controller

__all__ = ["StatefulSets"]

_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
_POD_INDEX: Final = "apps.kubernetes.io/pod-index"


@dataclass(slots=True)
class _Count:
    """What stands, and which revision is the old and which the new one."""

    pods: dict[int, Wire]
    current: str
    update: str


class StatefulSets(Controller):
    """Keeps StatefulSets."""

    name = "statefulset"
    source = "statefulset-controller"
    resource = STATEFUL_SET

    def subscribe(self) -> None:
        """Looks at a set when it or one of its pods changes."""
        super().subscribe()
        self.world.store(POD).subscribe(self._owner_changed)

    async def reconcile(self, wire: Wire) -> float | None:
        """Does the next step and says how it stands."""
        pods = _by_ordinal(wire, await claim_pods(self.world, STATEFUL_SET, wire))
        if is_deleted(wire):
            return None
        status = wire.get("status") or {}
        in_use = {status.get("currentRevision", ""), status.get("updateRevision", "")}
        history = await settle_history(self.world, STATEFUL_SET, wire, in_use)
        update = history.current["metadata"]["name"]
        current = status.get("currentRevision") or update
        if history.template(current) is None:
            current = update
        count = _Count(pods, current, update)
        await self._step(wire, count, history)
        return await self._tell_status(wire, count)

    async def _step(self, wire: Wire, count: _Count, history: History) -> None:
        first = (wire["spec"].get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + wire["spec"].get("replicas", 1))
        ordered = wire["spec"].get("podManagementPolicy") != "Parallel"
        for ordinal in wanted:
            pod = count.pods.get(ordinal)
            if pod is not None and is_finished(pod) and not is_deleted(pod):
                await self.world.delete(POD, pod)
                return
            if pod is None:
                await self._create(wire, ordinal, count, history)
                if ordered:
                    return
            elif ordered and not (is_ready(pod) and is_active(pod)):
                return
        condemned = sorted((each for each in count.pods if each not in wanted), reverse=True)
        for ordinal in condemned:
            pod = count.pods[ordinal]
            if not is_deleted(pod):
                await self._delete(wire, pod)
            if ordered:
                return
        await self._update(wire, count, wanted)

    async def _update(self, wire: Wire, count: _Count, wanted: range) -> None:
        strategy = wire["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        said = strategy.get("rollingUpdate") or {}
        most = max(resolve(said.get("maxUnavailable"), len(wanted), up=True, default=1), 1)
        mark = _mark(count.update, wire)
        away = sum(
            1
            for each in wanted
            if each in count.pods and not (is_ready(count.pods[each]) and is_active(count.pods[each]))
        )
        for ordinal in reversed(wanted):
            if ordinal < wanted.start + said.get("partition", 0):
                return
            pod = count.pods.get(ordinal)
            if pod is None or is_deleted(pod):
                return
            if pod["metadata"]["labels"].get(HASH) != mark:
                if is_ready(pod) and away >= most:
                    return
                await self._delete(wire, pod)
                away += is_ready(pod)
                if away >= most:
                    return
            elif not is_ready(pod) and most == 1:
                return

    async def _create(self, wire: Wire, ordinal: int, count: _Count, history: History) -> None:
        said = (wire["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        first = (wire["spec"].get("ordinals") or {}).get("start", 0)
        is_old = ordinal < first + said.get("partition", 0) and count.current != count.update
        revision = count.current if is_old else count.update
        template = history.template(revision) or wire["spec"]["template"]
        name = f"{wire['metadata']['name']}-{ordinal}"
        for each in wire["spec"].get("volumeClaimTemplates") or ():
            await self._claim(wire, each, name)
        mark = mark_of(history.current) if not is_old else _mark(revision, wire)
        labels = {_POD_NAME: name, _POD_INDEX: str(ordinal), HASH: mark}
        pod = template_pod(template, wire, STATEFUL_SET, name=name, labels=labels)
        pod["spec"].setdefault("hostname", name)
        if wire["spec"].get("serviceName"):
            pod["spec"].setdefault("subdomain", wire["spec"]["serviceName"])
        _use_claims(pod["spec"], wire, name)
        try:
            count.pods[ordinal] = await self.world.create(POD, pod)
        except ApiError as refused:
            if refused.reason == "AlreadyExists":
                return
            words = (
                f"create Pod {name} in StatefulSet {wire['metadata']['name']} failed error: {refused.message}"
            )
            self.event(wire, "FailedCreate", words, warning=True)
            raise
        words = f"create Pod {name} in StatefulSet {wire['metadata']['name']} successful"
        self.event(wire, "SuccessfulCreate", words)

    async def _claim(self, wire: Wire, template: Wire, pod: str) -> None:
        name = f"{template['metadata']['name']}-{pod}"
        namespace = wire["metadata"]["namespace"]
        if self.world.store(CLAIM).get((namespace, name)) is not None:
            return
        said = template["metadata"]
        labels = {
            **(said.get("labels") or {}),
            **((wire["spec"].get("selector") or {}).get("matchLabels") or {}),
        }
        metadata: Wire = {"name": name, "namespace": namespace, "labels": labels}
        if said.get("annotations"):
            metadata["annotations"] = said["annotations"]
        policy = wire["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        if policy.get("whenDeleted") == "Delete":
            metadata["ownerReferences"] = [owner_reference(STATEFUL_SET, wire) | {"controller": False}]
        try:
            await self.world.create(CLAIM, {"metadata": metadata, "spec": template["spec"]})
        except ApiError as refused:
            if refused.reason != "AlreadyExists":
                raise
            return
        self.event(
            wire,
            "SuccessfulCreate",
            f"create Claim {name} Pod {pod} in StatefulSet {wire['metadata']['name']} success",
        )

    async def _delete(self, wire: Wire, pod: Wire) -> None:
        await self.world.delete(POD, pod)
        name = pod["metadata"]["name"]
        words = f"delete Pod {name} in StatefulSet {wire['metadata']['name']} successful"
        self.event(wire, "SuccessfulDelete", words)

    async def _tell_status(self, wire: Wire, count: _Count) -> float | None:
        pods = list(_by_ordinal(wire, self.world.store(POD).owned_by(wire["metadata"]["uid"])).values())
        standing = [each for each in pods if is_active(each)]
        ready = [each for each in standing if is_ready(each)]
        now, min_ready_s = self.world.now(), wire["spec"].get("minReadySeconds", 0)
        mark = _mark(count.update, wire)
        updated = [each for each in standing if each["metadata"]["labels"].get(HASH) == mark]
        wanted = wire["spec"].get("replicas", 1)
        done = len(updated) == wanted == len(ready) and len(standing) == wanted
        current = count.update if done else count.current
        old_mark = _mark(current, wire)
        new = {
            "observedGeneration": wire["metadata"].get("generation", 0),
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "availableReplicas": sum(availability(each, min_ready_s, now) for each in ready),
            "currentReplicas": sum(each["metadata"]["labels"].get(HASH) == old_mark for each in standing),
            "updatedReplicas": len(updated),
            "currentRevision": current,
            "updateRevision": count.update,
            "collisionCount": (wire.get("status") or {}).get("collisionCount", 0),
        }
        old = wire.get("status") or {}
        if any(old.get(name, 0) != value for name, value in new.items()):
            await self.world.patch(STATEFUL_SET, wire, {"status": new}, "status")
        waits = min_ready_s and new["availableReplicas"] != new["readyReplicas"]
        return float(min_ready_s) if waits else None


def _by_ordinal(wire: Wire, pods: list[Wire]) -> dict[int, Wire]:
    found: dict[int, Wire] = {}
    prefix = f"{wire['metadata']['name']}-"
    for pod in pods:
        ordinal = pod["metadata"]["name"].removeprefix(prefix)
        if ordinal.isdigit():
            found[int(ordinal)] = pod
    return found


def _mark(revision: str, wire: Wire) -> str:
    return revision.removeprefix(f"{wire['metadata']['name']}-")


def _use_claims(spec: Wire, wire: Wire, pod: str) -> None:
    names = [each["metadata"]["name"] for each in wire["spec"].get("volumeClaimTemplates") or ()]
    kept = [each for each in spec.get("volumes") or () if each["name"] not in names]
    made: list[Mapping[str, object]] = [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{pod}"}} for name in names
    ]
    if names:
        spec["volumes"] = [*kept, *made]
