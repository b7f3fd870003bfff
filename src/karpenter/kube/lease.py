# SPDX-License-Identifier: Apache-2.0
"""One leader among the replicas, by a Lease, with client-go's rules and timings.

A replica that does not lead watches how the lease changes and counts by its own clock since it last saw a
change: clocks of machines may differ. When nothing has changed for the lease's duration, it takes over; the
resource version makes sure that only one of two succeeds. The leader renews every ``retry_s``; if it has not
managed to for ``renew_deadline_s`` it stops leading before anyone else can begin.

``check`` is the fence: every write of the product passes it. It looks at the clock and not at a flag, so a
process that was stopped and resumed finds out before it writes, even if its renewing task has not run yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from karpenter.api.core import Lease
from karpenter.kit.clock import Clock, SystemClock, within
from karpenter.kube.client import Client
from karpenter.kube.errors import AlreadyExistsError, ConflictError, FencedError, KubeError, NotFoundError
from karpenter.kube.kinds import LEASES

__all__ = ["Elector", "LeaseTimes"]


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lasts, when its holder gives up, how often it is tried."""

    duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration_s > self.renew_deadline_s > self.retry_s > 0:
            raise ValueError(
                f"{self}: the duration must be longer than the deadline, that longer than a retry"
            )


_TIMES: Final = LeaseTimes()


class Elector:
    """Takes part in the election; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        times: LeaseTimes = _TIMES,
        on_change: Callable[[bool], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.identity = identity
        self._client = client
        self._name = name
        self._namespace = namespace
        self._times = times
        self._on_change = on_change
        self._clock = clock or SystemClock()
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._renewed_at: float | None = None
        self._led = False
        self._leading = asyncio.Event()
        self._lost = asyncio.Event()

    @property
    def is_leader(self) -> bool:
        """Tells whether this replica may act now, by the clock."""
        if self._renewed_at is None:
            return False
        return self._clock.monotonic() - self._renewed_at < self._times.renew_deadline_s

    @property
    def leader(self) -> str:
        """Names who holds the lease, as far as we have seen; empty for nobody."""
        return (self._seen.spec.holder_identity or "") if self._seen else ""

    def check(self) -> None:
        """Lets a leader pass.

        Raises:
            FencedError: This replica does not lead.
        """
        if not self.is_leader:
            raise FencedError(
                f"{self.identity} does not hold the lease {self._namespace}/{self._name}; "
                f"{self.leader or 'nobody'} does",
                hint="the replica that leads does the work; this one waits",
            )

    async def wait_leading(self) -> None:
        """Waits until this replica leads."""
        await self._leading.wait()

    async def wait_lost(self) -> None:
        """Waits until this replica no longer leads."""
        await self._lost.wait()

    async def run(self) -> None:
        """Stands for election and renews, until cancelled."""
        while True:
            # The fence looks at the clock: not renewing is enough to lose it in time.
            with contextlib.suppress(KubeError, TimeoutError):
                await within(self._clock, self._times.renew_deadline_s, self._step())
            self._announce()
            await self._clock.sleep(self._times.retry_s)
            self._announce()

    async def release(self) -> None:
        """Gives the lease up, so that another replica need not wait for it to run out."""
        if not self.is_leader or self._seen is None:
            return
        self._renewed_at = None
        self._announce()
        change = self._change(self._seen, holder="", duration_s=1)
        self._seen = await self._client.patch(LEASES, self._name, change, self._namespace)

    async def _step(self) -> None:
        """Looks at the lease and takes or renews it if that is ours to do."""
        started = self._clock.monotonic()
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFoundError:
            await self._create(started)
            return
        self._note(lease)
        if (
            lease.spec.holder_identity
            and lease.spec.holder_identity != self.identity
            and not self._has_run_out()
        ):
            self._renewed_at = None
            return
        try:
            renewed = await self._client.patch(
                LEASES, self._name, self._change(lease, holder=self.identity), self._namespace
            )
        except ConflictError:
            # Another replica was faster.
            self._renewed_at = None
            return
        self._note(renewed)
        self._renewed_at = started

    async def _create(self, started: float) -> None:
        stamp = _micro_time(self._clock.now())
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self._times.duration_s),
            "acquireTime": stamp,
            "renewTime": stamp,
            "leaseTransitions": 0,
        }
        manifest = {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": spec}
        try:
            self._note(await self._client.create(LEASES, manifest, self._namespace))
        except AlreadyExistsError:
            return
        self._renewed_at = started

    def _change(self, lease: Lease, *, holder: str, duration_s: float | None = None) -> dict[str, object]:
        stamp = _micro_time(self._clock.now())
        spec: dict[str, object] = {
            "holderIdentity": holder,
            "leaseDurationSeconds": round(duration_s or self._times.duration_s),
            "renewTime": stamp,
        }
        if holder != lease.spec.holder_identity:
            spec["acquireTime"] = stamp
            spec["leaseTransitions"] = (lease.spec.lease_transitions or 0) + (1 if holder else 0)
        # The version makes this a compare-and-set: whoever read an older lease is refused.
        return {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}

    def _note(self, lease: Lease) -> None:
        if self._seen is None or lease.metadata.resource_version != self._seen.metadata.resource_version:
            self._seen = lease
            self._seen_at = self._clock.monotonic()

    def _has_run_out(self) -> bool:
        duration_s = (
            self._seen.spec.lease_duration_seconds if self._seen else None
        ) or self._times.duration_s
        return self._clock.monotonic() - self._seen_at >= duration_s

    def _announce(self) -> None:
        leads = self.is_leader
        if leads == self._led:
            return
        self._led = leads
        (self._leading if leads else self._lost).set()
        (self._lost if leads else self._leading).clear()
        if self._on_change is not None:
            self._on_change(leads)


def _micro_time(stamp: datetime) -> str:
    return stamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
