# SPDX-License-Identifier: Apache-2.0
"""VolumeAttachments: a volume is attached where a pod uses it, and taken off when none does any more.

As the attach-detach controller and the driver's attacher do together. A volume that only one node may have waits until
the other node has let it go; the pod is told so.
"""

from __future__ import annotations

import hashlib
from typing import Final

from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.workloads.podstate import is_finished
from karpenter.sandbox.workloads.resources import (
    ATTACHMENT,
    CLAIM,
    NODE,
    POD,
    VOLUME,
    Key,
    Wire,
    is_deleted,
    key_of,
)
from karpenter.sandbox.workloads.volumes import claims_of
from karpenter.sandbox.workloads.world import Care

__all__ = ["Attachments", "attachment_name"]

_SHARED: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_AGAIN_S: Final = 1.0


def attachment_name(handle: str, driver: str, node: str) -> str:
    """Gives the name of the attachment of a volume to a node, as Kubernetes builds it."""
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


class Attachments(Care):
    """Attaches the volumes of a node's pods; its keys are nodes."""

    name = "attachdetach"
    source = "attachdetach-controller"
    resource = POD

    def subscribe(self) -> None:
        """Looks at a node when a pod with volumes comes, ends or goes, or when one of its attachments changes."""
        self.world.store(POD).subscribe(self._pod_changed)
        self.world.store(CLAIM).subscribe(self._claim_changed)
        self.world.store(ATTACHMENT).subscribe(self._attachment_changed)
        self.world.store(NODE).subscribe(self._node_changed)

    def _pod_changed(self, old: Wire | None, new: Wire | None) -> None:
        pod = new or old
        if pod is None or not pod["spec"].get("nodeName") or not any(claims_of(pod)):
            return
        same = (
            old is not None and new is not None and old["spec"].get("nodeName") == new["spec"].get("nodeName")
        )
        if not same or (old is not None and is_finished(old) != is_finished(pod)):
            self.queue.add(("", pod["spec"]["nodeName"]))

    def _claim_changed(self, _old: Wire | None, new: Wire | None) -> None:
        if new is None or not new["spec"].get("volumeName"):
            return
        for pod in self.world.store(POD).indexed("claim", key_of(new)):
            if pod["spec"].get("nodeName"):
                self.queue.add(("", pod["spec"]["nodeName"]))

    def _attachment_changed(self, old: Wire | None, new: Wire | None) -> None:
        known = new or old
        if known is not None:
            self.queue.add(("", known["spec"]["nodeName"]))

    def _node_changed(self, old: Wire | None, new: Wire | None) -> None:
        if old is not None and new is None:
            self.queue.add(("", old["metadata"]["name"]))

    async def _look(self, key: Key) -> float | None:
        """Brings the attachments of a node in line with its pods."""
        node = key[1]
        wanted = self._wanted(node) if self.world.store(NODE).get(("", node)) is not None else {}
        there = {
            each["spec"]["source"].get("persistentVolumeName"): each
            for each in self.world.store(ATTACHMENT).all()
            if each["spec"]["nodeName"] == node
        }
        again_s = None
        for name, attachment in there.items():
            if name not in wanted:
                await self._detach(attachment)
            elif not (attachment.get("status") or {}).get("attached"):
                await self.world.clock.sleep(self.world.settings.attach_s)
                await self.world.patch(ATTACHMENT, attachment, {"status": {"attached": True}}, "status")
                words = f'AttachVolume.Attach succeeded for volume "{name}"'
                self.event(wanted[name], "SuccessfulAttachVolume", words)
        for name, pod in wanted.items():
            if name not in there and not await self._attach(name, node, pod):
                again_s = _AGAIN_S
        return again_s

    def _wanted(self, node: str) -> dict[str, Wire]:
        """Gives the volumes that pods of a node use, each with one of the pods."""
        found: dict[str, Wire] = {}
        for pod in self.world.store(POD).indexed("node", node):
            if is_finished(pod):
                continue
            for key in claims_of(pod):
                claim = self.world.store(CLAIM).get(key)
                name = claim["spec"].get("volumeName") if claim is not None else None
                volume = self.world.store(VOLUME).get(("", name or ""))
                if volume is not None and "csi" in volume["spec"]:
                    found[volume["metadata"]["name"]] = pod
        return found

    async def _attach(self, name: str, node: str, pod: Wire) -> bool:
        volume = self.world.store(VOLUME).get(("", name))
        if volume is None:
            return False
        elsewhere = [
            each
            for each in self.world.store(ATTACHMENT).all()
            if each["spec"]["source"].get("persistentVolumeName") == name and each["spec"]["nodeName"] != node
        ]
        if elsewhere and not _SHARED & set(volume["spec"].get("accessModes") or ()):
            words = (
                f'Multi-Attach error for volume "{name}" Volume is already exclusively attached to one node '
                "and can't be attached to another"
            )
            self.event(pod, "FailedAttachVolume", words, warning=True)
            return False
        csi = volume["spec"]["csi"]
        body = {
            "metadata": {"name": attachment_name(csi["volumeHandle"], csi["driver"], node)},
            "spec": {"attacher": csi["driver"], "nodeName": node, "source": {"persistentVolumeName": name}},
        }
        try:
            await self.world.create(ATTACHMENT, body)
        except ApiError as refused:
            if refused.reason != "AlreadyExists":
                raise
        return True

    async def _detach(self, attachment: Wire) -> None:
        finalizers = attachment["metadata"].get("finalizers")
        if not is_deleted(attachment):
            await self.world.delete(ATTACHMENT, attachment)
        if finalizers:
            await self.world.patch(ATTACHMENT, attachment, {"metadata": {"finalizers": None}})
