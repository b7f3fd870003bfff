# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions at work: their kinds are served as soon as they are stored, and gone with them.

Decides the definition's status: names accepted, established, stored versions. Deleting a definition deletes its
objects.
"""

from __future__ import annotations

from typing import Final

from karpenter.sandbox.kube.engine.engine import Engine, Object
from karpenter.sandbox.kube.patching.managed import Writer, tracked
from karpenter.sandbox.kube.storage.store import Change

__all__ = ["DEFINITIONS", "Definitions"]

DEFINITIONS: Final = "apiextensions.k8s.io/customresourcedefinitions"


class Definitions:
    """Keeps the catalogue in step with the stored definitions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        engine.store.listeners.append(self._heard)
        self.refresh()

    def refresh(self) -> None:
        """Serves what is stored now."""
        store = self._engine.store
        self._engine.catalogue.set_custom(
            [
                each.obj
                for each in store.items(DEFINITIONS)
                if not each.obj["metadata"].get("deletionTimestamp")
            ]
        )

    def _heard(self, change: Change) -> None:
        if change.kind != DEFINITIONS:
            return
        if not change.deleted and not _is_established(change.new.obj):
            self._engine.store.put(DEFINITIONS, self.established(change.new.obj), change.revision)
            return
        if change.deleted:
            spec = change.new.obj["spec"]
            self._drop_objects(f"{spec['group']}/{spec['names']['plural']}")
        self.refresh()

    def _drop_objects(self, kind: str) -> None:
        store = self._engine.store
        for each in list(store.items(kind)):
            metadata = each.obj["metadata"]
            store.remove(kind, metadata.get("namespace", ""), metadata["name"], each.revision)
        store.end_watches(kind)

    def established(self, crd: Object) -> Object:
        """Gives a definition with the status of one that is served."""
        now = self._engine.now()
        old = crd.get("status") or {}
        stored = [each["name"] for each in crd["spec"]["versions"] if each.get("storage")]
        known = old.get("storedVersions") or []
        conditions = [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
        ]
        shape = self._engine.catalogue.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert shape is not None  # noqa: S101 - a built-in kind
        new = {
            **crd,
            "metadata": dict(crd["metadata"]),
            "status": {
                "conditions": old.get("conditions") or conditions,
                "acceptedNames": dict(crd["spec"]["names"]),
                "storedVersions": [*known, *(each for each in stored if each not in known)],
            },
        }
        writer = Writer("kube-apiserver", "Update", "apiextensions.k8s.io/v1", now, "status")
        new["metadata"]["managedFields"] = tracked(crd, new, shape.shape, writer, ("spec",))
        return new


def _is_established(crd: Object) -> bool:
    status = crd.get("status") or {}
    stored = {each["name"] for each in crd["spec"]["versions"] if each.get("storage")}
    return (
        bool(status.get("conditions"))
        and status.get("acceptedNames") == crd["spec"]["names"]
        and stored <= set(status.get("storedVersions") or ())
    )


def _condition(kind: str, reason: str, message: str, now: str) -> Object:
    return {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
