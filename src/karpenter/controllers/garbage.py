# SPDX-License-Identifier: Apache-2.0
"""Nothing is left behind, in either direction: claims without an instance go, and instances without a claim.

Both look at the cloud's list of our instances. A claim whose node is not ready and whose instance is gone is deleted,
so that its pods are placed anew. An instance that no claim answers for (``cloud.leaks``) is terminated.

A list that lacks something must never end what it lacks. So nothing is collected while a NodeClaim or Node does not
decode, or while the copy of the cluster is stale. What the copy suggests is looked up again: claims from the API server
as plain JSON, instances from the cloud by their id, and the pods of a node before its instance is ended; a node with
pods is drained. And one round ends at most a share of the fleet, so that an unforeseen mistake is seen
before it has reached every node.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from karpenter.api.base import Frozen
from karpenter.api.conditions import LAUNCHED, READY, is_true
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import TERMINATION_FINALIZER, ZONE, ZONE_ID
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import NodeClaimNotFoundError, TerminationRefusedError
from karpenter.cloud.leaks import Leak, Owner, leaks
from karpenter.cloud.protocol import CloudProvider, Machine
from karpenter.controllers.patches import add_finalizer, reread
from karpenter.controllers.termination.podlists import pods_left
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.kit.rounds import one_round
from karpenter.kube import Client, ConflictError, Kind, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log
from karpenter.state import Cluster

__all__ = ["GarbageCollection", "orphaned", "owner_by_tag"]

_EVERY_S: Final = 120.0
# After a start the list is looked at soon again, and then ever later: what a crash left behind should not cost for
# long, and a list of hundreds of instances is half a second of work.
_FIRST_S: Final = 10.0
# As long as the cloud's lists may lack an instance that lives.
_FRESH: Final = timedelta(seconds=60)
_MOST_NAMED: Final = 5

T = TypeVar("T")


class _Json(Frozen):
    """An object of which nothing is decoded."""

    metadata: Any = None
    status: Any = None


_CLAIMS: Final = Kind(_Json, NODE_CLAIMS.name, NODE_CLAIMS.plural, group=NODE_CLAIMS.group)


def owner_by_tag(machine: Machine) -> Collection[str]:
    """Gives the uid of the claim that a machine's tag names; a cloud that launches in batches knows better."""
    return (machine.claim_uid,) if machine.claim_uid else ()


def orphaned(
    claims: Iterable[NodeClaim], machines: Iterable[Machine], nodes_ready: Iterable[str], now: datetime
) -> tuple[NodeClaim, ...]:
    """Gives the launched claims whose instance the cloud no longer lists and whose node is not ready."""
    listed = {machine.provider_id for machine in machines}
    ready = set(nodes_ready)
    return tuple(
        claim
        for claim in claims
        if claim.status.provider_id
        and claim.metadata.deletion_timestamp is None
        and claim.status.provider_id not in listed
        and claim.status.node_name not in ready
        and _launched_before(claim, now - _FRESH)
    )


class GarbageCollection:
    """Looks for leftovers now and then; ``run`` must be kept running by a supervisor.

    Args:
        client: The API server.
        cluster: The copy of the cluster.
        cloud: The cloud.
        decisions: Where it is recorded.
        metrics: Where it is counted.
        clock: The time.
        owners: Gives the uids of the claims that a machine may belong to.
        share: How much of the fleet one round may end, at least one; 0 ends nothing.
    """

    def __init__(  # noqa: PLR0913 - what a controller works with
        self,
        *,
        client: Client,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        owners: Callable[[Machine], Collection[str]] = owner_by_tag,
        share: float = 0.1,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._cloud = cloud
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._owners = owners
        self._share = share
        self._log = get_log("nodeclaim.garbagecollection")

    async def run(self) -> None:
        """Looks again and again, until cancelled."""
        pause_s = _FIRST_S
        while True:
            try:
                with one_round(self._clock):
                    await self.collect()
            except KarpenterError as error:
                self._metrics.reconcile_errors.labels("nodeclaim.garbagecollection").inc()
                self._log.error("Reconciler error", error=error)
            await self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, _EVERY_S)

    async def collect(self) -> None:
        """Takes away what is left over now."""
        machines = await self._cloud.list()
        now = self._clock.now()
        informers = self._cluster.informers
        if self._is_held_back():
            return
        ready = [node.metadata.name for node in informers.nodes if is_true(node.status.conditions, READY)]
        orphans = orphaned(informers.claims, machines, ready, now)
        owners = tuple(map(Owner.of, informers.claims))
        leaked = leaks(machines, owners, now, self._owners)
        fleet = max(len(machines), len(owners))
        await self._within_share(orphans, self._delete_claim, fleet, "NodeClaims without an instance")
        if leaked:
            confirmed, nodes = await self._confirmed(leaked)
            end = functools.partial(self._end, nodes)
            await self._within_share(confirmed, end, fleet, "instances without a NodeClaim")

    def _is_held_back(self) -> bool:
        """Tells whether the copy of the cluster lacks something, and says so."""
        informers = self._cluster.informers
        unreadable = [*informers.claims.unreadable.values(), *informers.nodes.unreadable.values()]
        if unreadable:
            return self._hold_back("unreadable", "; ".join(map(str, unreadable[:_MOST_NAMED])))
        staleness = informers.staleness
        return self._hold_back("stale", staleness) if staleness else False

    def _hold_back(self, reason: str, words: str) -> bool:
        self._metrics.collection_held_back.labels(reason).inc()
        self._log.error("nothing is garbage collected", reason=reason, error=words)
        return True

    async def _within_share(
        self, found: Sequence[T], end: Callable[[T], Awaitable[bool]], fleet: int, what: str
    ) -> None:
        """Ends as many as one round may; one that the cloud will not end does not stand in the others' way."""
        most = max(int(self._share * fleet), 1) if self._share else 0
        ended = 0
        for each in found:
            if ended == most:
                self._metrics.collection_held_back.labels("share").inc()
                self._log.error(
                    "more was found than one round may end",
                    found=len(found),
                    ended=ended,
                    what=what,
                    hint="leftovers go in the next rounds; --garbage-collection-share sets how many in one",
                )
                return
            ended += await end(each)

    async def _confirmed(self, suspected: Sequence[Leak]) -> tuple[Sequence[Leak], Sequence[Node]]:
        """Gives those that no claim on the API server answers for either, read as plain JSON, and its nodes."""
        typed, nodes = await self._client.list(NODE_CLAIMS), await self._client.list(NODES)
        unreadable = [*typed.unreadable, *nodes.unreadable]
        if unreadable:
            self._hold_back("unreadable", "; ".join(map(str, unreadable[:_MOST_NAMED])))
            return (), ()
        listing = await self._client.list(_CLAIMS)
        owners = [Owner.of_json({"metadata": each.metadata, "status": each.status}) for each in listing.items]
        machines = [leak.machine for leak in suspected]
        return leaks(machines, owners, self._clock.now(), self._owners), nodes.items

    async def _delete_claim(self, claim: NodeClaim) -> bool:
        """Deletes a claim whose instance is gone; tells whether."""
        name, provider_id = claim.metadata.name, claim.status.provider_id
        if not await self._is_gone(claim):
            return False
        try:
            await self._client.delete(NODE_CLAIMS, name, uid=claim.metadata.uid)
        except (NotFoundError, ConflictError):
            return False
        self._log.info(
            "garbage collected nodeclaim", NodeClaim={"name": name}, **{"provider-id": provider_id}
        )
        self._decisions.record(
            DecisionKind.COLLECT,
            f"NodeClaim/{name}",
            reason="InstanceGone",
            message=f"the instance {provider_id} of NodeClaim {name} is gone",
        )
        return True

    async def _is_gone(self, claim: NodeClaim) -> bool:
        """Tells whether the cloud does not know the instance by its id either, and its node is not ready."""
        try:
            await self._cloud.get(claim.status.provider_id)
        except NodeClaimNotFoundError:
            node_name = claim.status.node_name
            node = await reread(self._client, NODES, node_name) if node_name else None
            return node is None or not is_true(node.status.conditions, READY)
        return False

    async def _end(self, nodes: Sequence[Node], leak: Leak) -> bool:
        """Ends an instance that no claim answers for, or drains its node if that has pods; tells whether."""
        machine = leak.machine
        own = [node for node in nodes if node.spec.provider_id == machine.provider_id]
        for node in own:
            left = await pods_left(self._client, self._cluster, node.metadata.name, self._clock.now())
            if left:
                return await self._drain(node, left)
        try:
            await self._cloud.delete(machine.provider_id)
        except NodeClaimNotFoundError:
            return False
        except TerminationRefusedError as error:
            # The others are collected all the same; this one is tried at the next round.
            zone = machine.labels.get(ZONE, "")
            self._metrics.termination_failures.labels(zone, machine.labels.get(ZONE_ID, "")).inc()
            self._log.error(
                "failed terminating instance", error=error, **{"provider-id": machine.provider_id}
            )
            return False
        for node in own:
            await self._delete_node(node)
        self._log.info("garbage collected cloudprovider instance", **{"provider-id": machine.provider_id})
        self._decisions.record(
            DecisionKind.COLLECT,
            machine.provider_id,
            reason="NoClaim",
            message=f"no NodeClaim knows the instance {machine.provider_id}",
        )
        return True

    async def _drain(self, node: Node, pods: Sequence[str]) -> bool:
        """Deletes a node that has pods; our finalizer holds it until it is drained and its instance ended."""
        if node.metadata.deletion_timestamp is not None:
            return False
        await add_finalizer(self._client, self._cluster.informers.nodes, node, TERMINATION_FINALIZER)
        await self._delete_node(node)
        self._log.info(
            "draining the node of an instance without a nodeclaim",
            Node={"name": node.metadata.name},
            pods=", ".join(pods[:_MOST_NAMED]),
            **{"provider-id": node.spec.provider_id},
        )
        return True

    async def _delete_node(self, node: Node) -> None:
        try:
            await self._client.delete(NODES, node.metadata.name, uid=node.metadata.uid)
        except (NotFoundError, ConflictError):
            return


def _launched_before(claim: NodeClaim, moment: datetime) -> bool:
    stamp = next(
        (each.last_transition_time for each in claim.status.conditions if each.type == LAUNCHED), None
    )
    stamp = stamp or claim.metadata.creation_timestamp
    return stamp is not None and stamp < moment
