# SPDX-License-Identifier: Apache-2.0
"""Pods, pending or bound, and the pods of DaemonSets, with sensible defaults.

Names decide identity: two pods of one namespace and name get the same uid, so that the same call always makes the
same pod.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from karpenter.api.core import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolumeClaimSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)
from karpenter.api.meta import Condition, ObjectMeta, OwnerReference

__all__ = ["NOON", "container", "daemon", "daemon_on", "host_port", "pod", "pods"]

# When every test cluster was made, unless a test says otherwise.
NOON: Final = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

_UNSCHEDULABLE: Final = Condition(type="PodScheduled", status="False", reason="Unschedulable")
_SCHEDULED: Final = Condition(type="PodScheduled", status="True")


def pod(
    name: str = "pod",
    *,
    cpu: str | None = "1",
    memory: str | None = "1Gi",
    requests: Mapping[str, str] | None = None,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
    node_affinity: Iterable[NodeSelectorTerm] = (),
    preferred_node_affinity: Iterable[PreferredSchedulingTerm] = (),
    affinity: Iterable[PodAffinityTerm] = (),
    preferred_affinity: Iterable[WeightedPodAffinityTerm] = (),
    anti_affinity: Iterable[PodAffinityTerm] = (),
    preferred_anti_affinity: Iterable[WeightedPodAffinityTerm] = (),
    topology_spread: Iterable[TopologySpreadConstraint] = (),
    tolerations: Iterable[Toleration] = (),
    ports: Iterable[ContainerPort] = (),
    claims: Iterable[str] = (),
    devices: Iterable[str] = (),
    init_containers: Iterable[Container] = (),
    overhead: Mapping[str, str] | None = None,
    host_network: bool = False,
    priority: int | None = None,
    node_name: str = "",
    owner: OwnerReference | None = None,
    age_s: int = 0,
    phase: str = "",
    terminating: bool = False,
) -> Pod:
    """Make a pod with one container; pending, unless it is bound to a node by ``node_name``.

    Args:
        name: Its name.
        cpu: What the container requests, None for nothing.
        memory: Likewise.
        requests: Further requests, by resource.
        namespace: Its namespace.
        labels: Its labels.
        node_selector: Labels that its node must have.
        node_affinity: Terms of which its node must meet one.
        preferred_node_affinity: Wishes about its node.
        affinity: Pods to stand with.
        preferred_affinity: Pods it would like to stand with.
        anti_affinity: Pods to stand apart from.
        preferred_anti_affinity: Pods it would like to stand apart from.
        topology_spread: How evenly pods must stand.
        tolerations: Taints it puts up with.
        ports: Ports of the container.
        claims: The names of the volume claims it mounts.
        devices: The names of the resource claims it uses.
        init_containers: Containers that run first, or beside it.
        overhead: What its sandbox takes.
        host_network: Whether it uses its node's network.
        priority: Its priority.
        node_name: The node it is bound to.
        owner: Whose pod it is.
        age_s: How many seconds before ``NOON`` it was made.
        phase: Its phase; Pending or Running if left out.
        terminating: Whether it has been asked to stop.
    """
    asked = {"cpu": cpu, "memory": memory, **(requests or {})}
    main = container("main", {key: value for key, value in asked.items() if value is not None}, ports=ports)
    spec = PodSpec(
        node_name=node_name,
        containers=(main,),
        init_containers=tuple(init_containers),
        overhead=overhead or {},
        node_selector=node_selector or {},
        affinity=_affinity(
            NodeAffinity(
                required=_node_selector(tuple(node_affinity)), preferred=tuple(preferred_node_affinity)
            ),
            PodAffinity(required=tuple(affinity), preferred=tuple(preferred_affinity)),
            PodAffinity(required=tuple(anti_affinity), preferred=tuple(preferred_anti_affinity)),
        ),
        tolerations=tuple(tolerations),
        topology_spread_constraints=tuple(topology_spread),
        volumes=tuple(_claimed(claim) for claim in claims),
        host_network=host_network,
        priority=priority,
        resource_claims=tuple(PodResourceClaim(name=each, resource_claim_name=each) for each in devices),
    )
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=_uid(namespace, name),
        creation_timestamp=NOON - timedelta(seconds=age_s),
        deletion_timestamp=NOON if terminating else None,
        # Without one, an API server would have forgotten the pod already.
        finalizers=("example.com/hold",) if terminating else (),
        labels=labels or {},
        owner_references=() if owner is None else (owner,),
    )
    status = PodStatus(
        phase=phase or ("Running" if node_name else "Pending"),
        conditions=(_SCHEDULED if node_name else _UNSCHEDULABLE,),
    )
    return Pod(metadata=metadata, spec=spec, status=status)


def pods(count: int, name: str = "pod", **options: Any) -> tuple[Pod, ...]:
    """Make pods that differ only by name: ``name-0``, ``name-1``; the options are those of ``pod``."""
    return tuple(pod(f"{name}-{number}", **options) for number in range(count))


def daemon(
    name: str = "agent", *, cpu: str | None = "100m", memory: str | None = "128Mi", **options: Any
) -> Pod:
    """Make the pod that a DaemonSet would run on a new node; the options are those of ``pod``."""
    options = {"namespace": "kube-system", "labels": {"daemon": name}, **options}
    owner = OwnerReference(
        api_version="apps/v1",
        kind="DaemonSet",
        name=name,
        uid=_uid(options["namespace"], f"daemonset {name}"),
        controller=True,
    )
    return pod(name, cpu=cpu, memory=memory, owner=owner, **options)


def daemon_on(daemon_pod: Pod, node_name: str) -> Pod:
    """Make the pod of a DaemonSet that runs on a node."""
    name = f"{daemon_pod.metadata.name}-{node_name}"
    return replace(
        daemon_pod,
        metadata=replace(daemon_pod.metadata, name=name, uid=_uid(daemon_pod.metadata.namespace, name)),
        spec=replace(daemon_pod.spec, node_name=node_name),
        status=PodStatus(phase="Running", conditions=(_SCHEDULED,)),
    )


def container(
    name: str = "main",
    requests: Mapping[str, str] | None = None,
    *,
    ports: Iterable[ContainerPort] = (),
    sidecar: bool = False,
) -> Container:
    """Make a container; as an init container, a ``sidecar`` stays for the pod's whole life."""
    return Container(
        name=name,
        resources=ResourceRequirements(requests=requests or {}),
        ports=tuple(ports),
        restart_policy="Always" if sidecar else None,
    )


def host_port(number: int, *, protocol: str = "TCP", ip: str = "") -> ContainerPort:
    """Make a container port that takes the same port of the host."""
    return ContainerPort(container_port=number, host_port=number, protocol=protocol, host_ip=ip)


def _affinity(node: NodeAffinity, near: PodAffinity, apart: PodAffinity) -> Affinity | None:
    if node == NodeAffinity() and near == apart == PodAffinity():
        return None
    return Affinity(
        node_affinity=None if node == NodeAffinity() else node,
        pod_affinity=None if near == PodAffinity() else near,
        pod_anti_affinity=None if apart == PodAffinity() else apart,
    )


def _node_selector(terms: tuple[NodeSelectorTerm, ...]) -> NodeSelector | None:
    return NodeSelector(node_selector_terms=terms) if terms else None


def _claimed(claim: str) -> Volume:
    return Volume(name=claim, persistent_volume_claim=PersistentVolumeClaimSource(claim_name=claim))


def _uid(namespace: str, name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{namespace}/{name}"))
