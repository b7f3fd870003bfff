# SPDX-License-Identifier: Apache-2.0
"""Claims, volumes, storage classes and attach limits: where a pod's volumes let it go.

Claims that are bound keep a pod where their volume can be reached. Claims that wait for their first consumer go
anywhere where a volume stands free or can be made. Volumes of the old in-tree EBS kind are treated as those of the
driver that replaced it, on nodes that say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from karpenter.kit.quantity import parse_value
from karpenter.sandbox.scheduler.matching import Wire, node_term_matches
from karpenter.sandbox.scheduler.pods import PodInfo

__all__ = ["CONFLICT", "EBS_DRIVER", "Demand", "Storage", "Trouble", "claim_class", "fits_claim", "is_bound"]

EBS_DRIVER: Final = "ebs.csi.aws.com"
_OLD_EBS: Final = "kubernetes.io/aws-ebs"
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_BOUND: Final = "pv.kubernetes.io/bind-completed"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_WAITS: Final = "WaitForFirstConsumer"
_ZONE: Final = "topology.kubernetes.io/zone"
_PLACES: Final = {
    _ZONE: _ZONE,
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}

CONFLICT: Final = "node(s) had volume node affinity conflict"
NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
WRONG_ZONE: Final = "node(s) had no available volume zone"
TOO_MANY: Final = "node(s) exceed max volume count"
IN_USE: Final = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a pod's volumes keep it from a node, and whether removing pods there could help."""

    reasons: tuple[str, ...]
    unresolvable: bool = True


@dataclass(slots=True)
class Demand:
    """What one pod's claims ask of a node."""

    bound: list[Wire] = field(default_factory=list)
    waiting: list[Wire] = field(default_factory=list)
    exclusive: frozenset[tuple[str, str]] = frozenset()


@dataclass(slots=True)
class _Limits:
    counts: dict[str, int]
    migrated: bool


class Storage:
    """All that is known of storage in the cluster."""

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], Wire] = {}
        self.volumes: dict[str, Wire] = {}
        self.classes: dict[str, Wire] = {}
        self._limits: dict[str, _Limits] = {}
        self._attachments: dict[str, dict[str, str]] = {}
        # Claims for which a node is chosen, before the API server has said so.
        self.assumed: dict[tuple[str, str], str] = {}

    def set_csi_node(self, name: str, wire: Wire | None) -> None:
        """Takes over what a node says about its drivers, or forgets it."""
        if wire is None:
            self._limits.pop(name, None)
            return
        counts = {
            driver["name"]: driver["allocatable"]["count"]
            for driver in (wire.get("spec") or {}).get("drivers") or ()
            if (driver.get("allocatable") or {}).get("count") is not None
        }
        migrated = (wire["metadata"].get("annotations") or {}).get(_MIGRATED) or ""
        self._limits[name] = _Limits(counts, _OLD_EBS in migrated.split(","))

    def set_attachment(self, name: str, wire: Wire | None) -> None:
        """Takes over an attachment, or forgets it."""
        for held in self._attachments.values():
            held.pop(name, None)
        if wire is not None:
            spec = wire["spec"]
            volume = (spec.get("source") or {}).get("persistentVolumeName")
            if volume:
                self._attachments.setdefault(spec["nodeName"], {})[name] = volume

    def demand(self, pod: PodInfo) -> Demand | str:
        """Gives what a pod's claims ask, or why it can be placed nowhere."""
        demand = Demand()
        exclusive = set()
        unbound_immediate = False
        for use in pod.shape.claims:
            name = pod.claim_name(use)
            claim = self.claims.get((pod.namespace, name))
            problem = _claim_problem(claim, name, ephemeral=use.ephemeral)
            if problem or claim is None:
                return problem
            if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()):
                exclusive.add((pod.namespace, name))
            if is_bound(claim):
                demand.bound.append(claim)
            elif self._waits(claim) and not claim["spec"].get("volumeName"):
                demand.waiting.append(claim)
            else:
                unbound_immediate = True
        if unbound_immediate:
            return "pod has unbound immediate PersistentVolumeClaims"
        demand.exclusive = frozenset(exclusive)
        return demand

    def check(
        self, pod: PodInfo, demand: Demand, node: str, labels: Mapping[str, str], others: Iterable[PodInfo]
    ) -> Trouble | None:
        """Tells why the pod's volumes keep it from a node on which the others stand; None if they do not."""
        there = list(others)
        if demand.exclusive and any(demand.exclusive & self._claims_of(each) for each in there):
            return Trouble((IN_USE,), unresolvable=False)
        if self._exceeds(pod, node, there):
            return Trouble((TOO_MANY,), unresolvable=False)
        reasons = self._binding_reasons(demand, node, labels)
        if reasons:
            return Trouble(reasons)
        if not self._zones_agree(demand, labels):
            return Trouble((WRONG_ZONE,))
        return None

    def driver_and_handle(self, claim: Wire, node: str) -> tuple[str, str]:
        """Gives the driver that serves a claim on a node, and its name for the volume; empty if none is counted."""
        volume = self.volumes.get(claim["spec"].get("volumeName") or "")
        limits = self._limits.get(node)
        migrated = limits is not None and limits.migrated
        if volume is not None:
            return _driver_of(volume["spec"], migrated=migrated)
        found = self.classes.get(claim_class(claim))
        if found is None:
            return "", ""
        metadata = claim["metadata"]
        provisioner = found.get("provisioner") or ""
        if provisioner == _OLD_EBS:
            provisioner = EBS_DRIVER if migrated else ""
        return provisioner, f"claim-{metadata['namespace']}/{metadata['name']}" if provisioner else ""

    def _claims_of(self, pod: PodInfo) -> frozenset[tuple[str, str]]:
        return frozenset((pod.namespace, pod.claim_name(each)) for each in pod.shape.claims)

    def _volumes_of(self, pods: Iterable[PodInfo], node: str) -> dict[str, str]:
        """Gives the driver of each volume that the pods use, by a name of its own."""
        found: dict[str, str] = {}
        for pod in pods:
            for key in self._claims_of(pod):
                claim = self.claims.get(key)
                driver, handle = self.driver_and_handle(claim, node) if claim else ("", "")
                if driver and handle:
                    found[f"{driver}^{handle}"] = driver
        return found

    def _exceeds(self, pod: PodInfo, node: str, others: Iterable[PodInfo]) -> bool:
        limits = self._limits.get(node)
        if limits is None or not limits.counts:
            return False
        wanted = self._volumes_of([pod], node)
        if not wanted:
            return False
        held = self._volumes_of([each for each in others if each.shape.claims], node)
        for name in self._attachments.get(node, {}).values():
            volume = self.volumes.get(name)
            if volume is not None:
                driver, handle = _driver_of(volume["spec"], migrated=limits.migrated)
                if driver and handle:
                    held.setdefault(f"{driver}^{handle}", driver)
        drivers = list(held.values())
        new = [driver for name, driver in wanted.items() if name not in held]
        return any(
            driver in limits.counts and drivers.count(driver) + new.count(driver) > limits.counts[driver]
            for driver in set(new)
        )

    def _binding_reasons(self, demand: Demand, node: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        conflict = missing = False
        for claim in demand.bound:
            volume = self.volumes.get(claim["spec"]["volumeName"])
            if volume is None:
                missing = True
                break
            if not _reachable(volume, labels, migrated=self._migrates(node)):
                conflict = True
                break
        unmet = bool(demand.waiting) and not self._can_bind(demand.waiting, node, labels)
        said = ((CONFLICT, conflict), (NO_VOLUME, unmet), (GONE, missing))
        return tuple(reason for reason, holds in said if holds)

    def _migrates(self, node: str) -> bool:
        limits = self._limits.get(node)
        return limits is not None and limits.migrated

    def _can_bind(self, claims: Iterable[Wire], node: str, labels: Mapping[str, str]) -> bool:
        taken: set[str] = set()
        for claim in claims:
            metadata = claim["metadata"]
            chosen = self.assumed.get((metadata["namespace"], metadata["name"])) or (
                metadata.get("annotations") or {}
            ).get(_SELECTED_NODE)
            if chosen is not None and chosen != node:
                return False
            free = None if chosen else self._free_volume(claim, labels, taken)
            if free is not None:
                taken.add(free)
            elif not self._can_provision(claim, labels):
                return False
        return True

    def _free_volume(self, claim: Wire, labels: Mapping[str, str], taken: set[str]) -> str | None:
        for name, volume in self.volumes.items():
            if name not in taken and fits_claim(volume, claim) and _reachable(volume, labels, migrated=False):
                return name
        return None

    def _can_provision(self, claim: Wire, labels: Mapping[str, str]) -> bool:
        found = self.classes.get(claim_class(claim))
        if found is None or found.get("provisioner") in (None, "", _NO_PROVISIONER):
            return False
        places = found.get("allowedTopologies")
        return not places or any(_place_matches(each, labels) for each in places)

    def _waits(self, claim: Wire) -> bool:
        found = self.classes.get(claim_class(claim))
        return found is not None and found.get("volumeBindingMode") == _WAITS

    def _zones_agree(self, demand: Demand, labels: Mapping[str, str]) -> bool:
        if not any(key in labels for key in _PLACES):
            return True
        for claim in demand.bound:
            volume = self.volumes.get(claim["spec"]["volumeName"]) or {"metadata": {}}
            for key, value in (volume["metadata"].get("labels") or {}).items():
                if key in _PLACES:
                    there = labels.get(key, labels.get(_PLACES[key]))
                    if there not in value.split("__"):
                        return False
        return True


def claim_class(claim: Wire) -> str:
    """Gives the name of the storage class that a claim asks for."""
    old = (claim["metadata"].get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class")
    found: str = old or claim["spec"].get("storageClassName") or ""
    return found


def fits_claim(volume: Wire, claim: Wire) -> bool:
    """Tells whether a volume is free for a claim, large enough, and of the right kind."""
    spec, asked = volume["spec"], claim["spec"]
    holder = spec.get("claimRef")
    metadata = claim["metadata"]
    if holder is not None:
        if (holder.get("namespace"), holder.get("name")) != (metadata["namespace"], metadata["name"]):
            return False
        if holder.get("uid") not in (None, "", metadata["uid"]):
            return False
    elif (volume.get("status") or {}).get("phase") not in (None, "", "Available", "Pending"):
        return False
    if "deletionTimestamp" in volume["metadata"] or (spec.get("storageClassName") or "") != claim_class(
        claim
    ):
        return False
    size = (spec.get("capacity") or {}).get("storage", "0")
    wanted = ((asked.get("resources") or {}).get("requests") or {}).get("storage", "0")
    modes = set(spec.get("accessModes") or ())
    return parse_value(size) >= parse_value(wanted) and modes >= set(asked.get("accessModes") or ())


def _claim_problem(claim: Wire | None, name: str, *, ephemeral: bool) -> str:
    if claim is None:
        if ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if (claim.get("status") or {}).get("phase") == "Lost":
        volume = claim["spec"].get("volumeName", "")
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if "deletionTimestamp" in claim["metadata"]:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return ""


def is_bound(claim: Wire) -> bool:
    """Tells whether a claim has its volume for good."""
    return bool(claim["spec"].get("volumeName")) and _BOUND in (claim["metadata"].get("annotations") or {})


def _driver_of(spec: Wire, *, migrated: bool) -> tuple[str, str]:
    if "csi" in spec:
        return spec["csi"].get("driver") or "", spec["csi"].get("volumeHandle") or ""
    if "awsElasticBlockStore" in spec and migrated:
        return EBS_DRIVER, spec["awsElasticBlockStore"].get("volumeID") or ""
    return "", ""


def _reachable(volume: Wire, labels: Mapping[str, str], *, migrated: bool) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is not None:
        return any(node_term_matches(each, "", labels) for each in required.get("nodeSelectorTerms") or ())
    if migrated and "awsElasticBlockStore" in volume["spec"]:
        zones = (volume["metadata"].get("labels") or {}).get(_ZONE)
        return not zones or labels.get(_ZONE) in zones.split("__")
    return True


def _place_matches(term: Wire, labels: Mapping[str, str]) -> bool:
    return all(
        labels.get(each["key"]) in (each.get("values") or ())
        for each in term.get("matchLabelExpressions") or ()
    )
