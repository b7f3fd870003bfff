# SPDX-License-Identifier: Apache-2.0
"""A sandbox as a whole: up, down, status, reset.

``up`` starts whatever of it does not run, so it also mends: ports, token and objects stay what they were, and the
programs that live notice nothing but an outage. A sandbox that could not be brought up is taken down again; one that
could not be mended stays as it is. ``down`` leaves no process and no port; the API's objects stay on request.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from karpenter.sandbox.stack import children
from karpenter.sandbox.stack.calls import KubeApi, Model, answers
from karpenter.sandbox.stack.errors import (
    NotUpError,
    OtherOptionsError,
    PortTakenError,
    StackError,
    StartError,
    StoppedError,
)
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.manifests import default_pool, definitions
from karpenter.sandbox.stack.pieces import FIRST, Piece, pieces, port_names
from karpenter.sandbox.stack.record import Options, Record, load, save

__all__ = ["DOWN", "PARTLY", "UP", "PieceStatus", "Stack", "Status"]

UP: Final = "up"
PARTLY: Final = "partly up"
DOWN: Final = "down"
# The model before the API: the controller gives its lease up there.
_LAST: Final = ("ec2", "kube")
_LOOK_AGAIN_S: Final = 0.05
_HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class PieceStatus:
    """How one program is; ``error`` is the last error in its log."""

    name: str
    running: bool
    pid: int
    since: datetime
    address: str
    error: str
    log: str


@dataclass(frozen=True, slots=True)
class Status:
    """How a sandbox is."""

    record: Record
    pieces: tuple[PieceStatus, ...]

    @property
    def state(self) -> str:
        """Gives one word for all: up, partly up, or down."""
        running = sum(each.running for each in self.pieces)
        if not running:
            return DOWN
        return UP if running == len(self.pieces) else PARTLY


class Stack:
    """One sandbox.

    Args:
        home: Where it lives.
        tell: Hears what is being done, a line each.
        stopped: Tells whether the user wants no more.
        patience_s: How long programs may take to come up.
        programs: What it consists of.
    """

    def __init__(
        self,
        home: Home,
        *,
        tell: Callable[[str], None] = lambda _: None,
        stopped: Callable[[], bool] = lambda: False,
        patience_s: float = 90.0,
        programs: Callable[[Home, Record], Sequence[Piece]] = pieces,
    ) -> None:
        self.home = home
        self._tell = tell
        self._stopped = stopped
        self._patience_s = patience_s
        self._programs = programs

    def up(
        self,
        options: Options,
        *,
        ports: Mapping[str, int] | None = None,
        owned: bool = False,
        pool: bool = False,
        given: Sequence[str] = (),
    ) -> tuple[Record, list[str]]:
        """Brings the sandbox up, or mends it, and gives what it is with the names of what was started.

        Args:
            options: How it is to be.
            ports: Ports that were asked for, by name; the others are free ones.
            owned: Whether its processes end with the holder of the owner's lock, see ``owning``.
            pool: Whether to apply the default NodePool.
            given: The options that were asked for and not just left at their defaults; one that runs, or was kept, must
                agree with these.

        Raises:
            StackError: A port is taken, it runs with other options, or one of its programs does not come up.
        """
        with self.home.locked():
            self.home.make()
            record = load(self.home.record)
            alive = self._alive(record) if record is not None else []
            if record is None or not alive:
                record = self._fresh(record, options, ports or {}, given, owned=owned)
            else:
                _agree(record, options, ports or {}, given)
            try:
                started = self._start_all(record, alive, pool=pool)
            except BaseException:
                if not alive:
                    self._end(record, keep=record.options.keep)
                raise
            return record, started

    def down(self, *, keep: bool | None = None) -> list[str]:
        """Ends all processes and gives the names of those that ran.

        Args:
            keep: Whether the API's objects stay; None does as ``up`` was told.

        Raises:
            NotUpError: There is no such sandbox.
        """
        with self.home.locked():
            record = self._record()
            return self._end(record, keep=record.options.keep if keep is None else keep)

    def reset(self) -> Record:
        """Begins anew with nothing in it, at the same addresses.

        Raises:
            NotUpError: There is no such sandbox.
            StackError: It does not come up again.
        """
        with self.home.locked():
            record = self._record()
            children.stop(self.home, record.children.items(), last=_LAST)
            self.home.empty()
            self.home.make()
            self._start_all(record, [], pool=False)
            return record

    def status(self) -> Status:
        """Gives how it is.

        Raises:
            NotUpError: There is no such sandbox.
        """
        record = self._record()
        addresses = {each.name: each.address for each in self._programs(self.home, record)}
        told = []
        for name, child in record.children.items():
            running = children.is_alive(self.home, name)
            words = children.last_error if running else children.last_words
            told.append(
                PieceStatus(
                    name=name,
                    running=running,
                    pid=child.pid,
                    since=child.started,
                    address=addresses.get(name, ""),
                    error=words(self.home, name),
                    log=str(self.home.log(name)),
                )
            )
        return Status(record, tuple(told))

    def kube(self) -> KubeApi:
        """Gives the API of a sandbox that runs; raises as ``down``."""
        record = self._running()
        return KubeApi(record.server, record.token)

    def model(self) -> Model:
        """Gives the EC2 model of a sandbox that runs; raises as ``down``."""
        return Model(self._running().ec2)

    @contextlib.contextmanager
    def owning(self) -> Iterator[None]:
        """Makes this process the one that the sandbox's processes end with, for the length of a block.

        Raises:
            StackError: Another process is that already.
        """
        self.home.make()
        fd = os.open(self.home.owner, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as busy:
                raise StackError(
                    f"the sandbox {self.home.name!r} runs in the foreground of another command",
                    hint="end that one, or choose another --name",
                ) from busy
            yield
        finally:
            os.close(fd)

    def _record(self) -> Record:
        record = load(self.home.record)
        if record is None:
            raise NotUpError(
                f"there is no sandbox {self.home.name!r}", hint=f"karpenter sandbox up{_named(self.home)}"
            )
        return record

    def _running(self) -> Record:
        record = self._record()
        if not self._alive(record):
            raise NotUpError(
                f"the sandbox {self.home.name!r} is down", hint=f"karpenter sandbox up{_named(self.home)}"
            )
        return record

    def _alive(self, record: Record) -> list[str]:
        return [name for name in record.children if children.is_alive(self.home, name)]

    def _fresh(
        self,
        before: Record | None,
        options: Options,
        ports: Mapping[str, int],
        given: Sequence[str],
        *,
        owned: bool,
    ) -> Record:
        """Gives the record of a sandbox that does not run: a new one, or what was kept, brought up to date."""
        if before is None or not before.options.keep:
            self.home.empty()
            self.home.make()
        else:
            told = {name: getattr(options, name) for name in given}
            options = msgspec.structs.replace(before.options, **told)
        kept = before.ports if before is not None and options.keep else {}
        chosen = _choose_ports(port_names(options), ports, kept)
        token = before.token if before is not None and options.keep else secrets.token_urlsafe(24)
        return Record(name=self.home.name, options=options, token=token, ports=chosen, owned=owned)

    def _start_all(self, record: Record, alive: Sequence[str], *, pool: bool) -> list[str]:
        missing = [each for each in self._programs(self.home, record) if each.name not in alive]
        for each in missing:
            for name in (each.name, f"{each.name}-metrics"):
                if name in record.ports:
                    _check_free(record.ports[name], self.home)
        deadline = time.monotonic() + self._patience_s
        first = [each for each in missing if each.name in FIRST]
        then = [each for each in missing if each.name not in FIRST]
        for each in first:
            self._start(record, each)
        self._wait(first, deadline)
        with contextlib.closing(KubeApi(record.server, record.token)) as api:
            if any(each.name == "kube" for each in first):
                self._tell("installing the definitions of NodePools and the other kinds")
                api.apply_all(definitions())
            if pool:
                api.apply_all(default_pool())
        for each in then:
            self._start(record, each)
        self._wait(then, deadline)
        return [each.name for each in missing]

    def _start(self, record: Record, piece: Piece) -> None:
        self._tell(f"starting {piece.about} ({piece.name})")
        options = record.options
        record.children[piece.name] = children.start(
            self.home, piece, owned=record.owned, life_s=options.life_s
        )
        # At once: whatever becomes of this command, the next one knows of the process.
        save(self.home.record, record)

    def _wait(self, started: Sequence[Piece], deadline: float) -> None:
        waiting = list(started)
        while waiting:
            waiting = [each for each in waiting if not self._is_ready(each)]
            for each in waiting:
                if not children.is_alive(self.home, each.name):
                    told = children.last_words(self.home, each.name) or "there is no error in its log"
                    raise StartError(
                        f"{each.name} ended: {told}",
                        hint=f"its log: {self.home.log(each.name)}",
                    )
            if self._stopped():
                raise StoppedError("stopped")
            if waiting and time.monotonic() > deadline:
                names = ", ".join(each.name for each in waiting)
                raise StartError(
                    f"not ready after {self._patience_s:g} s: {names}",
                    hint=f"the logs are in {self.home.log(waiting[0].name).parent}",
                )
            if waiting:
                time.sleep(_LOOK_AGAIN_S)

    def _is_ready(self, piece: Piece) -> bool:
        if piece.probe:
            return answers(piece.probe)
        try:
            return piece.says in self.home.log(piece.name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return False

    def _end(self, record: Record, *, keep: bool) -> list[str]:
        ended = children.stop(self.home, record.children.items(), last=_LAST)
        if keep:
            record.children = {}
            record.options = msgspec.structs.replace(record.options, keep=True)
            save(self.home.record, record)
        else:
            self.home.remove()
        return ended


def _named(home: Home) -> str:
    return "" if home.name == "default" else f" --name {home.name}"


def _agree(record: Record, options: Options, ports: Mapping[str, int], given: Sequence[str]) -> None:
    for name in given:
        has, wanted = getattr(record.options, name), getattr(options, name)
        if has != wanted:
            raise OtherOptionsError(
                f"the sandbox {record.name!r} is up with {name} {has}, not {wanted}",
                hint="take it down first, or start another beside it with --name",
            )
    for name, port in ports.items():
        if record.ports.get(name) != port:
            raise OtherOptionsError(
                f"the sandbox {record.name!r} is up with {name} on port {record.ports.get(name)}, not {port}",
                hint="take it down first, or start another beside it with --name",
            )


def _choose_ports(names: Sequence[str], given: Mapping[str, int], kept: Mapping[str, int]) -> dict[str, int]:
    """Gives a port for each name: the one asked for, else the one it had if that is free, else a free one."""
    chosen = {}
    with contextlib.ExitStack() as held:
        for name in names:
            if name in given:
                chosen[name] = given[name]
                continue
            # All stay bound until every one is found, so that no two get the same.
            held_socket = held.enter_context(socket.socket())
            held_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                held_socket.bind((_HOST, kept.get(name, 0)))
            except OSError:
                held_socket.bind((_HOST, 0))
            chosen[name] = held_socket.getsockname()[1]
    return chosen


def _check_free(port: int, home: Home) -> None:
    with socket.socket() as probe:
        # As servers do it: connections of a process that has just ended are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
            probe.listen()
        except OSError as taken:
            raise PortTakenError(
                f"port {port} of {_HOST} is in use by another program",
                hint=f"leave the port out for a free one, or 'karpenter sandbox down{_named(home)}' first",
            ) from taken
