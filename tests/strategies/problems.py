# SPDX-License-Identifier: Apache-2.0
"""A whole scheduling problem: a cluster, what may be bought, and the pods that have no place.

A problem can be solved (``snapshot``), taken apart and put together again, and written in the form of problem files
(``to_problem``, ``to_catalogue``), so that other schedulers can be asked the same. Offerings that are sold out are left
out of files, which means the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter.api.base import Frozen, to_wire
from karpenter.api.core import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    DaemonSet,
    DaemonSetSpec,
    Namespace,
    Node,
    NodeSpec,
    NodeStatus,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodTemplateSpec,
    StorageClass,
    VolumeNodeResources,
)
from karpenter.api.labels import INSTANCE_TYPE
from karpenter.api.meta import Condition, LabelSelector, ObjectMeta
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus, NodeClassRef
from karpenter.api.nodepool import NodePool
from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.pools import pool_view
from karpenter.model.resources import Resources
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.model.volumes import Storage

__all__ = ["CATALOGUE_FILE", "Problem", "namespaces", "to_catalogue", "to_problem"]

CATALOGUE_FILE: Final = "catalogue.json"

Wire = dict[str, Any]


def namespaces(*names: str, **labelled: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Give the labels of namespaces by name, the label that Kubernetes itself writes among them."""
    wanted: dict[str, Mapping[str, str]] = {name: {} for name in names} | labelled
    return {name: {"kubernetes.io/metadata.name": name, **labels} for name, labels in wanted.items()}


@dataclass(frozen=True, slots=True)
class Problem:
    """Pods without a place, and everything that decides where they can go."""

    pods: tuple[Pod, ...] = ()
    nodepools: tuple[NodePool, ...] = ()
    types: tuple[InstanceType, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    daemons: tuple[Pod, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    classes: tuple[StorageClass, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: namespaces("default"))

    def snapshot(self) -> Snapshot:
        """Give the cluster as ``solve`` takes it."""
        catalogue = Catalogue(self.types)
        return Snapshot(
            pools=tuple(
                pool_view(each, catalogue, self._used(each.metadata.name)) for each in self.nodepools
            ),
            nodes=self.nodes,
            daemons=self.daemons,
            storage=Storage.of(self.claims, self.volumes, self.classes),
            namespaces=self.namespaces,
        )

    def capacity(self, node: NodeView) -> Mapping[str, int]:
        """Give what a node has in all: its type's capacity, or what it has for pods where the type is unknown."""
        kinds = {kind.name: kind for kind in self.types}
        kind = kinds.get(node.labels.get(INSTANCE_TYPE, ""))
        return node.allocatable if kind is None else kind.capacity

    def _used(self, pool: str) -> dict[str, int]:
        own = [node for node in self.nodes if node.pool == pool]
        used = {"nodes": len(own)}
        for node in own:
            for resource, amount in self.capacity(node).items():
                used[resource] = used.get(resource, 0) + amount
        return used


def to_catalogue(types: Iterable[InstanceType]) -> Wire:
    """Write instance types as a catalogue file has them."""
    entries: list[Wire] = []
    zones: set[str] = set()
    for kind in types:
        sold = [each for each in kind.offerings if each.available]
        zones.update(each.zone for each in sold)
        entries.append(
            {
                "name": kind.name,
                "labels": dict(kind.labels),
                "capacity": Resources(kind.capacity).to_quantities(),
                "allocatable": Resources(kind.allocatable).to_quantities(),
                "offerings": list(map(_offer, sold)),
            }
        )
    return {"region": "us-east-1", "zones": sorted(zones), "instanceTypes": entries}


def _offer(offering: Offering) -> Wire | list[Any]:
    """Write an offering: three values where they say it all, an object where a reservation is behind it."""
    if not offering.reservation_id:
        return [offering.zone, offering.capacity_type, offering.price_per_hour]
    return {
        "zone": offering.zone,
        "capacityType": offering.capacity_type,
        "pricePerHour": offering.price_per_hour,
        "reservationId": offering.reservation_id,
        "reservationCapacity": offering.reservation_capacity,
    }


def to_problem(problem: Problem, catalogue_file: str = CATALOGUE_FILE) -> Wire:
    """Write a problem as a problem file has it: every object as an API server would show it."""
    objects: list[Frozen] = [*problem.nodepools]
    objects += [_daemon_set(daemon) for daemon in problem.daemons]
    for node in problem.nodes:
        objects += _node_objects(node, problem.capacity(node))
        objects += node.pods
    objects += [*problem.classes, *problem.volumes, *problem.claims]
    objects += [
        Namespace(metadata=ObjectMeta(name=name, labels=labels))
        for name, labels in problem.namespaces.items()
    ]
    objects += problem.pods
    return {"catalogue": catalogue_file, "objects": [_served(each) for each in objects]}


def _daemon_set(daemon: Pod) -> DaemonSet:
    (owner,) = daemon.metadata.owner_references
    return DaemonSet(
        metadata=ObjectMeta(name=owner.name, namespace=daemon.metadata.namespace, uid=owner.uid),
        spec=DaemonSetSpec(
            selector=LabelSelector(match_labels=daemon.metadata.labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=daemon.metadata.labels), spec=daemon.spec),
        ),
    )


def _node_objects(node: NodeView, capacity: Mapping[str, int]) -> list[Frozen]:
    """Give the node, the claim it was made from where it is ours, and its storage side where that has limits."""
    provider_id = f"test:///{node.name}"
    has = Resources(capacity).to_quantities()
    gives = node.allocatable.to_quantities()
    found: list[Frozen] = [
        Node(
            metadata=ObjectMeta(name=node.name, uid=f"node-{node.name}", labels=node.labels),
            spec=NodeSpec(provider_id=provider_id, taints=node.taints),
            status=NodeStatus(
                capacity=has, allocatable=gives, conditions=(Condition(type="Ready", status="True"),)
            ),
        )
    ]
    if node.managed:
        state = {"Launched": True, "Registered": True, "Initialized": node.initialized}
        found.append(
            NodeClaim(
                metadata=ObjectMeta(name=f"claim-{node.name}", uid=f"claim-{node.name}", labels=node.labels),
                spec=NodeClaimSpec(
                    requirements=(),
                    node_class_ref=NodeClassRef(
                        group="karpenter.k8s.aws", kind="EC2NodeClass", name="default"
                    ),
                    taints=node.taints,
                ),
                status=NodeClaimStatus(
                    node_name=node.name,
                    provider_id=provider_id,
                    capacity=has,
                    allocatable=gives,
                    conditions=tuple(
                        Condition(type=kind, status="True" if holds else "Unknown", reason=kind)
                        for kind, holds in state.items()
                    ),
                ),
            )
        )
    if node.volume_limits:
        drivers = tuple(
            CSINodeDriver(name=driver, node_id=node.name, allocatable=VolumeNodeResources(count=count))
            for driver, count in node.volume_limits.items()
        )
        found.append(CSINode(metadata=ObjectMeta(name=node.name), spec=CSINodeSpec(drivers=drivers)))
    return found


def _served(value: Frozen) -> Wire:
    """Write an object with the defaults that an API server fills in; our encoder leaves defaults out."""
    wire: Wire = to_wire(value)
    wire = {"apiVersion": value.api_version, "kind": value.kind, **wire}  # type: ignore[attr-defined]
    if isinstance(value, NodePool | NodeClaim):
        _template(wire).setdefault("requirements", [])
    if isinstance(value, StorageClass):
        wire.setdefault("volumeBindingMode", "Immediate")
    if isinstance(value, Pod):
        _fill_pod_spec(wire["spec"])
        _merge_label_keys(wire["spec"].get("affinity", {}), value.metadata.labels)
    if isinstance(value, DaemonSet):
        _fill_pod_spec(wire["spec"]["template"]["spec"])
    return wire


def _template(wire: Wire) -> Wire:
    spec: Wire = wire["spec"]
    inner: Wire = spec["template"]["spec"] if "template" in spec else spec
    return inner


def _fill_pod_spec(spec: Wire) -> None:
    for each in spec.get("topologySpreadConstraints", ()):
        each.setdefault("whenUnsatisfiable", "DoNotSchedule")
    for each in spec.get("tolerations", ()):
        each.setdefault("operator", "Equal")
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container.setdefault("image", "pause")
        for port in container.get("ports", ()):
            port.setdefault("protocol", "TCP")
    for wish in _wishes(spec.get("affinity", {}), "nodeAffinity", "podAffinity", "podAntiAffinity"):
        wish.setdefault("weight", 1)


def _wishes(affinity: Wire, *sides: str) -> list[Wire]:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    return [wish for side in sides for wish in affinity.get(side, {}).get(preferred, ())]


def _merge_label_keys(affinity: Wire, labels: Mapping[str, str]) -> None:
    """Write matchLabelKeys and mismatchLabelKeys into the selectors, as an API server does when a pod is made."""
    terms = [wish["podAffinityTerm"] for wish in _wishes(affinity, "podAffinity", "podAntiAffinity")]
    for side in ("podAffinity", "podAntiAffinity"):
        terms += affinity.get(side, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
    for term in terms:
        for field_name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in term.get(field_name, ()):
                if key in labels:
                    merged = {"key": key, "operator": operator, "values": [labels[key]]}
                    term["labelSelector"].setdefault("matchExpressions", []).append(merged)
