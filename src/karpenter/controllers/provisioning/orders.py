# SPDX-License-Identifier: Apache-2.0
"""From a planned node to the manifest of its NodeClaim: pure.

The claim carries everything that its launch and its later life need, so that whoever goes on with it, this process
or the next, needs nothing else: labels and taints of its pool, the requirements narrowed to what was planned, what
its pods ask for, and the fingerprint of the template that it was made from.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.api import labels as names
from karpenter.api.base import to_wire
from karpenter.api.nodepool import NodePool
from karpenter.model.hashes import POOL_HASH_VERSION, pool_hash
from karpenter.model.requirements import Requirement, Requirements
from karpenter.scheduling.plan import NewNode

__all__ = ["claim_manifest"]

# As Karpenter: more would only make the object large; a launch takes the 60 cheapest of them.
_MOST_TYPES: Final = 600
# Settled by the kubelet, of no meaning for what is to be launched, or a name of old that the CRD refuses.
_NOT_FOR_CLAIMS: Final = (names.HOSTNAME, names.REGISTERED, names.INITIALIZED, names.PROVISIONER_NAME)


def claim_manifest(node: NewNode, pool: NodePool) -> dict[str, Any]:
    """Gives the manifest for a planned node of a pool."""
    template = pool.spec.template
    requirements = _narrowed(node).without(*_NOT_FOR_CLAIMS)
    spec: dict[str, Any] = {
        "requirements": [to_wire(each) for each in requirements.entries()],
        "nodeClassRef": to_wire(template.spec.node_class_ref),
        "resources": {"requests": node.requests.to_quantities()},
        "expireAfter": template.spec.expire_after,
    }
    if template.spec.taints:
        spec["taints"] = [to_wire(each) for each in template.spec.taints]
    if template.spec.startup_taints:
        spec["startupTaints"] = [to_wire(each) for each in template.spec.startup_taints]
    if template.spec.termination_grace_period:
        spec["terminationGracePeriod"] = template.spec.termination_grace_period
    return {"metadata": _metadata(node, pool, requirements), "spec": spec}


def _metadata(node: NewNode, pool: NodePool, requirements: Requirements) -> dict[str, Any]:
    template = pool.spec.template
    annotations = {
        **template.metadata.annotations,
        names.NODEPOOL_HASH: pool_hash(pool),
        names.NODEPOOL_HASH_VERSION: POOL_HASH_VERSION,
    }
    if node.min_values_relaxed:
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
