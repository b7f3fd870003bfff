# SPDX-License-Identifier: Apache-2.0
"""The kinds that controllers work with, where the API serves them, and small questions about any object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

__all__ = [
    "ALL",
    "Key",
    "Resource",
    "Wire",
    "condition",
    "controller_of",
    "is_deleted",
    "key_of",
    "moment",
    "owner_reference",
    "stamp",
    "with_condition",
]

Wire: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of the API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Gives group and version as objects write them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Gives the path of all objects, of those in a namespace, of one, or of a part of one."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        space = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        tail = f"/{name}" if name else ""
        return f"{root}{space}/{self.plural}{tail}" + (f"/{part}" if part else "")

    def path_of(self, wire: Mapping[str, Any], part: str = "") -> str:
        """Gives the path of an object."""
        metadata = wire["metadata"]
        return self.path(metadata.get("namespace", ""), metadata["name"], part)


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("", "v1", plural, kind, namespaced)


POD: Final = _core("pods", "Pod")
NODE: Final = _core("nodes", "Node", namespaced=False)
NAMESPACE: Final = _core("namespaces", "Namespace", namespaced=False)
SERVICE_ACCOUNT: Final = _core("serviceaccounts", "ServiceAccount")
CONFIG_MAP: Final = _core("configmaps", "ConfigMap")
EVENT: Final = _core("events", "Event")
CLAIM: Final = _core("persistentvolumeclaims", "PersistentVolumeClaim")
VOLUME: Final = _core("persistentvolumes", "PersistentVolume", namespaced=False)
DEPLOYMENT: Final = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SET: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SET: Final = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SET: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
REVISION: Final = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
JOB: Final = Resource("batch", "v1", "jobs", "Job")
CRON_JOB: Final = Resource("batch", "v1", "cronjobs", "CronJob")
BUDGET: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
LEASE: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
STORAGE_CLASS: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODE: Final = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
ATTACHMENT: Final = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False
)
DEFINITION: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
SCALED_OBJECT: Final = Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject")

ALL: Final = (
    POD,
    NODE,
    NAMESPACE,
    SERVICE_ACCOUNT,
    CONFIG_MAP,
    CLAIM,
    VOLUME,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    REVISION,
    JOB,
    CRON_JOB,
    BUDGET,
    LEASE,
    STORAGE_CLASS,
    CSI_NODE,
    ATTACHMENT,
    SCALED_OBJECT,
)


def key_of(wire: Mapping[str, Any]) -> Key:
    """Gives namespace and name of an object; the namespace is empty for those that have none."""
    metadata = wire["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def is_deleted(wire: Mapping[str, Any]) -> bool:
    """Tells whether the object is on its way out."""
    return "deletionTimestamp" in wire["metadata"]


def controller_of(wire: Mapping[str, Any]) -> Wire | None:
    """Gives the reference to the owner that controls an object."""
    for each in wire["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            found: Wire = each
            return found
    return None


def owner_reference(resource: Resource, owner: Mapping[str, Any]) -> Wire:
    """Writes the reference by which an owner controls what it makes."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def stamp(when: datetime) -> str:
    """Writes a time as objects carry it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(written: str) -> datetime:
    """Reads a time that an object carries, with or without fractions of a second."""
    return datetime.fromisoformat(written)


def condition(wire: Mapping[str, Any], kind: str) -> Wire | None:
    """Gives a condition of an object."""
    for each in (wire.get("status") or {}).get("conditions") or ():
        if each.get("type") == kind:
            found: Wire = each
            return found
    return None


def with_condition(conditions: Iterable[Wire], new: Wire, now: datetime) -> list[Wire]:
    """Gives conditions with one set; its time of change stays while its status does."""
    kept = []
    found = {**new, "lastTransitionTime": stamp(now)}
    for each in conditions:
        if each.get("type") == new["type"]:
            if each.get("status") == new["status"] and each.get("lastTransitionTime"):
                found["lastTransitionTime"] = each["lastTransitionTime"]
        else:
            kept.append(each)
    return [*kept, found]
