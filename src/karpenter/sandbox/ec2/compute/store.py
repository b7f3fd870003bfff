# SPDX-License-Identifier: Apache-2.0
"""The one store of the EC2 model: every record by id, indexes for what is asked often, and the model's time.

The store holds and indexes; it decides nothing. Instances are indexed as lists see them (by tag and by state),
because the truth and what lists show may differ by a lag.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from karpenter.sandbox.ec2.compute.capacity import Capacity
from karpenter.sandbox.ec2.compute.ids import Ids, fraction
from karpenter.sandbox.ec2.compute.prices import Prices
from karpenter.sandbox.ec2.compute.records import (
    CapacityReservation,
    Disk,
    Fleet,
    Image,
    Instance,
    Interface,
    LaunchTemplate,
    PlacementGroup,
    Record,
    SecurityGroup,
    SpotRequest,
    Subnet,
    Vpc,
)
from karpenter.sandbox.ec2.compute.seam import Bus, Clock, ProfileFinder
from karpenter.sandbox.ec2.compute.settings import Lag, Settings
from karpenter.sandbox.ec2.compute.timers import Timers
from karpenter.sandbox.ec2.compute.tokens import Tokens

__all__ = ["Account", "Change", "Store"]

_R = TypeVar("_R", bound=Record)


@dataclass(frozen=True, slots=True)
class Account:
    """Whose resources these are and where."""

    id: str = "123456789012"
    region: str = "us-east-1"

    def arn(self, resource: str) -> str:
        """Gives the ARN of one of the account's EC2 resources, such as ``instance/i-0abc``."""
        return f"arn:aws:ec2:{self.region}:{self.id}:{resource}"


@dataclass(frozen=True, slots=True)
class Change:
    """Something that watchers hear of: an instance whose true state or tags changed, or that is gone."""

    instance: Instance
    what: str
    at: datetime


class Store:
    """Everything that the account holds."""

    def __init__(
        self, *, clock: Clock, bus: Bus, profiles: ProfileFinder, account: Account, prices: Prices, seed: int
    ) -> None:
        self.clock = clock
        self.bus = bus
        self.profiles = profiles
        self.account = account
        self.prices = prices
        self.seed = seed
        self.settings = Settings()
        self.ids = Ids(seed)
        self.timers = Timers()
        self.tokens = Tokens()
        self.capacity = Capacity()
        self.records: dict[str, Record] = {}
        self.vpcs: dict[str, Vpc] = {}
        self.subnets: dict[str, Subnet] = {}
        self.groups: dict[str, SecurityGroup] = {}
        self.images: dict[str, Image] = {}
        self.templates: dict[str, LaunchTemplate] = {}
        self.template_names: dict[str, LaunchTemplate] = {}
        self.reservations: dict[str, CapacityReservation] = {}
        self.placement_groups: dict[str, PlacementGroup] = {}
        self.fleets: dict[str, Fleet] = {}
        self.disks: dict[str, Disk] = {}
        self.interfaces: dict[str, Interface] = {}
        self.spot_requests: dict[str, SpotRequest] = {}
        self.instances: dict[str, Instance] = {}
        self.seen_by_tag: defaultdict[str, defaultdict[str, dict[str, Instance]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self.seen_by_state: defaultdict[str, dict[str, Instance]] = defaultdict(dict)
        self.render: Callable[[str, Mapping[str, Any]], str] | None = None
        self._watchers: list[Callable[[Change], None]] = []
        self._shelves: dict[type[Record], dict[str, Any]] = {
            Vpc: self.vpcs,
            Subnet: self.subnets,
            SecurityGroup: self.groups,
            Image: self.images,
            LaunchTemplate: self.templates,
            CapacityReservation: self.reservations,
            PlacementGroup: self.placement_groups,
            Fleet: self.fleets,
            Disk: self.disks,
            Interface: self.interfaces,
            SpotRequest: self.spot_requests,
            Instance: self.instances,
        }

    def now(self) -> datetime:
        """Gives the model's time."""
        return self.clock.now()

    def settle(self, now: datetime | None = None) -> int:
        """Does everything that has become due by now, in order, and says how many steps that were."""
        return self.timers.settle(now or self.now())

    def add(self, record: _R) -> _R:
        """Takes a record in."""
        self.records[record.id] = record
        self._shelves[type(record)][record.id] = record
        return record

    def drop(self, record: Record) -> None:
        """Forgets a record."""
        self.records.pop(record.id, None)
        self._shelves[type(record)].pop(record.id, None)

    def next_seq(self) -> int:
        """Gives the next place in the order of creation."""
        self.ids.count += 1
        return self.ids.count

    def drawn(self, lag: Lag, *parts: object) -> timedelta:
        """Draws a delay between the least and the most; the same parts always draw the same."""
        least, most = lag
        if least == most:
            return timedelta(seconds=least)
        return timedelta(seconds=least + (most - least) * fraction(self.seed, *parts))

    def watch(self, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Calls the watcher at each change of an instance; gives the way to stop that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def tell(self, change: Change) -> None:
        """Tells all watchers of a change."""
        for watcher in tuple(self._watchers):
            watcher(change)

    def zones(self) -> Mapping[str, str]:
        """Gives the region's zones, name to id."""
        return self.prices.zones

    def groups_named(self, ids: Iterable[str]) -> list[dict[str, str]]:
        """Gives security groups as instances and interfaces show them."""
        return [
            {"GroupId": each, "GroupName": self.groups[each].name if each in self.groups else ""}
            for each in ids
        ]
