# SPDX-License-Identifier: Apache-2.0
"""Keeps a store across restarts: a snapshot, and a log of every write since.

The snapshot is replaced as a whole, never written over; a log line that a crash cut short is left out when the state
is read, and nothing after it can exist. A directory serves one process at a time.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from karpenter.errors import KarpenterError
from karpenter.sandbox.kube.storage.store import Change, Store

__all__ = ["Keeper", "StateError"]

_SNAPSHOT: Final = "snapshot.json"
_LOG: Final = "log.jsonl"
_LOCK: Final = "lock"
# A log this long is folded into a new snapshot.
_LONGEST_LOG: Final = 50_000


class StateError(KarpenterError):
    """A state directory that cannot be used."""


class Keeper:
    """Writes down what happens to a store.

    Args:
        directory: Where; it is made if it is not there.
        store: What to keep; it takes over what the directory holds.

    Raises:
        StateError: the directory is in use, or what it holds cannot be read.
    """

    def __init__(self, directory: Path, store: Store) -> None:
        self._directory = directory
        self._store = store
        self._lines = 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock: IO[str] = (directory / _LOCK).open("a", encoding="utf-8")
        except OSError as error:
            raise StateError(
                f"{directory} cannot hold the state: {error.strerror}",
                hint="choose another --state directory",
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise StateError(
                f"the state in {directory} is in use by another sandbox",
                hint="stop it first, or choose another --state directory",
            ) from error
        try:
            self._load()
        except StateError:
            self._lock.close()
            raise
        self._log: IO[bytes] = (directory / _LOG).open("ab")
        self.snapshot()
        store.listeners.append(self._heard)

    def snapshot(self) -> None:
        """Writes everything down and begins a new log."""
        fresh = self._directory / f"{_SNAPSHOT}.new"
        with fresh.open("wb") as file:
            file.write(msgspec.json.encode(self._store.dump()))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._directory / _SNAPSHOT)
        self._log.close()
        self._log = (self._directory / _LOG).open("wb")
        self._lines = 0

    def close(self) -> None:
        """Writes everything down and lets the directory go."""
        self._store.listeners.remove(self._heard)
        self.snapshot()
        self._log.close()
        self._lock.close()

    def _heard(self, change: Change) -> None:
        line = {"kind": change.kind, "deleted": change.deleted, "object": change.new.obj}
        self._log.write(msgspec.json.encode(line) + b"\n")
        self._log.flush()
        self._lines += 1
        if self._lines >= _LONGEST_LOG:
            self.snapshot()

    def _load(self) -> None:
        snapshot = self._directory / _SNAPSHOT
        try:
            if snapshot.exists():
                self._store.load(msgspec.json.decode(snapshot.read_bytes()))
        except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"{snapshot} cannot be read: {error}", hint="move it away to begin with an empty cluster"
            ) from error
        log = self._directory / _LOG
        if not log.exists():
            return
        for line in log.read_bytes().splitlines():
            try:
                told: dict[str, Any] = msgspec.json.decode(line)
            except msgspec.DecodeError:
                # Cut short by a crash: the last write was never answered.
                break
            if int(told["object"]["metadata"]["resourceVersion"]) > self._store.revision:
                self._store.replay(told["kind"], told["object"], deleted=told["deleted"])
