# SPDX-License-Identifier: Apache-2.0
"""Which machines nobody answers for: by the claims that exist, by who a machine may belong to, and by its age. Pure.

A machine whose claim is known to be gone waits 30 seconds. One whose owner nobody knows waits a minute, as long as a
cloud's lists may lag; and while claims older than it have no machine yet, ten minutes, because a launch for several
claims names its members only when it is settled. A second machine of a claim that has another is a leak.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.protocol import Machine

__all__ = ["OPEN_LAUNCH_S", "OWNER_GONE_S", "OWNER_UNKNOWN_S", "Leak", "Owner", "leaks"]

OWNER_GONE_S: Final = 30.0
OWNER_UNKNOWN_S: Final = 60.0
OPEN_LAUNCH_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Owner:
    """What of a NodeClaim decides whether a machine is its own.

    Attributes:
        name: The claim's name.
        uid: Its uid.
        provider_id: The machine that it has; empty if it has none yet.
        created_at: Its creation; None if that is not known, which spares more machines.
    """

    name: str
    uid: str
    provider_id: str = ""
    created_at: datetime | None = None

    @classmethod
    def of(cls, claim: NodeClaim) -> Owner:
        """Return what a claim owns."""
        meta = claim.metadata
        return cls(meta.name, meta.uid, claim.status.provider_id, meta.creation_timestamp)

    @classmethod
    def of_json(cls, claim: Mapping[str, Any]) -> Owner:
        """Return what a claim owns by its JSON, whatever else is in it."""
        metadata, status = claim.get("metadata") or {}, claim.get("status") or {}
        try:
            created_at = datetime.fromisoformat(str(metadata.get("creationTimestamp")))
        except ValueError:
            created_at = None
        return cls(
            str(metadata.get("name", "")),
            str(metadata.get("uid", "")),
            str(status.get("providerID") or ""),
            created_at,
        )


@dataclass(frozen=True, slots=True)
class Leak:
    """An instance that nobody answers for, and why we think so."""

    machine: Machine
    why: str


def leaks(
    machines: Iterable[Machine],
    claims: Sequence[Owner],
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
    by_uid = {claim.uid: claim for claim in claims}
    provided = {claim.provider_id for claim in claims}
    waiting = [claim for claim in claims if not claim.provider_id]
    found = []
    for machine in machines:
        if machine.provider_id in provided or machine.state == "shutting-down" or machine.created_at is None:
            continue
        age_s = (now - machine.created_at).total_seconds()
        owners = [by_uid[uid] for uid in possible_claims(machine) if uid in by_uid]
        if any(not owner.provider_id for owner in owners):
            continue  # a claim that has no machine yet may get this one
        grace_s, why = _grace(machine, owners, waiting, is_owner_known=bool(possible_claims(machine)))
        if age_s >= grace_s:
            found.append(Leak(machine, why))
    return tuple(found)


def _grace(
    machine: Machine, owners: Sequence[Owner], waiting: Sequence[Owner], *, is_owner_known: bool
) -> tuple[float, str]:
    if owners:
        other = owners[0]
        return OWNER_GONE_S, f"claim {other.name} has another machine, {other.provider_id}"
    if is_owner_known:
        return OWNER_GONE_S, "its claim does not exist any more"
    if any(_may_be_member(claim, machine) for claim in waiting):
        return OPEN_LAUNCH_S, "no claim took it within ten minutes of its launch"
    return OWNER_UNKNOWN_S, "no claim names it"


def _may_be_member(claim: Owner, machine: Machine) -> bool:
    made = claim.created_at
    return made is None or machine.created_at is None or made <= machine.created_at
