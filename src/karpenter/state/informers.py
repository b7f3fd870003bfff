# SPDX-License-Identifier: Apache-2.0
"""What of the cluster we follow: one informer for each kind that a decision looks at.

Our own kinds are followed as they are stored, because an object may have been written through an older version
of its kind (see `effective`). A kind that is optional in a cluster is followed only if the server serves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.base import EMPTY, Frozen
from karpenter.api.core import (
    CSINode,
    DaemonSet,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    StorageClass,
    VolumeAttachment,
)
from karpenter.api.labels import NODEPOOL
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodeclaim import NodeClaim
from karpenter.kit.clock import Clock
from karpenter.kube import Client, Informer, Kind, Undecodable
from karpenter.kube import kinds as known

__all__ = ["STORED_NODE_CLASSES", "STORED_NODE_POOLS", "Informers", "Replicas", "Stored", "Workload"]


class Stored(Frozen):
    """An object of ours as the API server keeps it, its spec not yet understood."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Mapping[str, Any] = EMPTY
    status: Mapping[str, Any] = EMPTY


class Replicas(Frozen):
    """How many pods a workload is to have; one if it does not say."""

    replicas: int = 1


class Workload(Frozen):
    """A ReplicaSet or StatefulSet, of which only the number of its pods is of interest: there may be thousands."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Replicas = Replicas()


_REPLICA_SETS: Final = Kind(Workload, "ReplicaSet", "replicasets", group="apps", namespaced=True)
_STATEFUL_SETS: Final = Kind(Workload, "StatefulSet", "statefulsets", group="apps", namespaced=True)
STORED_NODE_POOLS: Final = Kind(Stored, "NodePool", "nodepools", group="karpenter.sh")
STORED_NODE_CLASSES: Final = Kind(Stored, "EC2NodeClass", "ec2nodeclasses", group="karpenter.k8s.aws")


@dataclass(frozen=True, slots=True)
class Informers:
    """One informer per kind; `run` keeps all of them following."""

    pods: Informer[Pod]
    nodes: Informer[Node]
    claims: Informer[NodeClaim]
    pools: Informer[Stored]
    classes: Informer[Stored]
    daemon_sets: Informer[DaemonSet]
    volume_claims: Informer[PersistentVolumeClaim]
    volumes: Informer[PersistentVolume]
    storage_classes: Informer[StorageClass]
    csi_nodes: Informer[CSINode]
    attachments: Informer[VolumeAttachment]
    namespaces: Informer[Namespace]
    budgets: Informer[PodDisruptionBudget]
    replica_sets: Informer[Workload]
    stateful_sets: Informer[Workload]

    @classmethod
    def of(
        cls,
        client: Client,
        *,
        clock: Clock | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> Informers:
        """Makes the informers of a cluster; none follows until it is run."""

        def follow(kind: Kind[Any], **indexes: Callable[[Any], list[str]]) -> Informer[Any]:
            return Informer(client, kind, indexes=indexes, clock=clock, on_error=on_error)

        return cls(
            pods=follow(known.PODS, node=_node_of_pod, uid=lambda pod: _one(pod.metadata.uid)),
            nodes=follow(known.NODES, provider_id=lambda node: _one(node.spec.provider_id)),
            claims=follow(
                known.NODE_CLAIMS,
                provider_id=lambda claim: _one(claim.status.provider_id),
                instance=lambda claim: _one(claim.status.provider_id.rpartition("/")[2]),
                node=lambda claim: _one(claim.status.node_name),
                pool=lambda claim: _one(claim.metadata.labels.get(NODEPOOL, "")),
            ),
            pools=follow(STORED_NODE_POOLS),
            classes=follow(STORED_NODE_CLASSES),
            daemon_sets=follow(known.DAEMON_SETS),
            volume_claims=follow(known.PERSISTENT_VOLUME_CLAIMS),
            volumes=follow(known.PERSISTENT_VOLUMES),
            storage_classes=follow(known.STORAGE_CLASSES),
            csi_nodes=follow(known.CSI_NODES),
            attachments=follow(known.VOLUME_ATTACHMENTS, node=lambda each: _one(each.spec.node_name)),
            namespaces=follow(known.NAMESPACES),
            budgets=follow(known.POD_DISRUPTION_BUDGETS),
            replica_sets=follow(_REPLICA_SETS),
            stateful_sets=follow(_STATEFUL_SETS),
        )

    @property
    def all(self) -> tuple[Informer[Any], ...]:
        """Every informer, for whoever supervises them."""
        return tuple(getattr(self, name) for name in self.__slots__)

    @property
    def is_synced(self) -> bool:
        """Tells whether every first list has come in."""
        return all(each.is_synced for each in self.all)

    @property
    def staleness(self) -> str:
        """Says which copy cannot be relied on, and why; empty if all can. What disrupts waits until then."""
        return next((text for each in self.all if (text := each.staleness)), "")

    @property
    def unreadable(self) -> tuple[Undecodable, ...]:
        """Every object on the server that does not decode."""
        return tuple(item for each in self.all for item in each.unreadable.values())

    def has_unreadable_pods(self, node: str) -> bool:
        """Tells whether a node has pods that do not decode: it must not look emptier than it is."""
        return any(each.text("spec", "nodeName") == node for each in self.pods.unreadable.values())

    async def wait_synced(self) -> None:
        """Waits for every first list."""
        await asyncio.gather(*(each.wait_synced() for each in self.all))


def _one(value: str) -> list[str]:
    return [value] if value else []


def _node_of_pod(pod: Pod) -> list[str]:
    return [pod.spec.node_name]
