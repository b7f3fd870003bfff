# SPDX-License-Identifier: Apache-2.0
"""How much of each machine there is: pools, scripted errors, quotas, keys and the ways in which a launch fails.

A pool is (type, zone, capacity type). Everything here is data that can be changed while the model runs: rules with
patterns (``*``, ``m5.*``); of several that match, the last one set wins. Without a rule a pool is endless. What a
pool holds now is counted from the live instances, so it can never drift from the truth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from karpenter.sandbox.ec2.compute.filters import matcher
from karpenter.sandbox.ec2.contract import ModelError

__all__ = [
    "QUOTA_FAMILIES",
    "Capacity",
    "Failure",
    "KeyRule",
    "Pool",
    "PoolPattern",
    "PoolRule",
    "Quota",
    "ScriptedError",
    "quota_family",
]

QUOTA_FAMILIES: Final = ("standard", "dl", "f", "g", "hpc", "inf", "p", "trn", "u", "x")

_MESSAGES: Final[Mapping[str, str]] = {
    "InsufficientInstanceCapacity": "We currently do not have sufficient {type} capacity in the Availability Zone "
    "you requested ({zone}). Our system will be working on provisioning additional capacity.",
    "MaxSpotInstanceCountExceeded": "Max spot instance count exceeded",
    "VcpuLimitExceeded": "You have requested more vCPU capacity than your current vCPU limit allows for the instance "
    "bucket that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request "
    "to request an adjustment to this limit.",
    "UnfulfillableCapacity": "Unable to fulfill capacity due to your request configuration. Please adjust your "
    "request and try again.",
    "Unsupported": "The requested configuration is currently not supported. Please check the documentation for "
    "supported configurations.",
    "InsufficientFreeAddressesInSubnet": "There are not enough free addresses in subnet to satisfy the requested "
    "number of instances.",
    "MaxFleetCountExceeded": "You have reached your limit of fleets.",
    "ReservationCapacityExceeded": "The requested reservation does not have sufficient compatible and available "
    "capacity for this request.",
    "UnauthorizedOperation": "You are not authorized to perform this operation.",
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": "The provided credentials do not have permission to create "
    "the service-linked role for EC2 Spot Instances.",
}
_NO_SPOT: Final = "There is no Spot capacity available that matches your request."


class Pool(NamedTuple):
    """Where an instance can come from."""

    instance_type: str
    zone: str
    capacity_type: str


@dataclass(frozen=True, slots=True)
class PoolPattern:
    """Which pools something speaks of."""

    instance_type: str = "*"
    zone: str = "*"
    capacity_type: str = "*"

    def covers(self, pool: Pool) -> bool:
        """Says whether the pool is one of those meant."""
        return (
            matcher((self.instance_type,))(pool.instance_type)
            and matcher((self.zone,))(pool.zone)
            and matcher((self.capacity_type,))(pool.capacity_type)
        )


@dataclass(frozen=True, slots=True)
class PoolRule:
    """How many instances each of these pools holds; None for endless."""

    pools: PoolPattern
    count: int | None


@dataclass(slots=True)
class ScriptedError:
    """An error that launches from these pools meet, for a span of time or a number of times."""

    pools: PoolPattern
    code: str
    message: str = ""
    since: datetime | None = None
    until: datetime | None = None
    times: int | None = None

    def holds(self, pool: Pool, at: datetime) -> bool:
        """Says whether a launch from this pool meets the error now."""
        return (
            self.times != 0
            and (self.since is None or self.since <= at)
            and (self.until is None or at < self.until)
            and self.pools.covers(pool)
        )


@dataclass(frozen=True, slots=True)
class Quota:
    """The vCPUs that the account may run at once of one capacity type and family."""

    capacity_type: str
    family: str
    vcpus: int


@dataclass(frozen=True, slots=True)
class KeyRule:
    """What is wrong with the KMS keys of a pattern; an instance whose disk needs one dies right after launch."""

    key: str
    state: str


@dataclass(slots=True)
class Failure:
    """What goes wrong after the launch of instances of these pools (and of one node class, if given).

    ``dies`` ends in ``terminated`` with the reason; ``never-joins`` and ``joins-not-ready`` are for whoever plays
    the kubelet; ``impaired`` fails the instance's status check, ``system-impaired`` that of its host.
    """

    pools: PoolPattern
    kind: str
    after_s: float = 0.0
    code: str = ""
    message: str = ""
    node_class: str = "*"
    times: int | None = None


@dataclass(slots=True)
class Capacity:
    """The rules in force and the counts of what runs."""

    pools: list[PoolRule] = field(default_factory=list)
    errors: list[ScriptedError] = field(default_factory=list)
    quotas: list[Quota] = field(default_factory=list)
    keys: list[KeyRule] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    used: Counter[Pool] = field(default_factory=Counter)
    used_vcpus: Counter[tuple[str, str]] = field(default_factory=Counter)

    def limit(self, pool: Pool) -> float:
        """Gives how many instances the pool can hold in all."""
        for rule in reversed(self.pools):
            if rule.pools.covers(pool):
                return math.inf if rule.count is None else rule.count
        return math.inf

    def free(self, pool: Pool) -> float:
        """Gives how many more instances the pool can hold."""
        return max(self.limit(pool) - self.used[pool], 0)

    def take(self, pool: Pool, vcpus: int, at: datetime, *, reserved: bool = False) -> None:
        """Takes one place of the pool; a reserved place needs no free one and counts against no pool.

        Raises:
            ModelError: A scripted error holds, a quota is used up or the pool is dry.
        """
        for error in self.errors:
            if error.holds(pool, at):
                if error.times is not None:
                    error.times -= 1
                raise refusal(error.code, pool, error.message)
        family = quota_family(pool.instance_type)
        market = "spot" if pool.capacity_type == "spot" else "on-demand"
        for quota in self.quotas:
            if quota.capacity_type == market and quota.family in {"*", family}:
                used = sum(
                    count
                    for (kind, name), count in self.used_vcpus.items()
                    if kind == market and quota.family in {"*", name}
                )
                if used + vcpus > quota.vcpus:
                    raise refusal(
                        "MaxSpotInstanceCountExceeded" if market == "spot" else "VcpuLimitExceeded", pool
                    )
        if not reserved and self.free(pool) < 1:
            raise refusal("InsufficientInstanceCapacity", pool)
        self.count(pool, vcpus, 1, reserved=reserved)

    def count(self, pool: Pool, vcpus: int, by: int, *, reserved: bool = False) -> None:
        """Counts instances in (1) or out (-1)."""
        if not reserved:
            self.used[pool] += by
        market = "spot" if pool.capacity_type == "spot" else "on-demand"
        self.used_vcpus[market, quota_family(pool.instance_type)] += by * vcpus

    def failure_for(self, pool: Pool, node_class: str) -> Failure | None:
        """Finds what is to go wrong with a new instance, and counts it as used."""
        for failure in reversed(self.failures):
            if (
                failure.times != 0
                and failure.pools.covers(pool)
                and matcher((failure.node_class,))(node_class)
            ):
                if failure.times is not None:
                    failure.times -= 1
                return failure
        return None

    def key_state(self, key: str) -> str:
        """Tells what is wrong with a KMS key; empty when nothing is."""
        for rule in reversed(self.keys):
            if matcher((rule.key,))(key):
                return "" if rule.state == "usable" else rule.state
        return ""


def refusal(code: str, pool: Pool, message: str = "") -> ModelError:
    """Builds the refusal of a launch in EC2's words for that code."""
    if not message:
        spot_ice = code == "InsufficientInstanceCapacity" and pool.capacity_type == "spot"
        template = _NO_SPOT if spot_ice else _MESSAGES.get(code, "The request failed.")
        message = template.format(type=pool.instance_type, zone=pool.zone)
    return ModelError(code, message, status=403 if code == "UnauthorizedOperation" else 400)


def quota_family(instance_type: str) -> str:
    """Gives the vCPU quota that a type counts against."""
    family = instance_type.partition(".")[0]
    for name in ("dl", "hpc", "inf", "trn"):
        if family.startswith(name):
            return name
    if family.startswith(("u-", "u7", "u3")):
        return "u"
    first = family[:1]
    if family.startswith("vt"):
        return "g"
    return first if first in {"f", "g", "p", "x"} else "standard"
