# SPDX-License-Identifier: Apache-2.0
"""Makes the v1 objects that the old ones ask for, keeps them so, and writes back what became of them.

Whenever something old changes, everything old is converted together and applied on the server's side: node classes
first, then the pools that point at them, and last goes what no conversion asks for any more. What goes with its old
object is left to the server's garbage collector. An object of the same name that is not ours is never touched; the
old object says so, and what to do. One of ours that somebody applies a manifest of is theirs from then on. An old
object that is refused keeps what was made of it before: a slip in a manifest must not take nodes away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from karpenter.controllers.legacy.following import STORED_PROVISIONERS, STORED_TEMPLATES, OldKinds
from karpenter.controllers.legacy.marks import CONVERTED_FROM, is_applied_by_hand, is_from, without_marks
from karpenter.controllers.legacy.reporting import (
    INSTANCE_TYPES_FOUND,
    Trouble,
    condition_of,
    provisioner_status,
    template_status,
)
from karpenter.controllers.legacy.translating import (
    Original,
    Translated,
    Wanted,
    fulfils,
    manifests_of,
    originals_of,
    translate,
)
from karpenter.controllers.patches import patch_decided, write_status
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import (
    Change,
    Client,
    ConflictError,
    FencedError,
    ForbiddenError,
    Informer,
    InvalidError,
    KubeError,
    NotFoundError,
    Recorder,
    Subject,
)
from karpenter.observe import Metrics, get_log
from karpenter.state import STORED_NODE_CLASSES, Cluster, Stored

__all__ = ["LegacyConversion"]

_MANAGER: Final = "karpenter"
# All old objects are one piece of work: pools and the classes beside them mean something only together.
_ALL: Final = "all"
# A manifest with a pool and its class arrives in two requests.
_SETTLE_S: Final = 0.5
_LOOK_AGAIN_S: Final = 300.0
_REFUSAL_QUIET_S: Final = 600.0
_WARNING_QUIET_S: Final = 86_400.0

_REFUSED: Final = "ConversionRefused"
_NAME_TAKEN: Final = "NameTaken"
_NOT_ACCEPTED: Final = "NotAccepted"
_NO_TEMPLATE: Final = "NodeTemplateNotFound"


class LegacyConversion:
    """Keeps old objects in force; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        recorder: Recorder,
        metrics: Metrics,
        clock: Clock,
        default_instance_profile: str = "",
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._default_instance_profile = default_instance_profile
        self._log = get_log("legacy.conversion")
        self.old = OldKinds(client, clock, self._informer_failed)
        self._queue: WorkQueue[str] = WorkQueue(self.reconcile, clock, workers=1, on_error=self._failed)
        self._known: tuple[bytes, tuple[Translated, ...]] = (b"", ())
        for informer in (self.old.provisioners, self.old.templates):
            informer.on_change(lambda _: self._queue.add_after(_ALL, _SETTLE_S))
        for informer in (cluster.informers.pools, cluster.informers.classes):
            informer.on_change(self._new_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        self._queue.add_after(_ALL, _SETTLE_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.old.run())
            group.create_task(self._queue.run())

    async def reconcile(self, key: str = _ALL) -> float | None:
        """Brings everything that was made from old objects up to date, and the old objects' status."""
        del key
        if not self.old.is_ready:
            return _SETTLE_S
        if self.old.is_empty:
            return None
        everything = await self._translated()
        failures: list[KubeError] = []
        for each in everything:
            for wanted in each.wanted:
                await self._tried(self._let_go(each.original, wanted), failures)
        taken = self._taken(everything)
        troubles: dict[str, Trouble] = {}
        # A pool that points at a class must not come before it.
        for each in reversed(everything):
            trouble = await self._settle(each, taken, failures)
            trouble = trouble or self._template_trouble(each, troubles)
            if trouble is not None:
                troubles[str(each.original)] = trouble
        for each in everything:
            if not each.original.is_leaving:
                await self._tried(self._prune(each), failures)
                await self._tried(self._report(each, troubles.get(str(each.original))), failures)
        if failures:
            raise failures[0]
        return _LOOK_AGAIN_S

    async def _translated(self) -> tuple[Translated, ...]:
        originals = originals_of(self.old.provisioners, self.old.templates)
        leaving = [each.is_leaving for each in originals]
        uids = [each.object.metadata.uid for each in originals]
        standing = self._standing()
        content = msgspec.json.encode([manifests_of(originals), leaving, uids, standing])
        if content != self._known[0]:
            # Some milliseconds for each object: too long for the event loop.
            found = await asyncio.to_thread(translate, originals, self._default_instance_profile, standing)
            self._known = (content, found)
        # The same words, about the objects as they are now.
        return tuple(replace(each, original=now) for each, now in zip(self._known[1], originals, strict=True))

    def _standing(self) -> dict[str, dict[str, Any]]:
        """Gives for each template the classes that were made from it, with their kubelet settings."""
        standing: dict[str, dict[str, Any]] = {}
        for stored in sorted(self._cluster.informers.classes, key=lambda each: each.metadata.name):
            kind, _, name = stored.metadata.annotations.get(CONVERTED_FROM, "").partition("/")
            if is_from(stored, kind, name) and stored.metadata.deletion_timestamp is None:
                standing.setdefault(name, {})[stored.metadata.name] = stored.spec.get("kubelet", {})
        return standing

    def _taken(self, everything: Sequence[Translated]) -> dict[tuple[str, str], str]:
        """Gives the wanted objects whose names somebody else's objects have, with the words for it."""
        taken = {}
        for each in everything:
            for wanted in each.wanted:
                stored = self._informer(wanted).get(wanted.name)
                if stored is not None and not is_from(stored, each.original.kind.name, each.original.name):
                    taken[wanted.kind.name, wanted.name] = _clash(each.original, wanted)
        return taken

    async def _settle(
        self, each: Translated, taken: dict[tuple[str, str], str], failures: list[KubeError]
    ) -> Trouble | None:
        """Applies what one old object asks for; gives what stands in the way."""
        if each.refusals:
            return Trouble(_REFUSED, "; ".join(each.refusals))
        trouble = None
        for wanted in each.wanted:
            words = taken.get((wanted.kind.name, wanted.name)) or taken.get(
                (STORED_NODE_CLASSES.name, wanted.class_name)
            )
            if words:
                trouble = Trouble(_NAME_TAKEN, words)
                continue
            try:
                await self._apply(each.original, wanted)
            except (InvalidError, ForbiddenError) as error:
                trouble = Trouble(_NOT_ACCEPTED, f"{wanted.kind.name} {wanted.name}: {error.message}")
            except KubeError as error:
                failures.append(error)
        return trouble

    def _template_trouble(self, each: Translated, troubles: Mapping[str, Trouble]) -> Trouble | None:
        """Gives the trouble of the node template that a Provisioner uses, because it is the Provisioner's too."""
        reference = each.original.object.spec.get("providerRef")
        if each.original.kind is not STORED_PROVISIONERS or not isinstance(reference, dict):
            return None
        name = str(reference.get("name", ""))
        template = f"{STORED_TEMPLATES.name} {name}"
        found = troubles.get(template)
        if found is not None:
            return Trouble(found.reason, f"{template}: {found.message}")
        if self.old.templates.get(name) is None and self._cluster.informers.classes.get(name) is None:
            return Trouble(
                _NO_TEMPLATE, f"{template} is not there: create it, or correct spec.providerRef.name"
            )
        return None

    async def _let_go(self, original: Original, wanted: Wanted) -> None:
        """Takes our marks off an object of ours that somebody has applied: the old object may be deleted now."""
        informer = self._informer(wanted)
        stored = informer.get(wanted.name)
        if (
            stored is None
            or not is_applied_by_hand(stored)
            or not is_from(stored, original.kind.name, original.name)
        ):
            return
        if not await patch_decided(
            self._client,
            informer,
            stored,
            lambda each: without_marks(each, original.kind.name, original.name),
        ):
            return
        words = f"{wanted.kind.name} {wanted.name} was applied by hand and no longer follows it: it can be deleted"
        self._log.info(
            "let go",
            **{original.kind.name: {"name": original.name}, wanted.kind.name: {"name": wanted.name}},
        )
        self._recorder.tell(_subject(original), "TakenOver", words)

    async def _apply(self, original: Original, wanted: Wanted) -> None:
        """Makes one object so, unless it is so already."""
        informer = self._informer(wanted)
        stored = informer.get(wanted.name)
        if stored is not None and stored.metadata.deletion_timestamp is not None:
            # It will be gone soon, and then be made anew.
            return
        if stored is not None and fulfils(stored, wanted):
            return
        manifest = wanted.manifest
        if stored is None:
            # The informer may lag behind, and applying would take over whatever is there.
            if await self._is_there(wanted):
                self._queue.add_after(_ALL, _SETTLE_S)
                return
        else:
            manifest = {**manifest, "metadata": {**manifest["metadata"], "uid": stored.metadata.uid}}
        written = await self._client.apply(wanted.kind, wanted.name, manifest, manager=_MANAGER)
        informer.observe(written)
        self._log.info(
            "converted",
            **{original.kind.name: {"name": original.name}, wanted.kind.name: {"name": wanted.name}},
        )
        if stored is None:
            self._recorder.tell(
                _subject(original),
                "Converted",
                f"{wanted.kind.name} {wanted.name} was made from it and follows it",
            )

    async def _is_there(self, wanted: Wanted) -> bool:
        try:
            await self._client.get(wanted.kind, wanted.name)
        except NotFoundError:
            return False
        return True

    async def _prune(self, each: Translated) -> None:
        """Deletes the classes of a template that no conversion asks for and no pool points at any more."""
        # A pool that does not decode may point at any of them.
        if not each.wanted or self._cluster.informers.pools.unreadable:
            return
        kept = {wanted.name for wanted in each.wanted}
        used = {_class_of(pool) for pool in self._cluster.informers.pools}
        for stored in self._cluster.informers.classes:
            name = stored.metadata.name
            if (
                is_from(stored, each.original.kind.name, each.original.name)
                and name not in kept
                and name not in used
                and stored.metadata.deletion_timestamp is None
            ):
                try:
                    await self._client.delete(STORED_NODE_CLASSES, name, uid=stored.metadata.uid)
                except (NotFoundError, ConflictError):
                    continue
                self._log.info("deleted, no longer asked for", EC2NodeClass={"name": name})

    async def _report(self, each: Translated, trouble: Trouble | None) -> None:
        original = each.original
        self._tell(each, trouble)
        if original.kind is STORED_PROVISIONERS:
            pool = self._cluster.informers.pools.get(original.name)
            if pool is not None and not is_from(pool, original.kind.name, original.name):
                pool = None
            status = provisioner_status(
                original.object,
                pool,
                self._cluster.informers.claims.by("pool", original.name) if pool is not None else (),
                self._clock.now(),
                trouble=trouble,
                warnings=each.warnings,
            )
            self._tell_of_types(original, pool)
            informer = self.old.provisioners
        else:
            names = [wanted.name for wanted in each.wanted] or [original.name]
            found = (self._cluster.informers.classes.get(name) for name in names)
            ours = (item for item in found if item and is_from(item, original.kind.name, original.name))
            status = template_status(original.object, next(ours, None))
            informer = self.old.templates
        if not status:
            return
        if not await write_status(self._client, informer, original.object, status):
            self._queue.add_after(_ALL, _SETTLE_S)

    def _tell(self, each: Translated, trouble: Trouble | None) -> None:
        subject = _subject(each.original)
        for refusal in each.refusals:
            self._recorder.tell(subject, _REFUSED, refusal, type="Warning", quiet_s=_REFUSAL_QUIET_S)
        if trouble is not None and not each.refusals:
            self._recorder.tell(
                subject, trouble.reason, trouble.message, type="Warning", quiet_s=_REFUSAL_QUIET_S
            )
        for warning in each.warnings:
            self._recorder.tell(
                subject, "ConversionWarning", warning, type="Warning", quiet_s=_WARNING_QUIET_S
            )

    def _tell_of_types(self, original: Original, pool: Stored | None) -> None:
        missing = condition_of(pool, INSTANCE_TYPES_FOUND)
        if missing.get("status") == "False":
            self._recorder.tell(
                _subject(original),
                str(missing.get("reason")),
                str(missing.get("message")),
                type="Warning",
                quiet_s=_REFUSAL_QUIET_S,
            )

    async def _tried(self, work: Coroutine[None, None, None], failures: list[KubeError]) -> None:
        try:
            await work
        except KubeError as error:
            failures.append(error)

    def _informer(self, wanted: Wanted) -> Informer[Stored]:
        informers = self._cluster.informers
        return informers.classes if wanted.kind is STORED_NODE_CLASSES else informers.pools

    def _new_changed(self, change: Change[Stored]) -> None:
        if self.old.is_empty:
            return
        # Who applies the new may be about to delete the old: there is no time to lose.
        urgent = is_applied_by_hand(change.object) and CONVERTED_FROM in change.object.metadata.annotations
        self._queue.add_after(_ALL, 0.0 if urgent else _SETTLE_S)

    def _informer_failed(self, error: Exception) -> None:
        # A kind that stopped being served while we watched is asked for again and again; that is no news.
        if not isinstance(error, (FencedError, NotFoundError)):
            self._log.error("watching the old kinds failed and is tried again", error=error)

    def _failed(self, _: str, error: Exception, again_s: float) -> None:
        self._metrics.reconcile_errors.labels("legacy.conversion").inc()
        self._log.error("Reconciler error", error=error, retry_in_s=round(again_s, 1))


def _clash(original: Original, wanted: Wanted) -> str:
    plural = f"{wanted.kind.plural}.{wanted.kind.group}"
    return (
        f"{wanted.kind.name} {wanted.name} is there and was not made from {original}: it is left as it is;"
        f" to let the {original.kind.name} rule, `kubectl delete {plural} {wanted.name}` (its nodes go with it);"
        f" to keep it, delete the {original.kind.name}"
    )


def _class_of(pool: Stored) -> str:
    here = pool.spec
    for name in ("template", "spec", "nodeClassRef"):
        found = here.get(name)
        here = found if isinstance(found, dict) else {}
    return str(here.get("name", ""))


def _subject(original: Original) -> Subject:
    metadata = original.object.metadata
    return Subject(original.kind.name, original.kind.api_version, metadata.name, uid=metadata.uid)
