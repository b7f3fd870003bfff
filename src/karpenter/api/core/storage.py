# SPDX-License-Identifier: Apache-2.0
"""Storage: where a volume can be reached from, and how many volumes a node can hold."""

from __future__ import annotations

from msgspec import field

from karpenter.api.base import EMPTY, Frozen, Resources
from karpenter.api.core.selection import NodeSelector
from karpenter.api.meta import ObjectMeta

__all__ = [
    "AWSElasticBlockStoreSource",
    "CSINode",
    "CSINodeDriver",
    "CSINodeSpec",
    "CSIVolumeSource",
    "ClaimReference",
    "HostPathSource",
    "LocalSource",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "StorageClass",
    "TopologySelectorLabelRequirement",
    "TopologySelectorTerm",
    "VolumeAttachment",
    "VolumeAttachmentSource",
    "VolumeAttachmentSpec",
    "VolumeAttachmentStatus",
    "VolumeNodeAffinity",
    "VolumeNodeResources",
]


class CSIVolumeSource(Frozen):
    """A volume served by a CSI driver."""

    driver: str
    volume_handle: str = ""


class AWSElasticBlockStoreSource(Frozen):
    """An EBS volume in the old in-tree form; counts as one of the EBS CSI driver's."""

    volume_id: str = field(name="volumeID", default="")


class LocalSource(Frozen):
    """A disk of one machine."""

    path: str = ""


class HostPathSource(Frozen):
    """A folder of one machine."""

    path: str = ""


class VolumeNodeAffinity(Frozen):
    """The nodes that can reach a volume."""

    required: NodeSelector | None = None


class ClaimReference(Frozen):
    """The claim that a volume is bound to."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeSpec(Frozen):
    """A volume's source and reach."""

    capacity: Resources = EMPTY
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreSource | None = None
    local: LocalSource | None = None
    host_path: HostPathSource | None = None


class PersistentVolumeStatus(Frozen):
    """A volume's phase."""

    phase: str = ""


class PersistentVolume(Frozen):
    """A volume (v1)."""

    api_version: str = "v1"
    kind: str = "PersistentVolume"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimSpec(Frozen):
    """What is claimed; an absent class means the default class, an empty one means none."""

    storage_class_name: str | None = None
    volume_name: str = ""
    access_modes: tuple[str, ...] = ()


class PersistentVolumeClaimStatus(Frozen):
    """A claim's phase."""

    phase: str = ""


class PersistentVolumeClaim(Frozen):
    """A claim (v1)."""

    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologySelectorLabelRequirement(Frozen):
    """A label of which one of some values is needed."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Frozen):
    """Labels that must all match."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Frozen):
    """How volumes of a class are made, and where (storage.k8s.io/v1)."""

    api_version: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Frozen):
    """How many volumes of one driver a node can hold; absent means no limit is known."""

    count: int | None = None


class CSINodeDriver(Frozen):
    """A CSI driver on a node; the API sends null where it has no topology."""

    name: str
    node_id: str = field(name="nodeID", default="")
    topology_keys: tuple[str, ...] | None = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Frozen):
    """The CSI drivers of a node; the API sends null where there are none."""

    drivers: tuple[CSINodeDriver, ...] | None = ()


class CSINode(Frozen):
    """The storage side of a node (storage.k8s.io/v1)."""

    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSINode"
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class VolumeAttachmentSource(Frozen):
    """The volume that is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Frozen):
    """Which volume, to which node, by which driver."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Frozen):
    """Whether the volume is attached now."""

    attached: bool = False


class VolumeAttachment(Frozen):
    """The attachment of a volume to a node (storage.k8s.io/v1); a drain waits for its end."""

    api_version: str = "storage.k8s.io/v1"
    kind: str = "VolumeAttachment"
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
