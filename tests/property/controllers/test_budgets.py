# SPDX-License-Identifier: Apache-2.0
"""Budgets and limits hold at every moment: looked at on the server's side, at each write, while everybody is slow.

Requests take time, watches lag, and all controllers work at once: expiry with its ten workers, disruption for every
reason, provisioning, replacements and static pools. A check that is not one step with what it grants shows here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api import labels as names
from karpenter.controllers.expiration import Expiration
from karpenter.controllers.provisioning.orders import Orders
from karpenter.kit.clock import FakeClock
from karpenter.kube import ServerError
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.observe import Metrics
from karpenter.scheduling import NewNode
from karpenter.state import STORED_NODE_POOLS
from tests.unit.controllers.disruption import world as worlds
from tests.unit.controllers.disruption.world import World
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import catalogue, stored_pool

_TICK_S = 0.05


class SlowClient(worlds.MortalClient):
    """Takes its time for every write, and lets the watches hear of it later still."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.chance = random.Random(0)  # noqa: S311 - a choice among tests is no secret
        self.is_slow = False
        self.on_write: Callable[[], None] = lambda: None
        self._told_later: list[tuple[float, Callable[[], None]]] = []

    async def create(self, *arguments: Any, **options: Any) -> Any:
        """Store a new object."""
        return await self._slowly(super().create(*arguments, **options))

    async def patch(self, *arguments: Any, **options: Any) -> Any:
        """Merge a patch into an object."""
        return await self._slowly(super().patch(*arguments, **options))

    async def delete(self, *arguments: Any, **options: Any) -> None:
        """Delete an object, or mark it if finalizers hold it."""
        await self._slowly(super().delete(*arguments, **options))

    async def _slowly(self, work: Awaitable[Any]) -> Any:
        if self.is_slow:
            await self._clock.sleep(self.chance.uniform(0, 1))
        answer = await work
        self.on_write()
        if self.is_slow:
            await self._clock.sleep(self.chance.uniform(0, 0.3))
        return answer

    def _informer(self, kind: Any) -> Any:
        found = super()._informer(kind)
        if found is None or not self.is_slow:
            return found
        return _Watch(found, self._later)

    def _later(self, tell: Callable[[], None]) -> None:
        self._told_later.append((self._clock.monotonic() + self.chance.uniform(0, 2), tell))

    def hear(self) -> None:
        """Let the watches hear of what they should know by now, in order."""
        while self._told_later and self._told_later[0][0] <= self._clock.monotonic():
            self._told_later.pop(0)[1]()

    def catch_up(self) -> None:
        """Let the watches hear of everything."""
        while self._told_later:
            self._told_later.pop(0)[1]()


class _Watch:
    """Tells an informer later."""

    def __init__(self, informer: Any, later: Callable[[Callable[[], None]], None]) -> None:
        self.kind = informer.kind
        self._informer = informer
        self._later = later

    def observe(self, item: Any) -> None:
        """Tell it of an object."""
        self._later(lambda: self._informer.observe(item))

    def observe_gone(self, item: Any) -> None:
        """Tell it that an object is gone."""
        self._later(lambda: self._informer.observe_gone(item))


class Fleet(World):
    """Nodes of one age, expiry, repair and disruption, all slow; every write is checked against the budgets."""

    def __init__(self, seed: int, nodes: int, expired: int, others: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a choice among tests is no secret
        self.allowed = {"Expired": expired, "": others}
        self.broken: list[str] = []
        self.most = 0
        budgets = [{"nodes": str(expired), "reasons": ["Expired"]}, {"nodes": str(others)}]
        super().__init__(disruption={"budgets": budgets})
        for number in range(nodes):
            self.node(f"n{number}")
            raw = self.client.raw_object(NODE_CLAIMS, f"claim-n{number}")
            assert raw is not None
            life = self.chance.choice(["24h", "24h", "Never"])
            self.client.store(NODE_CLAIMS, {**raw, "spec": {**raw["spec"], "expireAfter": life}})
            if self.chance.random() < 0.5:
                self.pods(1, f"n{number}", app=f"app{number}")
        assert isinstance(self.client, SlowClient)
        self.client.chance = self.chance
        self.client.on_write = self.check
        self.client.is_slow = True
        common: dict[str, Any] = {
            "client": self.client,
            "cluster": self.cluster,
            "recorder": self.recorder,
            "decisions": self.decisions,
            "metrics": self.metrics,
            "clock": self.clock,
        }
        self.expiration = Expiration(**common)

    def check(self) -> None:
        """Look at the server's own objects."""
        claims = self.client._objects.get("nodeclaims", {}).values()
        nodes = {each["spec"]["providerID"]: each for each in self.client._objects.get("nodes", {}).values()}
        leaving = {}
        for raw in claims:
            node = nodes.get(raw.get("status", {}).get("providerID", ""), {})
            taints = node.get("spec", {}).get("taints", ())
            is_tainted = any(each["key"] == names.DISRUPTED_TAINT.key for each in taints)
            if node and (is_tainted or raw["metadata"].get("deletionTimestamp")):
                leaving[raw["metadata"]["name"]] = "" if is_tainted else "Expired"
        self.most = max(self.most, len(leaving))
        # Everything that leaves uses every budget up, so together they are never more than the widest allows.
        if list(leaving.values()).count("Expired") > self.allowed["Expired"]:
            self.broken.append(f"too many expired: {leaving}")
        if len(leaving) > max(self.allowed.values()):
            self.broken.append(f"too many: {leaving}")

    async def pass_until(self, *work: Awaitable[Any]) -> None:
        """Let work and time go on side by side until the work is done."""
        assert isinstance(self.client, SlowClient)
        tasks = [asyncio.ensure_future(each) for each in work]
        for _ in range(4000):
            if all(task.done() for task in tasks):
                break
            await self.clock.advance(_TICK_S)
            self.client.hear()
            # Decisions are made in threads, which know only real time.
            await asyncio.sleep(0.0005)
        await asyncio.gather(*tasks)

    def live(self) -> None:
        """Let the rest of the cluster do its work on what everybody has heard of by now."""
        assert isinstance(self.client, SlowClient)
        self.client.catch_up()
        self.client.is_slow = False
        super().live()
        self.client.is_slow = True

    async def expire(self) -> None:
        """Let the workers of expiry look at every claim, all at once."""
        await asyncio.gather(*(self.expiration.reconcile(each.metadata.name) for each in self.claims))

    async def disrupt(self) -> None:
        """Look twice in a row, as changes may have it, and carry out what is under way."""
        await self.disruption.look()
        await asyncio.gather(self.disruption.look(), self.step())


@pytest.mark.timeout(300)  # each example is a life of its own, with threads
@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(3, 8), st.integers(1, 2), st.integers(1, 3))
def test_no_budget_is_exceeded_at_any_moment_whoever_takes_nodes_away(
    seed: int, nodes: int, expired: int, others: int
) -> None:
    async def live() -> Fleet:
        worlds_client = worlds.MortalClient
        worlds.MortalClient = SlowClient  # type: ignore[misc]
        try:
            fleet = Fleet(seed, nodes, expired, others)
        finally:
            worlds.MortalClient = worlds_client  # type: ignore[misc]
        for _ in range(4):
            await fleet.pass_until(fleet.expire(), fleet.disrupt())
            await fleet.pass_until(fleet.clock.sleep(fleet.chance.choice((1.0, 16.0))))
            if fleet.chance.random() < 0.5:
                fleet.live()
        return fleet

    fleet = asyncio.run(live())

    assert fleet.broken == []
    assert fleet.most >= 1


@given(
    sizes=st.lists(st.sampled_from(["m5.large", "m5.xlarge"]), min_size=1, max_size=12),
    cpu=st.integers(0, 30),
    nodes=st.integers(0, 12),
    seed=st.integers(0, 10**6),
)
def test_no_limit_is_passed_whoever_orders_at_once(sizes: list[str], cpu: int, nodes: int, seed: int) -> None:
    async def live() -> tuple[list[int], list[int], int]:
        clock = FakeClock()
        client = SlowClient(clock)
        paper, cluster = paper_cluster(clock)
        client.informers, paper.informers = cluster.informers, None
        client.chance = random.Random(seed)  # noqa: S311 - a choice among tests is no secret
        client.store(STORED_NODE_POOLS, stored_pool(limits={"cpu": str(cpu), "nodes": str(nodes)}))
        sold = catalogue()
        counts: list[int] = []
        cores: list[int] = []

        def look() -> None:
            raw = list(client._objects.get("nodeclaims", {}).values())
            counts.append(len(raw))
            cores.append(sum(_cores(each) for each in raw))

        client.on_write = look
        client.is_slow = True
        orders = [
            Orders(client, cluster, Metrics(), controller=name) for name in ("provisioner", "disruption")
        ]
        plans = [
            NewNode(
                pool="default",
                labels={},
                catalogue=sold,
                usable=sold.values(names.INSTANCE_TYPE)[kind],
                pods=(),
                requests=Resources({}),
                daemon_overhead=Resources({}),
                pool_requirements=Requirements(()),
            )
            for kind in sizes
        ]
        if client.chance.random() < 0.5:
            client.fail("create", "nodeclaims", ServerError("busy", status=503))
        tasks = [
            asyncio.ensure_future(_after(clock, client.chance.uniform(0, 2), orders[position % 2], node))
            for position, node in enumerate(plans)
        ]
        for _ in range(400):
            await clock.advance(_TICK_S)
            client.hear()
            if all(task.done() for task in tasks):
                break
        made = await asyncio.gather(*tasks)
        return counts, cores, sum(each is not None for each in made)

    counts, cores, made = asyncio.run(live())

    assert max(counts, default=0) <= nodes
    assert max(cores, default=0) <= cpu
    smallest = 4 if set(sizes) == {"m5.xlarge"} else 2
    assert made >= (1 if cpu >= 4 and nodes and len(sizes) > 1 else 0) or cpu < smallest


async def _after(clock: FakeClock, seconds: float, orders: Orders, node: NewNode) -> Any:
    await clock.sleep(seconds)
    return await orders.create(node)


def _cores(raw: Mapping[str, Any]) -> int:
    wanted = next(
        each["values"] for each in raw["spec"]["requirements"] if each["key"] == names.INSTANCE_TYPE
    )
    return max({"m5.large": 2, "m5.xlarge": 4}[each] for each in wanted)
