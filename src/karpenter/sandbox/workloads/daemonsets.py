# SPDX-License-Identifier: Apache-2.0
"""DaemonSets: one pod on each node that suits them, bound there by node affinity as the real controller does.

A pod is made for a node whose labels it matches and whose taints it tolerates, with the tolerations that every such pod
is given; it stays until a NoExecute taint or a changed label says otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.scheduler.matching import first_untolerated, node_matcher
from karpenter.sandbox.workloads.podstate import (
    availability,
    claim_pods,
    is_finished,
    is_ready,
    template_pod,
)
from karpenter.sandbox.workloads.resources import DAEMON_SET, NODE, POD, Wire, is_deleted, key_of
from karpenter.sandbox.workloads.revisions import HASH, mark_of, settle_history
from karpenter.sandbox.workloads.rolling import resolve
from karpenter.sandbox.workloads.world import Controller

__all__ = ["DaemonSets", "daemon_tolerations", "should_run"]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_GENERATION: Final = "pod-template-generation"


def daemon_tolerations(spec: Mapping[str, Any]) -> list[Wire]:
    """Gives the tolerations of a DaemonSet's pods: their own, and those that all of them are given."""

    def given(key: str, effect: str) -> Wire:
        return {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}

    found = list(spec.get("tolerations") or ())
    added = [given(key, "NoExecute") for key in ("not-ready", "unreachable")]
    pressure = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    added += [given(key, "NoSchedule") for key in pressure]
    if spec.get("hostNetwork"):
        added.append(given("network-unavailable", "NoSchedule"))
    return found + [each for each in added if each not in found]


def should_run(spec: Mapping[str, Any], node: Mapping[str, Any]) -> tuple[bool, bool]:
    """Tells whether a DaemonSet's pod should be made on a node, and whether one that is there may stay."""
    wanted = spec.get("nodeName")
    metadata = node["metadata"]
    if wanted and wanted != metadata["name"]:
        return False, False
    matches = node_matcher(spec)
    if matches is not None and not matches(metadata["name"], metadata.get("labels") or {}):
        return False, False
    tolerations = daemon_tolerations(spec)
    taints = (node.get("spec") or {}).get("taints") or ()
    lasting = [each for each in taints if each.get("effect") == "NoExecute"]
    return first_untolerated(taints, tolerations) is None, first_untolerated(lasting, tolerations) is None


class DaemonSets(Controller):
    """Keeps DaemonSets."""

    name = "daemonset"
    source = "daemonset-controller"
    resource = DAEMON_SET
    workers = 4

    def subscribe(self) -> None:
        """Looks at a set when it or one of its pods changes, and at all when a node comes, goes or changes."""
        super().subscribe()
        self.world.store(POD).subscribe(self._owner_changed)
        self.world.store(NODE).subscribe(self._node_changed)

    def _node_changed(self, old: Wire | None, new: Wire | None) -> None:
        if old is not None and new is not None and _rules(old) == _rules(new):
            return
        for each in self.world.store(DAEMON_SET).all():
            self.queue.add_after(key_of(each), 0.02)

    async def reconcile(self, wire: Wire) -> float | None:
        """Makes and deletes pods until each node has what it should, and says how it stands."""
        pods = await claim_pods(self.world, DAEMON_SET, wire)
        if is_deleted(wire):
            return None
        used = {each["metadata"]["labels"].get(HASH, "") for each in pods}
        prefix = wire["metadata"]["name"]
        history = await settle_history(self.world, DAEMON_SET, wire, {f"{prefix}-{each}" for each in used})
        mark = mark_of(history.current)
        spread = _by_node(pods)
        missing, excess = self._differences(wire, spread)
        if not missing and not excess:
            missing, excess = self._updates(wire, spread, mark)
        for pod in excess:
            await self._delete(wire, pod)
        failures = await self._create_all(wire, missing, mark)
        again_s = await self._tell_status(wire, mark)
        if failures:
            raise failures[0]
        return again_s

    def _differences(self, wire: Wire, spread: Mapping[str, Sequence[Wire]]) -> tuple[list[str], list[Wire]]:
        spec = wire["spec"]["template"]["spec"]
        missing: list[str] = []
        excess: list[Wire] = []
        names = set()
        for node in self.world.store(NODE).all():
            name = node["metadata"]["name"]
            names.add(name)
            start, stay = should_run(spec, node)
            there = list(spread.get(name, ()))
            over = [each for each in there if is_finished(each) and not is_deleted(each)]
            excess += over
            standing = [each for each in there if each not in over]
            live = [each for each in standing if not is_deleted(each)]
            if not stay:
                excess += live
            elif start and not standing:
                missing.append(name)
            elif len(live) > 1 and not _surges(wire):
                excess += sorted(live, key=lambda each: str(each["metadata"]["creationTimestamp"]))[1:]
        excess += [
            each
            for name, held in spread.items()
            if name not in names and not any(each["spec"].get("nodeName") for each in held)
            for each in held
            if not is_deleted(each)
        ]
        return missing, excess

    def _updates(
        self, wire: Wire, spread: Mapping[str, Sequence[Wire]], mark: str
    ) -> tuple[list[str], list[Wire]]:
        strategy = wire["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return [], []
        said = strategy.get("rollingUpdate") or {}
        now, min_ready_s = self.world.now(), wire["spec"].get("minReadySeconds", 0)
        surge = resolve(said.get("maxSurge"), len(spread), up=True, default=0)
        missing: list[str] = []
        excess: list[Wire] = []
        if surge:
            for name, held in spread.items():
                old = [
                    each
                    for each in held
                    if each["metadata"]["labels"].get(HASH) != mark and not is_deleted(each)
                ]
                new = [each for each in held if each["metadata"]["labels"].get(HASH) == mark]
                if old and any(availability(each, min_ready_s, now) for each in new):
                    excess += old
                elif old and not new and len(missing) < surge:
                    missing.append(name)
            return missing, excess
        most = max(resolve(said.get("maxUnavailable"), len(spread), up=True, default=1), 1)
        away = sum(
            not any(availability(each, min_ready_s, now) and not is_deleted(each) for each in held)
            for held in spread.values()
        )
        for held in spread.values():
            old = [
                each for each in held if each["metadata"]["labels"].get(HASH) != mark and not is_deleted(each)
            ]
            broken = [each for each in old if not availability(each, min_ready_s, now)]
            excess += broken
            for each in old:
                if each not in broken and away < most:
                    excess.append(each)
                    away += 1
        return missing, excess

    async def _create_all(self, wire: Wire, nodes: Sequence[str], mark: str) -> list[ApiError]:
        burst = nodes[: self.world.settings.pod_burst]
        answers = await asyncio.gather(
            *(self._create(wire, each, mark) for each in burst), return_exceptions=True
        )
        for each in answers:
            if isinstance(each, BaseException) and not isinstance(each, ApiError):
                raise each
        return [each for each in answers if isinstance(each, ApiError)]

    async def _create(self, wire: Wire, node: str, mark: str) -> None:
        generation = str(wire["metadata"].get("generation", 1))
        labels = {HASH: mark, _GENERATION: generation}
        pod = template_pod(wire["spec"]["template"], wire, DAEMON_SET, labels=labels)
        pod["spec"]["tolerations"] = daemon_tolerations(pod["spec"])
        _pin(pod["spec"], node)
        try:
            made = await self.world.create(POD, pod)
        except ApiError as refused:
            self.event(wire, "FailedCreate", f"Error creating: {refused.message}", warning=True)
            raise
        self.event(wire, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    async def _delete(self, wire: Wire, pod: Wire) -> None:
        if (pod.get("status") or {}).get("phase") == "Failed":
            node = pod["spec"].get("nodeName", "")
            words = f"Found failed daemon pod {'/'.join(key_of(pod))} on node {node}, will try to kill it"
            self.event(wire, "FailedDaemonPod", words, warning=True)
        await self.world.delete(POD, pod)
        self.event(wire, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    async def _tell_status(self, wire: Wire, mark: str) -> float | None:
        spread = _by_node(self.world.store(POD).owned_by(wire["metadata"]["uid"]))
        spec = wire["spec"]["template"]["spec"]
        now, min_ready_s = self.world.now(), wire["spec"].get("minReadySeconds", 0)
        counts = dict.fromkeys(("desired", "current", "misplaced", "ready", "available", "updated"), 0)
        for node in self.world.store(NODE).all():
            start, _ = should_run(spec, node)
            held = spread.get(node["metadata"]["name"], [])
            if not start:
                counts["misplaced"] += bool(held)
                continue
            counts["desired"] += 1
            counts["current"] += bool(held)
            counts["ready"] += any(map(is_ready, held))
            counts["available"] += any(availability(each, min_ready_s, now) for each in held)
            counts["updated"] += any(each["metadata"]["labels"].get(HASH) == mark for each in held)
        new = {
            "observedGeneration": wire["metadata"].get("generation", 0),
            "desiredNumberScheduled": counts["desired"],
            "currentNumberScheduled": counts["current"],
            "numberMisscheduled": counts["misplaced"],
            "numberReady": counts["ready"],
            "numberAvailable": counts["available"],
            "numberUnavailable": counts["desired"] - counts["available"],
            "updatedNumberScheduled": counts["updated"],
        }
        old = wire.get("status") or {}
        if any(old.get(name, 0) != value for name, value in new.items()):
            await self.world.patch(DAEMON_SET, wire, {"status": new}, "status")
        return float(min_ready_s) if min_ready_s and counts["available"] != counts["ready"] else None


def _by_node(pods: Sequence[Wire]) -> dict[str, list[Wire]]:
    found: dict[str, list[Wire]] = {}
    for pod in pods:
        found.setdefault(_node_of(pod), []).append(pod)
    return found


def _node_of(pod: Wire) -> str:
    """Gives the node that a pod is on, or for which it was made."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for each in term.get("matchFields") or ():
            if each["key"] == "metadata.name":
                return str(each["values"][0])
    return ""


def _pin(spec: Wire, node: str) -> None:
    """Makes a pod acceptable to one node alone; what else its affinity requires was asked before."""
    pin = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = spec.setdefault("affinity", {})
    side = affinity.setdefault("nodeAffinity", {})
    side[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [pin]}]}


def _surges(wire: Wire) -> bool:
    said = (wire["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return said.get("maxSurge") not in (None, 0, "0", "0%")


def _rules(node: Wire) -> tuple[Any, ...]:
    spec = node.get("spec") or {}
    return node["metadata"].get("labels"), spec.get("taints"), spec.get("unschedulable")
