# SPDX-License-Identifier: Apache-2.0
"""What is left over in AWS: instances without a claim, launch templates and instance profiles that nobody uses.

``leaks`` decides which instances are leaked, purely: by the claims that exist, by who an instance may belong to, and
by its age. An instance whose claim is known to be gone waits 30 seconds. One whose owner nobody knows waits a minute,
as long as EC2's lists may lag; and while claims older than it have no machine yet, ten minutes, because a launch
for several claims names its members only when it is settled. A second instance of a claim that has another is a leak.

``Collector`` carries it out: instances are listed before claims are read, so that a claim cannot be missed that was
written before its instance was launched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.cloud.protocol import Machine
from karpenter.errors import KarpenterError

__all__ = [
    "OPEN_LAUNCH_S",
    "OWNER_GONE_S",
    "OWNER_UNKNOWN_S",
    "Collected",
    "Collector",
    "Leak",
    "leaks",
    "pause_s",
    "profiles_in_use",
]

OWNER_GONE_S: Final = 30.0
OWNER_UNKNOWN_S: Final = 60.0
OPEN_LAUNCH_S: Final = 600.0

_EAGER_ROUNDS: Final = 20
_EAGER_S: Final = 10.0
_CALM_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Leak:
    """An instance that nobody answers for, and why we think so."""

    machine: Machine
    why: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What a round of collection ended, and what it could not."""

    ended: tuple[Leak, ...] = ()
    failed: tuple[tuple[Leak, KarpenterError], ...] = ()


def pause_s(rounds: int) -> float:
    """Return how long to wait after that many rounds: often at first, because a restart is when things leak."""
    return _EAGER_S if rounds < _EAGER_ROUNDS else _CALM_S


def leaks(
    machines: Iterable[Machine],
    claims: Sequence[NodeClaim],
    now: datetime,
    possible_claims: Callable[[Machine], Collection[str]],
) -> tuple[Leak, ...]:
    """Return the machines that nobody answers for, in the order given.

    Args:
        machines: Every machine of the cluster.
        claims: Every claim, read after the machines were listed.
        now: The time of day.
        possible_claims: Gives the UIDs of the claims that a machine may belong to.
    """
    by_uid = {claim.metadata.uid: claim for claim in claims}
    provided = {claim.status.provider_id for claim in claims}
    waiting = [claim for claim in claims if not claim.status.provider_id]
    found = []
    for machine in machines:
        if machine.provider_id in provided or machine.state == "shutting-down" or machine.created_at is None:
            continue
        age_s = (now - machine.created_at).total_seconds()
        owners = [by_uid[uid] for uid in possible_claims(machine) if uid in by_uid]
        if any(not owner.status.provider_id for owner in owners):
            continue  # a claim that has no machine yet may get this one
        grace_s, why = _grace(machine, owners, waiting, is_owner_known=bool(possible_claims(machine)))
        if age_s >= grace_s:
            found.append(Leak(machine, why))
    return tuple(found)


def _grace(
    machine: Machine, owners: Sequence[NodeClaim], waiting: Sequence[NodeClaim], *, is_owner_known: bool
) -> tuple[float, str]:
    if owners:
        other = owners[0]
        return OWNER_GONE_S, f"claim {other.metadata.name} has another machine, {other.status.provider_id}"
    if is_owner_known:
        return OWNER_GONE_S, "its claim does not exist any more"
    if any(_may_be_member(claim, machine) for claim in waiting):
        return OPEN_LAUNCH_S, "no claim took it within ten minutes of its launch"
    return OWNER_UNKNOWN_S, "no claim names it"


def _may_be_member(claim: NodeClaim, machine: Machine) -> bool:
    made = claim.metadata.creation_timestamp
    return made is None or machine.created_at is None or made <= machine.created_at


def profiles_in_use(node_classes: Iterable[EC2NodeClass], claims: Iterable[NodeClaim]) -> frozenset[str]:
    """Return every instance profile that a node class or a claim names."""
    named = [
        name for each in node_classes for name in (each.status.instance_profile, each.spec.instance_profile)
    ]
    named += [claim.metadata.annotations.get(labels.INSTANCE_PROFILE_NAME, "") for claim in claims]
    return frozenset(filter(None, named))


class Collector:
    """Ends leaked instances."""

    def __init__(
        self,
        *,
        list_machines: Callable[[], Awaitable[Sequence[Machine]]],
        list_claims: Callable[[], Awaitable[Sequence[NodeClaim]]],
        possible_claims: Callable[[Machine], Collection[str]],
        delete: Callable[[str], Awaitable[None]],
        now: Callable[[], datetime],
    ) -> None:
        """Takes what it asks and orders.

        Args:
            list_machines: Lists the machines of the cluster.
            list_claims: Reads all claims from the API server, past every cache.
            possible_claims: Gives the UIDs of the claims that a machine may belong to.
            delete: Orders a machine to be terminated, by provider id.
            now: The time of day.
        """
        self._list_machines = list_machines
        self._list_claims = list_claims
        self._possible_claims = possible_claims
        self._delete = delete
        self._now = now

    async def collect(self) -> Collected:
        """End what is leaked; one that cannot be ended stops no other, and is tried at the next round.

        Raises:
            KarpenterError: Machines or claims could not be listed; then nothing is ended.
        """
        machines = await self._list_machines()
        claims = await self._list_claims()
        ended: list[Leak] = []
        failed: list[tuple[Leak, KarpenterError]] = []
        for leak in leaks(machines, claims, self._now(), self._possible_claims):
            try:
                await self._delete(leak.machine.provider_id)
            except NodeClaimNotFoundError:
                ended.append(leak)
            except KarpenterError as error:
                failed.append((leak, error))
            else:
                ended.append(leak)
        return Collected(tuple(ended), tuple(failed))
