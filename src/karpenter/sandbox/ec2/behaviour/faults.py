# SPDX-License-Identifier: Apache-2.0
"""Faults that calls run into: errors, latency, lost requests and lost replies, by service and operation.

The first fault of each kind that matches a call applies, in the order in which they were set. A fault with ``times``
is gone when it has happened that often; one with ``probability`` throws the model's seeded dice. A lost reply is
the cruel one: the handler has done its work, and the caller sees a broken connection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Literal

import msgspec

from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["Fault", "Faults", "Struck"]

# The sentence and the status for codes that people inject most; other codes need a message of their own less.
_KNOWN: Mapping[str, tuple[str, int]] = {
    "RequestLimitExceeded": ("Request limit exceeded.", 503),
    "Throttling": ("Rate exceeded", 400),
    "ThrottlingException": ("Rate exceeded", 400),
    "InternalError": ("An internal error has occurred", 500),
    "InternalFailure": ("The request processing has failed because of an unknown error.", 500),
    "Unavailable": ("The service is unavailable. Please try again shortly.", 503),
    "ServiceUnavailable": ("The service is unavailable. Please try again shortly.", 503),
    "InsufficientInstanceCapacity": ("There is no Spot capacity available that matches your request.", 500),
    "VcpuLimitExceeded": ("You have requested more vCPU capacity than your current vCPU limit allows.", 400),
    "UnauthorizedOperation": ("You are not authorized to perform this operation.", 403),
    "ExpiredToken": ("The security token included in the request is expired", 403),
    "RequestExpired": ("Request has expired.", 400),
}


def _names(field: str) -> str:
    return "latencySeconds" if field == "latency_s" else field


class Fault(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename=_names):
    """What goes wrong with which calls; ``service`` and ``operation`` may use ``*``."""

    service: str = "*"
    operation: str = "*"
    times: int | None = None
    probability: float = 1.0
    containing: str = ""
    code: str = ""
    message: str = ""
    status: int = 0
    latency_s: float | tuple[float, float] = 0.0
    lost: Literal["", "request", "reply"] = ""

    def __post_init__(self) -> None:
        """Refuses faults that can never happen or do nothing."""
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability must be above 0 and at most 1: {self.probability}")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times must be at least 1: {self.times}")
        low, high = self.latency_range
        if not 0 <= low <= high <= 600:
            raise ValueError(f"latencySeconds must be within 0 to 600 and not fall: {self.latency_s}")
        if not (self.code or self.lost or high):
            raise ValueError("a fault needs one of code, latencySeconds, lost")
        if self.status and not 400 <= self.status <= 599:
            raise ValueError(f"status must be within 400 to 599: {self.status}")

    @property
    def latency_range(self) -> tuple[float, float]:
        """Gives the least and the most seconds of delay."""
        return self.latency_s if isinstance(self.latency_s, tuple) else (self.latency_s, self.latency_s)

    def error(self) -> ModelError:
        """Gives the refusal that this fault stands for."""
        message, status = _KNOWN.get(self.code, (f"injected fault {self.code}", 400))
        return ModelError(self.code, self.message or message, self.status or status)


class Struck(msgspec.Struct):
    """What a call runs into; empty for most."""

    error: ModelError | None = None
    latency_s: float = 0.0
    lost: Literal["", "request", "reply"] = ""


_UNHARMED = Struck()


class Faults:
    """The faults that are set, in order."""

    def __init__(self, random: Random) -> None:
        self.active: list[Fault] = []
        self.struck = 0
        self._random = random

    def add(self, fault: Fault) -> None:
        """Sets one more fault."""
        self.active.append(fault)

    def clear(self) -> None:
        """Takes all faults back."""
        self.active.clear()

    def strike(self, service: str, operation: str, parameters: Mapping[str, Any]) -> Struck:
        """Says what this call runs into, and counts down the faults that happen."""
        if not self.active:
            return _UNHARMED
        result = Struck()
        for fault in tuple(self.active):
            if not self._applies(fault, service, operation, parameters):
                continue
            happens = (
                (bool(fault.code) and result.error is None)
                or (bool(fault.lost) and not result.lost)
                or (fault.latency_range[1] > 0 and not result.latency_s)
            )
            if happens:
                self._apply(fault, result)
        return result

    def _applies(self, fault: Fault, service: str, operation: str, parameters: Mapping[str, Any]) -> bool:
        return (
            fnmatchcase(service, fault.service)
            and fnmatchcase(operation, fault.operation)
            and (not fault.containing or fault.containing in json.dumps(parameters, default=str))
            and (fault.probability >= 1 or self._random.random() < fault.probability)
        )

    def _apply(self, fault: Fault, result: Struck) -> None:
        self.struck += 1
        if fault.code and result.error is None:
            result.error = fault.error()
        result.lost = result.lost or fault.lost
        result.latency_s = result.latency_s or self._random.uniform(*fault.latency_range)
        if fault.times is not None:
            fault.times -= 1
            if not fault.times:
                self.active.remove(fault)
