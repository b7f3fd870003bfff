# SPDX-License-Identifier: Apache-2.0
"""Pods come, go and are protected while nodes are being taken away, in any order, and processes die in between."""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.api import labels as names
from karpenter.api.conditions import INITIALIZED, is_true
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.disruption.records import record_of
from karpenter.kube import Change
from karpenter.kube.kinds import PODS
from karpenter.model.pods import do_not_disrupt, is_reschedulable
from tests.unit.controllers.disruption.world import SOLD, Crash, World

_BUDGET = 2


class Watched(World):
    """A world in which every deletion is checked at the moment it is ordered."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a choice among tests is no secret
        self.broken: list[str] = []
        self.deleted = 0
        super().__init__(disruption={"budgets": [{"nodes": str(_BUDGET)}]})
        for number in range(self.chance.randint(2, 5)):
            self.node(f"n{number}", self.chance.choice(list(SOLD)))
            if self.chance.random() < 0.8:
                self.pods(self.chance.randint(1, 3), f"n{number}", app=f"app{number}")

    def start(self) -> None:
        """Begin a new process and watch what it does."""
        super().start()
        self.cluster.informers.claims.on_change(self._watch)

    def _watch(self, change: Change[NodeClaim]) -> None:
        new, old = change.new, change.old
        if (
            new is None
            or old is None
            or not new.metadata.deletion_timestamp
            or old.metadata.deletion_timestamp
        ):
            return
        record = record_of(new)
        if record is None or record.role == "launch":
            # A replacement that is dismissed: it must be empty.
            if any(is_reschedulable(pod) for pod in self.cluster.pods_on(new.status.node_name)):
                self.broken.append("a replacement with pods was dismissed")
            return
        self.deleted += 1
        for name in record.launch if record.is_settled else ():
            claim = self.cluster.informers.claims.get(name)
            if claim is None or not is_true(claim.status.conditions, INITIALIZED):
                self.broken.append(f"{new.metadata.name} goes before {name} works")
        now = self.clock.now()
        for pod in self.cluster.pods_on(new.status.node_name):
            if do_not_disrupt(pod, now).active:
                self.broken.append(f"{pod.metadata.name} is protected")

    def check(self) -> None:
        """Look at what must hold at every moment."""
        leaving = [each for each in self.claims if self._leaves(each)]
        if len(leaving) > _BUDGET:
            self.broken.append(f"{len(leaving)} nodes on their way out")

    def _leaves(self, claim: NodeClaim) -> bool:
        member = self.cluster.member(claim.metadata.name)
        joined = is_true(claim.status.conditions, INITIALIZED)
        return member is not None and joined and self.cluster.is_leaving(member)

    async def happen(self) -> None:
        """Let something happen that nobody asked for."""
        what = self.chance.choice(("come", "come", "go", "protect", "late", "nothing", "crash"))
        nodes = [each.metadata.name for each in self.nodes]
        pods = [pod for pod in self.cluster.informers.pods if pod.spec.node_name]
        if what == "come" and nodes:
            self._arrive(self.chance.choice([name for name in nodes if name not in self.tainted] or [""]))
        elif what == "late" and nodes:
            # The scheduler had decided before it saw the taint.
            self._arrive(self.chance.choice(nodes), **self._protected())
        elif what == "go" and pods:
            await self.client.delete(PODS, self.chance.choice(pods).metadata.name, "shop")
        elif what == "protect" and pods:
            annotation = {"metadata": {"annotations": {names.DO_NOT_DISRUPT: "true"}}}
            await self.client.patch(PODS, self.chance.choice(pods).metadata.name, annotation, "shop")
        elif what == "crash":
            self.client.writes_left = self.chance.randint(0, 6)

    def _protected(self) -> dict[str, Any]:
        return (
            {"metadata": {"annotations": {names.DO_NOT_DISRUPT: "true"}}}
            if self.chance.random() < 0.5
            else {}
        )

    def _arrive(self, name: str, **parts: Any) -> None:
        node = self.cluster.informers.nodes.get(name) if name else None
        if node is not None and len(self.cluster.pods_on(name)) < 3:
            self._pod(f"new{self._born}", name, "500Mi", **parts)

    def live(self) -> None:
        """Drain as the kubelets do: protected pods are waited for."""
        writes, self.client.writes_left = self.client.writes_left, None
        super().live()
        self.client.writes_left = writes

    def _end(self, claim: NodeClaim) -> None:
        now = self.clock.now()
        if any(do_not_disrupt(pod, now).active for pod in self.cluster.pods_on(claim.status.node_name)):
            return
        super()._end(claim)


async def run(seed: int) -> Watched:
    """Let a world live for a while."""
    world = Watched(seed)
    for _ in range(14):
        try:
            await world.happen()
            await world.look()
        except Crash:
            world.start()
        world.check()
        await world.pass_time(world.chance.choice((0.5, 4.0, 16.0)))
        world.check()
    return world


@pytest.mark.timeout(180)  # each example is a life of its own, with threads
@given(st.integers(0, 10**6))
def test_budgets_protections_and_replacements_hold_whatever_happens_in_between(seed: int) -> None:
    world = asyncio.run(run(seed))

    assert world.broken == []
    assert math.isfinite(world.deleted)
