# SPDX-License-Identifier: Apache-2.0
"""The launch journal in the API server, shared by all replicas: one ConfigMap for each launch that is under way.

An intent is written before EC2 is asked and again with EC2's answer; whichever replica leads next reads what the last
one was about to do (ADR 7). Writing passes the lease's fence like every other write. The ConfigMaps are in the
controller's own namespace, under a label, and go when a launch is settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from karpenter.api.base import EMPTY, Frozen
from karpenter.api.labels import GROUP
from karpenter.api.meta import ObjectMeta
from karpenter.cloud.aws.journal import JournalError, LaunchIntent
from karpenter.kube import AlreadyExistsError, Client, Kind, KubeError, NotFoundError

__all__ = ["CONFIG_MAPS", "ConfigMap", "KubeJournal"]

_LABEL: Final = f"{GROUP}/launch-intent"
_KEY: Final = "intent"


class ConfigMap(Frozen):
    """A ConfigMap (v1)."""

    api_version: str = "v1"
    kind: str = "ConfigMap"
    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, str] = EMPTY


CONFIG_MAPS: Final = Kind(ConfigMap, "ConfigMap", "configmaps", namespaced=True)


class KubeJournal:
    """Keeps intents in ConfigMaps of one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def put(self, intent: LaunchIntent) -> None:
        """Writes an intent, in place of the one with its token.

        Raises:
            JournalError: The API server did not take it: nothing may be launched.
        """
        name, data = _name(intent.token), {_KEY: msgspec.json.encode(intent).decode()}
        manifest = {"metadata": {"name": name, "labels": {_LABEL: "true"}}, "data": data}
        try:
            if intent.assigned is not None and await self._replaced(name, data):
                return
            try:
                await self._client.create(CONFIG_MAPS, manifest, self._namespace)
            except AlreadyExistsError:
                await self._client.patch(CONFIG_MAPS, name, {"data": data}, self._namespace)
        except KubeError as error:
            raise self._problem("written", error) from error

    async def _replaced(self, name: str, data: Mapping[str, str]) -> bool:
        """Writes an answer over its question; tells whether there was one, as there nearly always is."""
        try:
            await self._client.patch(CONFIG_MAPS, name, {"data": data}, self._namespace)
        except NotFoundError:
            return False
        return True

    async def load(self) -> Sequence[LaunchIntent]:
        """Gives every intent, the oldest first.

        Raises:
            JournalError: They cannot be listed, or one cannot be read.
        """
        try:
            listing = await self._client.list(CONFIG_MAPS, self._namespace, labels=f"{_LABEL}=true")
            found = [
                msgspec.json.decode(each.data.get(_KEY, ""), type=LaunchIntent) for each in listing.items
            ]
        except (KubeError, msgspec.MsgspecError) as error:
            raise self._problem("read", error) from error
        return sorted(found, key=lambda intent: (intent.written_at, intent.token))

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
            hint="the controller's Role needs get, list, create, patch and delete on configmaps of its namespace",
        )


def _name(token: str) -> str:
    return f"karpenter-launch-{token}".lower()
