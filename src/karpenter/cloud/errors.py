# SPDX-License-Identifier: Apache-2.0
"""The failures of a cloud that a caller acts on, each with what the caller needs to act.

::

    CloudError
      NodeClaimNotFoundError      the instance is gone (or was never there): drop the claim, its node is no more
      InsufficientCapacityError   nothing that fits can be bought now: plan anew without these offerings
      NodeClassNotReadyError      the node class cannot be launched from: wait for its condition
      LaunchError                 the cloud refused for a cause that a person must remove; ``reason`` names it
      LaunchPendingError          an earlier launch may still come to light: ask again after ``retry_after_s``
      TerminationRefusedError     the cloud will not end an instance until a person acts; it runs and costs on

What the network or the cloud's own trouble causes is not here: that is for the cloud's client to retry, and comes
up as an error of its own once its deadline has passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from karpenter.errors import KarpenterError

__all__ = [
    "ATTEMPT_SPENT",
    "LAUNCH_FAILED",
    "CloudError",
    "InsufficientCapacityError",
    "LaunchError",
    "LaunchPendingError",
    "NodeClaimNotFoundError",
    "NodeClassNotReadyError",
    "SoldOut",
    "TerminationRefusedError",
]

# Reasons that are not one cloud's own; the rest are in that cloud's table of codes.
LAUNCH_FAILED: Final = "LaunchFailed"
ATTEMPT_SPENT: Final = "AttemptSpent"


class CloudError(KarpenterError):
    """Any failure of a cloud that a caller can do something about."""


class NodeClaimNotFoundError(CloudError):
    """The cloud knows no living instance of the claim.

    Attributes:
        provider_id: Which one.
        has_ended: Whether the cloud says that it ended; if not, it may be so new that the cloud's lists lack it.
    """

    def __init__(self, provider_id: str, *, hint: str = "", has_ended: bool = False) -> None:
        super().__init__(
            f"{provider_id}: no such instance, or it is being terminated",
            hint=hint or "the claim and its node can be removed; nothing runs for them any more",
        )
        self.provider_id = provider_id
        self.has_ended = has_ended


@dataclass(frozen=True, slots=True)
class SoldOut:
    """An offering that could not be bought, and what the cloud said about it."""

    instance_type: str
    zone: str
    capacity_type: str
    code: str = ""


class InsufficientCapacityError(CloudError):
    """Nothing that meets the claim can be bought at this moment."""

    def __init__(self, message: str, *, offerings: tuple[SoldOut, ...] = (), hint: str = "") -> None:
        super().__init__(
            message,
            hint=hint or "other offerings are tried next; allow more types or zones to lower the odds",
        )
        self.offerings = offerings


class NodeClassNotReadyError(CloudError):
    """The node class is not ready to be launched from, for a reason that its conditions tell.

    Attributes:
        is_undecided: Whether its conditions do not tell yet, and will soon.
    """

    def __init__(
        self, node_class: str, reason: str, message: str, *, hint: str = "", is_undecided: bool = False
    ) -> None:
        super().__init__(
            f"node class {node_class} is not ready: {message}",
            hint=hint or f"see the conditions of {node_class}; launches go on when it is Ready",
        )
        self.node_class = node_class
        self.reason = reason
        self.is_undecided = is_undecided


class LaunchError(CloudError):
    """A launch that the cloud refused; trying again unchanged would fail again."""

    def __init__(self, message: str, *, reason: str = LAUNCH_FAILED, code: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.code = code


class LaunchPendingError(CloudError):
    """A launch of this claim was accepted before, and its instance cannot be seen yet."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(
            message, hint=f"ask again in {retry_after_s:g} s; launching now could make a second node"
        )
        self.retry_after_s = retry_after_s


class TerminationRefusedError(CloudError):
    """An instance that the cloud refuses to end.

    Attributes:
        provider_id: Which one.
        action: What is not allowed, e.g. ``ec2:TerminateInstances``.
        resource: On what, as the cloud names it.
        code: The cloud's own code.
    """

    def __init__(self, provider_id: str, *, action: str, resource: str, code: str, hint: str = "") -> None:
        super().__init__(f"{action} on {resource} is refused ({code}): {provider_id} runs on", hint=hint)
        self.provider_id = provider_id
        self.action = action
        self.resource = resource
        self.code = code
