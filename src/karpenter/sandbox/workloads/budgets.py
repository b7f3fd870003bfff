# SPDX-License-Identifier: Apache-2.0
"""PodDisruptionBudgets: how many pods may be evicted at this moment.

Percentages count what the pods' controllers ask for. Pods that an eviction has been granted for count as gone until the
pod is, or until the grant is two minutes old.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from karpenter.sandbox.scheduler.matching import read_selector
from karpenter.sandbox.workloads.podstate import is_finished, is_ready
from karpenter.sandbox.workloads.resources import (
    BUDGET,
    DEPLOYMENT,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    Wire,
    controller_of,
    is_deleted,
    key_of,
    moment,
    with_condition,
)
from karpenter.sandbox.workloads.rolling import resolve
from karpenter.sandbox.workloads.selecting import selected, selectors_of
from karpenter.sandbox.workloads.world import Controller

__all__ = ["Budgets"]

_GRANT_S: Final = 120.0


class Budgets(Controller):
    """Counts what disruption budgets allow."""

    name = "disruption"
    source = "controllermanager"
    resource = BUDGET

    def subscribe(self) -> None:
        """Looks at a budget when it changes, or when a pod changes in its namespace."""
        super().subscribe()
        self.world.store(POD).subscribe(self._pod_changed)
        for each in (DEPLOYMENT, REPLICA_SET, STATEFUL_SET):
            self.world.store(each).subscribe(self._scale_changed)

    def _pod_changed(self, old: Wire | None, new: Wire | None) -> None:
        pod = new or old
        if pod is None:
            return
        for each in selectors_of(self.world.store(BUDGET), pod):
            expected = (each.get("status") or {}).get("expectedPods", 0)
            self.queue.add_after(key_of(each), min(0.01 + expected / 10_000, 0.5))

    def _scale_changed(self, old: Wire | None, new: Wire | None) -> None:
        owner = new or old
        if owner is None or (old and new and old["spec"].get("replicas") == new["spec"].get("replicas")):
            return
        for each in self.world.store(BUDGET).in_namespace(owner["metadata"]["namespace"]):
            self.queue.add_after(key_of(each), 0.01)

    async def reconcile(self, wire: Wire) -> float | None:
        """Counts the pods and says how many may go."""
        if is_deleted(wire):
            return None
        selector = read_selector(wire["spec"].get("selector"))
        standing = selected(self.world.store(POD), wire["metadata"]["namespace"], selector)
        pods = [each for each in standing if not is_finished(each)]
        expected, desired = self._expected(wire, pods)
        granted, again_s = self._granted(wire, pods)
        healthy = sum(
            1
            for each in pods
            if is_ready(each) and not is_deleted(each) and each["metadata"]["name"] not in granted
        )
        allowed = max(healthy - desired, 0) if expected else 0
        new: Wire = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "observedGeneration": wire["metadata"].get("generation", 0),
        }
        old = wire.get("status") or {}
        said = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
            "observedGeneration": new["observedGeneration"],
        }
        new["conditions"] = with_condition(old.get("conditions") or (), said, self.world.now())
        lapsed = {name: None for name in old.get("disruptedPods") or {} if name not in granted}
        if lapsed or any(old.get(name) != value for name, value in new.items()):
            change = new | ({"disruptedPods": lapsed} if lapsed else {})
            # An eviction that was granted meanwhile must not be lost.
            version = {"resourceVersion": wire["metadata"]["resourceVersion"]}
            await self.world.patch(BUDGET, wire, {"metadata": version, "status": change}, "status")
        return again_s

    def _expected(self, wire: Wire, pods: Sequence[Wire]) -> tuple[int, int]:
        spec = wire["spec"]
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is not None:
            scale = self._scale(pods)
            return scale, max(scale - resolve(most, scale, up=True, default=0), 0)
        if isinstance(least, int):
            return len(pods), least
        scale = self._scale(pods)
        return scale, resolve(least, scale, up=True, default=1)

    def _scale(self, pods: Sequence[Wire]) -> int:
        """Gives how many pods the controllers of these ask for; a pod without one counts as itself."""
        sizes: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                sizes[pod["metadata"]["uid"]] = 1
                continue
            found = self._controller(owner["uid"])
            if found is not None:
                sizes[found["metadata"]["uid"]] = found["spec"].get("replicas", 1)
        return sum(sizes.values())

    def _controller(self, uid: str) -> Wire | None:
        owned = self.world.store(REPLICA_SET).by_uid(uid)
        above = controller_of(owned) if owned is not None else None
        if above is not None:
            return self.world.store(DEPLOYMENT).by_uid(above["uid"]) or owned
        return owned or self.world.store(STATEFUL_SET).by_uid(uid)

    def _granted(self, wire: Wire, pods: Sequence[Wire]) -> tuple[set[str], float | None]:
        there = {each["metadata"]["name"]: each for each in pods}
        now = self.world.now()
        found: set[str] = set()
        again_s: float | None = None
        for name, when in ((wire.get("status") or {}).get("disruptedPods") or {}).items():
            left = (moment(when) + timedelta(seconds=_GRANT_S) - now).total_seconds()
            if name in there and not is_deleted(there[name]) and left > 0:
                found.add(name)
                again_s = left if again_s is None else min(left, again_s)
        return found, again_s
