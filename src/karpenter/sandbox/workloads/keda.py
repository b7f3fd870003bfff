# SPDX-License-Identifier: Apache-2.0
"""ScaledObjects with a cron trigger, as KEDA reads them: so many replicas between two moments of a timetable.

The target has the largest number that an active trigger asks for, at least minReplicaCount and at most
maxReplicaCount; without an active trigger it goes back to the minimum, to none only after the cooldown period. Triggers
of other types are named in a condition and otherwise passed over.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from importlib import resources as files
from typing import Final

import yaml

from karpenter.kit.cron import CronError, parse
from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.workloads.resources import (
    DEFINITION,
    DEPLOYMENT,
    SCALED_OBJECT,
    STATEFUL_SET,
    Resource,
    Wire,
    condition,
    is_deleted,
    key_of,
    moment,
    stamp,
    with_condition,
)
from karpenter.sandbox.workloads.world import Controller, World

__all__ = ["ScaledObjects", "cron_wish", "install_definition"]

_TARGETS: Final = {"Deployment": DEPLOYMENT, "StatefulSet": STATEFUL_SET}
_PAUSED: Final = "autoscaling.keda.sh/paused"
_PAUSED_AT: Final = "autoscaling.keda.sh/paused-replicas"
_LOOK_S: Final = 30.0
_COOLDOWN_S: Final = 300


async def install_definition(world: World) -> None:
    """Makes the definition of ScaledObjects known to the server; one that is there already stays."""
    text = files.files("karpenter.sandbox.workloads").joinpath("keda.yaml").read_text(encoding="utf-8")
    try:
        await world.api.create(DEFINITION.path(), yaml.safe_load(text))
    except ApiError as refused:
        if refused.reason != "AlreadyExists":
            raise


def cron_wish(metadata: dict[str, str], now: datetime) -> tuple[int | None, datetime | None]:
    """Gives the replicas that a cron trigger asks for now, or None, and when that may next change.

    As KEDA: the trigger is active while its next end comes before its next start.

    Raises:
        CronError, KeyError, ValueError: The trigger cannot be read.
    """
    zone = metadata["timezone"]
    # The trigger is open at its start and closed at its end: look from just before this moment.
    just_before = now - timedelta(microseconds=1)
    start = parse(metadata["start"], zone).next(just_before)
    end = parse(metadata["end"], zone).next(just_before)
    later = [parse(metadata[name], zone).next(now) for name in ("start", "end")]
    change = min((each for each in later if each is not None), default=None)
    wanted = int(metadata["desiredReplicas"])
    if start is None or end is None:
        return None, change
    active = end < start or start == now
    return (wanted if active and end != now else None), change


class ScaledObjects(Controller):
    """Scales what ScaledObjects point at."""

    name = "scaledobject"
    source = "keda-operator"
    resource = SCALED_OBJECT

    def subscribe(self) -> None:
        """Looks at a ScaledObject when it changes, or when its target comes, goes or is scaled."""
        super().subscribe()
        for each in _TARGETS.values():
            self.world.store(each).subscribe(self._target_changed)

    def _target_changed(self, old: Wire | None, new: Wire | None) -> None:
        target = new or old
        if target is None or (old and new and old["spec"].get("replicas") == new["spec"].get("replicas")):
            return
        for each in self.world.store(SCALED_OBJECT).in_namespace(target["metadata"]["namespace"]):
            if each["spec"].get("scaleTargetRef", {}).get("name") == target["metadata"]["name"]:
                self.queue.add(key_of(each))

    async def reconcile(self, wire: Wire) -> float | None:
        """Brings the target to the size that the timetable asks for, and gives the seconds until it changes."""
        if is_deleted(wire):
            return None
        now = self.world.now()
        wish, change, trouble = self._wish(wire, now)
        target, resource = self._target(wire)
        if target is None or resource is None:
            name = (wire["spec"].get("scaleTargetRef") or {}).get("name", "")
            trouble = trouble or f"the target {name} does not exist or is of a kind that is not served here"
        status = self._status(wire, wish, trouble, now)
        if target is not None and resource is not None:
            size = self._size(wire, wish, target["spec"].get("replicas", 1), now)
            if size is not None and size != target["spec"].get("replicas", 1):
                await self._scale(wire, resource, target, size)
        old = wire.get("status") or {}
        if any(old.get(name) != value for name, value in status.items()):
            await self.world.patch(SCALED_OBJECT, wire, {"status": status}, "status")
        wait_s = _LOOK_S if change is None else (change - now).total_seconds()
        return min(max(wait_s, 0.0) + 0.01, _LOOK_S)

    def _wish(self, wire: Wire, now: datetime) -> tuple[int | None, datetime | None, str]:
        wishes: list[int] = []
        changes: list[datetime] = []
        trouble = ""
        for index, trigger in enumerate(wire["spec"].get("triggers") or ()):
            if trigger.get("type") != "cron":
                trouble = f"triggers[{index}].type: {trigger.get('type')!r} is not served here, only cron is"
                continue
            try:
                wish, change = cron_wish(trigger.get("metadata") or {}, now)
            except (CronError, KeyError, ValueError) as wrong:
                trouble = f"triggers[{index}].metadata: {wrong}"
                continue
            wishes += [wish] if wish is not None else []
            changes += [change] if change is not None else []
        return max(wishes, default=None), min(changes, default=None), trouble

    def _target(self, wire: Wire) -> tuple[Wire | None, Resource | None]:
        reference = wire["spec"].get("scaleTargetRef") or {}
        resource = _TARGETS.get(reference.get("kind") or "Deployment")
        if resource is None:
            return None, None
        return self.world.store(resource).get(
            (wire["metadata"]["namespace"], reference.get("name", ""))
        ), resource

    def _size(self, wire: Wire, wish: int | None, size: int, now: datetime) -> int | None:
        """Gives the size that the target should have; None to leave it alone."""
        spec, annotations = wire["spec"], wire["metadata"].get("annotations") or {}
        if annotations.get(_PAUSED_AT, "").isdigit():
            return int(annotations[_PAUSED_AT])
        if annotations.get(_PAUSED) == "true":
            return None
        least, most = spec.get("minReplicaCount", 0), spec.get("maxReplicaCount", 100)
        if wish is not None:
            return int(min(max(wish, least, 1), most))
        idle = spec.get("idleReplicaCount", least)
        active = condition(wire, "Active")
        if idle < max(least, 1) and (wire.get("status") or {}).get("lastActiveTime") and active is not None:
            last = now if active["status"] == "True" else moment(active["lastTransitionTime"])
            if now < last + timedelta(seconds=spec.get("cooldownPeriod", _COOLDOWN_S)):
                return int(max(min(size, max(least, 1)), least))
        return int(idle)

    def _status(self, wire: Wire, wish: int | None, trouble: str, now: datetime) -> Wire:
        old = (wire.get("status") or {}).get("conditions") or ()
        ready = {
            "type": "Ready",
            "status": "False" if trouble else "True",
            "reason": "ScaledObjectCheckFailed" if trouble else "ScaledObjectReady",
            "message": trouble or "ScaledObject is defined correctly and is ready for scaling",
        }
        active = {
            "type": "Active",
            "status": "False" if wish is None else "True",
            "reason": "ScalerNotActive" if wish is None else "ScalerActive",
            "message": "Scaling is not performed because triggers are not active"
            if wish is None
            else "Scaling is performed because triggers are active",
        }
        status: Wire = {"conditions": with_condition(with_condition(old, ready, now), active, now)}
        if wish is not None and (condition(wire, "Active") or {}).get("status") != "True":
            status["lastActiveTime"] = stamp(now)
        return status

    async def _scale(self, wire: Wire, resource: Resource, target: Wire, size: int) -> None:
        before = target["spec"].get("replicas", 1)
        await self.world.patch(resource, target, {"spec": {"replicas": size}})
        kind, name = (
            resource.kind.lower(),
            "/".join((target["metadata"]["namespace"], target["metadata"]["name"])),
        )
        reason = "KEDAScaleTargetActivated" if before == 0 else "KEDAScaleTargetDeactivated"
        words = f"Scaled apps/v1.{resource.kind} {name} from {before} to {size}"
        if before == 0 or size == 0:
            self.event(wire, reason, words)
        self.world.tell(f"scaledobject: {kind} {name} from {before} to {size}")
