# SPDX-License-Identifier: Apache-2.0
"""Nothing is left behind, in either direction: claims without an instance go, and instances without a claim.

Both look at the cloud's list of our instances. A claim whose node is not ready and whose instance is gone is deleted,
so that its pods are placed anew. An instance that nobody answers for (``cloud.leaks``) is terminated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.conditions import LAUNCHED, READY, is_true
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.cloud.leaks import leaks
from karpenter.cloud.protocol import CloudProvider, Machine
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.kube import Client, ConflictError, NotFoundError
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
    """Looks for leftovers now and then; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        owners: Callable[[Machine], Collection[str]] = owner_by_tag,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._cloud = cloud
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._owners = owners
        self._log = get_log("nodeclaim.garbagecollection")

    async def run(self) -> None:
        """Looks again and again, until cancelled."""
        pause_s = _FIRST_S
        while True:
            try:
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
        ready = [node.metadata.name for node in informers.nodes if is_true(node.status.conditions, READY)]
        for claim in orphaned(informers.claims, machines, ready, now):
            await self._delete_claim(claim)
        for leak in leaks(machines, tuple(informers.claims), now, self._owners):
            await self._terminate(leak.machine)

    async def _delete_claim(self, claim: NodeClaim) -> None:
        name, provider_id = claim.metadata.name, claim.status.provider_id
        try:
            await self._client.delete(NODE_CLAIMS, name, uid=claim.metadata.uid)
        except (NotFoundError, ConflictError):
            return
        self._log.info(
            "garbage collected nodeclaim", NodeClaim={"name": name}, **{"provider-id": provider_id}
        )
        self._decisions.record(
            DecisionKind.COLLECT,
            f"NodeClaim/{name}",
            reason="InstanceGone",
            message=f"the instance {provider_id} of NodeClaim {name} is gone",
        )

    async def _terminate(self, machine: Machine) -> None:
        # The informer may lag behind: ask the server itself before an instance is taken away.
        listing = await self._client.list(NODE_CLAIMS)
        if not leaks((machine,), listing.items, self._clock.now(), self._owners):
            return
        try:
            await self._cloud.delete(machine.provider_id)
        except NodeClaimNotFoundError:
            return
        for node in self._cluster.informers.nodes.by("provider_id", machine.provider_id):
            await self._delete_node(node)
        self._log.info("garbage collected cloudprovider instance", **{"provider-id": machine.provider_id})
        self._decisions.record(
            DecisionKind.COLLECT,
            machine.provider_id,
            reason="NoClaim",
            message=f"no NodeClaim knows the instance {machine.provider_id}",
        )

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
