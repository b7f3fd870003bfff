# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.api import AwsError, AwsUnreachableError
from karpenter.cloud.aws.fleet import Launched
from karpenter.cloud.errors import ATTEMPT_SPENT, InsufficientCapacityError, LaunchError, LaunchPendingError
from karpenter.cloud.protocol import LAUNCH_ATTEMPT
from tests.unit.cloud.aws.builders import claim, kind
from tests.unit.cloud.aws.fakes import aws_error
from tests.unit.cloud.aws.smallec2 import MemoryJournal, Stand

_CATALOGUES = (
    (kind("m5.large", price=0.1), kind("c5.large", price=0.2)),
    (kind("m7.large", price=0.1),),
    (kind("c5.large", price=0.05), kind("m5.large", price=0.1)),
)

_STEPS = st.one_of(
    st.tuples(st.just("ask"), st.sets(st.integers(0, 2), min_size=1)),
    st.tuples(st.just("crash"), st.just(None)),
    st.tuples(st.just("lose the reply"), st.just(None)),
    st.tuples(st.just("refuse"), st.just(None)),
    st.tuples(st.just("fail"), st.just(None)),
    st.tuples(st.just("cut off"), st.just(None)),
    st.tuples(st.just("room"), st.sampled_from((0, 1, 2, None))),
    st.tuples(st.just("catalogue"), st.integers(0, 2)),
    st.tuples(st.just("wait"), st.sampled_from((1, 20, 61, 700, 3000))),
)


class World:
    """Claims, their attempts and what became of them, as a controller keeps them in the API server."""

    def __init__(self, *, lag_s: float, with_journal: bool) -> None:
        self.stand = Stand(journal=MemoryJournal() if with_journal else None)
        self.stand.ec2.lag_s = lag_s
        self.attempts = {f"u{n}": 0 for n in range(3)}
        self.machines: dict[str, str] = {}

    def claim(self, uid: str) -> NodeClaim:
        return claim(uid, annotations={LAUNCH_ATTEMPT: str(self.attempts[uid])})

    async def ask(self, uids: list[str]) -> None:
        waiting = [uid for uid in uids if uid not in self.machines]
        outcomes = await self.stand.launch(*map(self.claim, waiting))
        for uid, outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, Launched):
                self.machines[uid] = outcome.instance_id
            elif (
                isinstance(outcome, InsufficientCapacityError)
                or getattr(outcome, "reason", "") == ATTEMPT_SPENT
            ):
                self.attempts[uid] += 1
            else:
                assert isinstance(outcome, LaunchPendingError | LaunchError | AwsError | AwsUnreachableError)

    async def step(self, name: str, argument: Any) -> None:
        ec2 = self.stand.ec2
        if name == "ask":
            await self.ask([f"u{n}" for n in sorted(argument)])
        elif name == "crash":
            self.stand.restart()
        elif name == "lose the reply":
            ec2.lost_replies = 1
        elif name == "room":
            ec2.room = argument
        elif name == "catalogue":
            self.stand.types = _CATALOGUES[argument]
        elif name == "wait":
            await self.stand.clock.advance(argument)
        else:
            ec2.faults = [
                {
                    "refuse": aws_error("UnauthorizedOperation"),
                    "fail": aws_error("InternalError", status=500),
                    "cut off": AwsUnreachableError("ec2", "CreateFleet", "no route"),
                }[name]
            ]

    async def settle(self) -> None:
        """Everything works again: the controller goes on until each claim has its machine."""
        ec2 = self.stand.ec2
        ec2.faults, ec2.lost_replies, ec2.room = [], 0, None
        for _ in range(20):
            await self.stand.clock.advance(61)
            await self.ask(list(self.attempts))
            if len(self.machines) == len(self.attempts):
                return


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(_STEPS, max_size=25), lag_s=st.sampled_from((0.0, 5.0, 50.0)), with_journal=st.booleans()
)
def test_whatever_fails_each_claim_gets_one_machine_and_none_is_launched_for_nobody(
    steps: list[tuple[str, Any]], lag_s: float, *, with_journal: bool
) -> None:
    async def run() -> World:
        world = World(lag_s=lag_s, with_journal=with_journal)
        for name, argument in steps:
            await world.step(name, argument)
        await world.settle()
        return world

    world = asyncio.run(run())

    assert len(world.machines) == 3
    assert len(set(world.machines.values())) == 3
    assert {each["InstanceId"] for each in world.stand.ec2.launched} == set(world.machines.values())
