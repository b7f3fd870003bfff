# SPDX-License-Identifier: Apache-2.0
"""Deployments: one ReplicaSet a template, and the way from the old to the new.

A rolling update never has more pods than maxSurge allows nor fewer available than maxUnavailable allows; Recreate ends
all old pods first. A template that was used before takes its old ReplicaSet up again under a new revision number:
that is how ``kubectl rollout undo`` comes back. Paused, a Deployment scales but does not roll.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.scheduler.matching import read_selector
from karpenter.sandbox.workloads.podstate import is_active, template_hash
from karpenter.sandbox.workloads.resources import (
    DEPLOYMENT,
    POD,
    REPLICA_SET,
    Wire,
    condition,
    controller_of,
    is_deleted,
    moment,
    owner_reference,
    with_condition,
)
from karpenter.sandbox.workloads.rolling import Rollout, roll, share_out
from karpenter.sandbox.workloads.world import Controller

__all__ = ["Deployments"]

_REVISION: Final = "deployment.kubernetes.io/revision"
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
_MOST: Final = "deployment.kubernetes.io/max-replicas"
_HASH: Final = "pod-template-hash"
_OWN_ANNOTATIONS: Final = (
    _REVISION,
    _DESIRED,
    _MOST,
    "deployment.kubernetes.io/revision-history",
    "kubectl.kubernetes.io/last-applied-configuration",
)
_ENDLESS_S: Final = 2**31 - 1


class Deployments(Controller):
    """Rolls Deployments out."""

    name = "deployment"
    source = "deployment-controller"
    resource = DEPLOYMENT

    def subscribe(self) -> None:
        """Looks at a Deployment when it or one of its ReplicaSets changes, or a pod of one that recreates goes."""
        super().subscribe()
        self.world.store(REPLICA_SET).subscribe(self._owner_changed)
        self.world.store(POD).subscribe(self._pod_changed)

    def _pod_changed(self, old: Wire | None, new: Wire | None) -> None:
        if old is None or (new is not None and is_active(new)):
            return
        for each in old["metadata"].get("ownerReferences") or ():
            owner = self.world.store(REPLICA_SET).by_uid(each["uid"])
            if owner is not None:
                self._owner_changed(None, owner)

    async def reconcile(self, wire: Wire) -> float | None:
        """Does the next step of a rollout and says how it stands."""
        await self._adopt(wire)
        sets = self._sets(wire)
        if is_deleted(wire):
            await self._tell_status(wire, None, sets)
            return None
        paused = bool(wire["spec"].get("paused"))
        new = self._matching(wire, sets)
        old = [each for each in sets if each is not new]
        new = await self._settle_new(wire, new, old, paused=paused)
        if self._is_resized(wire, sets) or paused:
            await self._rescale(wire, new, old)
        elif new is not None and (wire["spec"].get("strategy") or {}).get("type") == "Recreate":
            await self._recreate(wire, new, old)
        elif new is not None:
            await self._roll(wire, new, old)
        sets = self._sets(wire)
        await self._clean_up(wire, self._matching(wire, sets), sets)
        return await self._tell_status(wire, self._matching(wire, sets), sets)

    async def _adopt(self, wire: Wire) -> None:
        """Takes over ReplicaSets without an owner that the selector selects."""
        selector = read_selector(wire["spec"].get("selector"))
        if is_deleted(wire) or selector.is_empty:
            return
        for each in self.world.store(REPLICA_SET).in_namespace(wire["metadata"]["namespace"]):
            if controller_of(each) is None and selector.matches(each["metadata"].get("labels") or {}):
                others = each["metadata"].get("ownerReferences") or []
                owners = [*others, owner_reference(DEPLOYMENT, wire)]
                change = {"metadata": {"uid": each["metadata"]["uid"], "ownerReferences": owners}}
                await self.world.patch(REPLICA_SET, each, change)

    def _sets(self, wire: Wire) -> list[Wire]:
        found = self.world.store(REPLICA_SET).owned_by(wire["metadata"]["uid"])
        return sorted(
            found, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"])
        )

    def _matching(self, wire: Wire, sets: Sequence[Wire]) -> Wire | None:
        wanted = _plain(wire["spec"]["template"])
        return next((each for each in sets if _plain(each["spec"]["template"]) == wanted), None)

    async def _settle_new(
        self, wire: Wire, new: Wire | None, old: Sequence[Wire], *, paused: bool
    ) -> Wire | None:
        revision = max((_revision(each) for each in old), default=0) + 1
        if new is None and not paused:
            new = await self._create_set(wire, revision, old)
        elif new is not None and _revision(new) < revision:
            new = await self.world.patch(REPLICA_SET, new, _annotated({_REVISION: str(revision)}))
        if new is not None:
            number = str(_revision(new))
            if (wire["metadata"].get("annotations") or {}).get(_REVISION) != number:
                await self.world.patch(DEPLOYMENT, wire, _annotated({_REVISION: number}))
        return new

    async def _create_set(self, wire: Wire, revision: int, old: Sequence[Wire]) -> Wire:
        template = wire["spec"]["template"]
        metadata, spec = wire["metadata"], wire["spec"]
        salt = (wire.get("status") or {}).get("collisionCount", 0)
        mark = template_hash(template, salt)
        labels = {**((template.get("metadata") or {}).get("labels") or {}), _HASH: mark}
        selector = dict(spec["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH: mark}
        rollout = Rollout.of(spec)
        replicas = 0 if spec.get("strategy", {}).get("type") == "Recreate" and old else self._first(wire, old)
        inherited = {
            key: value
            for key, value in (metadata.get("annotations") or {}).items()
            if key not in _OWN_ANNOTATIONS
        }
        body: Wire = {
            "metadata": {
                "name": f"{metadata['name']}-{mark}",
                "namespace": metadata["namespace"],
                "labels": labels,
                "annotations": inherited | _sizes(rollout) | {_REVISION: str(revision)},
                "ownerReferences": [owner_reference(DEPLOYMENT, wire)],
            },
            "spec": {
                "replicas": replicas,
                "minReadySeconds": spec.get("minReadySeconds", 0),
                "selector": selector,
                "template": {
                    **template,
                    "metadata": {**(template.get("metadata") or {}), "labels": labels},
                },
            },
        }
        try:
            made = await self.world.create(REPLICA_SET, body)
        except ApiError as refused:
            if refused.reason == "AlreadyExists":
                # Another template of the same mark, or another owner's set: the next try has another mark.
                await self.world.patch(DEPLOYMENT, wire, {"status": {"collisionCount": salt + 1}}, "status")
            raise
        if replicas:
            self._tell_scaled(wire, made, 0, replicas)
        return made

    def _first(self, wire: Wire, old: Sequence[Wire]) -> int:
        return Rollout.of(wire["spec"]).first(sum(each["spec"]["replicas"] for each in old))

    def _is_resized(self, wire: Wire, sets: Sequence[Wire]) -> bool:
        wanted = str(wire["spec"].get("replicas", 1))
        return any(
            (each["metadata"].get("annotations") or {}).get(_DESIRED) not in (None, wanted)
            for each in sets
            if each["spec"]["replicas"] > 0
        )

    async def _rescale(self, wire: Wire, new: Wire | None, old: Sequence[Wire]) -> None:
        """Brings the number of all pods to what is asked, each set in proportion, without rolling."""
        rollout = Rollout.of(wire["spec"])
        sets = [*([new] if new is not None else []), *old]
        active = [each for each in sets if each["spec"]["replicas"] > 0]
        if len(active) <= 1:
            target = active[0] if active else new or (sets[-1] if sets else None)
            if target is not None:
                await self._scale(wire, target, rollout.replicas)
            return
        if new is not None and (new.get("status") or {}).get("availableReplicas", 0) >= rollout.replicas:
            for each in old:
                await self._scale(wire, each, 0)
            return
        sizes = {each["metadata"]["name"]: each["spec"]["replicas"] for each in active}
        for each in active:
            await self._scale(wire, each, share_out(sizes, rollout.most)[each["metadata"]["name"]])

    async def _recreate(self, wire: Wire, new: Wire, old: Sequence[Wire]) -> None:
        for each in old:
            await self._scale(wire, each, 0)
        left = [
            pod
            for each in old
            for pod in self.world.store(POD).owned_by(each["metadata"]["uid"])
            if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
        ]
        if not left:
            await self._scale(wire, new, wire["spec"].get("replicas", 1))

    async def _roll(self, wire: Wire, new: Wire, old: Sequence[Wire]) -> None:
        rollout = Rollout.of(wire["spec"])
        standing = {each["metadata"]["name"]: each for each in [new, *old]}
        for name, replicas in roll(rollout, new, old).items():
            await self._scale(wire, standing[name], replicas)
        await self._scale(wire, self.world.store(REPLICA_SET).by_uid(new["metadata"]["uid"]) or new, None)

    async def _scale(self, wire: Wire, owned: Wire, replicas: int | None) -> None:
        """Sets the size of a set and what it says of the Deployment's; None leaves the size alone."""
        sizes = _sizes(Rollout.of(wire["spec"]))
        before = owned["spec"]["replicas"]
        after = before if replicas is None else replicas
        said = owned["metadata"].get("annotations") or {}
        if before == after and all(said.get(key) == value for key, value in sizes.items()):
            return
        change = _annotated(sizes) | {"spec": {"replicas": after}}
        await self.world.patch(REPLICA_SET, owned, change)
        if before != after:
            self._tell_scaled(wire, owned, before, after)

    def _tell_scaled(self, wire: Wire, owned: Wire, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        name = owned["metadata"]["name"]
        self.event(wire, "ScalingReplicaSet", f"Scaled {way} replica set {name} from {before} to {after}")

    async def _clean_up(self, wire: Wire, new: Wire | None, sets: Sequence[Wire]) -> None:
        limit = wire["spec"].get("revisionHistoryLimit", 10)
        old = [each for each in sets if new is None or each["metadata"]["uid"] != new["metadata"]["uid"]]
        spent = [
            each
            for each in sorted(old, key=_revision)
            if each["spec"]["replicas"] == 0
            and (each.get("status") or {}).get("replicas", 0) == 0
            and not is_deleted(each)
        ]
        if new is None or (new.get("status") or {}).get("availableReplicas", 0) < wire["spec"].get(
            "replicas", 1
        ):
            return
        for each in spent[: max(len(old) - limit, 0)]:
            await self.world.delete(REPLICA_SET, each)

    async def _tell_status(self, wire: Wire, new: Wire | None, sets: Sequence[Wire]) -> float | None:
        total = _sum(sets, "replicas")
        available = _sum(sets, "availableReplicas")
        old = wire.get("status") or {}
        status: Wire = {
            "observedGeneration": wire["metadata"].get("generation", 0),
            "replicas": total,
            "updatedReplicas": _sum([new] if new else [], "replicas"),
            "readyReplicas": _sum(sets, "readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(_asked(sets) - available, 0),
        }
        conditions, again_s = self._conditions(wire, new, status)
        status["conditions"] = conditions
        if any(old.get(name, 0 if name != "conditions" else []) != value for name, value in status.items()):
            await self.world.patch(DEPLOYMENT, wire, {"status": status}, "status")
        return again_s

    def _conditions(self, wire: Wire, new: Wire | None, status: Wire) -> tuple[list[Wire], float | None]:
        rollout = Rollout.of(wire["spec"])
        now = self.world.now()
        found = list((wire.get("status") or {}).get("conditions") or ())
        enough = status["availableReplicas"] >= rollout.replicas - rollout.unavailable
        words = "has" if enough else "does not have"
        said: Wire = {
            "type": "Available",
            "status": "True" if enough else "False",
            "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            "message": f"Deployment {words} minimum availability.",
        }
        progressing, again_s = self._progress(wire, new, status)
        for each in (said, progressing):
            old = condition({"status": {"conditions": found}}, each["type"])
            same = old is not None and all(
                old.get(name) == each[name] for name in ("status", "reason", "message")
            )
            if old is not None and same and not each.get("moved"):
                continue
            moved = {key: value for key, value in each.items() if key != "moved"}
            found = with_condition(found, moved | {"lastUpdateTime": now.strftime("%Y-%m-%dT%H:%M:%SZ")}, now)
        return found, again_s

    def _progress(self, wire: Wire, new: Wire | None, status: Wire) -> tuple[Wire, float | None]:
        """Gives the condition Progressing, and the seconds after which it may change by itself."""
        before = condition(wire, "Progressing")
        name = new["metadata"]["name"] if new is not None else wire["metadata"]["name"]
        wanted = wire["spec"].get("replicas", 1)
        deadline_s = wire["spec"].get("progressDeadlineSeconds", 600)
        if wire["spec"].get("paused"):
            return _progressing("Unknown", "DeploymentPaused", "Deployment is paused"), None
        if before is not None and before["reason"] == "DeploymentPaused":
            return _progressing("Unknown", "DeploymentResumed", "Deployment is resumed"), 0.05
        if status["updatedReplicas"] == status["replicas"] == status["availableReplicas"] == wanted:
            words = f'ReplicaSet "{name}" has successfully progressed.'
            return _progressing("True", "NewReplicaSetAvailable", words), None
        if before is None:
            return _progressing(
                "True", "NewReplicaSetCreated", f'Created new replica set "{name}"'
            ), deadline_s
        return self._under_way(wire, before, status, f'ReplicaSet "{name}"')

    def _under_way(self, wire: Wire, before: Wire, status: Wire, subject: str) -> tuple[Wire, float | None]:
        deadline_s = wire["spec"].get("progressDeadlineSeconds", 600)
        old = wire.get("status") or {}
        counters = ("updatedReplicas", "readyReplicas", "availableReplicas")
        moved = any(status[each] > old.get(each, 0) for each in counters)
        if moved or before["reason"] == "NewReplicaSetAvailable":
            return _progressing(
                "True", "ReplicaSetUpdated", f"{subject} is progressing.", moved=True
            ), deadline_s
        since = moment(before.get("lastUpdateTime") or before["lastTransitionTime"])
        left = (since + timedelta(seconds=deadline_s) - self.world.now()).total_seconds()
        if before["reason"] == "ProgressDeadlineExceeded" or (left <= 0 and deadline_s != _ENDLESS_S):
            words = f"{subject} has timed out progressing."
            return _progressing("False", "ProgressDeadlineExceeded", words), None
        return {key: before[key] for key in ("type", "status", "reason", "message")}, max(left, 0.1)


def _progressing(status: str, reason: str, message: str, *, moved: bool = False) -> Wire:
    found: Wire = {"type": "Progressing", "status": status, "reason": reason, "message": message}
    return found | ({"moved": True} if moved else {})


def _plain(template: Wire) -> Wire:
    """Gives a template without the mark that a Deployment adds."""
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != _HASH}
    kept = {key: value for key, value in metadata.items() if key != "creationTimestamp"}
    return {**template, "metadata": {**kept, "labels": labels}}


def _revision(owned: Wire) -> int:
    said = (owned["metadata"].get("annotations") or {}).get(_REVISION, "0")
    return int(said) if said.isdigit() else 0


def _sizes(rollout: Rollout) -> dict[str, str]:
    return {_DESIRED: str(rollout.replicas), _MOST: str(rollout.most)}


def _annotated(annotations: dict[str, str]) -> Wire:
    return {"metadata": {"annotations": annotations}}


def _sum(sets: Sequence[Wire], field: str) -> int:
    return sum((each.get("status") or {}).get(field, 0) for each in sets)


def _asked(sets: Sequence[Wire]) -> int:
    return sum(each["spec"]["replicas"] for each in sets)
