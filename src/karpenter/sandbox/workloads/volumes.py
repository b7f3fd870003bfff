# SPDX-License-Identifier: Apache-2.0
"""Claims and volumes: binding the two, making volumes as the EBS driver does, and letting them go.

A claim of a class that waits for its first consumer gets its volume once the scheduler has chosen a node, in that
node's zone; others get theirs at once, in any zone that has nodes. Claims and volumes that are in use are not deleted.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Final

from karpenter.kit.quantity import parse_value
from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.scheduler.storage import EBS_DRIVER, claim_class, fits_claim
from karpenter.sandbox.workloads.podstate import is_finished
from karpenter.sandbox.workloads.resources import (
    CLAIM,
    NODE,
    POD,
    STORAGE_CLASS,
    VOLUME,
    Wire,
    is_deleted,
    key_of,
    owner_reference,
)
from karpenter.sandbox.workloads.world import Controller

__all__ = ["Claims", "EphemeralClaims", "Volumes", "claims_of"]

_BIND_DONE: Final = "pv.kubernetes.io/bind-completed"
_BOUND_BY_US: Final = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
_VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_OLD_EBS: Final = "kubernetes.io/aws-ebs"
_ZONE: Final = "topology.kubernetes.io/zone"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def claims_of(pod: Wire) -> Iterable[tuple[str, str]]:
    """Gives namespace and name of the claims that a pod uses."""
    metadata = pod["metadata"]
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield metadata["namespace"], volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield metadata["namespace"], f"{metadata['name']}-{volume['name']}"


class Claims(Controller):
    """Binds claims, and makes volumes for them."""

    name = "persistentvolume-binder"
    source = "persistentvolume-controller"
    resource = CLAIM

    def subscribe(self) -> None:
        """Looks at a claim when it, its volume or a pod that uses it changes."""
        super().subscribe()
        self.world.store(VOLUME).subscribe(self._volume_changed)
        self.world.store(POD).subscribe(self._pod_changed)
        self.world.store(STORAGE_CLASS).subscribe(self._class_changed)

    def _volume_changed(self, old: Wire | None, new: Wire | None) -> None:
        holder = ((new or old or {}).get("spec") or {}).get("claimRef")
        if holder:
            self.queue.add((holder["namespace"], holder["name"]))
        elif new is not None and old is None:
            self._class_changed(None, None)

    def _pod_changed(self, old: Wire | None, new: Wire | None) -> None:
        pod = new or old
        if pod is None or not pod["spec"].get("volumes"):
            return
        if old is not None and new is not None and is_finished(old) == is_finished(new):
            return
        for key in claims_of(pod):
            self.queue.add(key)

    def _class_changed(self, _old: Wire | None, _new: Wire | None) -> None:
        for each in self.world.store(CLAIM).all():
            if (each.get("status") or {}).get("phase") != "Bound":
                self.queue.add(key_of(each))

    async def reconcile(self, wire: Wire) -> float | None:
        """Does the next step towards a bound claim, or lets a deleted one go."""
        if is_deleted(wire):
            await self._let_go(wire)
            return None
        name = wire["spec"].get("volumeName")
        if name:
            volume = self.world.store(VOLUME).get(("", name))
            if volume is not None:
                await self._bind(wire, volume)
            elif _BIND_DONE in _annotations(wire) and (wire.get("status") or {}).get("phase") != "Lost":
                await self.world.patch(CLAIM, wire, {"status": {"phase": "Lost"}}, "status")
                self.event(
                    wire,
                    "ClaimLost",
                    "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
                    warning=True,
                )
            return None
        return await self._find(wire)

    async def _find(self, wire: Wire) -> float | None:
        wire = await self._settle_class(wire)
        found = self.world.store(STORAGE_CLASS).get(("", claim_class(wire)))
        waits = found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"
        chosen = _annotations(wire).get(_SELECTED_NODE)
        volume = self._matching(wire, only_reserved=waits)
        if volume is not None:
            await self._bind(wire, volume)
            return None
        if found is None or not self.world.settings.provisioner:
            return None
        provisioner = found["provisioner"]
        if provisioner == _NO_PROVISIONER:
            return None
        if waits and not chosen:
            words = "waiting for first consumer to be created before binding"
            self.event(wire, "WaitForFirstConsumer", words)
            return None
        await self._provision(wire, found, chosen)
        return None

    async def _settle_class(self, wire: Wire) -> Wire:
        """Gives a claim that names no class the default one."""
        if wire["spec"].get("storageClassName") is not None or claim_class(wire):
            return wire
        defaults = [
            each
            for each in self.world.store(STORAGE_CLASS).all()
            if _annotations(each).get(_DEFAULT_CLASS) == "true"
        ]
        if not defaults:
            return wire
        newest = max(defaults, key=lambda each: str(each["metadata"]["creationTimestamp"]))
        change = {"spec": {"storageClassName": newest["metadata"]["name"]}}
        return await self.world.patch(CLAIM, wire, change) or wire

    def _matching(self, wire: Wire, *, only_reserved: bool) -> Wire | None:
        """Gives a volume that is kept for a claim, else the smallest that would do."""
        key = key_of(wire)
        fitting = [each for each in self.world.store(VOLUME).all() if fits_claim(each, wire)]
        for each in fitting:
            holder = each["spec"].get("claimRef")
            if holder and (holder.get("namespace"), holder.get("name")) == key:
                return each
        if only_reserved:
            return None
        free = [each for each in fitting if not each["spec"].get("claimRef")]
        return min(free, key=lambda each: parse_value(each["spec"]["capacity"]["storage"]), default=None)

    async def _bind(self, wire: Wire, volume: Wire) -> None:
        metadata = wire["metadata"]
        holder = volume["spec"].get("claimRef") or {}
        if holder and (holder.get("namespace"), holder.get("name")) != key_of(wire):
            return
        if holder.get("uid") not in (None, "", metadata["uid"]):
            return
        if holder.get("uid") != metadata["uid"]:
            reference = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            }
            change: Wire = {"spec": {"claimRef": reference}}
            if not holder:
                change["metadata"] = {"annotations": {_BOUND_BY_US: "yes"}}
            volume = await self.world.patch(VOLUME, volume, change) or volume
        if (volume.get("status") or {}).get("phase") != "Bound":
            await self.world.patch(VOLUME, volume, {"status": {"phase": "Bound"}}, "status")
        name = volume["metadata"]["name"]
        if wire["spec"].get("volumeName") != name or _BIND_DONE not in _annotations(wire):
            marks = {_BIND_DONE: "yes"} | ({} if wire["spec"].get("volumeName") else {_BOUND_BY_US: "yes"})
            change = {"metadata": {"annotations": marks}, "spec": {"volumeName": name}}
            wire = await self.world.patch(CLAIM, wire, change) or wire
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes") or [],
            "capacity": volume["spec"].get("capacity") or {},
        }
        old = wire.get("status") or {}
        if any(old.get(field) != value for field, value in status.items()):
            await self.world.patch(CLAIM, wire, {"status": status}, "status")

    async def _provision(self, wire: Wire, found: Wire, node: str | None) -> None:
        provisioner = found["provisioner"]
        driver = EBS_DRIVER if provisioner == _OLD_EBS else provisioner
        if _annotations(wire).get(_PROVISIONER) is None:
            change = {"metadata": {"annotations": {_PROVISIONER: driver}}}
            wire = await self.world.patch(CLAIM, wire, change) or wire
        name = f"pvc-{wire['metadata']['uid']}"
        if self.world.store(VOLUME).get(("", name)) is not None:
            return
        claim = "/".join(key_of(wire))
        words = f'External provisioner is provisioning volume for claim "{claim}"'
        self.event(wire, "Provisioning", words)
        await self.world.clock.sleep(self.world.settings.provision_s)
        zone = self._zone(found, node)
        try:
            made = await self.world.create(VOLUME, _volume(wire, found, driver, name, zone))
        except ApiError as refused:
            if refused.reason != "AlreadyExists":
                raise
            return
        self.event(wire, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")
        await self._bind(self.world.store(CLAIM).get(key_of(wire)) or wire, made)

    def _zone(self, found: Wire, node: str | None) -> str:
        """Gives the zone for a new volume: the chosen node's, else one that the class allows, else any with nodes."""
        chosen = self.world.store(NODE).get(("", node or ""))
        if chosen is not None:
            return str((chosen["metadata"].get("labels") or {}).get(_ZONE, ""))
        for term in found.get("allowedTopologies") or ():
            for each in term.get("matchLabelExpressions") or ():
                if each["key"] in (_ZONE, "topology.ebs.csi.aws.com/zone") and each.get("values"):
                    return str(each["values"][0])
        zones = {(each["metadata"].get("labels") or {}).get(_ZONE) for each in self.world.store(NODE).all()}
        return min((str(each) for each in zones if each), default="")

    async def _let_go(self, wire: Wire) -> None:
        finalizers = wire["metadata"].get("finalizers") or []
        if _CLAIM_FINALIZER not in finalizers:
            return
        key = key_of(wire)
        users = self.world.store(POD).indexed("claim", key)
        if any(not is_finished(each) for each in users):
            return
        kept = [each for each in finalizers if each != _CLAIM_FINALIZER]
        await self.world.patch(CLAIM, wire, {"metadata": {"finalizers": kept}})


class Volumes(Controller):
    """Frees volumes whose claim is gone, and deletes those that are to be."""

    name = "persistentvolume"
    source = "persistentvolume-controller"
    resource = VOLUME

    def subscribe(self) -> None:
        """Looks at a volume when it or its claim changes."""
        super().subscribe()
        self.world.store(CLAIM).subscribe(self._claim_changed)

    def _claim_changed(self, old: Wire | None, new: Wire | None) -> None:
        if new is None and old is not None and old["spec"].get("volumeName"):
            self.queue.add(("", old["spec"]["volumeName"]))

    async def reconcile(self, wire: Wire) -> float | None:
        """Does the next step in a volume's life."""
        phase = (wire.get("status") or {}).get("phase")
        holder = wire["spec"].get("claimRef") or {}
        claim = self.world.store(CLAIM).get((holder.get("namespace", ""), holder.get("name", "")))
        held = claim is not None and claim["metadata"]["uid"] == holder.get("uid")
        if is_deleted(wire):
            finalizers = wire["metadata"].get("finalizers") or []
            if not held and _VOLUME_FINALIZER in finalizers:
                kept = [each for each in finalizers if each != _VOLUME_FINALIZER]
                await self.world.patch(VOLUME, wire, {"metadata": {"finalizers": kept}})
            return None
        if holder.get("uid") and not held:
            if phase != "Released":
                wire = (
                    await self.world.patch(VOLUME, wire, {"status": {"phase": "Released"}}, "status") or wire
                )
            if wire["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                await self.world.delete(VOLUME, wire)
        elif not holder.get("uid") and phase != "Available":
            await self.world.patch(VOLUME, wire, {"status": {"phase": "Available"}}, "status")
        return None


class EphemeralClaims(Controller):
    """Makes the claims of pods with ephemeral volumes."""

    name = "ephemeral-volume"
    source = "ephemeral_volume"
    resource = POD

    async def reconcile(self, wire: Wire) -> float | None:
        """Makes the claims that a pod lacks."""
        if is_deleted(wire) or is_finished(wire):
            return None
        for volume in wire["spec"].get("volumes") or ():
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            name = f"{wire['metadata']['name']}-{volume['name']}"
            namespace = wire["metadata"]["namespace"]
            if template is None or self.world.store(CLAIM).get((namespace, name)) is not None:
                continue
            said = template.get("metadata") or {}
            metadata = {**said, "name": name, "namespace": namespace}
            metadata["ownerReferences"] = [owner_reference(POD, wire)]
            await self.world.create(CLAIM, {"metadata": metadata, "spec": template["spec"]})
        return None

    def subscribe(self) -> None:
        """Looks at pods with such volumes when they come."""
        self.world.store(POD).subscribe(self._pod_came)

    def _pod_came(self, old: Wire | None, new: Wire | None) -> None:
        if (
            old is None
            and new is not None
            and any("ephemeral" in each for each in new["spec"].get("volumes") or ())
        ):
            self.queue.add(key_of(new))


def _volume(claim: Wire, found: Wire, driver: str, name: str, zone: str) -> Wire:
    metadata = claim["metadata"]
    spec: Wire = {
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "accessModes": claim["spec"].get("accessModes") or ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": found.get("reclaimPolicy") or "Delete",
        "storageClassName": found["metadata"]["name"],
        "volumeMode": claim["spec"].get("volumeMode") or "Filesystem",
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "csi": {"driver": driver, "volumeHandle": f"vol-{secrets.token_hex(8)}0", "fsType": "ext4"},
    }
    if zone:
        expression = {"key": _ZONE, "operator": "In", "values": [zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {
        "metadata": {"name": name, "annotations": {_PROVISIONED_BY: driver}},
        "spec": spec,
    }


def _annotations(wire: Wire) -> dict[str, str]:
    return wire["metadata"].get("annotations") or {}
