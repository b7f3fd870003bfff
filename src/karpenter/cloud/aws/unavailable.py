# SPDX-License-Identifier: Apache-2.0
"""Remembers what EC2 could not sell lately, so that the next plan does not ask for it again at once.

What is remembered is as narrow as what EC2 said: one pool (capacity type, instance type, zone, and where a
placement group was asked for, that group and partition), one whole capacity type, one subnet without free
addresses, or one zone for a placement group. A zone is out when all subnets that could be used there are.

Each first failure keeps its thing away for 3 minutes. A thing that fails again when its time was over stays away
twice as long, up to 30 minutes; a purchase, or an hour of quiet, starts it anew. Failures that arrive while a
thing is away already belong to the same shortage (fifty launches fail together): they renew the wait and do not
lengthen it. No jitter: the plan that retries is one, and the same run must give the same answers.

``version`` moves whenever an answer of ``is_out`` may have changed, also by mere passing of time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.clock import Clock

__all__ = ["BACKOFF", "CapacityTypeOut", "Out", "PoolOut", "SubnetOut", "Unavailable", "ZoneOut"]

BACKOFF: Final = BackoffPolicy(base_s=180.0, cap_s=1800.0, factor=2.0)

# How long after its wait a thing that stayed quiet is taken as new.
_FORGET_AFTER_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class PoolOut:
    """One pool of EC2 has no capacity; with a placement group, only for launches into it."""

    capacity_type: str
    instance_type: str
    zone: str
    placement_group: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class CapacityTypeOut:
    """A whole capacity type cannot be bought, e.g. spot without its service-linked role."""

    capacity_type: str


@dataclass(frozen=True, slots=True)
class SubnetOut:
    """A subnet has no free addresses."""

    subnet_id: str


@dataclass(frozen=True, slots=True)
class ZoneOut:
    """A placement group takes no more instances in a zone, of whatever type."""

    placement_group: str
    zone: str


What: TypeAlias = PoolOut | CapacityTypeOut | SubnetOut | ZoneOut


@dataclass(frozen=True, slots=True)
class Out:
    """What is out, why, how often in a row by now, and for how much longer."""

    what: What
    reason: str
    failures: int
    remaining_s: float


@dataclass(frozen=True, slots=True)
class _Record:
    reason: str
    failures: int
    until: float


class Unavailable:
    """The memory of what could not be bought; bounded by forgetting, never by refusing to remember."""

    def __init__(self, clock: Clock, policy: BackoffPolicy = BACKOFF) -> None:
        self._clock = clock
        self._policy = policy
        self._records: dict[What, _Record] = {}
        # What is out now: pools by their type, so that most types are passed over at once, and all else.
        self._pools: dict[str, set[What]] = {}
        self._broad: set[What] = set()
        self._next_change_at = float("inf")
        self._version = 0
        self._broad_version = 0
        self._type_versions: dict[str, int] = {}

    def mark(self, what: What, reason: str = "") -> float:
        """Notes a failure and returns for how many seconds the thing is now left alone."""
        self._settle()
        now = self._clock.monotonic()
        known = self._records.get(what)
        failures = known.failures if known else 0
        is_new = what not in self._siblings(what)
        failures += is_new
        wait_s = self._policy.delay_s(failures)
        self._records[what] = _Record(reason, failures, now + wait_s)
        self._next_change_at = min(self._next_change_at, now + wait_s)
        if is_new:
            self._siblings(what).add(what)
            self._moved(what)
        return wait_s

    def bought(
        self, capacity_type: str, instance_type: str, zone: str, *, group: str = "", partition: str = ""
    ) -> None:
        """Forgets the failures of a pool that has just sold an instance, and of all that it stands under."""
        done: list[What] = [
            *_pools(capacity_type, instance_type, zone, group, partition),
            CapacityTypeOut(capacity_type),
            ZoneOut(group, zone),
        ]
        for what in done:
            self._forget(what)

    def subnet_used(self, subnet_id: str) -> None:
        """Forgets the failures of a subnet that has just taken an instance."""
        self._forget(SubnetOut(subnet_id))

    def is_out(
        self,
        capacity_type: str,
        instance_type: str,
        zone: str,
        *,
        subnet_ids: Iterable[str] = (),
        group: str = "",
        partition: str = "",
    ) -> bool:
        """Tells whether a pool should be left alone now.

        Args:
            capacity_type: on-demand or spot; reserved capacity is counted, not remembered here.
            instance_type: Name of the type.
            zone: Name of the zone.
            subnet_ids: The subnets that a launch could use there; it is out when there are some and all are.
            group: Id of the placement group of the launch; without one, shortages of groups do not matter.
            partition: Its partition, where it has any.
        """
        if not self.concerns(instance_type):
            return False
        pools = self._pools.get(instance_type, ())
        subnets = [SubnetOut(subnet_id) in self._broad for subnet_id in subnet_ids]
        return (
            any(pool in pools for pool in _pools(capacity_type, instance_type, zone, group, partition))
            or CapacityTypeOut(capacity_type) in self._broad
            or (bool(group) and ZoneOut(group, zone) in self._broad)
            or (bool(subnets) and all(subnets))
        )

    def concerns(self, instance_type: str) -> bool:
        """Tells whether anything is out that may matter to the type; if not, none of its pools is."""
        self._settle()
        return bool(self._broad or self._pools.get(instance_type))

    def entries(self) -> tuple[Out, ...]:
        """Returns what is out now, what comes back first first."""
        self._settle()
        now = self._clock.monotonic()
        found = [
            Out(what, record.reason, record.failures, record.until - now)
            for what, record in self._records.items()
            if what in self._siblings(what)
        ]
        return tuple(sorted(found, key=lambda out: (out.remaining_s, repr(out.what))))

    @property
    def version(self) -> int:
        """A number that moves when any answer may have changed."""
        self._settle()
        return self._version

    def version_of(self, instance_type: str) -> tuple[int, int]:
        """Returns a value that moves when an answer about this type may have changed."""
        self._settle()
        return self._broad_version, self._type_versions.get(instance_type, 0)

    def clear(self) -> None:
        """Forgets everything."""
        self._records.clear()
        self._pools.clear()
        self._broad.clear()
        self._next_change_at = float("inf")
        self._version += 1
        self._broad_version += 1

    def _settle(self) -> None:
        """Lets back what has waited long enough, and forgets what has been quiet for long."""
        now = self._clock.monotonic()
        if now < self._next_change_at:
            return
        for what in [key for key, record in self._records.items() if record.until <= now]:
            self._let_back(what)
            if now - self._records[what].until >= _FORGET_AFTER_S:
                del self._records[what]
        self._next_change_at = min(
            (record.until + _FORGET_AFTER_S * (record.until <= now) for record in self._records.values()),
            default=float("inf"),
        )

    def _forget(self, what: What) -> None:
        if self._records.pop(what, None) is not None:
            self._let_back(what)

    def _let_back(self, what: What) -> None:
        siblings = self._siblings(what)
        if what in siblings:
            siblings.discard(what)
            self._moved(what)

    def _siblings(self, what: What) -> set[What]:
        """Gives the set that the thing is in while it is out."""
        if isinstance(what, PoolOut):
            return self._pools.setdefault(what.instance_type, set())
        return self._broad

    def _moved(self, what: What) -> None:
        self._version += 1
        if isinstance(what, PoolOut):
            self._type_versions[what.instance_type] = self._type_versions.get(what.instance_type, 0) + 1
        else:
            self._broad_version += 1


def _pools(
    capacity_type: str, instance_type: str, zone: str, group: str, partition: str
) -> tuple[PoolOut, ...]:
    """Names the pool in general, for its placement group, and for the partition: a shortage of any is one."""
    general = PoolOut(capacity_type, instance_type, zone)
    if not group:
        return (general,)
    grouped = PoolOut(capacity_type, instance_type, zone, group)
    if not partition:
        return general, grouped
    return general, grouped, PoolOut(capacity_type, instance_type, zone, group, partition)
