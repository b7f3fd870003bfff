# SPDX-License-Identifier: Apache-2.0
"""What each pool may buy now: the cloud's instance types as catalogues, kept while the cloud's answer is the same.

A pool takes part when it is Ready, is not being deleted, and is not static; static pools are given to those who ask for
them by name of a node, not for pods. A pool whose types cannot be had is left out with a word in the log; the others
are not held up by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from karpenter.api.conditions import NODE_CLASS_READY, NODE_POOL, READY, VALIDATION_SUCCEEDED, ConditionSet
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodepool import NodePool
from karpenter.cloud.protocol import CloudProvider, GroupKind
from karpenter.controllers.poolproblems import sentence
from karpenter.errors import KarpenterError
from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType
from karpenter.observe import get_log
from karpenter.state import Cluster

__all__ = ["Market"]


def _is_open(pool: NodePool, class_kind: GroupKind, *, with_static: bool) -> bool:
    """Return whether a pool may make nodes for pods now; with static pools, nodes at all."""
    conditions = ConditionSet.of(NODE_POOL, pool.metadata, pool.status.conditions)
    is_meant = (with_static or pool.spec.replicas is None) and class_kind.is_named_by(pool)
    return is_meant and pool.metadata.deletion_timestamp is None and conditions.is_true(READY)


def _why_closed(pool: NodePool, class_kind: GroupKind) -> str:
    """Return why a pool that is meant for pods makes no node; empty if it is meant for none."""
    if pool.spec.replicas is not None:
        return ""
    if pool.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    conditions = ConditionSet.of(NODE_POOL, pool.metadata, pool.status.conditions)
    deciding = [conditions.get(each) for each in (VALIDATION_SUCCEEDED, NODE_CLASS_READY)]
    said = [each.message for each in deciding if each is not None and each.status == "False" and each.message]
    if not said and not class_kind.is_named_by(pool):
        return ""
    return "; ".join(said) or "it is not Ready: see its conditions"


class Market:
    """The catalogues of all pools that are open."""

    def __init__(
        self,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        *,
        pause: Callable[[str], str] = lambda _: "",
        adjust: Callable[[NodePool, Sequence[InstanceType]], Sequence[InstanceType]] = lambda _, types: types,
    ) -> None:
        """Takes the cluster and the cloud.

        Args:
            cluster: Whose pools they are.
            cloud: Who sells.
            pause: Return why a pool must wait because its last nodes failed; empty if it need not.
            adjust: Corrects what the cloud says of its types for a pool; gives the same object for the same answer.
        """
        self._cluster = cluster
        self._cloud = cloud
        self._pause = pause
        self._adjust = adjust
        self._log = get_log("provisioner")
        self._known: dict[str, tuple[Sequence[InstanceType], Catalogue]] = {}
        # Why each pool that is meant for pods was left out the last time.
        self.closed: Mapping[str, str] = {}

    async def catalogues(self, *, with_static: bool = False) -> Mapping[str, Catalogue]:
        """Gives a catalogue for each open pool; static pools are among them if asked for."""
        found = {}
        closed: dict[str, str] = {}
        pools = self._cluster.effective.pools
        class_kind = self._cloud.node_class_kind
        for name, pool in pools.items():
            if not _is_open(pool, class_kind, with_static=with_static):
                self._log.debug("ignoring nodepool, not ready", NodePool={"name": name})
                closed[name] = _why_closed(pool, class_kind)
                continue
            pause = self._pause(name)
            if pause:
                self._log.info("ignoring nodepool, its last launches failed", NodePool={"name": name})
                closed[name] = pause
                continue
            catalogue = await self._catalogue(pool)
            if isinstance(catalogue, str):
                closed[name] = catalogue
            else:
                found[name] = catalogue
        self.closed = {name: why for name, why in closed.items() if why}
        self._known = {name: known for name, known in self._known.items() if name in pools}
        return found

    async def _catalogue(self, pool: NodePool) -> Catalogue | str:
        """Return a pool's catalogue, or why there is none."""
        name = pool.metadata.name
        node_class = self._cluster.node_class(pool.spec.template.spec.node_class_ref.name)
        if node_class is None:
            return "its EC2NodeClass is not there"
        try:
            types = self._adjust(pool, await self._cloud.instance_types(pool, node_class))
        except KarpenterError as error:
            self._log.error(
                "skipping, unable to resolve instance types", NodePool={"name": name}, error=error
            )
            return f"its instance types are not known: {sentence(error)}"
        if not types:
            self._log.error("skipping, no resolved instance types found", NodePool={"name": name})
            return "its EC2NodeClass offers no instance type"
        known = self._known.get(name)
        if known is None or (known[0] is not types and known[0] != types):
            # A tenth of a second for all of EC2's types: too long for the event loop.
            known = (types, await asyncio.to_thread(Catalogue, types))
            self._known[name] = known
        return known[1]
