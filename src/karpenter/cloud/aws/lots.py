# SPDX-License-Identifier: Apache-2.0
"""Claims that are launched together, and what their launch is made of; values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from karpenter.cloud.aws.blueprints import Blueprint, Wish
from karpenter.cloud.aws.choice import Choice
from karpenter.cloud.aws.fleet import FleetError, LaunchTerms
from karpenter.cloud.aws.instancetypes.compatibility import PlacementGroup
from karpenter.cloud.errors import ATTEMPT_SPENT, CloudError, LaunchError
from karpenter.model.resources import Resources

__all__ = ["Order", "PreparedLaunch", "attempt_spent", "largest_requests"]


@dataclass(frozen=True)
class Order:
    """One claim's place in a batch; its name only ends up in a tag."""

    wish: Wish
    uid: str
    attempt: int
    claim_name: str = field(compare=False)


@dataclass(frozen=True)
class PreparedLaunch:
    """A launch that is ready to be sent."""

    choice: Choice
    plans: tuple[Blueprint, ...]
    names: tuple[str, ...]
    request: Mapping[str, Any]
    subnet_ids: tuple[str, ...]
    addresses: int
    group: PlacementGroup | None

    @property
    def terms(self) -> LaunchTerms:
        """What is known of every instance before EC2 answers."""
        reservations = {
            name: plan.spec.reservation_id
            for name, plan in zip(self.names, self.plans, strict=True)
            if plan.spec.reservation_id
        }
        choice = self.choice
        return LaunchTerms(choice.capacity_type, reservations, choice.tenancy, choice.partition)

    def reservation_of(self, error: FleetError) -> str:
        """Return the reservation that an error is about: there is one per type and zone."""
        return next(
            (
                offering.reservation_id
                for plan in self.plans
                for kind, offering in plan.offers
                if (kind.name, offering.zone) == (error.instance_type, error.zone)
            ),
            "",
        )


def largest_requests(orders: Iterable[Order]) -> Resources:
    """Return what suffices for the pods of any of the orders."""
    largest = Resources()
    for order in orders:
        largest = largest.largest(order.wish.requests)
    return largest


def attempt_spent(order: Order) -> CloudError:
    """Return what a claim hears whose attempt was answered without an instance."""
    return LaunchError(
        f"attempt {order.attempt} to launch {order.claim_name} was answered without an instance",
        reason=ATTEMPT_SPENT,
        hint="write the next attempt to the claim (karpenter.cloud.protocol.next_attempt), then launch again",
    )
