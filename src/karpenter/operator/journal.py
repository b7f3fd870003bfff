# SPDX-License-Identifier: Apache-2.0
"""The launch journal in the API server, shared by all replicas: one ConfigMap for each launch that is under way.

An intent is written before EC2 is asked and again with EC2's answer; whichever replica leads next reads what the last
one was about to do (ADR 7). Writing passes the lease's fence like every other write. The ConfigMaps are in a namespace
where no others are (`settings.state_namespace`), under a label, and go when a launch is settled. One that cannot be
read, or that was not written by us, gets another label instead: it is told of, kept for a person to look at, and holds
up no launch.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from karpenter.api.base import EMPTY, Frozen
from karpenter.api.labels import GROUP
from karpenter.api.meta import ObjectMeta
from karpenter.cloud.aws.journal import JournalError, LaunchIntent
from karpenter.kube import AlreadyExistsError, Client, Kind, KubeError, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import NAMESPACES
from karpenter.observe import Log, Metrics

__all__ = ["CONFIG_MAPS", "ConfigMap", "KubeJournal", "SetAside", "create_config_map"]

_LABEL: Final = f"{GROUP}/launch-intent"
_READABLE: Final = "true"
_UNREADABLE: Final = "unreadable"
_KEY: Final = "intent"


class ConfigMap(Frozen):
    """A ConfigMap (v1)."""

    api_version: str = "v1"
    kind: str = "ConfigMap"
    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, str] = EMPTY


CONFIG_MAPS: Final = Kind(ConfigMap, "ConfigMap", "configmaps", namespaced=True)


async def create_config_map(client: Client, manifest: Mapping[str, Any], namespace: str) -> None:
    """Create a ConfigMap, and its namespace where it is missing and we may; the chart makes it beforehand."""
    try:
        await client.create(CONFIG_MAPS, manifest, namespace)
    except NotFoundError:
        with contextlib.suppress(AlreadyExistsError):
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await client.create(CONFIG_MAPS, manifest, namespace)


class SetAside:
    """Tells of launch intents that were set aside: in the log, an event and a metric."""

    def __init__(self, recorder: Recorder, metrics: Metrics, log: Log) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._log = log

    def __call__(self, found: ConfigMap, problem: str) -> None:
        """Tell of one."""
        namespace, name = found.metadata.namespace, found.metadata.name
        hint = f"look at it, then delete it: kubectl -n {namespace} delete configmap {name}"
        self._metrics.launch_intents_set_aside.inc()
        self._log.error(
            "launch intent set aside, launches go on",
            ConfigMap={"namespace": namespace, "name": name},
            error=problem,
            hint=hint,
        )
        self._recorder.tell(
            Subject.of(CONFIG_MAPS, found),
            "LaunchIntentSetAside",
            f"This launch intent is not used: {problem}; launches go on. hint: {hint}",
            type="Warning",
        )


class KubeJournal:
    """Keeps intents in ConfigMaps of one namespace.

    Args:
        client: The API server.
        namespace: Where the ConfigMaps are.
        told: Hears of each ConfigMap that was set aside, and why.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        told: Callable[[ConfigMap, str], None] = lambda _found, _problem: None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._told = told

    async def put(self, intent: LaunchIntent) -> None:
        """Writes an intent, in place of the one with its token.

        Raises:
            JournalError: The API server did not take it: nothing may be launched.
        """
        name, data = _name(intent.token), {_KEY: msgspec.json.encode(intent).decode()}
        labels = {_LABEL: _READABLE}
        change = {"metadata": {"labels": labels}, "data": data}
        manifest = {"metadata": {"name": name, "labels": labels}, "data": data}
        try:
            if intent.assigned is not None and await self._replaced(name, change):
                return
            try:
                await create_config_map(self._client, manifest, self._namespace)
            except AlreadyExistsError:
                await self._client.patch(CONFIG_MAPS, name, change, self._namespace)
        except KubeError as error:
            raise self._problem("written", error) from error

    async def _replaced(self, name: str, change: Mapping[str, Any]) -> bool:
        """Writes an answer over its question; tells whether there was one, as there nearly always is."""
        try:
            await self._client.patch(CONFIG_MAPS, name, change, self._namespace)
        except NotFoundError:
            return False
        return True

    async def load(self) -> Sequence[LaunchIntent]:
        """Gives every intent, the oldest first; what cannot be read is set aside.

        Raises:
            JournalError: They cannot be listed.
        """
        try:
            listing = await self._client.list(CONFIG_MAPS, self._namespace, labels=f"{_LABEL}={_READABLE}")
        except KubeError as error:
            raise self._problem("read", error) from error
        found = []
        for each in listing.items:
            try:
                intent = msgspec.json.decode(each.data.get(_KEY, ""), type=LaunchIntent)
            except msgspec.MsgspecError as error:
                await self._set_aside(each, f"it cannot be read: {error}")
                continue
            if each.metadata.name == _name(intent.token):
                found.append(intent)
            else:
                await self._set_aside(each, "its name does not follow from its token")
        return sorted(found, key=lambda intent: (intent.written_at, intent.token))

    async def set_aside(self, token: str, problem: str) -> None:
        """Keeps an intent out of every later ``load``, and tells of it."""
        metadata = ObjectMeta(name=_name(token), namespace=self._namespace)
        await self._set_aside(ConfigMap(metadata=metadata), problem)

    async def _set_aside(self, found: ConfigMap, problem: str) -> None:
        self._told(found, problem)
        change = {"metadata": {"labels": {_LABEL: _UNREADABLE}}}
        try:
            await self._client.patch(CONFIG_MAPS, found.metadata.name, change, self._namespace)
        except KubeError:
            # It is left out all the same, and told of again when the journal is next read.
            return

    async def drop(self, tokens: Iterable[str]) -> None:
        """Forgets intents.

        Raises:
            JournalError: The API server refused to delete one.
        """
        await asyncio.gather(*(self._delete(token) for token in tokens))

    async def _delete(self, token: str) -> None:
        try:
            await self._client.delete(CONFIG_MAPS, _name(token), self._namespace)
        except NotFoundError:
            return
        except KubeError as error:
            raise self._problem("deleted", error) from error

    def _problem(self, done: str, error: Exception) -> JournalError:
        return JournalError(
            f"the launch journal in namespace {self._namespace} cannot be {done}: {error}",
            hint=f"namespace {self._namespace} must exist, and the controller's Role there needs list, create, patch"
            " and delete on configmaps; the chart makes both (--state-namespace names another)",
        )


def _name(token: str) -> str:
    return f"karpenter-launch-{token}".lower()
