# SPDX-License-Identifier: Apache-2.0
"""The launch journal: what is about to be launched for which claims, written down before EC2 is asked.

One launch for many claims cannot carry one token per claim. So its members, its token and the whole request are made
durable first; after a crash the very same request is sent again, and EC2, which knows the token, answers with the
very same instances instead of launching more. The answer is written down too, before anybody is told of it. See
docs/adr/0007-exactly-once.md.

An intent that cannot be read, or that was not written by us for this cluster (`problem_of`), is set aside: it is told
of and never replayed, and launches go on.

``FileJournal`` keeps intents in a directory, for one machine: the sandbox, tests, a controller with a disk of its own.
Replicas on several machines need a journal that they share.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from karpenter.api import labels
from karpenter.cloud.aws.fleet import (
    CLAIM_UID_TAG,
    LAUNCH_TAG,
    Launched,
    LaunchTerms,
    instance_tags,
    launch_token,
)
from karpenter.cloud.aws.launchtemplates import NAME_PREFIX
from karpenter.errors import KarpenterError

__all__ = ["FileJournal", "JournalError", "LaunchIntent", "LaunchJournal", "problem_of", "subnet_zones"]

_SUFFIX: Final = ".json"
_ASIDE: Final = ".unreadable"


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
        tenancy: default or dedicated.
        partition: The partition of the placement group; empty where EC2 chooses one.
        written_at: When it was first written.
        assigned: Which claim got which instance, by UID; None as long as EC2 has not answered.
    """

    token: str
    members: tuple[tuple[str, int], ...]
    request: dict[str, Any]
    capacity_type: str
    reservations: dict[str, str]
    written_at: datetime
    tenancy: str = "default"
    partition: str = ""
    assigned: dict[str, Launched] | None = None

    @property
    def terms(self) -> LaunchTerms:
        """What is known of every instance of the launch."""
        return LaunchTerms(self.capacity_type, self.reservations, self.tenancy, self.partition)


class LaunchJournal(Protocol):
    """Where intents survive the process; every method returns only when that is certain."""

    async def put(self, intent: LaunchIntent) -> None:
        """Write an intent, in place of the one with its token."""
        ...

    async def load(self) -> Sequence[LaunchIntent]:
        """Return every intent that was written and not dropped; one that cannot be read is set aside."""
        ...

    async def set_aside(self, token: str, problem: str) -> None:
        """Keep an intent out of every later ``load``, and tell that it was left alone and why."""
        ...

    async def drop(self, tokens: Iterable[str]) -> None:
        """Forget intents."""
        ...


class FileJournal:
    """A journal in a directory, one file per intent."""

    def __init__(
        self, directory: Path, told: Callable[[str, str], None] = lambda _name, _problem: None
    ) -> None:
        """Make a journal.

        Args:
            directory: Where it is.
            told: Hears the name of each file that was set aside, and why.
        """
        self._directory = directory
        self._told = told

    async def put(self, intent: LaunchIntent) -> None:
        """Write an intent, and have the disk confirm it.

        Raises:
            JournalError: The directory cannot be written.
        """
        await asyncio.to_thread(self._guarded, self._put, intent)

    async def load(self) -> Sequence[LaunchIntent]:
        """Return every intent, the oldest first.

        Raises:
            JournalError: The directory cannot be read.
        """
        found: list[LaunchIntent] = await asyncio.to_thread(self._guarded, self._load)
        return sorted(found, key=lambda intent: (intent.written_at, intent.token))

    async def drop(self, tokens: Iterable[str]) -> None:
        """Remove intents.

        Raises:
            JournalError: The directory cannot be written.
        """
        await asyncio.to_thread(self._guarded, self._drop, tuple(tokens))

    async def set_aside(self, token: str, problem: str) -> None:
        """Rename an intent's file, so that it is not read any more.

        Raises:
            JournalError: The directory cannot be written.
        """
        await asyncio.to_thread(
            self._guarded, self._set_aside, self._directory / f"{token}{_SUFFIX}", problem
        )

    def _guarded(self, work: Any, *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except OSError as error:
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
        found = []
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=LaunchIntent))
            except msgspec.MsgspecError as error:
                self._set_aside(path, str(error))
        return found

    def _set_aside(self, path: Path, problem: str) -> None:
        path.replace(path.with_suffix(_ASIDE))
        self._told(path.name, problem)

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


def problem_of(intent: LaunchIntent, cluster_name: str, node_class: str = "") -> str:
    """Return why an intent must not be trusted, or nothing if it was written by us for this cluster.

    Args:
        intent: What was read.
        cluster_name: The cluster that nodes are launched for.
        node_class: The node class of the claim that asks, where one does.
    """
    if intent.token != launch_token(intent.members):
        return "its token does not follow from its claims"
    if intent.assigned is not None:
        # It is answered: nothing is sent for it any more.
        strangers = set(intent.assigned) - {uid for uid, _ in intent.members}
        return (
            f"it gives instances to claims that it is not for: {', '.join(sorted(strangers))}"
            if strangers
            else ""
        )
    try:
        return _problem_of_request(intent, cluster_name, node_class)
    except (KeyError, TypeError, AttributeError):
        return "its request is not one of ours"


def _problem_of_request(intent: LaunchIntent, cluster_name: str, node_class: str) -> str:
    request, tags = intent.request, instance_tags(intent.request)
    names = [
        each["LaunchTemplateSpecification"]["LaunchTemplateName"] for each in request["LaunchTemplateConfigs"]
    ]
    count = request["TargetCapacitySpecification"]["TotalTargetCapacity"]
    if (request["Type"], request["ClientToken"]) != ("instant", intent.token) or count != len(intent.members):
        return "its request is not for its claims"
    if tags.get(labels.EKS_CLUSTER_NAME_TAG) != cluster_name or tags.get(LAUNCH_TAG) != intent.token:
        return f"its request is not for cluster {cluster_name}"
    if not names or not all(name.startswith(NAME_PREFIX) for name in names):
        return "its request names launch templates that are not ours"
    if len(intent.members) == 1 and tags.get(CLAIM_UID_TAG) != intent.members[0][0]:
        return "its request is for another claim"
    if node_class and tags.get(labels.EC2NODECLASS_TAG) != node_class:
        return f"its request is not for node class {node_class}"
    return ""


def subnet_zones(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the zone of each subnet that a request names."""
    return {
        override["SubnetId"]: override["AvailabilityZone"]
        for config in request["LaunchTemplateConfigs"]
        for override in config["Overrides"]
    }
