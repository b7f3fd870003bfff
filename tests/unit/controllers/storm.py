# SPDX-License-Identifier: Apache-2.0
"""Many spot notices at once, in faked time: `python -m tests.unit.controllers.storm NUMBER [SECONDS]` prints figures.

Everything that acts is real: interruptions, the provisioner and its solver. The API server is on paper, answers after
twenty milliseconds and takes two hundred requests a second, as the controller's client allows itself by default.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from karpenter.controllers.interruption import Interruptions
from karpenter.controllers.provisioning import Market, Provisioner, ProvisionerSettings
from karpenter.kit.clock import FakeClock
from karpenter.kube import Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from karpenter.observe import DecisionLog, Metrics
from karpenter.scheduling import SolveOptions, solve
from karpenter.state import STORED_NODE_CLASSES, Cluster, Informers
from tests.unit.controllers.disruption.world import SOLD, World
from tests.unit.controllers.paper import PaperClient
from tests.unit.state.worlds import stored_class

_ANSWER_S = 0.02
_PER_SECOND = 200


@dataclass(frozen=True)
class Notice:
    """A spot warning."""

    instance_ids: tuple[str, ...]
    kind: str = "spot_interrupted"
    detail: str = ""


@dataclass(frozen=True)
class Figures:
    """What came of a storm.

    Attributes:
        taint_s: For each node how long after its notice it was tainted.
        drained_early: Nodes whose draining began before all their pods had a place elsewhere.
        plans: How many plans were made.
        ordered: How many nodes were ordered.
        left: Nodes that were forgotten.
    """

    taint_s: tuple[float, ...]
    drained_early: int
    plans: int
    ordered: int
    left: int


class SlowClient(PaperClient):
    """Answers after a while, and takes so many requests a second."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._free_at = 0.0
        self.tainted_at: dict[str, float] = {}
        self.deleted: dict[str, float] = {}

    async def _wait(self) -> None:
        now = self._clock.monotonic()
        self._free_at = max(self._free_at, now) + 1 / _PER_SECOND
        await self._clock.sleep(self._free_at - now + _ANSWER_S)

    async def patch(self, kind: Any, name: str, change: Any, *rest: Any, **options: Any) -> Any:
        """Merge a patch, after a while."""
        await self._wait()
        if kind is NODES and "spec" in change:
            self.tainted_at.setdefault(name, self._clock.monotonic())
        return await super().patch(kind, name, change, *rest, **options)

    async def create(self, kind: Any, manifest: Mapping[str, Any], namespace: str = "") -> Any:
        """Store an object, after a while."""
        await self._wait()
        return await super().create(kind, manifest, namespace)

    async def delete(self, kind: Any, name: str, *rest: Any, **options: Any) -> None:
        """Delete an object, after a while."""
        await self._wait()
        if kind is NODE_CLAIMS:
            self.deleted[name] = self._clock.monotonic()
        await super().delete(kind, name, *rest, **options)


class Storm:
    """Nodes with pods, all of which the cloud takes away."""

    def __init__(self, number: int, within_s: float) -> None:
        self.number, self.within_s = number, within_s
        self.clock = FakeClock()
        self.client = SlowClient(self.clock)
        self.client.informers = Informers.of(self.client, clock=self.clock)
        self.cluster = Cluster(self.client.informers, clock=self.clock)
        self.decisions = DecisionLog(self.clock)
        metrics, recorder = Metrics(), Recorder(self.client, clock=self.clock)
        world = World()
        self.client.store(STORED_NODE_CLASSES, stored_class())
        for kind in ("nodepools",):
            raw = world.client._objects[kind]["", "default"]
            self.client.store(
                next(each.kind for each in self.client.informers.all if each.kind.plural == kind), raw
            )
        for index in range(number):
            world.node(f"n{index}")
            for plural, name in (("nodeclaims", f"claim-n{index}"), ("nodes", f"n{index}")):
                kind_of = NODE_CLAIMS if plural == "nodeclaims" else NODES
                self.client.store(kind_of, world.client._objects[plural]["", name])
            for _ in range(2):
                pod = world._pod("web", f"n{index}", "3Gi")
                self.client.store(PODS, world.client._objects["pods"]["shop", pod.metadata.name])
        self.provisioner = Provisioner(
            client=self.client,
            cluster=self.cluster,
            market=Market(self.cluster, world.shop),  # type: ignore[arg-type]
            solver=solve,
            recorder=recorder,
            decisions=self.decisions,
            metrics=metrics,
            clock=self.clock,
            settings=ProvisionerSettings(options=SolveOptions(effort=0)),
        )
        self.interruptions = Interruptions(
            client=self.client,
            cluster=self.cluster,
            recorder=recorder,
            decisions=self.decisions,
            metrics=metrics,
            clock=self.clock,
        )
        self.early = 0
        self.cluster.informers.claims.on_change(self._claim_changed)

    def _claim_changed(self, change: Any) -> None:
        claim = change.new
        began = claim is not None and claim.metadata.deletion_timestamp is not None
        if began and (change.old is None or change.old.metadata.deletion_timestamp is None):
            promised = self.cluster.nominations.member_of
            pods = self.cluster.pods_on(claim.status.node_name)
            self.early += any(not promised(pod.metadata.uid) for pod in pods)

    async def run(self) -> Figures:
        """Let it blow over."""
        told: dict[str, float] = {}
        tasks = [
            asyncio.ensure_future(self.interruptions.run()),
            asyncio.ensure_future(self.provisioner.run()),
        ]
        handlers = []
        step = self.within_s / self.number
        for index in range(self.number):
            told[f"n{index}"] = self.clock.monotonic()
            notice = Notice((f"i-n{index}",))
            handlers.append(
                asyncio.ensure_future(self.interruptions.handle(notice, ends=True, forceful=False))
            )
            await self._advance(step)
        for _ in range(80):
            await self._advance(0.5)
            if len(self.client.deleted) == self.number:
                break
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *handlers, return_exceptions=True)
        return Figures(
            taint_s=tuple(sorted(self.client.tainted_at.get(name, 9e9) - at for name, at in told.items())),
            drained_early=self.early,
            plans=sum(each.kind == "plan" for each in self.decisions.since()),
            ordered=len(self.client.writes("create", "nodeclaims")),
            left=self.number - len(self.client.deleted),
        )

    async def _advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        # A solve runs in a thread, in real time: the clock must not run away from it.
        while any(each.samples for each in self.provisioner._metrics.queue_depth.collect()):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def _main() -> None:
    number = int(sys.argv[1])
    within_s = float(sys.argv[2]) if len(sys.argv) > 2 else 120.0
    found = await Storm(number, within_s).run()
    print(  # noqa: T201
        f"{number} notices within {within_s:g} s: tainted after {found.taint_s[len(found.taint_s) // 2]:.2f} s"
        f" (half), {found.taint_s[-1]:.2f} s (all); drained before their pods had places: {found.drained_early};"
        f" plans: {found.plans}; nodes ordered: {found.ordered}; forgotten: {found.left}"
    )


if __name__ == "__main__":
    assert SOLD
    asyncio.run(_main())
