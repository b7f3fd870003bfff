# SPDX-License-Identifier: Apache-2.0
"""The EC2 model's memory beyond its process: every change in the order it came, and the world made from them again.

The same options and calls give the same world, so it is enough to write down what came from outside: the calls that
could change something, as they arrived, and the admin's actions, each with its moment. A line is written before the
caller has its answer: what anybody was told survives a ``kill -9``. Reading plays the lines against a fresh world
whose clock stands where each line says. Time that passed while nobody served has passed in the model too.

Not in it, because nobody builds on it: the call log, what was counted, which messages of a queue were handed out (all
come again, as SQS may do). A last line that was cut short is dropped; any other broken line is refused by its number.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from karpenter.errors import KarpenterError
from karpenter.sandbox.ec2 import services
from karpenter.sandbox.ec2.behaviour.actions import perform
from karpenter.sandbox.ec2.behaviour.calls import Call
from karpenter.sandbox.ec2.clock import ModelClock
from karpenter.sandbox.ec2.contract import ModelError, Request
from karpenter.sandbox.ec2.front.routing import Arrived, caller_of, operation_of, parameters_of
from karpenter.sandbox.ec2.world import Options, World

__all__ = ["Hands", "Journal", "JournalError"]

_FORMAT: Final = 2
_HANDLERS: Final = services.handlers()
_HEADERS: Final = ("Content-Type", "X-Amz-Target")


class JournalError(KarpenterError):
    """A journal that cannot be read, or is of another world."""


class Hands:
    """Real seconds since 1970 that never run backwards, and can be held while a journal is read."""

    def __init__(self) -> None:
        self._held: float | None = None
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        """Gives the seconds."""
        return time.monotonic() + self._offset if self._held is None else self._held

    def hold(self, moment: float) -> None:
        """Stands still at a moment."""
        self._held = moment

    def run(self) -> None:
        """Goes on from the machine's time, or from where it was held if that is later."""
        held, self._held = self._held, None
        if held is not None:
            self._offset += max(held - self(), 0.0)


class _Head(msgspec.Struct, frozen=True, tag="head"):
    """The first line: what the world was made from."""

    format: int
    at: float
    start: datetime
    speed: float
    region: str
    cluster: str
    cluster_version: str
    bare: bool
    seed: int
    instance_profiles: tuple[str, ...] = ()
    ip_family: str = "ipv4"


class _Call(msgspec.Struct, frozen=True, tag="call"):
    """A call as it arrived; of its signature only who signed."""

    at: float
    service: str
    access_key: str
    region: str
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class _Action(msgspec.Struct, frozen=True, tag="action"):
    """An action of the admin's."""

    at: float
    name: str
    document: Any


_decoder: Final = msgspec.json.Decoder(_Head | _Call | _Action)


class Journal:
    """One file.

    Args:
        path: The file; it need not be there.
        hands: What the clock of the world runs by.
    """

    def __init__(self, path: Path, hands: Hands) -> None:
        self.path = path
        self._hands = hands
        self._file: BinaryIO | None = None

    def begin(self, world: World) -> None:
        """Forgets what was, and writes down what a fresh world was made from.

        Raises:
            JournalError: The file cannot be written.
        """
        self.close()
        options, clock = world.options, world.clock
        head = _Head(
            format=_FORMAT,
            at=self._hands(),
            start=clock.start,
            speed=clock.speed,
            region=options.region,
            cluster=options.cluster,
            cluster_version=options.cluster_version,
            bare=options.bare,
            seed=options.seed,
            instance_profiles=options.instance_profiles,
            ip_family=options.ip_family,
        )
        self._open("wb")
        self._write(head)

    def now(self) -> float:
        """Gives the moment to write down for what begins now."""
        return self._hands()

    def call(self, arrived: Arrived, call: Call, at: float) -> None:
        """Writes down a call that a handler has seen, and when that was."""
        headers = {name: arrived.headers[name] for name in _HEADERS if name in arrived.headers}
        self._write(
            _Call(
                at=at,
                service=call.service,
                access_key=call.access_key,
                region=call.region,
                method=arrived.method,
                target=arrived.target,
                headers=headers,
                body=arrived.body,
            )
        )

    def action(self, name: str, document: Any, at: float) -> None:
        """Writes down an action that was done, and when that was."""
        self._write(_Action(at=at, name=name, document=document))

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def resume(self, options: Options, make: Callable[[ModelClock], World]) -> World | None:
        """Makes the world that the file tells of, and goes on writing behind it; None if there is no file.

        Args:
            options: What the world must have been made from.
            make: Makes it fresh, with that clock.

        Raises:
            JournalError: The file cannot be read, or tells of a world with other options.
        """
        whole = self._cut_short()
        if not whole:
            return None
        lines = self._lines(whole)
        head = next(lines)
        if not isinstance(head, _Head) or head.format != _FORMAT:
            raise self._refused(1, "does not begin as a journal of this version does")
        self._check(head, options)
        self._hands.hold(head.at)
        world = make(ModelClock(head.start, speed=head.speed, real=self._hands))
        for number, line in enumerate(lines, start=2):
            if isinstance(line, _Head):
                raise self._refused(number, "begins a second time")
            self._hands.hold(line.at)
            # What was refused then is refused again.
            with contextlib.suppress(KarpenterError, ModelError):
                if isinstance(line, _Call):
                    _again(world, line)
                else:
                    perform(world, line.name, line.document)
        self._hands.run()
        self._open("ab")
        return world

    def _check(self, head: _Head, options: Options) -> None:
        for name in (
            "region",
            "cluster",
            "cluster_version",
            "ip_family",
            "bare",
            "seed",
            "instance_profiles",
        ):
            had, wanted = getattr(head, name), getattr(options, name)
            if had != wanted:
                raise JournalError(
                    f"{self.path} is of a model with {name.replace('_', ' ')} {had}, not {wanted}",
                    hint="start it with the same options, or remove the file to begin anew",
                )

    def _cut_short(self) -> bytes:
        """Gives the whole lines, and drops from the file what stands behind them."""
        try:
            found = self.path.read_bytes()
            whole = found[: found.rfind(b"\n") + 1]
            if len(whole) < len(found):
                self.path.write_bytes(whole)
        except FileNotFoundError:
            return b""
        except OSError as refused:
            raise self._unusable(refused) from refused
        return whole

    def _lines(self, whole: bytes) -> Iterator[_Head | _Call | _Action]:
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                yield _decoder.decode(line)
            except msgspec.DecodeError as broken:
                raise self._refused(number, f"cannot be read: {broken}") from broken

    def _refused(self, number: int, why: str) -> JournalError:
        return JournalError(f"{self.path}: line {number} {why}", hint="remove the file to begin anew")

    def _unusable(self, refused: OSError) -> JournalError:
        return JournalError(
            f"{self.path} cannot be used: {refused.strerror}", hint="name a file that can be read and written"
        )

    def _open(self, mode: str) -> None:
        try:
            self._file = self.path.open(mode, buffering=0)  # type: ignore[assignment]
            self.path.chmod(0o600)
        except OSError as refused:
            raise self._unusable(refused) from refused

    def _write(self, line: msgspec.Struct) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(line) + b"\n")


def _again(world: World, line: _Call) -> None:
    """Does a call again as its handler did it; what stood before the handler had let it pass."""
    signature = f"Credential={line.access_key or '-'}/0/{line.region}/{line.service}/aws4_request"
    arrived = Arrived(line.method, line.target, {**line.headers, "Authorization": signature}, line.body)
    caller = caller_of(arrived, world.region)
    operation = operation_of(caller.service, arrived)
    parameters = parameters_of(caller.service, operation, arrived)
    world.settle()
    request = Request(
        line.service, operation.name, line.access_key, line.region, "", world.clock.now(), world
    )
    _HANDLERS[line.service][operation.name](request, parameters)
