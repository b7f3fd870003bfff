# SPDX-License-Identifier: Apache-2.0
"""What was decided and cannot be seen in the cluster yet: nodes that are to go, and nodes that are being ordered.

Between a decision and the moment at which the informers show it lie requests and a watch. A decision in between
would find a budget or a limit as free as before. So the check and the reservation are one step without an await, here,
for all controllers: expiry, every reason of disruption, provisioning, replacements and static pools.

A removal is reserved until it is taken back or its claim is gone. An order is reserved until it is settled: while any
order of a pool is on its way, the pool's use is counted from the moment at which the first of them was reserved, so
that a claim which the watch shows early is not counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["LaunchReservation", "Launches", "Removals"]


class Removals:
    """Claims that were chosen to go, by name."""

    def __init__(self) -> None:
        self._claims: set[str] = set()

    def __contains__(self, claim: object) -> bool:
        return claim in self._claims

    def reserve(self, claims: Iterable[str]) -> None:
        """Count claims as on their way out from now on."""
        self._claims.update(claims)

    def release(self, claims: Iterable[str]) -> None:
        """Take that back: they stay, or they are gone."""
        self._claims.difference_update(claims)


@dataclass(slots=True)
class LaunchReservation:
    """Room that is kept for one node.

    Attributes:
        exceeded: The resource whose limit leaves no room; empty if there is room.
        is_created: Whether the claim was created; set by the caller.
    """

    exceeded: str = ""
    is_created: bool = False


@dataclass(slots=True)
class _Tally:
    """What a pool uses, and how many of its orders are on their way."""

    used: dict[str, int]
    under_way: int = 0


class Launches:
    """Nodes that are being ordered, by NodePool."""

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}

    @contextmanager
    def reserve(
        self,
        pool: str,
        size: Mapping[str, int],
        limits: Mapping[str, int],
        count: Callable[[], Mapping[str, int]],
    ) -> Iterator[LaunchReservation]:
        """Keep room for one node while it is being ordered, if the limits have any.

        Args:
            pool: The NodePool.
            size: What the node takes of the limits at most.
            limits: The pool's limits, in the same units.
            count: Counts what the pool's members take; called only where no order of the pool is on its way.
        """
        tally = self._tallies.get(pool) or _Tally(dict(count()))
        order = LaunchReservation(_exceeded(tally.used, size, limits))
        if order.exceeded:
            yield order
            return
        self._tallies[pool] = tally
        tally.under_way += 1
        _add(tally.used, size, 1)
        try:
            yield order
        finally:
            tally.under_way -= 1
            if not order.is_created:
                _add(tally.used, size, -1)
            if not tally.under_way:
                del self._tallies[pool]

    def used(self, pool: str, counted: Mapping[str, int]) -> dict[str, int]:
        """Return what a pool uses with the nodes that are being ordered, given what its members take."""
        tally = self._tallies.get(pool)
        if tally is None:
            return dict(counted)
        keys = {*counted, *tally.used}
        return {key: max(counted.get(key, 0), tally.used.get(key, 0)) for key in keys}

    def pools(self) -> tuple[str, ...]:
        """Return the pools that nodes are being ordered for."""
        return tuple(self._tallies)


def _exceeded(used: Mapping[str, int], size: Mapping[str, int], limits: Mapping[str, int]) -> str:
    return next(
        (
            resource
            for resource, limit in limits.items()
            if size.get(resource, 0) > 0 and used.get(resource, 0) + size[resource] > limit
        ),
        "",
    )


def _add(used: dict[str, int], size: Mapping[str, int], sign: int) -> None:
    for resource, amount in size.items():
        used[resource] = used.get(resource, 0) + sign * amount
