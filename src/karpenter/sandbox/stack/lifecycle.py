# SPDX-License-Identifier: Apache-2.0
"""A sandbox as a whole: up, down, status, reset.

``up`` starts whatever of it does not run, so it also mends: ports, token and objects stay what they were, and the
programs that live notice nothing but an outage. Where all of them have ended without ``down``, killed or with the
machine, what was written down is taken up again. A new sandbox that could not be brought up is taken down again; one
that could not be mended stays as it is. ``down`` leaves no process and no port; what is in the cluster and in the
account stays on request.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

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
from karpenter.sandbox.stack.installation import CONTAINER, HEALTH_PORT, installation
from karpenter.sandbox.stack.manifests import default_pool, definitions, eks_addons, storage_class
from karpenter.sandbox.stack.pieces import FIRST, SYSTEM_NODE, Piece, pieces
from karpenter.sandbox.stack.record import Options, Record, load, save
from karpenter.sandbox.stack.replicas import Replica, are_ready, replicas

__all__ = ["DOWN", "PARTLY", "UP", "PieceStatus", "Stack", "Started", "Status"]

UP: Final = "up"
PARTLY: Final = "partly up"
DOWN: Final = "down"
# What cannot be changed once there is an account that was made from it.
_LASTING: Final = (
    "region",
    "cluster_name",
    "kubernetes_version",
    "ip_family",
    "bare",
    "instance_profiles",
)
# The model before the API: the controller gives its lease up there.
_LAST: Final = ("ec2", "kube")
_LOOK_AGAIN_S: Final = 0.05
_HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class PieceStatus:
    """How one program is; ``error`` is the last error in its log, ``lock`` the name of the file that it locks."""

    name: str
    running: bool
    pid: int
    since: datetime
    address: str
    error: str
    log: str
    lock: str

    @property
    def is_pod(self) -> bool:
        """Return whether it is a process of a pod, which its node starts again."""
        return self.lock != self.name


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


@dataclass(frozen=True, slots=True)
class Started:
    """What ``up`` did.

    Attributes:
        record: What the sandbox is now.
        names: The programs that were started.
        restored: Whether there was something to take up again, and none of its programs ran.
        lost: What should have been there and was not, in words; empty if nothing is missing.
    """

    record: Record
    names: tuple[str, ...]
    restored: bool = False
    lost: tuple[str, ...] = ()


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
        fresh: bool = False,
    ) -> Started:
        """Bring the sandbox up, or mend it.

        Args:
            options: How it is to be.
            ports: Ports that were asked for, by name; the others are free ones.
            owned: Whether its processes end with the holder of the owner's lock, see ``owning``.
            pool: Whether to apply the default NodePool.
            given: The options that were asked for and not just left at their defaults; one that runs must agree with
                these, and so must what was written down of one that does not.
            fresh: Whether to begin with nothing in it, whatever was there.

        Raises:
            StackError: A port is taken, it runs with other options, or one of its programs does not come up.
        """
        with self.home.locked():
            self.home.make()
            before = load(self.home.record)
            if before is not None and fresh:
                self._stop(before)
                before = None
            alive = self._alive(before) if before is not None else []
            lost: tuple[str, ...] = ()
            if before is None:
                self.home.empty()
                self.home.make()
                record = self._new(options, ports or {}, owned=owned)
            elif alive:
                _agree(before, options, ports or {}, given)
                record = before
            else:
                lost = self._missing()
                record = self._restored(before, options, ports or {}, given, owned=owned)
            try:
                # What people changed of an installation that is there stays, unless they ask for something else now.
                install = before is None or before.options != record.options
                names = self._start_all(record, alive, new=before is None, pool=pool, install=install)
            except BaseException:
                if before is None:
                    self._end(record, keep=record.options.keep)
                elif not alive:
                    self._stop(record)
                raise
            return Started(record, tuple(names), restored=before is not None and not alive, lost=lost)

    def down(self, *, keep: bool | None = None) -> list[str]:
        """Ends all processes and gives the names of those that ran.

        Args:
            keep: Whether what is in it stays; None does as ``up`` was told.

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
            self._start_all(record, [], new=True)
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
                    lock=name,
                )
            )
        return Status(record, (*told, *map(_replica_status, replicas(self.home))))

    def kube(self) -> KubeApi:
        """Gives the API of a sandbox that runs; raises as ``down``."""
        record = self._running()
        return KubeApi(record.server, record.token, self.home.authority)

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

    def _new(self, options: Options, ports: Mapping[str, int], *, owned: bool) -> Record:
        chosen = _choose_ports(FIRST, ports, {})
        token = secrets.token_urlsafe(24)
        return Record(name=self.home.name, options=options, token=token, ports=chosen, owned=owned)

    def _restored(
        self,
        before: Record,
        options: Options,
        ports: Mapping[str, int],
        given: Sequence[str],
        *,
        owned: bool,
    ) -> Record:
        """Return the record of a sandbox of which nothing runs, with the options that were asked for now.

        Raises:
            OtherOptionsError: One of them would need another account than the one that was written down.
        """
        changed = msgspec.structs.replace(before.options, **{name: getattr(options, name) for name in given})
        for name in _LASTING:
            had, wanted = getattr(before.options, name), getattr(changed, name)
            if had != wanted:
                raise OtherOptionsError(
                    f"the sandbox {before.name!r} was made with {_words(name)} {_shown(had)}, not {_shown(wanted)}",
                    hint=f"'karpenter sandbox down --no-keep{_named(self.home)}' removes what is in it; "
                    "or start another beside it with --name",
                )
        return Record(
            name=before.name,
            options=changed,
            token=before.token,
            ports=_choose_ports(FIRST, ports, before.ports),
            owned=owned,
        )

    def _missing(self) -> tuple[str, ...]:
        """Return what a sandbox that was up has left behind no trace of, in words."""
        kept = {"what was in the cluster": self.home.data, "what was in the account": self.home.journal}
        return tuple(what for what, path in kept.items() if not path.exists())

    def _start_all(
        self,
        record: Record,
        alive: Sequence[str],
        *,
        new: bool = False,
        pool: bool = False,
        install: bool = True,
    ) -> list[str]:
        missing = [each for each in self._programs(self.home, record) if each.name not in alive]
        for each in missing:
            for name in (each.name, f"{each.name}-metrics"):
                if name in record.ports:
                    _check_free(record.ports[name], self.home)
        begun, deadline = datetime.now(UTC), time.monotonic() + self._patience_s
        first = [each for each in missing if each.name in FIRST]
        then = [each for each in missing if each.name not in FIRST]
        for each in first:
            self._start(record, each)
        self._wait(first, deadline)
        manifests: list[dict[str, Any]] = []
        if any(each.name == "kube" for each in first):
            self._tell("installing the definitions of NodePools and the other kinds")
            manifests = [*definitions(), *([storage_class()] if new else [])]
        manifests += default_pool(record.options.cluster_name) if pool else []
        has_controller = any(each.name == SYSTEM_NODE for each in then)
        if has_controller and install:
            manifests += [
                *installation(record.options),
                *(eks_addons(record.options.ip_family) if record.options.eks_addons else []),
            ]
        if manifests:
            with contextlib.closing(KubeApi(record.server, record.token, self.home.authority)) as api:
                api.apply_all(manifests)
        for each in then:
            self._start(record, each)
        self._wait(then, deadline)
        if has_controller:
            self._tell(f"starting Karpenter ({CONTAINER})")
            with contextlib.closing(KubeApi(record.server, record.token, self.home.authority)) as api:
                self._wait_for_controller(record, api, begun, deadline)
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

    def _wait_for_controller(self, record: Record, api: KubeApi, begun: datetime, deadline: float) -> None:
        """Wait until as many replicas of the controller are ready as its Deployment wants."""
        first: dict[str, str] = {}
        while not are_ready(api, self.home, record.options.controller_namespace):
            for each in replicas(self.home):
                # What is older has ended with the sandbox, not by itself.
                is_new = each.record.started >= begun
                if is_new and (not each.running or first.setdefault(each.lock, each.log) != each.log):
                    told = children.last_words_of(each.ended_log) or "there is no error in its log"
                    raise StartError(f"{each.name} ended: {told}", hint=f"its log: {each.ended_log}")
            if self._stopped():
                raise StoppedError("stopped")
            if time.monotonic() > deadline:
                raise StartError(
                    f"not ready after {self._patience_s:g} s: {CONTAINER}",
                    hint=f"the logs are in {self.home.pod_logs}",
                )
            time.sleep(_LOOK_AGAIN_S)

    def _is_ready(self, piece: Piece) -> bool:
        if piece.probe:
            return answers(piece.probe, authority=piece.authority)
        try:
            return piece.says in self.home.log(piece.name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return False

    def _end(self, record: Record, *, keep: bool) -> list[str]:
        if keep:
            record.options = msgspec.structs.replace(record.options, keep=True)
        ended = self._stop(record)
        if not keep:
            self.home.remove()
        return ended

    def _stop(self, record: Record) -> list[str]:
        """End the processes, and leave what they wrote down for the next ``up``."""
        ended = children.stop(self.home, record.children.items(), last=_LAST)
        record.children = {}
        save(self.home.record, record)
        return ended


def _replica_status(replica: Replica) -> PieceStatus:
    words = children.error_of if replica.running else children.last_words_of
    return PieceStatus(
        name=replica.name,
        running=replica.running,
        pid=replica.record.pid,
        since=replica.record.started,
        address=replica.address(HEALTH_PORT),
        error=words(Path(replica.log)),
        log=replica.log,
        lock=replica.lock,
    )


def _named(home: Home) -> str:
    return "" if home.name == "default" else f" --name {home.name}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={text}" for name, text in value.items()) or "none"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return str(value)


def _agree(record: Record, options: Options, ports: Mapping[str, int], given: Sequence[str]) -> None:
    for name in given:
        has, wanted = getattr(record.options, name), getattr(options, name)
        if has != wanted:
            raise OtherOptionsError(
                f"the sandbox {record.name!r} is up with {_words(name)} {_shown(has)}, not {_shown(wanted)}",
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
