# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

from karpenter.kit.clock import FakeClock
from karpenter.kit.tasks import Supervisor, TaskFailure
from karpenter.kube import ClusterConfig, Elector
from karpenter.kube.kinds import LEASES
from karpenter.operator.runtime import Operator
from karpenter.operator.settings import Settings
from tests.unit.controllers.paper import PaperClient


class Replica:
    """A replica with one controller that counts its seconds, and the lease that it leads by."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.client = PaperClient(self.clock)
        self.worked = 0
        self.taken_over = 0
        settings = Settings(cluster_name="c", leader_election_namespace="karpenter")
        self.operator = Operator(
            settings, ClusterConfig(server="http://paper"), self._no_cloud, identity="me", clock=self.clock
        )
        self.operator._elector = self.elector = Elector(
            self.client,
            name="karpenter-leader-election",
            namespace="karpenter",
            identity="me",
            clock=self.clock,
        )

    async def _no_cloud(self, *_: Any) -> Any:
        raise AssertionError("nobody asks for a cloud")

    async def work(self) -> None:
        """Count the seconds for which it runs."""
        while True:
            await self.clock.sleep(1)
            self.worked += 1

    def _took_over(self) -> None:
        self.taken_over += 1

    async def live(self, team: Supervisor) -> None:
        """Stand for election and lead, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.elector.run())
            group.create_task(self.operator._lead(team, {"work": self.work}, self._took_over))


async def test_controllers_run_while_the_replica_leads_and_stop_when_the_lease_is_lost() -> None:
    replica = Replica()
    failures: list[TaskFailure] = []
    async with Supervisor(replica.clock, on_failure=failures.append) as team:
        living = asyncio.ensure_future(replica.live(team))
        await replica.clock.advance(5)
        leading = replica.worked
        other = {"spec": {"holderIdentity": "other", "renewTime": None}}
        await replica.client.patch(LEASES, "karpenter-leader-election", other, "karpenter")
        await replica.clock.advance(4)
        stopped_at = replica.worked
        await replica.clock.advance(6)
        after = replica.worked
        await replica.clock.advance(40)
        again = replica.worked
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)

    assert leading > 0
    assert failures == []
    assert after == stopped_at
    # The other has not renewed since: it is taken for dead, and what was left is taken over.
    assert again > after
    assert replica.taken_over == 2
