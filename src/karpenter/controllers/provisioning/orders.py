# SPDX-License-Identifier: Apache-2.0
"""From a planned node to its NodeClaim: the manifest, which is pure, and its creation.

The claim carries everything that its launch and its later life need, so that whoever goes on with it, this process
or the next, needs nothing else: labels and taints of its pool, the requirements narrowed to what was planned, what
its pods ask for, and the fingerprint of the template that it was made from. A claim of a static pool is for no pod in
particular: it asks for what the template asks for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from karpenter.api import labels as names
from karpenter.api.base import EMPTY, to_wire
from karpenter.api.core import Pod
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.controllers.patches import reread
from karpenter.controllers.poolproblems import PoolProblems, Topic, sentence
from karpenter.kit.quantity import QuantityError
from karpenter.kube import AlreadyExistsError, Client, FencedError, KubeError
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.model.catalogue import Catalogue, bits
from karpenter.model.hashes import POOL_HASH_VERSION, pool_hash
from karpenter.model.pools import pool_limits
from karpenter.model.requirements import Requirement, Requirements
from karpenter.model.resources import Resources
from karpenter.observe import Metrics, get_log
from karpenter.scheduling.plan import NewNode
from karpenter.state import Cluster

__all__ = ["Orders", "claim_manifest", "template_manifest"]

# As Karpenter: more would only make the object large; a launch takes the 60 cheapest of them.
_MOST_TYPES: Final = 600
# Settled by the kubelet, of no meaning for what is to be launched, or a name of old that the CRD refuses.
_NOT_FOR_CLAIMS: Final = (names.HOSTNAME, names.REGISTERED, names.INITIALIZED, names.PROVISIONER_NAME)


class Orders:
    """Creates claims; what is planned is ordered in the same way whoever planned it."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        metrics: Metrics,
        *,
        controller: str,
        problems: PoolProblems | None = None,
    ) -> None:
        self._problems = problems
        self._client = client
        self._cluster = cluster
        self._metrics = metrics
        self._log = get_log(controller)

    async def create(
        self,
        node: NewNode,
        *,
        reason: str = "provisioned",
        name: str = "",
        annotations: Mapping[str, str] = EMPTY,
    ) -> NodeClaim | None:
        """Creates the claim of a planned node and gives it; None if that cannot be, which is logged.

        Args:
            node: The planned node.
            reason: Why it is made, for the metric.
            name: The claim's name; the server chooses one if it is empty. A claim that has the name already is given.
            annotations: What else the claim is to carry.
        """
        pool = self._cluster.pool(node.pool)
        if pool is None:
            return None
        manifest = claim_manifest(node, pool)
        details = {"requests": node.requests.to_quantities(), "instance-types": _types(node)}
        send = partial(self._send, manifest, node.pool, reason, name, annotations, details, node.pods)
        if name and self._cluster.informers.claims.get(name) is not None:
            # It was ordered before, and is counted where the others are.
            return await send()
        return await self._within_limits(pool, {node.pool: node.catalogue}, partial(_largest, node), send)

    async def create_from_template(
        self, pool: NodePool, *, reason: str, name: str = "", annotations: Mapping[str, str] = EMPTY
    ) -> NodeClaim | None:
        """Creates a claim for what a pool's template asks for; None if that cannot be, which is logged."""
        manifest = template_manifest(pool)
        send = partial(self._send, manifest, pool.metadata.name, reason, name, annotations)
        return await self._within_limits(pool, {}, dict, send)

    async def _within_limits(
        self,
        pool: NodePool,
        catalogues: Mapping[str, Catalogue],
        size: Callable[[], Mapping[str, int]],
        send: Callable[[], Awaitable[NodeClaim | None]],
    ) -> NodeClaim | None:
        """Creates a claim if the pool's limits have room for it; they are checked and used up in one step."""
        name = pool.metadata.name
        if not pool.spec.limits:
            return await send()
        try:
            limits = pool_limits(pool)
        except QuantityError as error:
            self._log.error("failed creating nodeclaim", NodePool={"name": name}, error=error)
            return None

        def count() -> Mapping[str, int]:
            return self._cluster.used(catalogues).get(name, {})

        with self._cluster.launches.reserve(name, {**size(), "nodes": 1}, limits, count) as kept:
            if kept.exceeded:
                # The plan did not include claims that were created since; the next plan does.
                words = f"limit of {kept.exceeded} is used up"
                self._log.info("did not create nodeclaim", NodePool={"name": name}, reason=words)
                return None
            claim = await send()
            kept.is_created = claim is not None
        return claim

    async def _send(
        self,
        manifest: dict[str, Any],
        pool: str,
        reason: str,
        name: str,
        annotations: Mapping[str, str],
        details: Mapping[str, Any] = EMPTY,
        pods: Sequence[Pod] = (),
    ) -> NodeClaim | None:
        metadata = manifest["metadata"]
        relaxed = metadata["annotations"].get(names.MIN_VALUES_RELAXED, "false")
        metadata["annotations"] |= annotations
        if name:
            del metadata["generateName"]
            metadata["name"] = name
        try:
            claim = await self._client.create(NODE_CLAIMS, manifest)
        except AlreadyExistsError:
            # Who was here before us ordered it, and was cut off before the answer came.
            found = await reread(self._client, NODE_CLAIMS, name)
            if found is not None:
                self._cluster.informers.claims.observe(found)
            return found
        except KubeError as error:
            self._log.error("failed creating nodeclaim", NodePool={"name": pool}, error=error)
            if self._problems is not None and not isinstance(error, FencedError):
                words = f"the API server does not take its NodeClaim: {sentence(error)}"
                self._problems.report(pool, Topic.CREATE, "NodeClaimNotCreated", words, pods=pods)
            return None
        if self._problems is not None:
            self._problems.resolved(pool, Topic.CREATE)
        self._cluster.informers.claims.observe(claim)
        self._metrics.claims_created.labels(reason=reason, nodepool=pool, min_values_relaxed=relaxed).inc()
        self._log.info(
            "created nodeclaim",
            NodePool={"name": pool},
            NodeClaim={"name": claim.metadata.name},
            **details,
        )
        return claim


def claim_manifest(node: NewNode, pool: NodePool) -> dict[str, Any]:
    """Gives the manifest for a planned node of a pool."""
    return _manifest(pool, _narrowed(node), node.requests, relaxed=node.min_values_relaxed)


def template_manifest(pool: NodePool) -> dict[str, Any]:
    """Gives the manifest for a node of a pool that is for no pod in particular."""
    return _manifest(pool, Requirements.from_expressions(pool.spec.template.spec.requirements), Resources({}))


def _manifest(
    pool: NodePool, wanted: Requirements, requests: Resources, *, relaxed: bool = False
) -> dict[str, Any]:
    template = pool.spec.template
    requirements = wanted.without(*_NOT_FOR_CLAIMS)
    spec: dict[str, Any] = {
        "requirements": [to_wire(each) for each in requirements.entries()],
        "nodeClassRef": to_wire(template.spec.node_class_ref),
        "resources": {"requests": requests.to_quantities()},
        "expireAfter": template.spec.expire_after,
    }
    if template.spec.taints:
        spec["taints"] = [to_wire(each) for each in template.spec.taints]
    if template.spec.startup_taints:
        spec["startupTaints"] = [to_wire(each) for each in template.spec.startup_taints]
    if template.spec.termination_grace_period:
        spec["terminationGracePeriod"] = template.spec.termination_grace_period
    return {"metadata": _metadata(pool, requirements, relaxed=relaxed), "spec": spec}


def _metadata(pool: NodePool, requirements: Requirements, *, relaxed: bool) -> dict[str, Any]:
    template = pool.spec.template
    annotations = {
        **template.metadata.annotations,
        names.NODEPOOL_HASH: pool_hash(pool),
        names.NODEPOOL_HASH_VERSION: POOL_HASH_VERSION,
    }
    if relaxed:
        annotations[names.MIN_VALUES_RELAXED] = "true"
    settled = {
        each.key: next(iter(each.values))
        for each in requirements
        if not each.complement and len(each.values) == 1
    }
    owner = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "name": pool.metadata.name,
        "uid": pool.metadata.uid,
        "blockOwnerDeletion": True,
    }
    return {
        "generateName": f"{pool.metadata.name}-",
        "labels": {
            **settled,
            **{key: value for key, value in template.metadata.labels.items() if key not in _NOT_FOR_CLAIMS},
            names.NODEPOOL: pool.metadata.name,
            names.EC2NODECLASS: template.spec.node_class_ref.name,
        },
        "annotations": annotations,
        "finalizers": [names.TERMINATION_FINALIZER],
        "ownerReferences": [owner],
    }


def _narrowed(node: NewNode) -> Requirements:
    """Keeps the cheapest types only; offerings are in price order, so the first to name a type is its cheapest."""
    types = dict.fromkeys(each.instance_type for each in node.alternatives)
    if len(types) <= _MOST_TYPES:
        return node.requirements
    kept = tuple(types)[:_MOST_TYPES]
    asked = node.requirements[names.INSTANCE_TYPE].min_values
    return node.requirements.plus(Requirement.of(names.INSTANCE_TYPE, "In", kept, min_values=asked))


def _largest(node: NewNode) -> dict[str, int]:
    """Gives the most that a planned node may turn out to take of each resource."""
    types = {id(each): each for each in map(node.catalogue.type_at, bits(node.usable))}
    largest: dict[str, int] = {}
    for kind in types.values():
        for resource, amount in kind.capacity.items():
            largest[resource] = max(largest.get(resource, 0), amount)
    return largest


def _types(node: NewNode) -> str:
    found = list(dict.fromkeys(each.instance_type for each in node.alternatives))
    shown = ", ".join(found[:5])
    return shown if len(found) <= 5 else f"{shown} and {len(found) - 5} other(s)"
