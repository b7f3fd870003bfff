# SPDX-License-Identifier: Apache-2.0
"""What the EC2 actions ask of the rest of the model: a clock, an event bus, instance profiles, and how to fail.

Only shapes are named here, so that the actions can be called as plain Python: a test hands over a clock that
stands still, a list as bus and a dictionary of profiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["Bus", "Clock", "Params", "Profile", "ProfileFinder", "invalid", "missing", "stop_if_dry_run"]

Params = Mapping[str, Any]


class Clock(Protocol):
    """The model's time."""

    def now(self) -> datetime:
        """Gives the model's time of day, in UTC and carrying its zone."""
        ...


class Bus(Protocol):
    """Where events go that EventBridge would carry."""

    def publish(
        self,
        source: str,
        detail_type: str,
        detail: Mapping[str, Any],
        resources: Iterable[str] = (),
        time: datetime | None = None,
    ) -> object:
        """Hands one event to whoever has a rule for it; ``time`` is when it happened."""
        ...


class Profile(NamedTuple):
    """An instance profile as an instance shows it."""

    arn: str
    id: str


ProfileFinder = Callable[[str], Profile | None]
"""Finds an instance profile by its name or ARN; None when IAM has none."""


def stop_if_dry_run(params: Params) -> None:
    """Ends a dry run that would have succeeded.

    Raises:
        ModelError: ``DryRun`` is set.
    """
    if params.get("DryRun"):
        raise ModelError(
            "DryRunOperation", "Request would have succeeded, but DryRun flag is set.", status=412
        )


def missing(parameter: str) -> ModelError:
    """Builds the refusal for a parameter that was left out."""
    return ModelError("MissingParameter", f"The request must contain the parameter {parameter}")


def invalid(value: object, parameter: str, why: str = "") -> ModelError:
    """Builds the refusal for a value that a parameter cannot take."""
    text = f"Value ({value}) for parameter {parameter} is invalid."
    return ModelError("InvalidParameterValue", f"{text} {why}".rstrip())
