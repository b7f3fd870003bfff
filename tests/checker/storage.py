# SPDX-License-Identifier: Apache-2.0
"""What a pod's volumes ask of its node: a place they are reached from, and a free slot for each.

Two pods that share a claim which is not bound yet are not held to one zone: which zones a driver joins is unknown.
The host of a local volume is passed over too, since a pod without a place cannot have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from karpenter.api.core import NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from karpenter.api.labels import BIND_COMPLETED, HOSTNAME
from karpenter.model.volumes import Storage
from tests.checker.matching import term_holds

__all__ = ["attached", "unreachable", "waiting_for"]

_EBS = "ebs.csi.aws.com"
_IN_TREE = {"kubernetes.io/aws-ebs": _EBS}


def claim_keys(pod: Pod) -> Iterator[tuple[str, str]]:
    """Give namespace and name of each claim that the pod mounts."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield pod.metadata.namespace, volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield pod.metadata.namespace, f"{pod.metadata.name}-{volume.name}"


def waiting_for(pod: Pod, storage: Storage) -> list[str]:
    """Say what the pod waits for that no node can give: claims and volumes that are missing, lost or unbound."""
    found = []
    for key in claim_keys(pod):
        claim = storage.claims.get(key)
        trouble = "is missing" if claim is None else _trouble(claim, storage)
        if trouble:
            found.append(f"claim {key[0]}/{key[1]} {trouble}")
    return found


def unreachable(pod: Pod, labels: Mapping[str, str], storage: Storage) -> list[str]:
    """Name the pod's claims whose volumes a node with these labels does not reach."""
    found = []
    for key in claim_keys(pod):
        claim = storage.claims.get(key)
        if claim is None:
            continue
        volume, storage_class = _behind(claim, storage)
        if volume is not None:
            reached = _volume_reached(volume, labels)
        else:
            reached = storage_class is None or _class_allows(storage_class, labels)
        if not reached:
            found.append(f"claim {key[0]}/{key[1]}")
    return found


def attached(pods: Iterable[Pod], storage: Storage) -> dict[str, set[tuple[str, str]]]:
    """Give the claims that the pods attach together, by driver; a claim that pods share is attached once."""
    found: dict[str, set[tuple[str, str]]] = {}
    for pod in pods:
        for key in claim_keys(pod):
            claim = storage.claims.get(key)
            driver = "" if claim is None else _driver(claim, storage)
            if driver:
                found.setdefault(driver, set()).add(key)
    return found


def _trouble(claim: PersistentVolumeClaim, storage: Storage) -> str:
    if claim.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if claim.status.phase == "Lost":
        return "is lost"
    volume, storage_class = _behind(claim, storage)
    if not claim.spec.volume_name:
        if storage_class is None:
            return "has no storage class"
        at_once = storage_class.volume_binding_mode != "WaitForFirstConsumer"
        return "should have been bound at once" if at_once else ""
    if volume is None or volume.metadata.deletion_timestamp is not None:
        return "is bound to a volume that is missing or being deleted"
    return "" if BIND_COMPLETED in claim.metadata.annotations else "is not bound completely"


def _behind(
    claim: PersistentVolumeClaim, storage: Storage
) -> tuple[PersistentVolume | None, StorageClass | None]:
    return storage.volumes.get(claim.spec.volume_name), storage.classes.get(
        claim.spec.storage_class_name or ""
    )


def _volume_reached(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    local = volume.spec.local is not None or volume.spec.host_path is not None
    for term in affinity.required.node_selector_terms:
        expressions = tuple(each for each in term.match_expressions if not (local and each.key == HOSTNAME))
        if local and term.match_expressions and not expressions:
            return True
        if term_holds(NodeSelectorTerm(match_expressions=expressions), labels, ""):
            return True
    return False


def _class_allows(storage_class: StorageClass, labels: Mapping[str, str]) -> bool:
    if not storage_class.allowed_topologies:
        return True
    return any(
        all(labels.get(each.key) in each.values for each in term.match_label_expressions)
        for term in storage_class.allowed_topologies
        if term.match_label_expressions
    )


def _driver(claim: PersistentVolumeClaim, storage: Storage) -> str:
    volume, storage_class = _behind(claim, storage)
    if volume is not None:
        if volume.spec.csi is not None:
            return volume.spec.csi.driver
        return _EBS if volume.spec.aws_elastic_block_store is not None else ""
    if claim.spec.volume_name or storage_class is None:
        return ""
    return _IN_TREE.get(storage_class.provisioner, storage_class.provisioner)
