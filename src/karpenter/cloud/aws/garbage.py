# SPDX-License-Identifier: Apache-2.0
"""What is left over in AWS: instances without a claim, and instance profiles that nobody uses.

``cloud.leaks`` decides which instances are leaked. ``Collector`` carries it out: instances are listed before claims
are read, so that a claim cannot be missed that was written before its instance was launched.
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
from karpenter.cloud.leaks import Leak, leaks
from karpenter.cloud.protocol import Machine
from karpenter.errors import KarpenterError

__all__ = ["Collected", "Collector", "pause_s", "profiles_in_use"]

_EAGER_ROUNDS: Final = 20
_EAGER_S: Final = 10.0
_CALM_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Collected:
    """What a round of collection ended, and what it could not."""

    ended: tuple[Leak, ...] = ()
    failed: tuple[tuple[Leak, KarpenterError], ...] = ()


def pause_s(rounds: int) -> float:
    """Return how long to wait after that many rounds: often at first, because a restart is when things leak."""
    return _EAGER_S if rounds < _EAGER_ROUNDS else _CALM_S


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
