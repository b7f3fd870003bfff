# SPDX-License-Identifier: Apache-2.0
"""The seam between the wire and the services: what a handler gets and what it may answer.

A handler is a plain function from a request and its parameters, in the shape and with the types that a boto3
user passes, to the answer in the shape that a boto3 user sees. It runs on the event loop's thread, never awaits
and decides by ``request.now`` alone what time it is. It refuses with ``ModelError``.

Dry runs: a handler that changes something calls ``request.stop_if_dry_run(parameters)`` after it has checked its
parameters and before it changes anything. For those that only read, the dispatcher does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from karpenter.sandbox.ec2.world import World

__all__ = ["Handler", "ModelError", "Rendered", "Request", "Signal", "Waiting"]


class ModelError(Exception):
    """A refusal as AWS words it; becomes the error document of the service's protocol."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


@dataclass(frozen=True, slots=True)
class Rendered:
    """A piece of answer that is XML already, its own element included, for lists that are asked for often.

    May stand for one member of a list, or for the whole list. ``front.serialise.render_item`` makes the text.
    """

    xml: str


@dataclass(frozen=True, slots=True)
class Request:
    """One call: who asked for what, when by the model's clock, in which world."""

    service: str
    operation: str
    access_key: str
    region: str
    request_id: str
    now: datetime
    world: World

    def stop_if_dry_run(self, parameters: Mapping[str, Any]) -> None:
        """Ends a dry run that would have succeeded.

        Raises:
            ModelError: ``DryRun`` is set.
        """
        if parameters.get("DryRun"):
            raise ModelError(
                "DryRunOperation", "Request would have succeeded, but DryRun flag is set.", status=412
            )


class Signal:
    """Wakes whoever waits for something to happen; a waiter is woken once and has to ask again."""

    def __init__(self) -> None:
        self._waiters: set[Callable[[], None]] = set()

    def add(self, wake: Callable[[], None]) -> None:
        """Asks to be woken at the next ``fire``."""
        self._waiters.add(wake)

    def discard(self, wake: Callable[[], None]) -> None:
        """Takes a request to be woken back."""
        self._waiters.discard(wake)

    def fire(self) -> None:
        """Wakes all who wait."""
        waiters, self._waiters = self._waiters, set()
        for wake in waiters:
            wake()


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing to answer yet: ask ``again`` when ``signal`` fires, and in any case after ``seconds``."""

    seconds: float
    signal: Signal
    again: Callable[[datetime], Mapping[str, Any] | None]
    otherwise: Mapping[str, Any]


Handler: TypeAlias = Callable[[Request, Mapping[str, Any]], "Mapping[str, Any] | Waiting"]
