# SPDX-License-Identifier: Apache-2.0
"""Volumes and claims are not deleted while someone uses them: their finalizer goes when the last user is gone.

A claim is in use while a pod that has not ended mounts it; a volume, while its claim is there. On a real cluster a
controller looks after this; here the API does, so that a deletion never hangs for want of one.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.sandbox.kube.engine.engine import Engine, is_over
from karpenter.sandbox.kube.storage.store import Change, Stored

__all__ = ["Protection"]

_FINALIZERS: Final = {
    "/persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "/persistentvolumes": "kubernetes.io/pv-protection",
}
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class Protection:
    """Takes finalizers away when nothing holds them any longer."""

    def __init__(self, engine: Engine) -> None:
        self._store = engine.store
        engine.store.listeners.append(self._heard)

    def _heard(self, change: Change) -> None:
        if change.kind in _FINALIZERS and not change.deleted:
            self._settle(change.kind, change.new)
        elif change.kind == "/pods" and (change.deleted or _has_ended(change.new.obj)):
            for claim in list(self._store.items("/persistentvolumeclaims", change.key[0])):
                self._settle("/persistentvolumeclaims", claim)
        elif change.kind == "/persistentvolumeclaims":
            for volume in list(self._store.items("/persistentvolumes")):
                self._settle("/persistentvolumes", volume)

    def _settle(self, kind: str, stored: Stored) -> None:
        metadata = stored.obj["metadata"]
        finalizer = _FINALIZERS[kind]
        if not metadata.get("deletionTimestamp") or finalizer not in (metadata.get("finalizers") or ()):
            return
        if self._is_used(kind, stored.obj):
            return
        left = [each for each in metadata["finalizers"] if each != finalizer]
        kept = {key: value for key, value in metadata.items() if key != "finalizers"}
        new = {**stored.obj, "metadata": {**kept, **({"finalizers": left} if left else {})}}
        if is_over(new):
            self._store.remove(kind, metadata.get("namespace", ""), metadata["name"], stored.revision)
        else:
            self._store.put(kind, new, stored.revision)

    def _is_used(self, kind: str, obj: dict[str, Any]) -> bool:
        metadata = obj["metadata"]
        if kind == "/persistentvolumes":
            claim = (obj.get("spec") or {}).get("claimRef") or {}
            place = (claim.get("namespace", ""), claim.get("name", ""))
            return self._store.get("/persistentvolumeclaims", *place) is not None
        return any(
            (volume.get("persistentVolumeClaim") or {}).get("claimName") == metadata["name"]
            for pod in self._store.items("/pods", metadata["namespace"])
            if not _has_ended(pod.obj)
            for volume in (pod.obj.get("spec") or {}).get("volumes") or ()
        )


def _has_ended(pod: dict[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED
