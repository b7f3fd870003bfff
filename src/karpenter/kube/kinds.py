# SPDX-License-Identifier: Apache-2.0
"""Which kinds we speak about with the API server: their paths, and the types that they decode into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import quote

from karpenter.api import core
from karpenter.api.base import Frozen
from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.legacy.awsnodetemplate import AWSNodeTemplate
from karpenter.api.legacy.provisioner import Provisioner
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool

__all__ = [
    "AWS_NODE_TEMPLATES",
    "CAPACITY_BUFFERS",
    "CSI_NODES",
    "DAEMON_SETS",
    "DEPLOYMENTS",
    "EC2_NODE_CLASSES",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "NODE_CLAIMS",
    "NODE_OVERLAYS",
    "NODE_POOLS",
    "PERSISTENT_VOLUMES",
    "PERSISTENT_VOLUME_CLAIMS",
    "PODS",
    "POD_DISRUPTION_BUDGETS",
    "POD_TEMPLATES",
    "PROVISIONERS",
    "REPLICA_SETS",
    "STATEFUL_SETS",
    "STORAGE_CLASSES",
    "VOLUME_ATTACHMENTS",
    "Kind",
    "metadata_of",
]


def metadata_of(item: Frozen) -> ObjectMeta:
    """Gives the metadata of an object of any kind named here; the types cannot say that all have it."""
    metadata: ObjectMeta = item.metadata  # type: ignore[attr-defined]
    return metadata


T = TypeVar("T", bound=Frozen)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One kind of object, where the server keeps it, and what we read of it."""

    struct: type[T]
    name: str
    plural: str
    version: str = "v1"
    group: str = ""
    namespaced: bool = False

    @property
    def api_version(self) -> str:
        """The apiVersion that its manifests carry."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Gives the path of one object, or of the list; of all namespaces if none is named."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def described(self, namespace: str = "", name: str = "") -> str:
        """Names an object as kubectl does, for messages."""
        named = f"{namespace}/{name}" if namespace and self.namespaced else name
        return (
            f"{self.plural}.{self.group} {named}".rstrip()
            if self.group
            else f"{self.plural} {named}".rstrip()
        )


PODS: Final = Kind(core.Pod, "Pod", "pods", namespaced=True)
NODES: Final = Kind(core.Node, "Node", "nodes")
NAMESPACES: Final = Kind(core.Namespace, "Namespace", "namespaces")
PERSISTENT_VOLUMES: Final = Kind(core.PersistentVolume, "PersistentVolume", "persistentvolumes")
PERSISTENT_VOLUME_CLAIMS: Final = Kind(
    core.PersistentVolumeClaim, "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True
)
EVENTS: Final = Kind(core.Event, "Event", "events", namespaced=True)
STORAGE_CLASSES: Final = Kind(core.StorageClass, "StorageClass", "storageclasses", group="storage.k8s.io")
CSI_NODES: Final = Kind(core.CSINode, "CSINode", "csinodes", group="storage.k8s.io")
VOLUME_ATTACHMENTS: Final = Kind(
    core.VolumeAttachment, "VolumeAttachment", "volumeattachments", group="storage.k8s.io"
)
DAEMON_SETS: Final = Kind(core.DaemonSet, "DaemonSet", "daemonsets", group="apps", namespaced=True)
DEPLOYMENTS: Final = Kind(core.Deployment, "Deployment", "deployments", group="apps", namespaced=True)
REPLICA_SETS: Final = Kind(core.ReplicaSet, "ReplicaSet", "replicasets", group="apps", namespaced=True)
STATEFUL_SETS: Final = Kind(core.StatefulSet, "StatefulSet", "statefulsets", group="apps", namespaced=True)
POD_TEMPLATES: Final = Kind(core.PodTemplate, "PodTemplate", "podtemplates", namespaced=True)
POD_DISRUPTION_BUDGETS: Final = Kind(
    core.PodDisruptionBudget, "PodDisruptionBudget", "poddisruptionbudgets", group="policy", namespaced=True
)
LEASES: Final = Kind(core.Lease, "Lease", "leases", group="coordination.k8s.io", namespaced=True)
NODE_POOLS: Final = Kind(NodePool, "NodePool", "nodepools", group="karpenter.sh")
NODE_CLAIMS: Final = Kind(NodeClaim, "NodeClaim", "nodeclaims", group="karpenter.sh")
NODE_OVERLAYS: Final = Kind(NodeOverlay, "NodeOverlay", "nodeoverlays", "v1alpha1", "karpenter.sh")
EC2_NODE_CLASSES: Final = Kind(EC2NodeClass, "EC2NodeClass", "ec2nodeclasses", group="karpenter.k8s.aws")
CAPACITY_BUFFERS: Final = Kind(
    CapacityBuffer, "CapacityBuffer", "capacitybuffers", "v1beta1", "autoscaling.x-k8s.io", namespaced=True
)
PROVISIONERS: Final = Kind(Provisioner, "Provisioner", "provisioners", "v1alpha5", "karpenter.sh")
AWS_NODE_TEMPLATES: Final = Kind(
    AWSNodeTemplate, "AWSNodeTemplate", "awsnodetemplates", "v1alpha1", "karpenter.k8s.aws"
)
