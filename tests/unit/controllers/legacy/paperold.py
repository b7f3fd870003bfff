# SPDX-License-Identifier: Apache-2.0
"""The API server on paper with the old kinds: it also watches and applies, and can do without their CRDs."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import yaml

from karpenter.controllers.legacy import STORED_PROVISIONERS, STORED_TEMPLATES, LegacyConversion
from karpenter.kit.clock import FakeClock
from karpenter.kube import ConflictError, Kind, Listing, NotFoundError, Recorder, Watched
from karpenter.observe import Metrics
from karpenter.state import Cluster, Informers, Stored
from tests.unit.controllers.paper import Call, PaperClient

OLD_KINDS = {"Provisioner": STORED_PROVISIONERS, "AWSNodeTemplate": STORED_TEMPLATES}


class OldPaperClient(PaperClient):
    """Knows the old kinds unless told that their CRDs are missing."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.missing: set[str] = set()
        self.old: Any = None
        self._asked: dict[tuple[str, str], Mapping[str, Any]] = {}

    async def list(self, kind: Kind[Any], namespace: str = "", **options: Any) -> Listing[Any]:
        """Read all objects of a kind that is served."""
        if kind.plural in self.missing:
            raise NotFoundError("the server could not find the requested resource", status=404)
        return await super().list(kind, namespace, **options)

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Watched[Any]]:
        """Say nothing: what is stored is told to the informers at once."""
        await asyncio.Event().wait()
        yield Watched("BOOKMARK", "0")

    async def apply(
        self,
        kind: Kind[Any],
        name: str,
        manifest: Mapping[str, Any],
        namespace: str = "",
        *,
        manager: str,
        subresource: str = "",
    ) -> Any:
        """Make the named fields so, and take out those that were named before and are not now."""
        del namespace, subresource
        self.calls.append(Call("apply", kind.plural, name, manifest))
        self._maybe_fail("apply", kind)
        assert manager == "karpenter"
        raw = copy.deepcopy(self.raw_object(kind, name)) or {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": name, "uid": f"uid-{kind.plural}-{name}", "generation": 0},
        }
        uid = manifest["metadata"].get("uid")
        if uid is not None and uid != raw["metadata"]["uid"]:
            raise ConflictError("another uid", status=409, reason="Conflict")
        before = self._asked.get((kind.plural, name), {})
        _take_out(raw, before, manifest)
        _put_in(raw, manifest)
        raw["metadata"]["generation"] += 1
        self._asked[kind.plural, name] = copy.deepcopy(dict(manifest))
        return self._keep(kind, raw)

    def _informer(self, kind: Kind[Any]) -> Any:
        if self.old is not None and kind.plural == STORED_PROVISIONERS.plural:
            return self.old.provisioners
        if self.old is not None and kind.plural == STORED_TEMPLATES.plural:
            return self.old.templates
        return super()._informer(kind)


class OldScene:
    """A cluster with old objects and who keeps them in force."""

    def __init__(self, *, profile: str = "profile") -> None:
        self.clock = FakeClock()
        self.client = OldPaperClient(self.clock)
        informers = Informers.of(self.client, clock=self.clock)
        self.client.informers = informers
        self.cluster = Cluster(informers, clock=self.clock)
        self.recorder = Recorder(self.client, clock=self.clock)
        self.metrics = Metrics()
        self.conversion = LegacyConversion(
            client=self.client,
            cluster=self.cluster,
            recorder=self.recorder,
            metrics=self.metrics,
            clock=self.clock,
            default_instance_profile=profile,
        )
        self.client.old = self.conversion.old

    async def settle(self) -> float | None:
        """Hear of the old objects, and reconcile twice: the second time nothing may be left to do."""
        following = asyncio.ensure_future(self.conversion.old.run())
        await self.clock.settle()
        try:
            await self.conversion.reconcile()
            before = len(self.client.calls)
            again = await self.conversion.reconcile()
            assert self.client.calls[before:] == []
            return again
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def store(self, *manifests: Mapping[str, Any]) -> None:
        """Put old objects in place."""
        for manifest in manifests:
            self.client.store(OLD_KINDS[manifest["kind"]], manifest)

    def apply_example(self, name: str) -> None:
        """Put the old objects of an example in place."""
        with open(f"examples/{name}.yaml", encoding="utf-8") as file:  # noqa: PTH123 - read once, in a test
            documents = [each for each in yaml.safe_load_all(file) if each["kind"] in OLD_KINDS]
        for each in documents:
            each["metadata"]["uid"] = f"uid-{each['kind']}-{each['metadata']['name']}"
        self.store(*documents)

    def conditions(self, name: str) -> dict[str, tuple[str, str, str]]:
        """The conditions of a Provisioner: status, reason, message."""
        raw = self.client.raw_object(STORED_PROVISIONERS, name)
        assert raw is not None
        return {
            each["type"]: (each["status"], each.get("reason", ""), each.get("message", ""))
            for each in raw.get("status", {}).get("conditions", ())
        }

    def events(self) -> list[tuple[str, str, str]]:
        """The events that were told: the object, the reason, the message."""
        return [
            (f"{each.subject.kind}/{each.subject.name}", each.reason, each.message)
            for each in self.recorder._queue
        ]


def provisioner(name: str = "default", template: str = "default", **spec: Any) -> dict[str, Any]:
    """A Provisioner as somebody wrote it."""
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": name, "uid": f"uid-p-{name}"},
        "spec": {"providerRef": {"name": template}, **spec},
    }


def template(name: str = "default", **spec: Any) -> dict[str, Any]:
    """An AWSNodeTemplate as somebody wrote it."""
    selector = {"karpenter.sh/discovery": "c"}
    return {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": name, "uid": f"uid-t-{name}"},
        "spec": {"subnetSelector": selector, "securityGroupSelector": selector, **spec},
    }


def stored(manifest: Mapping[str, Any]) -> Stored:
    """A manifest as an informer would give it."""
    return msgspec.convert(dict(manifest), Stored, strict=False)


def _take_out(raw: dict[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for key, value in before.items():
        if key not in now:
            raw.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(now[key], Mapping) and key in raw:
            _take_out(raw[key], value, now[key])


def _put_in(raw: dict[str, Any], now: Mapping[str, Any]) -> None:
    for key, value in now.items():
        if isinstance(value, Mapping):
            _put_in(raw.setdefault(key, {}), value)
        else:
            raw[key] = copy.deepcopy(value)
