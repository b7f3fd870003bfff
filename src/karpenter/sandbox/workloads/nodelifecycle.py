# SPDX-License-Identifier: Apache-2.0
"""Nodes that fall silent or say that they are unwell: conditions, taints, and the eviction of pods that do not bear it.

A node is silent when neither its lease nor its status has changed for the grace period, by this program's own clock:
what nodes write as the time is not believed. NoExecute taints remove pods at once or after their tolerationSeconds.
Every node has the annotation that tells kubelets how long to keep secrets, as that of a small cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from karpenter.sandbox.scheduler.matching import tolerates
from karpenter.sandbox.workloads.podstate import is_finished, is_ready
from karpenter.sandbox.workloads.resources import (
    LEASE,
    NODE,
    POD,
    Wire,
    condition,
    is_deleted,
    key_of,
    moment,
    stamp,
    with_condition,
)
from karpenter.sandbox.workloads.world import Controller, World

__all__ = ["NodeLifecycle", "TaintEviction", "taints_for"]

_PREFIX: Final = "node.kubernetes.io/"
_OWN: Final = frozenset(
    _PREFIX + each
    for each in (
        "not-ready",
        "unreachable",
        "unschedulable",
        "memory-pressure",
        "disk-pressure",
        "pid-pressure",
        "network-unavailable",
    )
)
_PRESSURES: Final = {
    "MemoryPressure": "memory-pressure",
    "DiskPressure": "disk-pressure",
    "PIDPressure": "pid-pressure",
    "NetworkUnavailable": "network-unavailable",
}
_KINDS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_LEASES: Final = "kube-node-lease"
_KEPT_S: Final = "node.alpha.kubernetes.io/ttl"


def taints_for(node: Wire) -> list[tuple[str, str]]:
    """Gives key and effect of the taints that a node's conditions and cordon call for."""
    found: list[tuple[str, str]] = []
    ready = (condition(node, "Ready") or {}).get("status", "Unknown")
    if ready != "True":
        key = _PREFIX + ("not-ready" if ready == "False" else "unreachable")
        found += [(key, "NoSchedule")]
        if condition(node, "Ready") is not None:
            found += [(key, "NoExecute")]
    for kind, name in _PRESSURES.items():
        if (condition(node, kind) or {}).get("status") == "True":
            found.append((_PREFIX + name, "NoSchedule"))
    if (node.get("spec") or {}).get("unschedulable"):
        found.append((_PREFIX + "unschedulable", "NoSchedule"))
    return found


class NodeLifecycle(Controller):
    """Watches over nodes."""

    name = "node-lifecycle"
    source = "node-controller"
    resource = NODE

    def __init__(self, world: World) -> None:
        self._seen: dict[str, tuple[Any, float]] = {}
        super().__init__(world)

    def subscribe(self) -> None:
        """Looks at a node when it changes; silence is noticed by looking now and then."""
        super().subscribe()
        self.world.store(NODE).subscribe(self._came_or_went)

    def _came_or_went(self, old: Wire | None, new: Wire | None) -> None:
        if old is None and new is not None:
            name = new["metadata"]["name"]
            self.event(new, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller")
        elif new is None and old is not None:
            name = old["metadata"]["name"]
            self._seen.pop(name, None)
            self.event(old, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller")

    async def reconcile(self, wire: Wire) -> float | None:
        """Marks a silent node, keeps its taints, and its pods' readiness."""
        if self._silent_s(wire) >= self.world.settings.node_grace_s:
            wire = await self._mark_silent(wire) or wire
        await self._set_taints_and_annotation(wire)
        return self.world.settings.node_monitor_s

    def _silent_s(self, wire: Wire) -> float:
        name = wire["metadata"]["name"]
        lease = self.world.store(LEASE).get((_LEASES, name))
        renewed = (lease or {}).get("spec", {}).get("renewTime")
        beats = [
            each.get("lastHeartbeatTime")
            for each in (wire.get("status") or {}).get("conditions") or ()
            if each.get("status") != "Unknown"
        ]
        now = self.world.clock.monotonic()
        known = self._seen.get(name)
        if known is None or known[0] != (renewed, beats):
            self._seen[name] = ((renewed, beats), now)
            return 0.0
        return now - known[1]

    async def _mark_silent(self, wire: Wire) -> Wire | None:
        conditions = list((wire.get("status") or {}).get("conditions") or ())
        stale = [kind for kind in _KINDS if (condition(wire, kind) or {}).get("status") != "Unknown"]
        if not stale:
            return None
        was_ready = is_ready(wire)
        now = self.world.now()
        for kind in stale:
            old = condition(wire, kind)
            never = old is None
            said: Wire = {
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
                "message": "Kubelet never posted node status."
                if never
                else "Kubelet stopped posting node status.",
                "lastHeartbeatTime": (old or {}).get("lastHeartbeatTime")
                or wire["metadata"]["creationTimestamp"],
            }
            conditions = with_condition(conditions, said, now)
        marked = await self.world.patch(NODE, wire, {"status": {"conditions": conditions}}, "status")
        if marked is not None:
            # Our own words are no sign of life.
            name = wire["metadata"]["name"]
            before = self._seen[name][1]
            self._silent_s(marked)
            self._seen[name] = (self._seen[name][0], before)
        if was_ready:
            name = wire["metadata"]["name"]
            self.event(wire, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            await self._unready_pods(name)
        return marked

    async def _unready_pods(self, node: str) -> None:
        now = self.world.now()
        for pod in self.world.store(POD).indexed("node", node):
            if is_ready(pod):
                said = {**(condition(pod, "Ready") or {}), "status": "False"}
                conditions = with_condition(pod["status"]["conditions"], said, now)
                await self.world.patch(POD, pod, {"status": {"conditions": conditions}}, "status")

    async def _set_taints_and_annotation(self, wire: Wire) -> None:
        have = (wire.get("spec") or {}).get("taints") or []
        wanted = taints_for(wire)
        kept = [
            each
            for each in have
            if each["key"] not in _OWN or (each["key"], each["effect"]) in wanted or _is_foreign(each)
        ]
        there = {(each["key"], each["effect"]) for each in kept}
        added = [
            {"key": key, "effect": effect, "timeAdded": stamp(self.world.now())}
            for key, effect in wanted
            if (key, effect) not in there
        ]
        change: Wire = {}
        if added or len(kept) != len(have):
            change["metadata"] = {"resourceVersion": wire["metadata"]["resourceVersion"]}
            change["spec"] = {"taints": kept + added or None}
        if _KEPT_S not in (wire["metadata"].get("annotations") or {}):
            change.setdefault("metadata", {})["annotations"] = {_KEPT_S: "0"}
        if change:
            await self.world.patch(NODE, wire, change)


class TaintEviction(Controller):
    """Removes pods from nodes whose NoExecute taints they do not tolerate, or no longer."""

    name = "taint-eviction"
    source = "taint-eviction-controller"
    resource = POD
    workers = 4

    def subscribe(self) -> None:
        """Looks at the pods of a node when its taints change, and at a pod when it comes to a tainted node."""
        self.world.store(NODE).subscribe(self._node_changed)
        self.world.store(POD).subscribe(self._pod_changed)

    def _node_changed(self, old: Wire | None, new: Wire | None) -> None:
        if new is not None and _lasting(old or {}) != _lasting(new):
            for pod in self.world.store(POD).indexed("node", new["metadata"]["name"]):
                self.queue.add(key_of(pod))

    def _pod_changed(self, _old: Wire | None, new: Wire | None) -> None:
        if new is None:
            return
        node = self.world.store(NODE).get(("", new["spec"].get("nodeName") or ""))
        if node is not None and _lasting(node):
            self.queue.add(key_of(new))

    async def reconcile(self, wire: Wire) -> float | None:
        """Deletes a pod whose time on a tainted node is up, and gives the seconds that it has left."""
        node = self.world.store(NODE).get(("", wire["spec"].get("nodeName") or ""))
        taints = _lasting(node or {})
        if not taints or is_deleted(wire) or is_finished(wire):
            return None
        left = self._left_s(wire, taints)
        if left is None:
            return None
        if left > 0:
            return left
        now = self.world.now()
        said = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        conditions = with_condition((wire.get("status") or {}).get("conditions") or (), said, now)
        await self.world.patch(POD, wire, {"status": {"conditions": conditions}}, "status")
        self.event(wire, "TaintManagerEviction", f"Marking for deletion Pod {'/'.join(key_of(wire))}")
        await self.world.delete(POD, wire)
        return None

    def _left_s(self, pod: Wire, taints: Sequence[Wire]) -> float | None:
        """Gives how long a pod may stay; None for ever."""
        tolerations = pod["spec"].get("tolerations") or ()
        if not all(tolerates(tolerations, each) for each in taints):
            return 0.0
        limits = [
            (taint, each["tolerationSeconds"])
            for taint in taints
            for each in tolerations
            if each.get("tolerationSeconds") is not None and tolerates((each,), taint)
        ]
        if not limits:
            return None
        now = self.world.now()
        ends = [
            moment(taint["timeAdded"]) + timedelta(seconds=max(seconds, 0))
            if taint.get("timeAdded")
            else now + timedelta(seconds=max(seconds, 0))
            for taint, seconds in limits
        ]
        return (min(ends) - now).total_seconds()


def _lasting(node: Wire) -> list[Wire]:
    return [
        each for each in (node.get("spec") or {}).get("taints") or () if each.get("effect") == "NoExecute"
    ]


def _is_foreign(taint: Wire) -> bool:
    """Tells whether somebody else set a taint under a name that is ours: with a value, ours have none."""
    return bool(taint.get("value"))
