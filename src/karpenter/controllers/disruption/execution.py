# SPDX-License-Identifier: Apache-2.0
"""Carries commands out, step by step, each step so that it may be cut off at any point and done again.

Taint and write down; wait, unless machines are bought, which take their time to boot; look again at the cluster as it
is then; order what comes before; wait until it works and the pods fit; look at everything once more; delete.
Whatever fails before the deletion is taken back: the taint, the record, the reason, and replacements that nobody uses.
Where the process ends in between, the records on the claims tell the next one how far it got (`Execution.adopt`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from karpenter.api import labels as names
from karpenter.api.conditions import INITIALIZED, is_true
from karpenter.api.core import Pod
from karpenter.api.nodeclaim import NodeClaim
from karpenter.consolidation.types import Reason, Refusal, Situation, Stage
from karpenter.controllers.disruption.conducting import Conductor
from karpenter.controllers.disruption.hands import Hands
from karpenter.controllers.disruption.records import Record, record_of
from karpenter.controllers.disruption.running import Part, Phase, Running, adopted
from karpenter.controllers.disruption.telling import Teller, kind_of
from karpenter.controllers.tainting import is_tainted
from karpenter.kit.clock import Clock
from karpenter.kube import UnreadableError
from karpenter.model.catalogue import Catalogue
from karpenter.model.pods import is_reschedulable
from karpenter.model.snapshot import Snapshot
from karpenter.observe import Metrics
from karpenter.scheduling import NewNode
from karpenter.state import Cluster, price_of

__all__ = ["Execution", "ExecutionSettings", "Ordering", "Second", "View"]

_LOOK_AGAIN_S: Final = 5.0
_MARKED_AT_ONCE: Final = 50
# Pods may still be on their way to where the plan has them when a replacement becomes ready.
_FIT_WITHIN_S: Final = 20.0


class Ordering(Protocol):
    """Who creates claims."""

    async def create(
        self, node: NewNode, *, reason: str = ..., name: str = ..., annotations: Mapping[str, str] = ...
    ) -> NodeClaim | None:
        """Creates the claim of a planned node, or gives the one that has the name already."""
        ...


# Looks at a stage again: the cluster with its nodes as if they stayed, everything else, the moment, and the names of
# the nodes that were bought for it and stand.
Second = Callable[[Stage, Reason, Snapshot, Situation, float, Collection[str]], Stage | Refusal]


@dataclass(frozen=True, slots=True)
class View:
    """The cluster as it is now, to decide on.

    Attributes:
        snapshot: The cluster.
        situation: Everything beside it.
        now: The moment, in seconds since 1970.
    """

    snapshot: Snapshot
    situation: Situation
    now: float


@dataclass(frozen=True, slots=True)
class ExecutionSettings:
    """What an operator may choose.

    Attributes:
        validation_wait_s: How long a command waits between its taints and the second look.
        replacement_timeout_s: How long replacements may take to work.
    """

    validation_wait_s: float = 15.0
    replacement_timeout_s: float = 600.0


# Gives the cluster to look at: nodes that count as staying, nodes that are shown tainted, pods that are shown at home.
Viewer = Callable[[Collection[str], Collection[str], Collection[str]], Awaitable[View]]


class Execution:
    """The commands under way, by key."""

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        *,
        cluster: Cluster,
        hands: Hands,
        orders: Ordering,
        conductor: Conductor,
        teller: Teller,
        metrics: Metrics,
        clock: Clock,
        viewer: Viewer,
        second: Second,
        settings: ExecutionSettings,
        on_deleted: Callable[[Running, Sequence[Pod]], None],
        on_end: Callable[[Running, bool], None],
    ) -> None:
        self._cluster = cluster
        self._hands = hands
        self._orders = orders
        self._conductor = conductor
        self._teller = teller
        self._metrics = metrics
        self._clock = clock
        self._viewer = viewer
        self._second = second
        self._settings = settings
        self._on_deleted = on_deleted
        self._on_end = on_end
        self._free = asyncio.Semaphore(_MARKED_AT_ONCE)
        self._given_up: set[str] = set()
        self.running: dict[str, Running] = {}
        # Filled in by whoever knows them.
        self.catalogues: Mapping[str, Catalogue] = {}
        self._steps: Mapping[Phase, Callable[[Running], Awaitable[float | None]]] = {
            Phase.MARK: self._mark,
            Phase.WAIT: self._wait,
            Phase.VALIDATE: self._validate,
            Phase.LAUNCH: self._launch,
            Phase.AWAIT: self._await,
            Phase.CHECK: self._check,
            Phase.DELETE: self._delete,
            Phase.ROLL_BACK: self._roll_back,
            Phase.FINISH: self._finish,
        }

    def begin(self, command: Running) -> None:
        """Takes a command on whose removals are reserved; `step` carries it out."""
        self.running[command.key] = command
        # From now on nobody else plans with the room that it needs.
        for part in command.parts:
            self._promise(part)
        self._teller.begun(command.act)

    async def step(self, key: str) -> float | None:
        """Does what can be done for a command now, and says when to come back; None when it is over."""
        while (command := self.running.get(key)) is not None:
            again_s = await self._steps[command.phase](command)
            if again_s is not None:
                return again_s
        return None

    def keys_about(self, claim: str) -> tuple[str, ...]:
        """Gives the commands that a claim takes part in."""
        return tuple(key for key, command in self.running.items() if claim in command.concerned)

    def awaited(self) -> frozenset[str]:
        """Gives the nodes that were bought for pods which have not been told to go yet."""
        members = [
            self._cluster.member(name)
            for command in self.running.values()
            if command.phase in {Phase.AWAIT, Phase.CHECK}
            for name in command.part.launch
        ]
        return frozenset(member.name for member in members if member is not None)

    def abandon(self) -> None:
        """Forgets every command: another process may have gone on with them."""
        for command in self.running.values():
            for part in command.parts:
                self._withdraw(part)
            self._cluster.removals.release(command.claims)
        self.running.clear()

    def adopt(self) -> tuple[str, ...]:
        """Takes on what another process has begun, and gives the keys; what did not get far is taken back."""
        known = {claim for command in self.running.values() for claim in command.claims} | self._given_up
        going: dict[tuple[str, float, int], list[NodeClaim]] = {}
        records: dict[tuple[str, float, int], Record] = {}
        for claim in self._cluster.informers.claims:
            record = record_of(claim)
            if record is None or claim.metadata.deletion_timestamp is not None:
                continue
            group = (record.command, record.decided_at, record.stage)
            if record.role == "launch":
                # A replacement says that its stage was settled before the claims that go say so.
                records[group] = record
            elif claim.metadata.name not in known:
                going.setdefault(group, []).append(claim)
                records.setdefault(group, record)
        keys = []
        for group in sorted(going):
            command = self._taken_over(going[group], records[group])
            self.running[command.key] = command
            keys.append(command.key)
        return tuple(keys)

    def stale(self) -> tuple[str, ...]:
        """Gives the claims or nodes that carry our taint though nobody is about to take them."""
        known = {claim for command in self.running.values() for claim in command.claims}
        found = []
        for member in self._cluster.members():
            key = member.claim.metadata.name if member.claim is not None else member.name
            if (
                member.node is not None
                and member.is_managed
                and is_tainted(member.node)
                and not self._cluster.is_going(member)
                and not (member.claim is not None and names.INTERRUPTED in member.claim.metadata.annotations)
                and key not in known
            ):
                found.append(key)
        return tuple(found)

    def _taken_over(self, going: Sequence[NodeClaim], record: Record) -> Running:
        claims = self._cluster.informers.claims
        nodes, prices, pools = {}, {}, set()
        for claim in going:
            pools.add(claim.metadata.labels.get(names.NODEPOOL, ""))
            member = self._cluster.member(claim.metadata.name)
            nodes[member.name if member is not None else claim.metadata.name] = claim.metadata.name
            prices[claim.metadata.name] = self.price(claim)
        command = adopted(record, nodes, prices)
        command.pools = frozenset(pools)
        command.until = self._clock.monotonic() + self._settings.replacement_timeout_s
        is_ordered = record.is_settled and all(claims.get(name) is not None for name in record.launch)
        if not is_ordered or not record.launch:
            command.phase, command.is_blameless = Phase.ROLL_BACK, True
            command.problem = "the controller was restarted before its replacements were ordered"
        else:
            # Until the pods are looked at again they keep the replacements from being taken as empty.
            pods = self._pods(command.part)
            for index, pod in enumerate(pods):
                target = record.launch[index % len(record.launch)]
                self._keep(pod.metadata.uid, target)
        return command

    async def _mark(self, command: Running) -> float | None:
        jobs = [
            self._mark_one(claim, command.record(index), command.words)
            for index, part in enumerate(command.parts)
            for claim in part.claims.values()
        ]
        if not all(await asyncio.gather(*jobs)):
            return self._fail(command, "one of its nodes is gone or going already")
        now = self._clock.monotonic()
        command.settled_at = now + self._settings.validation_wait_s
        # Where something is bought, machines take longer to boot than this, and everything is looked at again then.
        command.until = now if command.part.launch else command.settled_at
        command.phase = Phase.WAIT
        return None

    async def _mark_one(self, claim: str, record: Record, words: str) -> bool:
        async with self._free:
            return await self._hands.mark(claim, record, words)

    async def _wait(self, command: Running) -> float | None:
        left_s = command.until - self._clock.monotonic()
        if left_s > 0:
            return left_s
        command.phase = Phase.VALIDATE
        return None

    async def _validate(self, command: Running) -> float | None:
        """Looks at the stage again, on the cluster as it is now."""
        part = command.part
        found = await self._look(command)
        if isinstance(found, Refusal):
            self._metrics.failed_validations.labels(kind_of(command.reason, len(part.claims))).inc()
            return await self._give_up_stage(command, f"{found.kind}: {found.words}", passes=found.passes)
        kept = {node: part.claims[node] for node in found.remove if node in part.claims}
        dropped = [claim for node, claim in part.claims.items() if node not in kept]
        self._withdraw(part)
        part.stage, part.claims = found, kept
        part.launch = command.names_of(command.current)
        self._promise(part)
        await asyncio.gather(*(self._hands.unmark(claim) for claim in dropped))
        self._cluster.removals.release(dropped)
        if not kept:
            return self._fail(command, "none of its nodes can go any more")
        command.phase = Phase.LAUNCH if part.launch else Phase.DELETE
        return None

    async def _look(self, command: Running, launched: Collection[str] = ()) -> Stage | Refusal:
        part = command.part
        try:
            await asyncio.gather(*(self._hands.reread(node) for node in part.claims))
        except UnreadableError as error:
            return Refusal("scheduling", error.message)
        later = [node for each in command.parts[command.current + 1 :] for node in each.claims]
        uids = {*part.uids, *(pod.metadata.uid for pod in self._pods(part))}
        view = await self._viewer(tuple(part.claims), later, uids)
        return await asyncio.to_thread(
            self._second, part.stage, command.reason, view.snapshot, view.situation, view.now, launched
        )

    async def _launch(self, command: Running) -> float | None:
        part, record = command.part, command.record(command.current, role="launch", is_settled=True)
        reason = str(command.reason).lower()
        marks = {names.DISRUPTION_COMMAND: record.text()}
        ordered = await asyncio.gather(
            *(
                self._orders.create(node, reason=reason, name=name, annotations=marks)
                for node, name in zip(part.stage.launch, part.launch, strict=True)
            )
        )
        if not all(ordered):
            return self._fail(command, "a replacement could not be ordered")
        settled = command.record(command.current, is_settled=True)
        if not all(
            await asyncio.gather(*(self._hands.settle(name, settled) for name in part.claims.values()))
        ):
            return self._fail(command, "one of its nodes is gone")
        command.until = self._clock.monotonic() + self._settings.replacement_timeout_s
        command.phase = Phase.AWAIT
        return None

    async def _await(self, command: Running) -> float | None:
        waiting = False
        for name in command.part.launch:
            claim = self._cluster.informers.claims.get(name)
            if claim is None or claim.metadata.deletion_timestamp is not None:
                return self._fail(command, f"replacement {name} is gone")
            if not is_true(claim.status.conditions, INITIALIZED):
                waiting = True
                self._teller.waiting(claim, launched=bool(claim.status.provider_id))
        if waiting:
            if self._clock.monotonic() >= command.until:
                return self._fail(
                    command,
                    f"replacements are not ready after {self._settings.replacement_timeout_s:g} s",
                )
            return _LOOK_AGAIN_S
        left_s = command.settled_at - self._clock.monotonic()
        if left_s > 0:
            return left_s
        command.until = self._clock.monotonic() + _FIT_WITHIN_S
        command.phase = Phase.CHECK
        return None

    async def _check(self, command: Running) -> float | None:
        """Looks whether the pods fit now that the replacements stand, and whether everything still allows it."""
        part = command.part
        members = [self._cluster.member(name) for name in part.launch]
        found = await self._look(command, [each.name for each in members if each is not None])
        if isinstance(found, Refusal):
            if found.kind == "scheduling" and self._clock.monotonic() < command.until:
                return _LOOK_AGAIN_S
            return self._fail(command, f"{found.kind}: {found.words}")
        self._withdraw(part)
        part.stage = replace(part.stage, moves=found.moves)
        self._promise(part)
        command.phase = Phase.DELETE
        return None

    async def _delete(self, command: Running) -> float | None:
        part = command.part
        targets = {move.uid: target for move, target in part.moves_to()}
        pods = self._pods(part)
        self._conductor.expect(
            [(pod, self._key(targets[pod.metadata.uid])) for pod in pods if pod.metadata.uid in targets]
        )
        for node, name in part.claims.items():
            claim = self._cluster.informers.claims.get(name)
            if claim is None or claim.metadata.deletion_timestamp is not None:
                continue
            await self._hands.delete(claim)
            pool = self._cluster.pool(claim.metadata.labels.get(names.NODEPOOL, ""))
            policy = pool.spec.disruption.consolidation_policy if pool is not None else ""
            on_it = sum(is_reschedulable(pod) for pod in self._cluster.pods_on(node))
            self._teller.terminating(claim, command.act, policy, on_it)
        part.is_deleted = True
        self._on_deleted(command, pods)
        self._go_on(command)
        return None

    def _go_on(self, command: Running) -> None:
        if command.current + 1 < len(command.parts):
            command.current += 1
            command.phase = Phase.VALIDATE
        else:
            command.phase = Phase.FINISH

    async def _give_up_stage(self, command: Running, problem: str, *, passes: bool) -> float | None:
        """Takes a stage back that may not be carried out any more; the others go on without it."""
        part = command.part
        if all(each is part or each.is_deleted or not each.claims for each in command.parts):
            command.is_blameless = passes
            return self._fail(command, problem)
        before = sum(each or 0.0 for each in part.prices.values())
        alone = replace(
            command,
            parts=[part],
            first=command.first + command.current,
            current=0,
            price_before=before,
            price_after=before - part.stage.saving_per_hour,
            problem=problem,
            is_blameless=passes,
        )
        # As long as it is being taken back nobody may think that another process has begun it.
        self._given_up.update(alone.claims)
        command.parts[command.current] = Part(Stage(()), {})
        command.price_before -= alone.price_before
        command.price_after -= alone.price_after
        try:
            await self._roll_back(alone)
        finally:
            self._given_up.difference_update(part.claims.values())
        self._go_on(command)
        return None

    async def _finish(self, command: Running) -> float | None:
        """Waits until everything that goes is gone, and says what came of it."""
        gone = [part for part in command.parts if part.is_deleted]
        left = [
            name
            for part in gone
            for name in part.claims.values()
            if self._cluster.informers.claims.get(name) is not None
        ]
        if left:
            return 6 * _LOOK_AGAIN_S
        del self.running[command.key]
        if gone:
            command.realised_per_hour = self._realised(gone)
            self._teller.settled(command.act, command.pools, command.realised_per_hour)
        self._on_end(command, bool(gone))
        return None

    def _realised(self, parts: Iterable[Part]) -> float | None:
        """Gives what stages save an hour by what was really bought; None where a price is not known."""
        saved = 0.0
        for part in parts:
            claims = [self._cluster.informers.claims.get(name) for name in part.launch]
            bought = [self.price(claim) for claim in claims if claim is not None]
            sold = [part.prices.get(name) for name in part.claims.values()]
            if None in bought or None in sold:
                return None
            saved += sum(each or 0.0 for each in sold) - sum(each or 0.0 for each in bought)
        return saved

    def price(self, claim: NodeClaim) -> float | None:
        """Gives what a claim's machine usually costs an hour, as the decision counted; None if nobody knows."""
        catalogue = self.catalogues.get(claim.metadata.labels.get(names.NODEPOOL, ""))
        return price_of(claim.metadata.labels, catalogue.at_usual_prices()) if catalogue is not None else None

    async def _roll_back(self, command: Running) -> float | None:
        """Takes back what was not deleted yet; each write may fail, and is then done again."""
        parts = [part for part in command.parts if not part.is_deleted]
        claims = [name for part in parts for name in part.claims.values()]
        await asyncio.gather(*(self._hands.unmark(name) for name in claims))
        self._cluster.removals.release(claims)
        for part in parts:
            self._withdraw(part)
            for name in part.launch:
                await self._dismiss(name)
        self._teller.rolled_back(command.act, claims, command.problem, is_blameless=command.is_blameless)
        self._on_end(command, False)
        command.parts = [part for part in command.parts if part.is_deleted]
        command.phase = Phase.FINISH
        # A stage that is taken back alone may have the key of its command, which goes on.
        if not command.parts and self.running.get(command.key) is command:
            del self.running[command.key]
        return None

    async def _dismiss(self, name: str) -> None:
        """Takes away a replacement that nobody uses; one that pods have come to stays, as any other node."""
        claim = self._cluster.informers.claims.get(name)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return
        member = self._cluster.member(name)
        pods = self._cluster.pods_on(member.name) if member is not None and member.node is not None else ()
        is_used = any(is_reschedulable(pod) for pod in pods) or self._cluster.nominations.pods_of(name)
        if is_used:
            await self._hands.forget(name)
        else:
            await self._hands.delete(claim)

    def _fail(self, command: Running, problem: str) -> float | None:
        """Lets the next step take a command back; nothing is waited for."""
        command.problem = problem
        command.phase = Phase.ROLL_BACK
        return None

    def _pods(self, part: Part) -> list[Pod]:
        return [pod for node in part.claims for pod in self._cluster.pods_on(node) if is_reschedulable(pod)]

    def _promise(self, part: Part) -> None:
        for move, target in part.moves_to():
            self._keep(move.uid, self._key(target))

    def _keep(self, uid: str, key: str) -> None:
        lasts_s = self._settings.replacement_timeout_s + self._settings.validation_wait_s + _FIT_WITHIN_S
        self._cluster.nominations.promise([uid], key, lasts_s)

    def _withdraw(self, part: Part) -> None:
        for uid in {*part.uids, *(pod.metadata.uid for pod in self._pods(part))}:
            self._cluster.nominations.withdraw(uid)

    def _key(self, target: str) -> str:
        """Gives the name under which pods are promised to a member: its claim's, if it has one."""
        member = self._cluster.member(target)
        return member.claim.metadata.name if member is not None and member.claim is not None else target
