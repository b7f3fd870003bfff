# SPDX-License-Identifier: Apache-2.0
"""Where a pod's volumes allow it to run, and how many of them its node must attach.

Decides from the pod and the claims, volumes and storage classes as they stand. A bound volume says which
nodes reach it; one that is still to be made may be made wherever its storage class allows. Alternatives of
one volume are OR-ed, those of several multiplied out, contradictory combinations dropped, equal ones counted
once. The host name of a local volume is ignored: a pod that needs another node cannot keep it anyway.

A pod that waits for something else than a node is refused with a ``VolumeProblem``, as Kubernetes' scheduler
would: a claim that is missing, going or lost, a volume that is missing or going, a claim that should be bound
and is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from karpenter.api.core import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    Volume,
)
from karpenter.api.labels import BIND_COMPLETED, HOSTNAME
from karpenter.model.requirements import NO_REQUIREMENTS, Requirement, RequirementError, Requirements

__all__ = [
    "NO_ATTACHMENTS",
    "AttachLimitExceeded",
    "Attachments",
    "Refusal",
    "Storage",
    "VolumeDemand",
    "VolumeProblem",
    "attach_limits",
    "attachments",
    "volume_demand",
]

# More combinations than this are no help to anybody; zones of a region are six at most. A judgement.
_MOST_ALTERNATIVES: Final = 256

_EBS_DRIVER: Final = "ebs.csi.aws.com"
_CSI_DRIVERS: Final = {
    "kubernetes.io/aws-ebs": _EBS_DRIVER,
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}


class Refusal(StrEnum):
    """Why no node helps a pod with such a volume."""

    CLAIM_MISSING = "ClaimMissing"
    CLAIM_DELETING = "ClaimDeleting"
    CLAIM_LOST = "ClaimLost"
    VOLUME_MISSING = "VolumeMissing"
    VOLUME_DELETING = "VolumeDeleting"
    BIND_INCOMPLETE = "BindIncomplete"
    CLASS_UNNAMED = "StorageClassUnnamed"
    CLASS_MISSING = "StorageClassMissing"
    IMMEDIATE_UNBOUND = "ImmediateUnbound"
    TOPOLOGY_UNSUPPORTED = "TopologyUnsupported"
    DRIVER_UNSUPPORTED = "DriverUnsupported"
    TOPOLOGY_INVALID = "TopologyInvalid"
    UNREACHABLE = "Unreachable"
    CONTRADICTION = "Contradiction"
    TOO_MANY_ALTERNATIVES = "TooManyAlternatives"


_SENTENCES: Final = {
    Refusal.CLAIM_MISSING: "claim {claim} does not exist",
    Refusal.CLAIM_DELETING: "claim {claim} is being deleted",
    Refusal.CLAIM_LOST: "claim {claim} has lost its volume {volume}",
    Refusal.VOLUME_MISSING: "claim {claim} is bound to volume {volume}, which does not exist",
    Refusal.VOLUME_DELETING: "claim {claim} is bound to volume {volume}, which is being deleted",
    Refusal.BIND_INCOMPLETE: "claim {claim} names volume {volume} but is not bound to it yet",
    Refusal.CLASS_UNNAMED: "claim {claim} is not bound and names no storage class",
    Refusal.CLASS_MISSING: "claim {claim} is not bound and its storage class {detail} does not exist",
    Refusal.IMMEDIATE_UNBOUND: "claim {claim} is not bound, though storage class {detail} binds at once",
    Refusal.TOPOLOGY_UNSUPPORTED: "claim {claim} depends on label {detail}, which our nodes will not have",
    Refusal.DRIVER_UNSUPPORTED: "claim {claim} needs driver {detail}, which our nodes do not support",
    Refusal.TOPOLOGY_INVALID: "the topology of claim {claim} cannot be read: {detail}",
    Refusal.UNREACHABLE: "the topology of claim {claim} has no term that a node can meet",
    Refusal.CONTRADICTION: "claim {claim} and the volumes before it share no place where a node can be",
    Refusal.TOO_MANY_ALTERNATIVES: "the volumes up to claim {claim} combine in more than {detail} ways",
}
_HINTS: Final = {
    Refusal.CLAIM_MISSING: "create the claim, or correct its name in the pod",
    Refusal.CLAIM_DELETING: "wait until the claim is gone and create it anew",
    Refusal.CLAIM_LOST: "restore the volume, or delete the claim and create it anew",
    Refusal.VOLUME_MISSING: "restore the volume, or delete the claim and create it anew",
    Refusal.VOLUME_DELETING: "delete the claim and create it anew",
    Refusal.BIND_INCOMPLETE: "wait for the volume controller; the volume's claimRef must name this claim",
    Refusal.CLASS_UNNAMED: "name a storage class in the claim, or mark one as default before creating it",
    Refusal.CLASS_MISSING: "create the storage class, or correct its name in the claim",
    Refusal.IMMEDIATE_UNBOUND: "wait for the driver, or use a class that binds at the first consumer",
    Refusal.TOPOLOGY_UNSUPPORTED: "use topology.kubernetes.io/zone in allowedTopologies",
    Refusal.DRIVER_UNSUPPORTED: "use a storage class of a supported driver",
    Refusal.TOPOLOGY_INVALID: "correct the node affinity of the volume",
    Refusal.UNREACHABLE: "correct the node affinity of the volume, or allowedTopologies of the class",
    Refusal.CONTRADICTION: "the pod's volumes lie in different zones: move or restore one of them",
    Refusal.TOO_MANY_ALTERNATIVES: "give the storage classes fewer, wider allowedTopologies",
}


class VolumeProblem(msgspec.Struct, frozen=True, cache_hash=True):
    """Why no node helps a pod, and on account of which of its volumes.

    Attributes:
        refusal: The kind of problem.
        name: The volume's name in the pod.
        claim: Namespace and name of the claim.
        volume: The persistent volume that the claim names, or empty.
        detail: The storage class, label, driver or text that the problem is about, or empty.
    """

    refusal: Refusal
    name: str
    claim: str
    volume: str = ""
    detail: str = ""

    @property
    def hint(self) -> str:
        """What to do about it."""
        return _HINTS[self.refusal]

    def __str__(self) -> str:
        sentence = _SENTENCES[self.refusal]
        return f"volume {self.name}: " + sentence.format(
            claim=self.claim, volume=self.volume, detail=self.detail
        )


class Storage(msgspec.Struct, frozen=True):
    """The claims, by namespace and name, the volumes and the storage classes of a cluster."""

    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = msgspec.field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = msgspec.field(default_factory=dict)
    classes: Mapping[str, StorageClass] = msgspec.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        claims: Iterable[PersistentVolumeClaim] = (),
        volumes: Iterable[PersistentVolume] = (),
        classes: Iterable[StorageClass] = (),
    ) -> Storage:
        """Makes it from lists of objects."""
        return cls(
            {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims},
            {volume.metadata.name: volume for volume in volumes},
            {storage_class.metadata.name: storage_class for storage_class in classes},
        )


class AttachLimitExceeded(msgspec.Struct, frozen=True, cache_hash=True):
    """A node that would have to attach more volumes of a driver than it can."""

    driver: str
    count: int
    limit: int

    def __str__(self) -> str:
        return (
            f"{self.count} volumes of driver {self.driver} would be attached, the node can hold {self.limit}"
        )


class Attachments(msgspec.Struct, frozen=True, cache_hash=True):
    """The claims that a pod, or all pods of a node, have attached, as pairs of driver and claim."""

    claims: frozenset[tuple[str, str]] = frozenset()

    def union(self, other: Attachments) -> Attachments:
        """Gives the claims of both; one that two pods share is attached once."""
        if not other.claims:
            return self
        return Attachments(self.claims | other.claims) if self.claims else other

    def counts(self) -> dict[str, int]:
        """Gives the number of claims per driver, in the order of the drivers."""
        counted: dict[str, int] = {}
        for driver, _ in sorted(self.claims):
            counted[driver] = counted.get(driver, 0) + 1
        return counted

    def exceeded(self, limits: Mapping[str, int]) -> AttachLimitExceeded | None:
        """Gives the first driver, in order, of which there are more than the limit, or None."""
        for driver, count in self.counts().items():
            if count > limits.get(driver, count):
                return AttachLimitExceeded(driver, count, limits[driver])
        return None


NO_ATTACHMENTS: Final = Attachments()


class VolumeDemand(msgspec.Struct, frozen=True, cache_hash=True):
    """What a pod's volumes ask of its node.

    Attributes:
        alternatives: One of them must hold; a pod whose volumes ask nothing has one that every node meets.
            Empty where there are problems.
        attachments: The claims that the node must attach.
        problems: Why no node helps, for each claim that is at fault.
    """

    alternatives: tuple[Requirements, ...] = (NO_REQUIREMENTS,)
    attachments: Attachments = NO_ATTACHMENTS
    problems: tuple[VolumeProblem, ...] = ()


_NO_DEMAND: Final = VolumeDemand()


def volume_demand(
    pod: Pod,
    storage: Storage,
    *,
    unsupported_drivers: frozenset[str] = frozenset(),
    unsupported_topology_keys: frozenset[str] = frozenset(),
) -> VolumeDemand:
    """Works out what the volumes of a pod ask of its node, or why no node can help.

    Args:
        pod: The pod.
        storage: The claims, volumes and storage classes as they stand.
        unsupported_drivers: Drivers whose volumes no node of ours can attach.
        unsupported_topology_keys: Labels in allowedTopologies that no node of ours will have.
    """
    mounts = _mounts(pod, storage)
    if not mounts:
        return _NO_DEMAND
    attached = _attached(mounts)
    found = (mount.problem(unsupported_drivers, unsupported_topology_keys) for mount in mounts)
    problems = tuple(problem for problem in found if problem is not None)
    if problems:
        return VolumeDemand((), attached, problems)
    alternatives: tuple[Requirements, ...] = (NO_REQUIREMENTS,)
    for mount in mounts:
        narrowed = mount.narrow(alternatives)
        if isinstance(narrowed, VolumeProblem):
            return VolumeDemand((), attached, (narrowed,))
        alternatives = narrowed
    return VolumeDemand(alternatives, attached)


def attachments(pod: Pod, storage: Storage) -> Attachments:
    """Gives the claims that a running pod has attached to its node; those of unknown drivers are left out."""
    return _attached(_mounts(pod, storage))


def attach_limits(node: CSINode) -> dict[str, int]:
    """Gives how many volumes of each driver a node can hold; a driver that states no limit is left out."""
    return {
        driver.name: driver.allocatable.count
        for driver in node.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


class _Mount(msgspec.Struct, frozen=True):
    """A volume of a pod that is a claim, with all that is known of it."""

    name: str
    claim_id: str
    claim: PersistentVolumeClaim | None
    volume: PersistentVolume | None
    storage_class: StorageClass | None

    @property
    def volume_name(self) -> str:
        return "" if self.claim is None else self.claim.spec.volume_name

    @property
    def class_name(self) -> str:
        return "" if self.claim is None else self.claim.spec.storage_class_name or ""

    @property
    def driver(self) -> str:
        """The CSI driver that attaches the volume; empty where it is unknown, or none does."""
        if self.volume is not None:
            spec = self.volume.spec
            if spec.csi is not None:
                return spec.csi.driver
            return _EBS_DRIVER if spec.aws_elastic_block_store is not None else ""
        if self.volume_name or self.storage_class is None:
            return ""
        provisioner = self.storage_class.provisioner
        return _CSI_DRIVERS.get(provisioner, provisioner)

    def refused(self, refusal: Refusal, detail: str = "") -> VolumeProblem:
        return VolumeProblem(refusal, self.name, self.claim_id, self.volume_name, detail)

    def problem(
        self, unsupported_drivers: frozenset[str], unsupported_keys: frozenset[str]
    ) -> VolumeProblem | None:
        """Gives why no node helps, before asking where the volume can be reached from."""
        if self.claim is None:
            return self.refused(Refusal.CLAIM_MISSING)
        if self.claim.metadata.deletion_timestamp is not None:
            return self.refused(Refusal.CLAIM_DELETING)
        if self.claim.status.phase == "Lost":
            return self.refused(Refusal.CLAIM_LOST)
        problem = (
            self._bound_problem(self.claim) if self.volume_name else self._unbound_problem(unsupported_keys)
        )
        if problem is None and self.driver in unsupported_drivers:
            return self.refused(Refusal.DRIVER_UNSUPPORTED, self.driver)
        return problem

    def _bound_problem(self, claim: PersistentVolumeClaim) -> VolumeProblem | None:
        if self.volume is None:
            return self.refused(Refusal.VOLUME_MISSING)
        if self.volume.metadata.deletion_timestamp is not None:
            return self.refused(Refusal.VOLUME_DELETING)
        if BIND_COMPLETED not in claim.metadata.annotations:
            return self.refused(Refusal.BIND_INCOMPLETE)
        return None

    def _unbound_problem(self, unsupported_keys: frozenset[str]) -> VolumeProblem | None:
        if not self.class_name:
            return self.refused(Refusal.CLASS_UNNAMED)
        if self.storage_class is None:
            return self.refused(Refusal.CLASS_MISSING, self.class_name)
        if self.storage_class.volume_binding_mode != "WaitForFirstConsumer":
            return self.refused(Refusal.IMMEDIATE_UNBOUND, self.class_name)
        for term in self.storage_class.allowed_topologies:
            for expression in term.match_label_expressions:
                if expression.key in unsupported_keys:
                    return self.refused(Refusal.TOPOLOGY_UNSUPPORTED, expression.key)
        return None

    def narrow(self, alternatives: tuple[Requirements, ...]) -> tuple[Requirements, ...] | VolumeProblem:
        """Gives what is left of the alternatives where this volume must be reached too, each once."""
        try:
            terms = _allowed(self.storage_class) if self.volume is None else _reach(self.volume)
        except RequirementError as error:
            return self.refused(Refusal.TOPOLOGY_INVALID, error.message)
        if terms is None:
            return alternatives
        usable = [term for term in terms if not term.is_empty]
        if not usable:
            return self.refused(Refusal.UNREACHABLE)
        merged = (one.intersection(term) for one in alternatives for term in usable if one.intersects(term))
        narrowed = tuple(dict.fromkeys(merged))
        if not narrowed:
            return self.refused(Refusal.CONTRADICTION)
        if len(narrowed) > _MOST_ALTERNATIVES:
            return self.refused(Refusal.TOO_MANY_ALTERNATIVES, str(_MOST_ALTERNATIVES))
        return narrowed


def _reach(volume: PersistentVolume) -> list[Requirements] | None:
    """Gives a set of requirements for each term of the volume's node affinity; None where it has none."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    on_one_host = volume.spec.local is not None or volume.spec.host_path is not None
    terms = []
    for term in affinity.required.node_selector_terms:
        # A term without expressions matches no node, and one with fields none that is still to come.
        if term.match_expressions and not term.match_fields:
            requirements = Requirements.from_expressions(term.match_expressions)
            terms.append(requirements.without(HOSTNAME) if on_one_host else requirements)
    return terms


def _allowed(storage_class: StorageClass | None) -> list[Requirements] | None:
    """Gives a set of requirements for each allowed topology of the class; None where all are allowed."""
    if storage_class is None or not storage_class.allowed_topologies:
        return None
    return [
        Requirements(Requirement.of(each.key, "In", each.values) for each in term.match_label_expressions)
        for term in storage_class.allowed_topologies
        if term.match_label_expressions
    ]


def _mounts(pod: Pod, storage: Storage) -> tuple[_Mount, ...]:
    return tuple(
        _mount(pod.metadata.namespace, volume.name, claim_name, storage)
        for volume in pod.spec.volumes
        if (claim_name := _claim_name(pod, volume))
    )


def _claim_name(pod: Pod, volume: Volume) -> str:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""


def _mount(namespace: str, name: str, claim_name: str, storage: Storage) -> _Mount:
    claim = storage.claims.get((namespace, claim_name))
    claim_id = f"{namespace}/{claim_name}"
    if claim is None:
        return _Mount(name, claim_id, None, None, None)
    volume = storage.volumes.get(claim.spec.volume_name)
    return _Mount(name, claim_id, claim, volume, storage.classes.get(claim.spec.storage_class_name or ""))


def _attached(mounts: Iterable[_Mount]) -> Attachments:
    claims = frozenset((mount.driver, mount.claim_id) for mount in mounts if mount.driver)
    return Attachments(claims) if claims else NO_ATTACHMENTS
