# SPDX-License-Identifier: Apache-2.0
"""A problem and its plan as the API objects of a cluster in which the plan is about to be carried out.

Every standing node is there with its pods, and every node of the plan as its chosen offering, with the labels that
the plan settles, the taints that stay, the whole allocatable of its type, and the pods of DaemonSets bound to it:
DaemonSets' own pods are made by hand, because they must stand before the planned ones come, as the plan assumes.

Names begin with the case's, so that whatever lingers of one case cannot be taken for a part of the next; names that
the pods themselves speak of follow. What an API server decides for itself is put into its own terms: priorities are
PriorityClasses, overhead is a RuntimeClass. No priority preempts: a plan never counts on that. Pods that are bound
tolerate everything, for otherwise the control plane would evict those that stand beside a NoExecute taint. A pod that
is being deleted takes room and nothing else, so it stands in a namespace of which no pod speaks: plans count on its
leaving, whereas the scheduler heeds its labels and its anti-affinity until it is gone, and here it never goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from karpenter.api.base import to_wire
from karpenter.api.core import Pod, Taint
from karpenter.api.labels import HOSTNAME
from karpenter.controllers.provisioning.levels import Site, crowds_of
from karpenter.model.resources import Resources
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling import Plan, solve
from tests.checker.world import Place, carried_out, new_place, world_of
from tests.e2e.agreement.client import Wire
from tests.strategies import Problem, daemon_on, to_problem

__all__ = ["ASIDE", "Case", "Key", "key_of", "sites", "translate", "translate_again"]

Key = tuple[str, str]

# A namespace that every cluster has, and no problem uses.
ASIDE: Final = "kube-public"

# Kubelets announce this on every node: volumes of the old kind are served by the new driver.
_MIGRATED: Final = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
_SIZE: Final = {"storage": "1Gi"}


@dataclass(frozen=True)
class Case:
    """The objects of one case, in the order in which they are made.

    Attributes:
        name: The case's name.
        settings: Classes that pods and claims name.
        volumes: Volumes.
        claims: Claims.
        bound_claims: Those of them that must be bound before pods come.
        nodes: Nodes, with the taints that they end up with.
        csi_nodes: The storage side of nodes with limits.
        bound: Pods that stand.
        pending: Pods without a place.
        pods: The same as the problem has them.
        planned: The node of each pod that the plan places.
        rejected: The pods that it does not.
        problem: The problem.
        plan: The plan.
    """

    name: str
    settings: tuple[Wire, ...]
    volumes: tuple[Wire, ...]
    claims: tuple[Wire, ...]
    bound_claims: frozenset[Key]
    nodes: tuple[Wire, ...]
    csi_nodes: tuple[Wire, ...]
    bound: tuple[Wire, ...]
    pending: tuple[Wire, ...]
    pods: Mapping[Key, Pod]
    planned: Mapping[Key, str]
    rejected: frozenset[Key]
    problem: Problem
    plan: Plan


def key_of(value: Wire) -> Key:
    """Give namespace and name of an object."""
    return value["metadata"]["namespace"], value["metadata"]["name"]


def translate(name: str, problem: Problem, plan: Plan) -> Case:
    """Write the cluster in which a plan is about to be carried out."""
    return _Translation(name, problem).case(plan)


def translate_again(case: Case, plan: Plan, bound: Mapping[Key, str]) -> Case:
    """Plan the planned pods that are not bound again, for the cluster as it is by now, and write what that adds.

    Args:
        case: The case that was carried out.
        plan: Its plan, or that of the last round.
        bound: The node of each pod that is bound.

    Returns:
        A case of the nodes that are new and of the pods that were planned again. Its plan has the nodes of all rounds.
    """
    return _Translation(case.name, case.problem).case_again(case, plan, bound)


def sites(case: Case, bound: Mapping[Key, str]) -> list[Site]:
    """Give every node of a case, by the problem's name for it, with the pods that are bound to it by now."""
    snapshot = _Translation(case.name, case.problem).as_bound(case.plan, case.pods, bound)
    return [Site(node.name, node.labels, node.taints, crowds_of(node.pods)) for node in snapshot.nodes]


class _Translation:
    """One case in the making."""

    def __init__(self, name: str, problem: Problem) -> None:
        self.name = name
        self.problem = problem
        self.settings: dict[str, Wire] = {}

    def case(self, plan: Plan) -> Case:
        places = world_of(self.problem.snapshot(), plan)
        assert len(places) == len(self.problem.nodes) + len(plan.new_nodes), "the plan buys what nobody sells"
        planned = {self._key(pod): self._node_name(place) for place in places for pod in place.arriving}
        rejected = {self._key(pod) for rejection in plan.rejections for pod in rejection.pods}
        bound = [pod for node in self.problem.nodes for pod in node.pods]
        bound += [daemon_on(daemon, _host(place)) for place in places for daemon in place.daemons]
        claims = tuple(map(self._claim, self._objects("PersistentVolumeClaim")))
        return Case(
            name=self.name,
            bound=tuple(map(self._bound, _written(bound))),
            pending=tuple(map(self._pod, _written(self.problem.pods))),
            volumes=tuple(map(self._volume, self._objects("PersistentVolume"))),
            claims=claims,
            bound_claims=frozenset(self._settled_claims()),
            nodes=tuple(map(self._node, places)),
            csi_nodes=tuple(self._csi_node(place) for place in places if place.volume_limits),
            pods={self._key(pod): pod for pod in self.problem.pods},
            planned=planned,
            rejected=frozenset(rejected),
            problem=self.problem,
            plan=plan,
            # Last: pods ask for classes while they are written.
            settings=(*map(self._storage_class, self._objects("StorageClass")), *self.settings.values()),
        )

    def case_again(self, before: Case, last: Plan, bound: Mapping[Key, str]) -> Case:
        snapshot = self.as_bound(last, before.pods, bound)
        waiting = {key: before.pods[key] for key in before.planned if key not in bound}
        plan = solve(snapshot, waiting.values())
        first = len(last.new_nodes)
        places = [
            new_place(snapshot, first + number, each, each) for number, each in enumerate(plan.new_nodes)
        ]
        new = [place for place in places if place is not None]
        planned = {self._key(pod): self._node_name(place) for place in new for pod in place.arriving}
        planned |= {self._key(pod): self._named(name) for name, pods in plan.existing.items() for pod in pods}
        daemons = _written(daemon_on(daemon, _host(place)) for place in new for daemon in place.daemons)
        return replace(
            before,
            bound=tuple(map(self._bound, daemons)),
            pending=tuple(pod for pod in before.pending if key_of(pod) in waiting),
            volumes=(),
            claims=(),
            bound_claims=frozenset(),
            nodes=tuple(map(self._node, new)),
            csi_nodes=tuple(self._csi_node(place) for place in new if place.volume_limits),
            planned=planned,
            rejected=frozenset(waiting.keys() - planned.keys()),
            plan=replace(plan, new_nodes=(*last.new_nodes, *plan.new_nodes)),
            settings=tuple(self.settings.values()),
        )

    def as_bound(self, plan: Plan, pods: Mapping[Key, Pod], bound: Mapping[Key, str]) -> Snapshot:
        pods_on: dict[str, list[Pod]] = {}
        for key, node in bound.items():
            pods_on.setdefault(node.removeprefix(self._named("")), []).append(pods[key])
        return carried_out(self.problem.snapshot(), _as_bound(plan, pods_on))

    def _named(self, name: str) -> str:
        return f"{self.name}-{name}"

    def _key(self, pod: Pod) -> Key:
        return pod.metadata.namespace, self._named(pod.metadata.name)

    def _node_name(self, place: Place) -> str:
        return self._named(_host(place))

    def _objects(self, kind: str) -> list[Wire]:
        return [each for each in to_problem(self.problem)["objects"] if each["kind"] == kind]

    # Nodes.

    def _node(self, place: Place) -> Wire:
        name = self._node_name(place)
        room = Resources(place.room).to_quantities()
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**place.labels, HOSTNAME: name}},
            "spec": {"taints": [_taint(each) for each in place.taints]},
            "status": {
                "capacity": room,
                "allocatable": room,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }

    def _csi_node(self, place: Place) -> Wire:
        name = self._node_name(place)
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": name, "annotations": _MIGRATED},
            "spec": {
                "drivers": [
                    {"name": driver, "nodeID": name, "allocatable": {"count": count}}
                    for driver, count in place.volume_limits.items()
                ]
            },
        }

    # Pods.

    def _pod(self, wire: Wire) -> Wire:
        spec = {field: value for field, value in wire["spec"].items() if value}
        metadata = wire["metadata"]
        if "nodeName" in spec:
            spec["nodeName"] = self._named(spec["nodeName"])
        for volume in spec.get("volumes", ()):
            claim = volume["persistentVolumeClaim"]
            claim["claimName"] = self._named(claim["claimName"])
        for container in spec["containers"]:
            _limit_devices(container)
        _unmerge_label_keys(spec.get("affinity", {}))
        for term in _node_terms(spec.get("affinity", {})):
            for expression in term.get("matchFields", ()):
                expression["values"] = [self._named(value) for value in expression["values"]]
        if "overhead" in spec:
            spec["runtimeClassName"] = self._runtime_class(spec.pop("overhead"))
        if "priority" in spec:
            spec["priorityClassName"] = self._priority_class(spec.pop("priority"))
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self._named(metadata["name"]),
                "namespace": metadata["namespace"],
                "labels": metadata.get("labels", {}),
            },
            "spec": {**spec, "automountServiceAccountToken": False},
        }

    def _bound(self, wire: Wire) -> Wire:
        pod = self._pod(wire)
        pod["spec"]["tolerations"] = [{"operator": "Exists"}]
        pod["metadata"]["finalizers"] = wire["metadata"].get("finalizers", [])
        if "deletionTimestamp" in wire["metadata"]:
            pod["metadata"] |= {"namespace": ASIDE, "labels": {}}
            pod["spec"].pop("affinity", None)
        # Read by whoever makes the pod: neither can be said while making it.
        pod["status"] = {"phase": wire["status"]["phase"]}
        return pod

    def _priority_class(self, priority: int) -> str:
        name = self._named(f"priority-{priority}".replace("--", "-minus-"))
        self.settings[name] = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": priority,
            "preemptionPolicy": "Never",
        }
        return name

    def _runtime_class(self, overhead: Wire) -> str:
        amounts = "-".join(f"{key}-{value}" for key, value in sorted(overhead.items()))
        name = self._named(f"overhead-{amounts}".lower())
        self.settings[name] = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name},
            "handler": "sandbox",
            "overhead": {"podFixed": overhead},
        }
        return name

    # Storage.

    def _storage_class(self, wire: Wire) -> Wire:
        name = self._named(wire["metadata"]["name"])
        return {**wire, "metadata": {"name": name}, "reclaimPolicy": "Retain"}

    def _claim(self, wire: Wire) -> Wire:
        """Write a claim that is still to be bound, unless it has lost its volume: then the loss is all it has."""
        metadata, spec = wire["metadata"], wire["spec"]
        names = {
            field: self._named(spec[field]) for field in ("storageClassName", "volumeName") if spec.get(field)
        }
        lost = wire.get("status", {}).get("phase") == "Lost"
        if lost:
            names.setdefault("volumeName", self._named("lost"))
        annotations = (
            metadata.get("annotations", {}) if names.get("volumeName") not in self._volume_names() else {}
        )
        if lost:
            annotations = {"pv.kubernetes.io/bind-completed": "yes"}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": self._named(metadata["name"]),
                "namespace": metadata["namespace"],
                "annotations": annotations,
            },
            "spec": {**names, "accessModes": ["ReadWriteOnce"], "resources": {"requests": _SIZE}},
        }

    def _volume(self, wire: Wire) -> Wire:
        """Write a volume that is kept for its claim; the control plane binds the two."""
        spec = dict(wire["spec"])
        classes = {
            (claim.metadata.namespace, claim.metadata.name): claim.spec.storage_class_name
            for claim in self.problem.claims
        }
        reference = spec["claimRef"]
        class_name = classes[reference["namespace"], reference["name"]]
        spec |= {
            "claimRef": {**reference, "name": self._named(reference["name"])},
            "capacity": _SIZE,
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": self._named(class_name) if class_name else "",
        }
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": self._named(wire["metadata"]["name"])},
            "spec": spec,
        }

    def _volume_names(self) -> set[str]:
        return {self._named(volume.metadata.name) for volume in self.problem.volumes}

    def _settled_claims(self) -> list[Key]:
        names = self._volume_names()
        return [
            (claim.metadata.namespace, self._named(claim.metadata.name))
            for claim in self.problem.claims
            if self._named(claim.spec.volume_name) in names
        ]


def _as_bound(plan: Plan, pods_on: Mapping[str, Sequence[Pod]]) -> Plan:
    """Give the plan as it was carried out: with the pods that are on its nodes, whoever was meant to be."""
    return replace(
        plan,
        existing={name: tuple(pods) for name, pods in pods_on.items()},
        new_nodes=tuple(
            replace(node, pods=tuple(pods_on.get(f"new-{number}", ())))
            for number, node in enumerate(plan.new_nodes)
        ),
    )


def _host(place: Place) -> str:
    """Give the name that the problem or the checker has for a node."""
    return place.name or place.labels[HOSTNAME]


def _written(pods: Iterable[Pod]) -> list[Wire]:
    found = to_problem(Problem(pods=tuple(pods), namespaces={}))["objects"]
    return [each for each in found if each["kind"] == "Pod"]


def _taint(taint: Taint) -> Wire:
    wire: Wire = to_wire(taint)
    return wire


def _limit_devices(container: Wire) -> None:
    """Set the limits that the API server insists on: devices cannot be overcommitted."""
    resources = container.get("resources", {})
    devices = {key: value for key, value in resources.get("requests", {}).items() if "/" in key}
    if devices:
        resources["limits"] = devices


def _node_terms(affinity: Wire) -> list[Wire]:
    side = affinity.get("nodeAffinity", {})
    terms = list(side.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ()))
    wishes = side.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    return terms + [wish["preference"] for wish in wishes]


def _unmerge_label_keys(affinity: Wire) -> None:
    """Take out what a problem file says in the API server's place; this API server speaks for itself."""
    for side in ("podAffinity", "podAntiAffinity"):
        rules: Mapping[str, Any] = affinity.get(side, {})
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution", ()))
        wishes = rules.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        for term in terms + [wish["podAffinityTerm"] for wish in wishes]:
            keys = {*term.get("matchLabelKeys", ()), *term.get("mismatchLabelKeys", ())}
            selector = term["labelSelector"]
            kept = [each for each in selector.get("matchExpressions", ()) if each["key"] not in keys]
            if keys:
                selector["matchExpressions"] = kept
