# SPDX-License-Identifier: Apache-2.0
"""How kinds differ in what a write may do: a table, by storage key.

Read by the engine. A kind that is not in the table behaves like most: status is reset at creation and kept on update,
a write without resource version is taken, and there is no generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Behaviour", "behaviour_of"]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What is special about a kind.

    Attributes:
        initial_status: What a new object's status is, whatever was sent; None keeps what was sent.
        generation: Fields but metadata and status count generations.
        creates_on_update: PUT makes an object that is not there.
        unconditional: A write may leave the resource version out.
        status_takes_metadata: A write to status may also change labels and annotations.
        graceful: A deletion may take time.
        returns_deleted: A deletion answers with the object.
        name_rule: ``subdomain``, ``label``, ``label1035`` or ``path``.
        orphans: Dependents stay behind unless the caller says otherwise.
    """

    initial_status: dict[str, Any] | None = None
    resets_status: bool = True
    generation: bool = False
    creates_on_update: bool = False
    unconditional: bool = True
    status_takes_metadata: bool = False
    graceful: bool = False
    returns_deleted: bool = False
    name_rule: str = "subdomain"
    orphans: bool = False


_PLAIN: Final = Behaviour()
_TABLE: Final[dict[str, Behaviour]] = {
    "/pods": Behaviour(
        initial_status={"phase": "Pending"},
        generation=True,
        status_takes_metadata=True,
        graceful=True,
        returns_deleted=True,
    ),
    "/nodes": Behaviour(resets_status=False, status_takes_metadata=True),
    "/namespaces": Behaviour(
        initial_status={"phase": "Active"},
        status_takes_metadata=True,
        returns_deleted=True,
        name_rule="label",
    ),
    "/services": Behaviour(
        creates_on_update=True,
        initial_status={"loadBalancer": {}},
        name_rule="label1035",
        returns_deleted=True,
    ),
    "/endpoints": Behaviour(creates_on_update=True),
    "/events": Behaviour(creates_on_update=True, name_rule="path"),
    "/limitranges": Behaviour(creates_on_update=True),
    "/persistentvolumes": Behaviour(initial_status={"phase": "Pending"}, returns_deleted=True),
    "/persistentvolumeclaims": Behaviour(initial_status={"phase": "Pending"}, returns_deleted=True),
    "/podtemplates": Behaviour(generation=True, returns_deleted=True),
    "/serviceaccounts": Behaviour(returns_deleted=True),
    "/resourcequotas": Behaviour(returns_deleted=True),
    "/replicationcontrollers": Behaviour(initial_status={"replicas": 0}, generation=True, orphans=True),
    "apps/deployments": Behaviour(generation=True),
    "apps/replicasets": Behaviour(initial_status={"replicas": 0}, generation=True),
    "apps/statefulsets": Behaviour(
        initial_status={"replicas": 0, "availableReplicas": 0}, generation=True, name_rule="label"
    ),
    "apps/daemonsets": Behaviour(
        initial_status={
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
        generation=True,
    ),
    "batch/jobs": Behaviour(generation=True, orphans=True),
    "batch/cronjobs": Behaviour(generation=True),
    "policy/poddisruptionbudgets": Behaviour(
        name_rule="path",
        initial_status={"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
        generation=True,
        unconditional=False,
    ),
    "coordination.k8s.io/leases": Behaviour(creates_on_update=True, unconditional=False),
    "node.k8s.io/runtimeclasses": Behaviour(creates_on_update=True, unconditional=False),
    "scheduling.k8s.io/priorityclasses": Behaviour(generation=True),
    "discovery.k8s.io/endpointslices": Behaviour(generation=True),
    "networking.k8s.io/ingresses": Behaviour(initial_status={"loadBalancer": {}}, generation=True),
    "networking.k8s.io/networkpolicies": Behaviour(generation=True),
    "networking.k8s.io/ingressclasses": Behaviour(generation=True),
    "autoscaling/horizontalpodautoscalers": Behaviour(
        initial_status={"desiredReplicas": 0, "currentMetrics": None}
    ),
    "storage.k8s.io/storageclasses": Behaviour(returns_deleted=True),
    "storage.k8s.io/csinodes": Behaviour(unconditional=False, returns_deleted=True),
    "storage.k8s.io/csidrivers": Behaviour(unconditional=False, returns_deleted=True),
    "storage.k8s.io/volumeattachments": Behaviour(
        unconditional=False, resets_status=False, returns_deleted=True
    ),
    "rbac.authorization.k8s.io/roles": Behaviour(creates_on_update=True, name_rule="path"),
    "rbac.authorization.k8s.io/rolebindings": Behaviour(creates_on_update=True, name_rule="path"),
    "rbac.authorization.k8s.io/clusterroles": Behaviour(creates_on_update=True, name_rule="path"),
    "rbac.authorization.k8s.io/clusterrolebindings": Behaviour(creates_on_update=True, name_rule="path"),
    "apiextensions.k8s.io/customresourcedefinitions": Behaviour(
        initial_status={
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": None,
        },
        generation=True,
        unconditional=False,
    ),
}
_CUSTOM: Final = Behaviour(generation=True, unconditional=False)


def behaviour_of(storage_key: str, *, custom: bool = False) -> Behaviour:
    """Gives what is special about a kind."""
    return _CUSTOM if custom else _TABLE.get(storage_key, _PLAIN)
