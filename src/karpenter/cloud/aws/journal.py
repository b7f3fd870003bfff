# SPDX-License-Identifier: Apache-2.0
"""The launch journal: what is about to be launched for which claims, written down before EC2 is asked.

One launch for many claims cannot carry one token per claim. So its members, its token and the whole request are made
durable first; after a crash the very same request is sent again, and EC2, which knows the token, answers with the
very same instances instead of launching more. The answer is written down too, before anybody is told of it. See
docs/adr/0007-exactly-once.md.

``FileJournal`` keeps intents in a directory, for one machine: the sandbox, tests, a controller with a disk of its own.
Replicas on several machines need a journal that they share.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from karpenter.cloud.aws.fleet import Launched
from karpenter.errors import KarpenterError

__all__ = ["FileJournal", "JournalError", "LaunchIntent", "LaunchJournal", "subnet_zones"]

_SUFFIX: Final = ".json"


class JournalError(KarpenterError):
    """The journal cannot be read or written: nothing may be launched."""


class LaunchIntent(msgspec.Struct, frozen=True, kw_only=True):
    """One launch for one or more claims.

    Attributes:
        token: Its client token, and its name in the journal.
        members: UID and attempt of each claim, in order.
        request: The parameters of CreateFleet, token included.
        capacity_type: What is bought.
        reservations: Reservation by launch template name.
        written_at: When it was first written.
        assigned: Which claim got which instance, by UID; None as long as EC2 has not answered.
    """

    token: str
    members: tuple[tuple[str, int], ...]
    request: dict[str, Any]
    capacity_type: str
    reservations: dict[str, str]
    written_at: datetime
    assigned: dict[str, Launched] | None = None


class LaunchJournal(Protocol):
    """Where intents survive the process; every method returns only when that is certain."""

    async def put(self, intent: LaunchIntent) -> None:
        """Write an intent, in place of the one with its token."""
        ...

    async def load(self) -> Sequence[LaunchIntent]:
        """Return every intent that was written and not dropped."""
        ...

    async def drop(self, tokens: Iterable[str]) -> None:
        """Forget intents."""
        ...


class FileJournal:
    """A journal in a directory, one file per intent."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def put(self, intent: LaunchIntent) -> None:
        """Write an intent, and have the disk confirm it.

        Raises:
            JournalError: The directory cannot be written.
        """
        await asyncio.to_thread(self._guarded, self._put, intent)

    async def load(self) -> Sequence[LaunchIntent]:
        """Return every intent, the oldest first.

        Raises:
            JournalError: The directory or an intent in it cannot be read.
        """
        found: list[LaunchIntent] = await asyncio.to_thread(self._guarded, self._load)
        return sorted(found, key=lambda intent: (intent.written_at, intent.token))

    async def drop(self, tokens: Iterable[str]) -> None:
        """Remove intents.

        Raises:
            JournalError: The directory cannot be written.
        """
        await asyncio.to_thread(self._guarded, self._drop, tuple(tokens))

    def _guarded(self, work: Any, *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except (OSError, msgspec.MsgspecError) as error:
            raise JournalError(
                f"launch journal {self._directory}: {error}",
                hint="give the controller a directory that it can write to and that survives a restart",
            ) from error

    def _put(self, intent: LaunchIntent) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        final = self._directory / f"{intent.token}{_SUFFIX}"
        draft = final.with_suffix(".draft")
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(intent))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(final)
        self._sync_directory()

    def _load(self) -> list[LaunchIntent]:
        if not self._directory.exists():
            return []
        return [
            msgspec.json.decode(path.read_bytes(), type=LaunchIntent)
            for path in sorted(self._directory.glob(f"*{_SUFFIX}"))
        ]

    def _drop(self, tokens: Sequence[str]) -> None:
        for token in tokens:
            (self._directory / f"{token}{_SUFFIX}").unlink(missing_ok=True)

    def _sync_directory(self) -> None:
        # A new name is only safe once the directory that holds it is.
        handle = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def subnet_zones(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the zone of each subnet that a request names."""
    return {
        override["SubnetId"]: override["AvailabilityZone"]
        for config in request["LaunchTemplateConfigs"]
        for override in config["Overrides"]
    }
