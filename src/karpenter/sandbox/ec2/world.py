# SPDX-License-Identifier: Apache-2.0
"""Everything that exists in the modelled account: one store a service, one clock, one set of dials.

Nothing here is global: a process may hold several worlds, and a test makes its own. Time passes in two ways: calls
settle what has become due before they are answered, and the server calls ``settle`` every now and then, so that
events and messages go out even if nobody calls. ``advance`` stops at every planned moment on the way.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from karpenter import facts
from karpenter.errors import KarpenterError
from karpenter.sandbox.ec2.behaviour.access import Access
from karpenter.sandbox.ec2.behaviour.calls import CallLog
from karpenter.sandbox.ec2.behaviour.faults import Faults
from karpenter.sandbox.ec2.behaviour.throttling import Limits, Throttle
from karpenter.sandbox.ec2.bus import Bus
from karpenter.sandbox.ec2.clock import ModelClock
from karpenter.sandbox.ec2.compute import Ec2
from karpenter.sandbox.ec2.compute.prices import Prices
from karpenter.sandbox.ec2.compute.seam import Profile
from karpenter.sandbox.ec2.rights import Guard
from karpenter.sandbox.ec2.services.eks import Clusters
from karpenter.sandbox.ec2.services.fis import Experiments
from karpenter.sandbox.ec2.services.iam.store import Iam
from karpenter.sandbox.ec2.services.sqs.store import Queues
from karpenter.sandbox.ec2.services.ssm import Parameters
from karpenter.sandbox.ec2.services.sts import Sessions
from karpenter.sandbox.ec2.services.zonalshift import ZonalShifts

__all__ = ["DEFAULT_ACCOUNT", "DEFAULT_REGION", "Options", "UnknownRegionError", "World"]

DEFAULT_ACCOUNT = "123456789012"
DEFAULT_REGION = "us-west-2"


@dataclass(frozen=True, slots=True)
class Options:
    """What a world is made from; the same options and calls give the same world again.

    ``bare`` leaves out all that an installation of Karpenter adds to a cluster: roles, queue, tags, access.
    ``ip_family`` is that of pods and services; with ``ipv6`` the subnets have IPv6 blocks too.
    ``instance_profiles`` are made beforehand, with the node role in them.
    """

    region: str = DEFAULT_REGION
    account: str = DEFAULT_ACCOUNT
    cluster: str = "sandbox"
    cluster_version: str = "1.33"
    ip_family: str = "ipv4"
    cluster_endpoint: str = ""
    cluster_ca: str = ""
    bare: bool = False
    instance_profiles: tuple[str, ...] = ()
    seed: int = 0
    limits: Limits = field(default_factory=Limits)


class UnknownRegionError(KarpenterError):
    """A region whose zones and offers are not in the catalogue."""


class World:
    """The account, the region and all that is in them."""

    def __init__(self, clock: ModelClock | None = None, options: Options | None = None) -> None:
        self.options = options or Options()
        if not facts.zones(self.options.region):
            raise UnknownRegionError(
                f"the region {self.options.region!r} is not known",
                hint=f"one of {', '.join(facts.regions())}",
            )
        self.clock = clock or ModelClock()
        self.region = self.options.region
        self.account = self.options.account
        self.random = Random(self.options.seed)  # noqa: S311 - dice that repeat, no secrets
        self.endpoint = ""
        self.calls = CallLog()
        self.throttle = Throttle(self.options.limits, self.clock.elapsed_s)
        self.faults = Faults(Random(self.options.seed + 1))  # noqa: S311
        self.access = Access(self.account, self.region)
        self.guard = Guard()
        self.sqs = Queues(self.account, self.region, self.random)
        self.bus = Bus(
            self.clock, self.sqs.deliver, account=self.account, region=self.region, random=self.random
        )
        self.iam = Iam(self.account, self.random)
        self.sts = Sessions(self.account, self.controller_role, self.random)
        self.ssm = Parameters(self.account, self.region)
        self.eks = Clusters(self.account, self.region)
        self.zonal_shifts = ZonalShifts()
        self.fis = Experiments(self.account, self.region, self.random)
        self.prices = Prices(self.region, self.options.seed)
        self.ec2 = Ec2(
            clock=self.clock,
            bus=self.bus,
            profiles=self._profile,
            account=self.account,
            region=self.region,
            prices=self.prices,
            seed=self.options.seed,
        )
        self.mishaps: list[str] = []
        self._planned: list[tuple[datetime, int, Callable[[], None]]] = []
        self._plans = 0

    @property
    def node_role(self) -> str:
        """Gives the name of the role that nodes run under."""
        return f"KarpenterNodeRole-{self.options.cluster}"

    @property
    def controller_role(self) -> str:
        """Gives the name of the role that the controller runs under."""
        return f"KarpenterControllerRole-{self.options.cluster}"

    @property
    def zones(self) -> dict[str, str]:
        """Gives the region's zones, name to id."""
        return dict(facts.zones(self.region))

    def plan(self, moment: datetime, action: Callable[[], None]) -> None:
        """Asks for something to be done at a moment of model time."""
        self._plans += 1
        heapq.heappush(self._planned, (moment, self._plans, action))

    @property
    def planned(self) -> list[datetime]:
        """Gives the moments at which something is planned, soonest first."""
        return sorted(moment for moment, _, _ in self._planned)

    def settle(self) -> None:
        """Does all that has become due by now: planned actions and what the services owe."""
        now = self.clock.now()
        while self._planned and self._planned[0][0] <= now:
            moment, _, action = heapq.heappop(self._planned)
            self.ec2.settle(moment)
            action()
        self.ec2.settle(now)
        self.sqs.settle(now)

    def advance(self, seconds: float) -> datetime:
        """Lets that much model time pass, stopping at each planned moment, and gives the new time.

        Raises:
            ClockError: The seconds are negative.
        """
        return self.advance_to(self.clock.now() + timedelta(seconds=seconds))

    def advance_to(self, moment: datetime) -> datetime:
        """Lets time pass up to that moment, stopping at each planned one.

        Raises:
            ClockError: The moment has passed.
        """
        self.settle()
        while self._planned and self._planned[0][0] <= moment:
            self.clock.set(max(self._planned[0][0], self.clock.now()))
            self.settle()
        # A running clock may have passed the moment while the plans were carried out.
        now = self.clock.set(max(moment, self.clock.now()) if self.clock.speed else moment)
        self.settle()
        self.sqs.wake()
        return now

    def _profile(self, name_or_arn: str) -> Profile | None:
        found = self.iam.profile_named(name_or_arn)
        return None if found is None else Profile(found.arn, found.id)
