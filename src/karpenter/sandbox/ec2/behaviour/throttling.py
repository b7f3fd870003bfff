# SPDX-License-Identifier: Apache-2.0
"""Token buckets that EC2 calls draw from, per account, as EC2 publishes them.

Every call takes one token of its group's request bucket; a launch also takes one token per instance from the
resource bucket. An empty bucket refuses with RequestLimitExceeded. Buckets fill by model time, or by real time where
that is faster, so that a model whose clock stands still does not throttle for ever. A call refused for want of
instance tokens has spent its request token, as with EC2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["Bucket", "Limits", "Rate", "Throttle", "is_mutating"]

_READING = ("Describe", "Get", "List", "Search", "Receive", "AssumeRole", "Simulate", "Test")
_LAUNCHES = frozenset({"RunInstances", "CreateFleet"})


def is_mutating(operation: str) -> bool:
    """Tells whether an operation changes something that a person would ask about.

    ReceiveMessage hides messages for a while and AssumeRole hands out keys; neither counts.
    """
    return not operation.startswith(_READING)


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A bucket's size and how many tokens flow in each second."""

    per_second: float
    burst: float

    def __post_init__(self) -> None:
        """Refuses buckets that never fill or hold nothing."""
        if self.per_second <= 0 or self.burst < 1:
            raise ValueError(
                f"perSecond must be above 0 and burst at least 1: {self.per_second}, {self.burst}"
            )


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The request buckets of EC2 and the bucket of instances that launches draw from."""

    enabled: bool = True
    reads: Rate = Rate(20, 100)
    writes: Rate = Rate(5, 50)
    launches: Rate = Rate(2, 5)
    terminations: Rate = Rate(5, 100)
    tags: Rate = Rate(10, 100)
    instances: Rate = Rate(2, 1000)


class Bucket:
    """Tokens that flow in at a rate up to a limit."""

    def __init__(self, rate: Rate, seconds: Callable[[], float]) -> None:
        self.rate = rate
        self._seconds = seconds
        self._tokens = rate.burst
        self._at = seconds()

    def take(self, tokens: float = 1) -> bool:
        """Takes that many tokens if they are there, else none."""
        now = self._seconds()
        self._tokens = min(self.rate.burst, self._tokens + (now - self._at) * self.rate.per_second)
        self._at = now
        if self._tokens < tokens:
            return False
        self._tokens -= tokens
        return True


class Throttle:
    """The buckets of each account; ``seconds`` is the time they fill by."""

    def __init__(self, limits: Limits, model_seconds: Callable[[], float]) -> None:
        self._model_seconds = model_seconds
        self._real_start = time.monotonic()
        self._model_start = model_seconds()
        self.throttled = 0
        self.set(limits)

    def set(self, limits: Limits) -> None:
        """Takes other limits and starts with full buckets."""
        self.limits = limits
        self._buckets: dict[str, Bucket] = {}

    def check(self, service: str, operation: str, parameters: Mapping[str, Any]) -> None:
        """Lets a call pass or refuses it.

        Raises:
            ModelError: A bucket is empty.
        """
        if service != "ec2" or not self.limits.enabled:
            return
        wanted = _instances(parameters) if operation in _LAUNCHES and not parameters.get("DryRun") else 0
        if not self._bucket(_group(operation)).take() or (
            wanted and not self._bucket("instances").take(wanted)
        ):
            self.throttled += 1
            raise ModelError("RequestLimitExceeded", "Request limit exceeded.", status=503)

    def _bucket(self, group: str) -> Bucket:
        found = self._buckets.get(group)
        if found is None:
            found = self._buckets[group] = Bucket(getattr(self.limits, group), self._seconds)
        return found

    def _seconds(self) -> float:
        return max(time.monotonic() - self._real_start, self._model_seconds() - self._model_start)


def _group(operation: str) -> str:
    if operation in _LAUNCHES:
        return "launches"
    if operation == "TerminateInstances":
        return "terminations"
    if operation == "CreateTags":
        return "tags"
    return "writes" if is_mutating(operation) else "reads"


def _instances(parameters: Mapping[str, Any]) -> float:
    if "TargetCapacitySpecification" in parameters:
        return float(parameters["TargetCapacitySpecification"].get("TotalTargetCapacity", 1))
    return float(parameters.get("MaxCount", 1))
