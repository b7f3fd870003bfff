# SPDX-License-Identifier: Apache-2.0
"""Keeps what EC2NodeClasses say about themselves true, and cleans up after them.

The cloud finds out what a class selects and whether it can be launched from; this controller writes it down, tells of
what a person should know, and comes back when the cloud asks for another look. A class that is being deleted stays
until no claim uses it; then what was made for it in the cloud goes, and our finalizer last.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from karpenter.api import labels as names
from karpenter.api.base import to_wire
from karpenter.api.conditions import EC2_NODE_CLASS, ConditionSet
from karpenter.api.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.patches import add_finalizer, patch_decided, remove_finalizer, write_status
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, Recorder, Subject
from karpenter.kube.kinds import EC2_NODE_CLASSES
from karpenter.observe import Metrics, get_log, reporting
from karpenter.state import Cluster, Stored

__all__ = ["Look", "NodeClasses", "Remark", "Resolver"]

_IN_USE_AGAIN_S: Final = 600.0
_CONFLICT_AGAIN_S: Final = 1.0
_LISTS: Final = ("subnets", "securityGroups", "amis", "capacityReservations", "instanceProfile")


class Remark(Protocol):
    """Something that a person should know about a class."""

    @property
    def reason(self) -> str:
        """One word."""
        ...

    @property
    def field(self) -> str:
        """The field it is about."""
        ...

    @property
    def message(self) -> str:
        """What was found."""
        ...

    @property
    def hint(self) -> str:
        """What to do next."""
        ...


class Look(Protocol):
    """What a look at a class found."""

    @property
    def status(self) -> EC2NodeClassStatus:
        """The status to write."""
        ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations to write."""
        ...

    @property
    def remarks(self) -> Sequence[Remark]:
        """What a person should know: what is odd, and what keeps the class from being used."""
        ...

    @property
    def look_again_s(self) -> float:
        """When to look again."""
        ...


class Resolver(Protocol):
    """The cloud's side of a node class."""

    async def resolve(self, node_class: EC2NodeClass) -> Look:
        """Find out what the class selects now."""
        ...

    async def cleanup(self, node_class: EC2NodeClass) -> object:
        """Remove what was made for the class."""
        ...


class NodeClasses:
    """Looks after EC2NodeClasses; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        resolver: Resolver,
        recorder: Recorder,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._resolver = resolver
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._log = get_log("nodeclass")
        self._generations: dict[str, int] = {}
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile, clock, on_error=reporting(self._log, metrics, "nodeclass", "EC2NodeClass")
        )
        cluster.informers.classes.on_change(self._class_changed)
        cluster.informers.claims.on_change(self._claim_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Brings one class up to date, or to its end."""
        stored = self._cluster.informers.classes.get(name)
        if stored is None:
            self._queue.forget(name)
            return None
        node_class = self._cluster.node_class(name)
        if stored.metadata.deletion_timestamp is not None:
            return await self._end(
                stored, node_class or EC2NodeClass(metadata=stored.metadata, spec=EC2NodeClassSpec())
            )
        if node_class is None:
            return await self._misread(stored)
        classes = self._cluster.informers.classes
        await add_finalizer(self._client, classes, stored, names.EC2NODECLASS_FINALIZER)
        look = await self._resolver.resolve(node_class)
        current = await patch_decided(
            self._client, classes, stored, functools.partial(_annotated, look.annotations)
        )
        if current is None:
            return None
        if look.status != node_class.status and not await self._write(stored, current, look.status):
            return _CONFLICT_AGAIN_S
        for notice in look.remarks:
            words = f"{notice.field}: {notice.message}; {notice.hint}" if notice.hint else notice.message
            self._recorder.tell(
                Subject.of(EC2_NODE_CLASSES, node_class), notice.reason, words, type="Warning", quiet_s=600.0
            )
        return look.look_again_s

    async def _write(self, decided_on: Stored, current: Stored, status: EC2NodeClassStatus) -> bool:
        """Writes a status unless it was decided on words or a status that are no longer there; tells whether."""
        if (current.metadata.generation, current.status) != (
            decided_on.metadata.generation,
            decided_on.status,
        ):
            return False
        found: dict[str, Any] = to_wire(status)
        # A merge patch keeps what it does not name: what is no longer found is taken out by name.
        body: dict[str, Any] = {key: found.get(key) for key in _LISTS}
        body["conditions"] = ConditionSet(EC2_NODE_CLASS, current.metadata, status.conditions).to_wire()
        return await write_status(self._client, self._cluster.informers.classes, current, body)

    async def _end(self, stored: Stored, node_class: EC2NodeClass) -> float | None:
        name = node_class.metadata.name
        if names.EC2NODECLASS_FINALIZER not in node_class.metadata.finalizers:
            return None
        users = [
            claim.metadata.name
            for claim in self._cluster.informers.claims
            if claim.spec.node_class_ref.name == name
        ]
        # A claim that does not decode may use it too.
        users += [each.name for each in self._cluster.informers.claims.unreadable.values()]
        if users:
            shown = ", ".join(sorted(users)[:5])
            self._recorder.tell(
                Subject.of(EC2_NODE_CLASSES, node_class),
                "WaitingOnNodeClaimTermination",
                f"Waiting on NodeClaim termination for {shown}",
                about="users",
            )
            return _IN_USE_AGAIN_S
        await self._resolver.cleanup(node_class)
        await remove_finalizer(
            self._client, self._cluster.informers.classes, stored, names.EC2NODECLASS_FINALIZER
        )
        self._log.info("deleted nodeclass", EC2NodeClass={"name": name})
        return None

    async def _misread(self, stored: Stored) -> float | None:
        """Says on a class that cannot be understood why it is not used."""
        name = stored.metadata.name
        problem = next(
            (
                each.problem
                for each in self._cluster.effective.misread
                if (each.kind, each.name) == ("EC2NodeClass", name)
            ),
            "not understood",
        )
        if any(each.get("message") == problem for each in stored.status.get("conditions") or ()):
            return None
        reason = "EC2NodeClassValidationFailed"
        self._recorder.tell(Subject.of(EC2_NODE_CLASSES, stored), reason, problem, type="Warning")
        conditions = ConditionSet.of(EC2_NODE_CLASS, stored.metadata).false(
            "ValidationSucceeded", self._clock.now(), reason=reason, message=problem
        )
        body = {"conditions": conditions.to_wire()}
        is_done = await write_status(self._client, self._cluster.informers.classes, stored, body)
        return None if is_done else _CONFLICT_AGAIN_S

    def _class_changed(self, change: Change[Any]) -> None:
        """Looks again when the class's words have changed, or it is going; not at every status that we write."""
        metadata = change.object.metadata
        is_going = metadata.deletion_timestamp is not None
        if change.new is None:
            self._generations.pop(metadata.name, None)
        elif is_going or self._generations.get(metadata.name) != metadata.generation:
            self._generations[metadata.name] = metadata.generation
            self._queue.add(metadata.name)

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        if change.new is None:
            name = change.object.spec.node_class_ref.name
            stored = self._cluster.informers.classes.get(name)
            if stored is not None and stored.metadata.deletion_timestamp is not None:
                self._queue.add(name)


def _annotated(wanted: Mapping[str, str], stored: Stored) -> Mapping[str, Any]:
    known = stored.metadata.annotations
    changed = {key: value for key, value in wanted.items() if known.get(key) != value}
    return {"metadata": {"annotations": changed}} if changed else {}
