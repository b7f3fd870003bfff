# SPDX-License-Identifier: Apache-2.0
"""Whether a message of the queue fits the instances that it names.

A message can be forged by whatever may write into the queue, so it is not obeyed on its word alone. Spot warnings and
recommendations fit spot instances, and the end of a capacity reservation fits the instances in it: the NodeClaim says
which they are. A change of state and a scheduled change are compared with what EC2 itself says of the instance.
EC2's lists lag behind its events, so a message that EC2 contradicts deserves a second look before it is refused.
Instances without a NodeClaim are of no concern here and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from karpenter.api import labels
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.api import Aws
from karpenter.cloud.aws.batching import Batcher
from karpenter.cloud.aws.instances import Instances
from karpenter.cloud.aws.interruption.health import scheduled_events
from karpenter.cloud.aws.interruption.messages import Interruption, InterruptionKind
from karpenter.kit.clock import Clock

__all__ = ["Misfit", "Verdict", "Verifier"]

_OF_SPOT: Final = frozenset({InterruptionKind.SPOT_INTERRUPTED, InterruptionKind.REBALANCE_RECOMMENDATION})
_OF_STATE: Final = frozenset({InterruptionKind.INSTANCE_STOPPED, InterruptionKind.INSTANCE_TERMINATED})


class Misfit(StrEnum):
    """Why a message does not fit an instance."""

    NOT_SPOT = "not_spot"
    OTHER_RESERVATION = "other_reservation"
    INSTANCE_RUNNING = "instance_running"
    NO_SCHEDULED_EVENT = "no_scheduled_event"

    @property
    def is_final(self) -> bool:
        """Whether another look at EC2 cannot come to another answer."""
        return self in {Misfit.NOT_SPOT, Misfit.OTHER_RESERVATION}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which instances of a message it fits, and why it does not fit the others of ours."""

    fits: tuple[str, ...]
    misfits: Mapping[str, Misfit] = field(default_factory=dict)


class Verifier:
    """Compares messages with NodeClaims and with EC2."""

    def __init__(
        self,
        aws: Aws,
        clock: Clock,
        *,
        instances: Instances,
        claims_of: Callable[[str], Sequence[NodeClaim]],
    ) -> None:
        """Make no call yet.

        Args:
            aws: Is asked for scheduled events.
            clock: Counts how long questions are gathered for one call.
            instances: Is asked for the state of instances.
            claims_of: Gives the NodeClaims of an instance.
        """
        self._aws = aws
        self._instances = instances
        self._claims_of = claims_of
        self._events: Batcher[str, bool] = Batcher(
            clock, self._scheduled, idle_s=0.1, max_s=1.0, max_items=10_000
        )

    async def verify(self, interruption: Interruption) -> Verdict:
        """Return which instances an interruption fits.

        Raises:
            AwsError: EC2 refuses to say.
            AwsUnreachableError: EC2 did not answer.
        """
        fits: list[str] = []
        misfits: dict[str, Misfit] = {}
        for instance_id in interruption.instance_ids:
            claims = self._claims_of(instance_id)
            if not claims:
                continue
            misfit = await self._misfit(interruption, instance_id, claims[0])
            if misfit is None:
                fits.append(instance_id)
            else:
                misfits[instance_id] = misfit
        return Verdict(tuple(fits), misfits)

    async def _misfit(self, interruption: Interruption, instance_id: str, claim: NodeClaim) -> Misfit | None:
        kind = interruption.kind
        if claim.metadata.deletion_timestamp is not None:
            # It goes already, so nothing can be lost; and its own end is no news to ask EC2 about.
            return None
        if kind in _OF_SPOT:
            return None if await self._is_spot(instance_id, claim) else Misfit.NOT_SPOT
        if kind is InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED:
            own = claim.metadata.labels.get(labels.CAPACITY_RESERVATION_ID, "")
            is_own = bool(own) and own == interruption.reservation_id
            return None if is_own else Misfit.OTHER_RESERVATION
        if kind in _OF_STATE:
            found = await self._instances.get(instance_id, cached=False)
            return Misfit.INSTANCE_RUNNING if found is not None and found.is_living else None
        return None if await self._events.ask(instance_id) else Misfit.NO_SCHEDULED_EVENT

    async def _is_spot(self, instance_id: str, claim: NodeClaim) -> bool:
        told = claim.metadata.labels.get(labels.CAPACITY_TYPE, "")
        if told:
            return told == labels.SPOT
        found = await self._instances.get(instance_id)
        return found is not None and found.capacity_type == labels.SPOT

    async def _scheduled(self, instance_ids: tuple[str, ...]) -> Mapping[str, bool]:
        events = await scheduled_events(self._aws)
        return {each: True for each in instance_ids if each in events}
