# SPDX-License-Identifier: Apache-2.0
"""One instance for each claim, and never two: batches, tokens, the journal, and what to do when nobody knows.

Claims that want the same within a moment share one CreateFleet if there is a journal; without one each claim has a
request of its own, whose token follows from the claim alone. Either way the same claim at the same attempt always
leads to the same token, and EC2 launches once per token. What EC2 answered is remembered: a claim that asks again at
the same attempt gets the same instance, or is told that its attempt is spent. docs/adr/0007-exactly-once.md goes
through every point at which the process may die.

Only ``Launcher.launch`` is called from outside. It raises what a claim's caller acts on, and lets the errors of
``api`` through when EC2 refuses a whole request or does not answer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.addresses import Addresses
from karpenter.cloud.aws.api import Aws, AwsError, AwsUnreachableError
from karpenter.cloud.aws.batching import Batcher, OnBatch, chunks
from karpenter.cloud.aws.blueprints import Blueprint, Wish, blueprints, owner_tags, wish_of
from karpenter.cloud.aws.choice import Choice, choose
from karpenter.cloud.aws.codes import Kind, is_template_missing
from karpenter.cloud.aws.fleet import (
    CLAIM_UID_TAG,
    LAUNCH_TAG,
    FleetAnswer,
    FleetError,
    Launched,
    Override,
    fleet_request,
    instance_tags,
    launch_failure,
    launch_token,
    mark_unavailable,
    read_answer,
)
from karpenter.cloud.aws.instances import LAG_S, Instances, launched_instance
from karpenter.cloud.aws.instancetypes.compatibility import PlacementGroup
from karpenter.cloud.aws.journal import LaunchIntent, LaunchJournal, problem_of, subnet_zones
from karpenter.cloud.aws.launchtemplates import LaunchSpec, LaunchTemplates
from karpenter.cloud.aws.lots import Order, PreparedLaunch, attempt_spent, largest_requests
from karpenter.cloud.aws.unavailable import Unavailable
from karpenter.cloud.aws.userdata import Cluster
from karpenter.cloud.errors import (
    InsufficientCapacityError,
    LaunchError,
    LaunchPendingError,
)
from karpenter.cloud.protocol import launch_attempt
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock
from karpenter.model.instancetypes import InstanceType
from karpenter.model.resources import PODS

__all__ = ["MAX_BATCH", "AdjustTypes", "GroupOf", "Launcher", "LauncherParts"]

# So many launch a thousand within EC2's requests, and a refusal for want of instance tokens costs little.
MAX_BATCH: Final = 100

# How long a token is trusted to be known to EC2. AWS promises nothing for fleets; for instances it is a day.
_REPLAY_S: Final = 600.0
_CLOCKS_DIFFER: Final = timedelta(minutes=1)
_LOOK_AGAIN_S: Final = 5.0
# A claim without a machine is asked for again within minutes; one that was not asked for in a day is gone.
_REMEMBERED_S: Final = 24 * 3600.0
_MOST_REMEMBERED: Final = 200_000
_TIDY_EVERY_S: Final = 600.0

TypesOf: TypeAlias = Callable[[EC2NodeClass, tuple[str, ...]], Sequence[InstanceType]]
GroupOf: TypeAlias = Callable[[EC2NodeClass], PlacementGroup | None]
# The name of a NodePool and instance types; returns as many types, in the same order.
AdjustTypes: TypeAlias = Callable[[str, Sequence[InstanceType]], Sequence[InstanceType]]


@dataclass(frozen=True, kw_only=True)
class LauncherParts:
    """What a launcher works with.

    Attributes:
        aws: AWS.
        clock: Its time.
        cluster: Gives the cluster that nodes join, as known now.
        templates: Launch templates.
        addresses: Chooses subnets.
        unavailable: What was sold out lately.
        instances: Finds instances.
        types_of: Lists instance types of a node class for some tenancies.
        group_of: Gives the placement group of a node class.
        journal: Makes intents durable; without one every claim is launched by itself.
        uses_reservations: Whether reserved capacity is handled at all.
        reservation_used: Is told of each instance launched into a reservation, and of one found full.
        warn: Is told what a person may want to know.
        template_created: Is told of each launch template that a launch needed and did not find.
        offerings_failed: Is told of the offerings that a launch failed for, and their capacity type.
        on_batch: Is told name and size of each batch, and for how long it was gathered.
        adjust: Corrects instance types for a NodePool, as NodeOverlays say.
    """

    aws: Aws
    clock: Clock
    cluster: Callable[[], Cluster]
    templates: LaunchTemplates
    addresses: Addresses
    unavailable: Unavailable
    instances: Instances
    types_of: TypesOf
    group_of: GroupOf = lambda _: None
    journal: LaunchJournal | None = None
    uses_reservations: bool = True
    reservation_used: Callable[[str, bool], None] = lambda _id, _is_full: None
    warn: Callable[[str], None] = lambda _: None
    template_created: Callable[[str, LaunchSpec], None] = lambda _name, _spec: None
    offerings_failed: Callable[[Sequence[FleetError], str], None] = lambda _errors, _capacity_type: None
    on_batch: OnBatch = lambda _name, _size, _seconds: None
    adjust: AdjustTypes = lambda _pool, types: types


class Launcher:
    """Launches instances for claims."""

    def __init__(self, parts: LauncherParts) -> None:
        self.parts = parts
        on_batch = partial(parts.on_batch, "create_fleet")
        self._batcher: Batcher[Order, Launched | Exception] = Batcher(
            parts.clock, self._run, idle_s=0.035, max_s=1.0, max_items=1000, on_batch=on_batch
        )
        # By UID and attempt: the instance, or None for an attempt that was answered without one.
        self._answered: TTLCache[tuple[str, int], Launched | None] = TTLCache(
            parts.clock, ttl_s=_REMEMBERED_S, max_size=_MOST_REMEMBERED
        )
        # Intents whose outcome is not known, and since when this process has known of them.
        self._open: dict[str, LaunchIntent] = {}
        self._open_since: dict[str, float] = {}
        self._owners: TTLCache[str, str] = TTLCache(
            parts.clock, ttl_s=_REMEMBERED_S, max_size=_MOST_REMEMBERED
        )
        self._flying: dict[tuple[str, int], asyncio.Future[Launched | Exception | None]] = {}
        self._refused_since: TTLCache[str, float] = TTLCache(parts.clock, ttl_s=10 * LAG_S, max_size=10_000)
        self._tidied_at = parts.clock.monotonic()
        self._loading = asyncio.Lock()
        self._loaded_at: datetime | None = None
        self._resolving: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def launch(self, claim: NodeClaim, node_class: EC2NodeClass) -> Launched:
        """Return the instance of a claim, launched now or at an earlier call for the same attempt.

        Raises:
            InsufficientCapacityError: Nothing that fits can be bought now.
            NodeClassNotReadyError: The node class has no image for it.
            LaunchError: EC2 refused, or the attempt is spent.
            LaunchPendingError: An earlier launch may still come to light.
            AwsError: EC2 refused the request as a whole.
            AwsUnreachableError: EC2 did not answer.
            JournalError: The intent cannot be written down.
        """
        await self._load()
        order = Order(
            wish_of(claim, node_class), claim.metadata.uid, launch_attempt(claim), claim.metadata.name
        )
        member = (order.uid, order.attempt)
        for intent in [each for each in self._open.values() if member in each.members]:
            await self._resolve(intent, node_class.metadata.name)
        if member in self._answered:
            known = self._answered.get(member)
            if known is None:
                raise attempt_spent(order)
            return known
        # Two batches with the same claim would be two launches: who asks again joins the first.
        flying = self._flying.get(member)
        if flying is None:
            flying = self._flying[member] = asyncio.ensure_future(self._batcher.ask(order))
            flying.add_done_callback(lambda _: self._flying.pop(member, None))
        outcome = await asyncio.shield(flying)
        if isinstance(outcome, Launched):
            return outcome
        raise outcome or LaunchError(f"launch of {order.claim_name} was given up", hint="it is tried again")

    async def knows(self, claim: NodeClaim) -> bool:
        """Return whether a launch of the claim at this attempt was answered, or was begun and is still open.

        Raises:
            JournalError: The journal cannot be read.
        """
        await self._load()
        member = (claim.metadata.uid, launch_attempt(claim))
        return member in self._answered or any(member in each.members for each in self._open.values())

    def is_first_to_launch(self, claim: NodeClaim) -> bool:
        """Return whether no other process can have launched the claim: it is younger than our reading of the journal.

        By the clocks of two machines, so that a minute is left for what they differ by.
        """
        created = claim.metadata.creation_timestamp
        return (
            self._loaded_at is not None and created is not None and created > self._loaded_at + _CLOCKS_DIFFER
        )

    def claims_of(self, instance_id: str, tags: Mapping[str, str]) -> frozenset[str]:
        """Return the UIDs of the claims that an instance may belong to, as far as this process knows.

        One where it was given out or its tags tell; all members of a launch whose outcome is still open. Whoever
        collects garbage must leave an instance alone as long as one of them exists and has no machine.
        """
        owner = self._owners.get(instance_id) or tags.get(CLAIM_UID_TAG)
        if owner:
            return frozenset({owner})
        intent = self._open.get(tags.get(LAUNCH_TAG, ""))
        return frozenset(uid for uid, _ in intent.members) if intent is not None else frozenset()

    def forget(self) -> None:
        """Drop what is remembered of launches, so that the journal is read anew: others may have launched meanwhile."""
        self._loaded_at = None
        self._answered.clear()
        self._open.clear()
        self._open_since.clear()

    async def end_surplus(self, instance_ids: Iterable[str]) -> None:
        """Terminate instances that no claim is waiting for; where EC2 will not, garbage collection tries again."""
        for instance_id in instance_ids:
            try:
                await self.parts.instances.terminate(instance_id)
            except (AwsError, AwsUnreachableError) as error:
                self.parts.warn(f"instance {instance_id}, which no claim needs, is not terminated: {error}")

    async def close(self) -> None:
        """Give up on what has not been sent."""
        await self._batcher.close()
        await self.parts.addresses.close()

    async def _load(self) -> None:
        """Read what earlier processes wrote down, once."""
        async with self._loading:
            journal = self.parts.journal
            if self._loaded_at is not None or journal is None:
                return
            began = self.parts.clock.now()
            for intent in await journal.load():
                problem = problem_of(intent, self.parts.cluster().name)
                if problem:
                    await journal.set_aside(intent.token, problem)
                elif intent.assigned is None:
                    self._opened(intent)
                else:
                    self._remember(intent)
            self._loaded_at = began

    async def _run(self, orders: tuple[Order, ...]) -> Mapping[Order, Launched | Exception]:
        """Launch a batch: one request for all who would be sold the same, or per claim where there is no journal."""
        size = MAX_BATCH if self.parts.journal is not None else 1
        lots = [
            tuple(lot)
            for group in self._sold_alike(orders)
            for lot in chunks(sorted(group, key=lambda order: (order.uid, order.attempt)), size)
        ]
        # EC2 counts requests and makes the later ones wait: those that most pods wait for go first.
        lots.sort(key=lambda lot: -sum(order.wish.requests.get(PODS, 0) for order in lot))
        outcomes = await asyncio.gather(*(self._run_lot(lot) for lot in lots))
        return {order: outcome for each in outcomes for order, outcome in each.items()}

    def _sold_alike(self, orders: Iterable[Order]) -> list[list[Order]]:
        """Put those together who want the same but for the size of their pods, if that makes no difference."""
        by_wish: dict[Wish, list[Order]] = {}
        for order in orders:
            by_wish.setdefault(order.wish.without_requests, []).append(order)
        groups: list[list[Order]] = []
        for wish, group in by_wish.items():
            named = wish.requirements.get(labels.INSTANCE_TYPE)
            largest = largest_requests(group)
            types = self.parts.types_of(wish.node_class, wish.tenancies) if named is not None else ()
            if all(order.wish.requests == largest for order in group) or (
                named is not None
                and all(largest.fits(kind.allocatable) for kind in types if named.has(kind.name))
            ):
                groups.append(group)
                continue
            apart: dict[Wish, list[Order]] = {}
            for order in group:
                apart.setdefault(order.wish, []).append(order)
            groups += apart.values()
        return groups

    async def _run_lot(self, lot: tuple[Order, ...]) -> Mapping[Order, Launched | Exception]:
        # One lot in trouble must not fail the others of its batch: what it raises is an outcome.
        outcome: Mapping[Order, Launched | Exception]
        try:
            outcome = await self._launch_lot(lot)
        except Exception as error:  # noqa: BLE001
            outcome = dict.fromkeys(lot, error)
        # Nor must its claims wait until EC2 has let the last of them through.
        self._batcher.settle(outcome)
        return outcome

    async def _launch_lot(self, lot: tuple[Order, ...]) -> Mapping[Order, Launched | Exception]:
        prepared = await self._prepare(lot)
        used: set[str] = set()
        try:
            intent = await self._intend(lot, prepared)
            async with self.parts.templates.holding(prepared.names):
                answer = await self._send(prepared)
            used = {each.subnet_id for each in answer.instances}
        except AwsError as error:
            if error.cause.kind is Kind.IDEMPOTENCY:
                return await self._look_for(lot, prepared)
            if error.status < 500:
                await self._withdraw(intent)
            raise
        finally:
            self.parts.addresses.give_back(prepared.subnet_ids, used, prepared.addresses)
        self._learn(answer, prepared)
        launched = await self._settle(intent, answer.instances)
        failure = launch_failure(answer.errors, prepared.choice.capacity_type)
        return {order: launched.get(order.uid) or failure for order in lot}

    async def _prepare(self, lot: Sequence[Order]) -> PreparedLaunch:
        wish, parts = lot[0].wish, self.parts
        group = parts.group_of(wish.node_class)
        choice = choose(
            parts.adjust(wish.nodepool, parts.types_of(wish.node_class, wish.tenancies)),
            wish.requirements,
            largest_requests(lot),
            min_values_relaxed=wish.min_values_relaxed,
        )
        if choice.is_narrow_fallback:
            parts.warn(
                f"NodePool {wish.nodepool}: falling back to on-demand with only"
                f" {len(choice.candidates)} instance types to choose from"
            )
        plans = blueprints(
            choice, wish, parts.cluster(), group=group, uses_reservations=parts.uses_reservations
        )
        addresses = min(each.kind.capacity.get(PODS, 1) for each in choice.candidates) * len(lot)
        subnets = await parts.addresses.best_subnets(wish.node_class, addresses)
        try:
            names = await asyncio.gather(
                *(parts.templates.ensure(plan.spec, parts.template_created) for plan in plans)
            )
            request = self._request(lot, choice, zip(names, plans, strict=True), subnets)
        except BaseException:
            parts.addresses.give_back(subnets.values(), (), addresses)
            raise
        return PreparedLaunch(choice, plans, tuple(names), request, tuple(subnets.values()), addresses, group)

    def _request(
        self,
        lot: Sequence[Order],
        choice: Choice,
        plans: Iterable[tuple[str, Blueprint]],
        subnets: Mapping[str, str],
    ) -> dict[str, Any]:
        wish = lot[0].wish
        overrides = [
            Override(
                name,
                kind.name,
                offering.zone,
                subnets[offering.zone],
                plan.spec.image_id,
                offering.price_per_hour,
            )
            for name, plan in plans
            for kind, offering in plan.offers
            if offering.zone in subnets
        ]
        if not overrides:
            raise InsufficientCapacityError(
                "no subnet of the node class has free addresses in a zone where the claim's types are sold",
                hint="add larger subnets to spec.subnetSelectorTerms, or free addresses",
            )
        token = launch_token((order.uid, order.attempt) for order in lot)
        tags = owner_tags(wish.node_class, self.parts.cluster().name, wish.nodepool) | {LAUNCH_TAG: token}
        if len(lot) == 1:
            tags |= {CLAIM_UID_TAG: lot[0].uid, labels.NODECLAIM_TAG: lot[0].claim_name}
        return fleet_request(
            overrides,
            choice,
            count=len(lot),
            token=token,
            tags=tags,
            # Relaxed claims take what they get; a context would narrow that again.
            context="" if wish.min_values_relaxed else wish.node_class.spec.context,
            by_priority=wish.price_overlaid,
        )

    async def _intend(self, lot: Sequence[Order], prepared: PreparedLaunch) -> LaunchIntent:
        """Make what is about to be launched durable."""
        terms = prepared.terms
        intent = LaunchIntent(
            token=prepared.request["ClientToken"],
            members=tuple((order.uid, order.attempt) for order in lot),
            request=dict(prepared.request),
            capacity_type=terms.capacity_type,
            reservations=dict(terms.reservations),
            tenancy=terms.tenancy,
            partition=terms.partition,
            written_at=self.parts.clock.now(),
        )
        if self.parts.journal is not None:
            await self.parts.journal.put(intent)
            # From here on the outcome is open until it is known, whatever happens to this task.
            self._opened(intent)
        return intent

    async def _withdraw(self, intent: LaunchIntent) -> None:
        """Drop an intent that EC2 refused as a whole: nothing was launched, and its attempt is as good as new."""
        if self.parts.journal is not None:
            await self.parts.journal.drop((intent.token,))
        self._closed(intent.token)

    def _opened(self, intent: LaunchIntent) -> None:
        self._open[intent.token] = intent
        self._open_since[intent.token] = self.parts.clock.monotonic()

    def _closed(self, token: str) -> None:
        self._open.pop(token, None)
        self._open_since.pop(token, None)
        self._resolving.pop(token, None)

    async def _send(self, prepared: PreparedLaunch) -> FleetAnswer:
        try:
            answer = await self.parts.aws.call("ec2", "CreateFleet", **prepared.request)
        except AwsError as error:
            if not is_template_missing(error.code):
                raise
            # Removed by hand or by another process since we last used it. Refused requests leave their token free.
            self.parts.templates.forget(prepared.names)
            await asyncio.gather(*(self.parts.templates.ensure(plan.spec) for plan in prepared.plans))
            answer = await self.parts.aws.call("ec2", "CreateFleet", **prepared.request)
        return read_answer(answer, prepared.terms, subnet_zones(prepared.request))

    def _learn(self, answer: FleetAnswer, prepared: PreparedLaunch) -> None:
        capacity_type, unavailable = prepared.choice.capacity_type, self.parts.unavailable
        group = prepared.group.id if prepared.group else ""
        partition = prepared.choice.partition
        mark_unavailable(answer.errors, capacity_type, unavailable, group=group, partition=partition)
        self.parts.offerings_failed(answer.errors, capacity_type)
        if any(is_template_missing(error.cause.code) for error in answer.errors):
            self.parts.templates.forget(prepared.names)
        for launched in answer.instances:
            unavailable.bought(
                capacity_type, launched.instance_type, launched.zone, group=group, partition=partition
            )
            unavailable.subnet_used(launched.subnet_id)
            if launched.reservation_id:
                self.parts.reservation_used(launched.reservation_id, False)
        if capacity_type == labels.RESERVED:
            for reservation_id in {
                prepared.reservation_of(error) for error in answer.errors if error.tells_shortage
            } - {""}:
                self.parts.reservation_used(reservation_id, True)

    async def _settle(self, intent: LaunchIntent, found: Sequence[Launched]) -> Mapping[str, Launched]:
        """Give each member its instance, durably, and end what nobody asked for."""
        pairs = zip((uid for uid, _ in intent.members), found, strict=False)
        settled = msgspec.structs.replace(intent, assigned=dict(pairs))
        journal = self.parts.journal
        if journal is not None:
            await journal.put(settled)
            await self._tidy(journal)
        self._closed(intent.token)
        self._remember(settled)
        for uid, launched in (settled.assigned or {}).items():
            tags = instance_tags(intent.request) | {CLAIM_UID_TAG: uid}
            self.parts.instances.note(launched_instance(launched, tags))
        await self.end_surplus(each.instance_id for each in found[len(intent.members) :])
        return settled.assigned or {}

    def _remember(self, intent: LaunchIntent) -> None:
        for uid, attempt in intent.members:
            launched = (intent.assigned or {}).get(uid)
            self._answered.set((uid, attempt), launched)
            if launched is not None:
                self._owners.set(launched.instance_id, uid)

    async def _tidy(self, journal: LaunchJournal) -> None:
        """Drop, now and then, what was answered so long ago that every claim has its machine or is gone."""
        now = self.parts.clock.monotonic()
        if now - self._tidied_at < _TIDY_EVERY_S:
            return
        self._tidied_at = now
        oldest = self.parts.clock.now() - timedelta(seconds=_REMEMBERED_S)
        outdated = [each for each in await journal.load() if each.written_at < oldest]
        # Also those that nobody asked after: their claims are gone, and their instances carry tags.
        await journal.drop([each.token for each in outdated])
        for each in outdated:
            self._closed(each.token)

    async def _look_for(
        self, lot: tuple[Order, ...], prepared: PreparedLaunch
    ) -> Mapping[Order, Launched | Exception]:
        """Find what an earlier launch with this token brought; its request differed, so it cannot be repeated."""
        token = prepared.request["ClientToken"]
        now = self.parts.clock.monotonic()
        since = self._refused_since.get(token)
        if since is None:
            since = now
            self._refused_since.set(token, now)
        found = await self._found(token)
        if len(found) < len(lot) and now - since < LAG_S:
            raise LaunchPendingError(
                "an earlier launch of this claim was accepted and its instance cannot be seen yet",
                retry_after_s=_LOOK_AGAIN_S,
            )
        intent = self._open.get(token) or await self._intend(lot, prepared)
        launched = await self._settle(intent, found)
        return {order: launched.get(order.uid) or attempt_spent(order) for order in lot}

    async def _resolve(self, intent: LaunchIntent, node_class: str) -> None:
        """Find out what became of an intent that an earlier process, or a lost answer, left open."""
        async with self._resolving[intent.token]:
            if intent.token not in self._open:
                return
            problem = problem_of(intent, self.parts.cluster().name, node_class)
            if problem and self.parts.journal is not None:
                await self.parts.journal.set_aside(intent.token, problem)
                self._closed(intent.token)
                return
            age_s = (self.parts.clock.now() - intent.written_at).total_seconds()
            found = await self._replayed(intent) if age_s <= _REPLAY_S else None
            if found is None:
                found = await self._found(intent.token)
                known_s = self.parts.clock.monotonic() - self._open_since[intent.token]
                if len(found) < len(intent.members) and known_s < LAG_S:
                    raise LaunchPendingError(
                        f"launch {intent.token} was sent before and EC2 does not show all its instances yet",
                        retry_after_s=_LOOK_AGAIN_S,
                    )
            await self._settle(intent, found)

    async def _replayed(self, intent: LaunchIntent) -> Sequence[Launched] | None:
        """Send an intent's request once more; None if EC2 no longer takes it."""
        try:
            answer = await self.parts.aws.call("ec2", "CreateFleet", **intent.request)
        except AwsError:
            return None
        return read_answer(answer, intent.terms, subnet_zones(intent.request)).instances

    async def _found(self, token: str) -> Sequence[Launched]:
        return [
            Launched(
                each.id,
                each.instance_type,
                each.zone,
                each.capacity_type,
                each.image_id,
                each.subnet_id,
                each.reservation_id,
                each.tenancy,
                each.partition,
            )
            for each in await self.parts.instances.of_launch(token)
        ]
