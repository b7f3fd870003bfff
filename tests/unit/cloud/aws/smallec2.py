# SPDX-License-Identifier: Apache-2.0
"""As much of EC2 as a launch meets, and a launcher against it that can be restarted as a crash would leave it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.addresses import Addresses
from karpenter.cloud.aws.api import AwsUnreachableError
from karpenter.cloud.aws.fleet import LAUNCH_TAG
from karpenter.cloud.aws.instances import Instances
from karpenter.cloud.aws.journal import LaunchIntent
from karpenter.cloud.aws.launching import Launcher, LauncherParts
from karpenter.cloud.aws.launchtemplates import LaunchTemplates
from karpenter.cloud.aws.unavailable import Unavailable
from karpenter.kit.clock import FakeClock
from karpenter.model.instancetypes import InstanceType
from tests.unit.cloud.aws.builders import CLUSTER, ZONES, kind, node_class
from tests.unit.cloud.aws.fakes import FakeAws, aws_error


class MemoryJournal:
    """A journal that outlives launchers."""

    def __init__(self) -> None:
        self.intents: dict[str, LaunchIntent] = {}
        self.written: list[LaunchIntent] = []
        self.aside: dict[str, str] = {}

    async def put(self, intent: LaunchIntent) -> None:
        self.intents[intent.token] = intent
        self.written.append(intent)

    async def load(self) -> Sequence[LaunchIntent]:
        return list(self.intents.values())

    async def set_aside(self, token: str, problem: str) -> None:
        self.aside[token] = problem
        del self.intents[token]

    async def drop(self, tokens: Iterable[str]) -> None:
        for token in tokens:
            self.intents.pop(token, None)


class Ec2(FakeAws):
    """As much of EC2 as a launch meets: tokens, one error at a time, instances that a look-up may not show yet."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(
            {
                "CreateLaunchTemplate": {},
                "CreateFleet": self._fleet,
                "DescribeInstances": self._describe,
                "TerminateInstances": {},
                "DescribeSubnets": self._subnets,
            }
        )
        self.launched: list[dict[str, Any]] = []
        self.answers_by_token: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self.faults: list[Any] = []
        self.lost_replies = 0
        self.visible = True
        self.lag_s = 0.0
        self._clock = clock
        self.room: int | None = None
        self.surplus = 0

    def _subnets(self, **_: Any) -> dict[str, Any]:
        return {"Subnets": [{"SubnetId": f"subnet-{z[-1]}", "AvailableIpAddressCount": 500} for z in ZONES]}

    def _describe(self, **parameters: Any) -> dict[str, Any]:
        wanted = {each["Name"]: each["Values"] for each in parameters["Filters"]}
        tokens = wanted.get(f"tag:{LAUNCH_TAG}", [])
        now = self._clock.monotonic()
        shown = [
            each
            for each in self.launched
            if self.visible and each["token"] in tokens and now - each["at"] >= self.lag_s
        ]
        return {"Reservations": [{"Instances": shown}]}

    def _fleet(self, **request: Any) -> Any:
        if self.faults and (fault := self.faults.pop(0)) is not None:
            return fault
        token = request["ClientToken"]
        if token in self.answers_by_token:
            known, answer = self.answers_by_token[token]
            return answer if known == request else aws_error("IdempotentParameterMismatch")
        answer = self._launch(request)
        self.answers_by_token[token] = (request, answer)
        if self.lost_replies:
            self.lost_replies -= 1
            return AwsUnreachableError("ec2", "CreateFleet", "connection reset", may_have_happened=True)
        return answer

    def _launch(self, request: dict[str, Any]) -> dict[str, Any]:
        config = request["LaunchTemplateConfigs"][0]
        override = config["Overrides"][0]
        used = {**config, "Overrides": override}
        count = request["TargetCapacitySpecification"]["TotalTargetCapacity"]
        got = count if self.room is None else min(self.room, count)
        new = [f"i-{len(self.launched) + n:04d}" for n in range(got + self.surplus)]
        for instance_id in new:
            self.launched.append(
                {
                    "InstanceId": instance_id,
                    "InstanceType": override["InstanceType"],
                    "Placement": {"AvailabilityZone": override["AvailabilityZone"]},
                    "State": {"Name": "pending"},
                    "token": request["ClientToken"],
                    "at": self._clock.monotonic(),
                }
            )
        errors = [
            {
                "ErrorCode": "InsufficientInstanceCapacity",
                "LaunchTemplateAndOverrides": {"Overrides": override},
            }
        ]
        return {
            "Instances": [{"InstanceIds": new, "LaunchTemplateAndOverrides": used}] if new else [],
            "Errors": errors if got < count else [],
        }


class Stand:
    """A launcher against a small EC2; ``restart`` is what a crash leaves."""

    def __init__(self, *types: InstanceType, journal: MemoryJournal | None = None, **parts: Any) -> None:
        self.clock = FakeClock()
        self.ec2 = Ec2(self.clock)
        self.journal = journal
        self.types: Sequence[InstanceType] = types or (
            kind("m5.large", price=0.1),
            kind("c5.large", price=0.2),
        )
        self.parts = parts
        self.restart()

    def restart(self) -> None:
        self.unavailable = Unavailable(self.clock)
        self.templates = LaunchTemplates(self.ec2, self.clock, cluster_name="demo")
        self.addresses = Addresses(self.ec2, self.clock, self.unavailable)
        self.instances = Instances(self.ec2, self.clock, cluster_name="demo")
        self.launcher = Launcher(
            LauncherParts(
                aws=self.ec2,
                clock=self.clock,
                cluster=lambda: CLUSTER,
                templates=self.templates,
                addresses=self.addresses,
                unavailable=self.unavailable,
                instances=self.instances,
                types_of=lambda *_: self.types,
                journal=self.journal,
                **self.parts,
            )
        )

    async def launch(self, *claims: NodeClaim, into: Any = None) -> list[Any]:
        orders = [asyncio.create_task(self.launcher.launch(each, into or node_class())) for each in claims]
        await self.clock.advance(2)
        return await asyncio.gather(*orders, return_exceptions=True)

    @property
    def fleets(self) -> list[dict[str, Any]]:
        return self.ec2.named("CreateFleet")
