# SPDX-License-Identifier: Apache-2.0
"""Folds pods into classes: pods that every rule treats alike are decided once and placed in bulk.

Two pods are of one class if they ask for the same amounts, allow the same nodes, own the same rules about other
pods and are counted by the same rules. Labels enter only through who counts them, so that the hash that a
Deployment writes on its pods parts nothing. Equal texts are compiled once: most of a large batch differs in a few
parts only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from karpenter.api.core import Pod, Toleration
from karpenter.errors import KarpenterError
from karpenter.model.affinity import NodeRules, NodeTerm, node_rules
from karpenter.model.ports import HostPorts, host_ports
from karpenter.model.resources import Resources, pod_requests
from karpenter.model.taints import canonical_tolerations
from karpenter.model.topology import AffinityRule, CountGroup, SpreadRule, TopologyRules, topology_rules
from karpenter.model.volumes import Storage, VolumeDemand, volume_demand

__all__ = [
    "PodClass",
    "Profile",
    "Readings",
    "UnsupportedPodError",
    "age",
    "encode",
    "fold",
    "profiles_of",
    "read",
]

T = TypeVar("T")

# Equal values have equal texts, whatever the order of mappings and sets in them.
encode = msgspec.json.Encoder(order="deterministic").encode


# One pod gives way so often at most.
_MOST_LEVELS = 16

# More spread constraints than this are not weighed: nobody means them, and each is asked for each place.
_MOST_SPREADS = 500


class UnsupportedPodError(KarpenterError):
    """A pod that asks for something that no plan of ours can promise."""


# Compared as itself: classes that say the same share one profile, so that nothing about it is worked out twice.
@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """What a class insists on at one level of giving way.

    Attributes:
        alternatives: Conditions on the node, of which one must hold; a wish still heeded is part of each.
        spreads: The spread rules heeded.
        affinities: The affinity and anti-affinity rules heeded.
        heeds_taint_wishes: Whether PreferNoSchedule still keeps the pods off.
        given_up: The wishes given up so far, in words.
    """

    alternatives: tuple[NodeTerm, ...]
    spreads: tuple[SpreadRule, ...]
    affinities: tuple[AffinityRule, ...]
    heeds_taint_wishes: bool
    given_up: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class PodClass:
    """Pods that every rule treats alike.

    Attributes:
        index: The place in the queue: higher priority, then larger requests first.
        pods: The pods, oldest first.
        requests: What one of them asks for.
        priority: Their priority.
        node: What they say about their node.
        volumes: Where their volumes can be reached from, and what they attach.
        tolerations: The taints they put up with.
        topology: Their rules about other pods.
        ports: The host ports they take.
        counted: The groups that count them, as bits; known once they are folded.
    """

    index: int
    pods: list[Pod]
    requests: Resources
    priority: int
    node: NodeRules
    volumes: VolumeDemand
    tolerations: tuple[Toleration, ...]
    topology: TopologyRules
    ports: HostPorts
    counted: int = 0

    @property
    def namespace(self) -> str:
        """The namespace of the pods."""
        return self.pods[0].metadata.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of one of the pods; those of others count alike."""
        return self.pods[0].metadata.labels


@dataclass(frozen=True, slots=True)
class Readings:
    """Pods of equal text, compiled, and the pods that could not even be read, each with its trouble."""

    compiled: tuple[PodClass, ...]
    unreadable: tuple[tuple[Pod, Exception], ...]


def read(pods: Iterable[Pod], storage: Storage) -> Readings:
    """Compile pods, each distinct text once; the pods may come in any order."""
    return _Reader(storage).run(pods)


def fold(
    compiled: Iterable[PodClass], counted_by: Callable[[str, Mapping[str, str]], int]
) -> tuple[PodClass, ...]:
    """Fold compiled pods into classes, in the order of the queue.

    Args:
        compiled: What ``read`` gave.
        counted_by: Gives, for a namespace and labels, the groups that count such a pod; equal answers fold.
    """
    classes: dict[tuple[object, ...], PodClass] = {}
    for each in compiled:
        each.counted = counted_by(each.namespace, each.labels)
        key = (
            each.requests,
            each.priority,
            each.node,
            each.volumes,
            each.tolerations,
            each.topology,
            each.ports,
            each.counted,
        )
        known = classes.get(key)
        if known is None:
            classes[key] = each
        else:
            known.pods += each.pods
    return _in_queue_order(classes.values())


class _Reader:
    """One run of reading, with what it has compiled so far."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._requests: dict[bytes, Resources] = {}
        self._nodes: dict[bytes, NodeRules] = {}
        self._topologies: dict[bytes, TopologyRules] = {}
        self._tolerations: dict[bytes, tuple[Toleration, ...]] = {}

    def run(self, pods: Iterable[Pod]) -> Readings:
        same_text: dict[bytes, list[Pod]] = {}
        for pod in pods:
            text = encode((pod.metadata.namespace, pod.metadata.labels, pod.spec))
            if pod.spec.volumes:
                # A claim is found by the pod's own name too, and attaches once: such pods stand for themselves.
                text += pod.metadata.name.encode()
            same_text.setdefault(text, []).append(pod)
        compiled: list[PodClass] = []
        unreadable: list[tuple[Pod, Exception]] = []
        # By text, since the first to be met gets the first numbers: the order of the input must not show in a plan.
        for _, alike in sorted(same_text.items()):
            try:
                pod_class = self._compile(alike[0])
            except Exception as trouble:  # noqa: BLE001 - one unreadable pod must not stop the others
                unreadable.extend((pod, trouble) for pod in alike)
            else:
                pod_class.pods = alike
                compiled.append(pod_class)
        return Readings(tuple(compiled), tuple(unreadable))

    def _compile(self, pod: Pod) -> PodClass:
        spec = pod.spec
        if spec.resource_claims:
            raise UnsupportedPodError(
                f"it asks for devices by resource claim {spec.resource_claims[0].name}, which is not supported",
                hint="ask for the device as an extended resource, such as nvidia.com/gpu",
            )
        spreads = len(spec.topology_spread_constraints)
        if spreads > _MOST_SPREADS:
            raise UnsupportedPodError(
                f"it has {spreads} topologySpreadConstraints, which is more than can be kept",
                hint=f"leave at most {_MOST_SPREADS} of them",
            )
        affinity = spec.affinity
        containers = (spec.containers, spec.init_containers, spec.resources, spec.overhead)
        return PodClass(
            index=0,
            pods=[pod],
            requests=_once(self._requests, containers, lambda: pod_requests(pod)),
            priority=spec.priority or 0,
            node=_once(
                self._nodes,
                (spec.node_selector, affinity and affinity.node_affinity),
                lambda: node_rules(pod),
            )
            if affinity or spec.node_selector
            else node_rules(pod),
            volumes=volume_demand(pod, self._storage),
            tolerations=_once(
                self._tolerations, spec.tolerations, lambda: canonical_tolerations(spec.tolerations)
            )
            if spec.tolerations
            else (),
            topology=self._topology(pod) if affinity or spreads else topology_rules(pod),
            ports=host_ports(pod),
        )

    def _topology(self, pod: Pod) -> TopologyRules:
        spec, affinity = pod.spec, pod.spec.affinity
        rules = (
            spec.topology_spread_constraints,
            affinity and (affinity.pod_affinity, affinity.pod_anti_affinity),
        )
        # Rules may take values from the owner's own labels (matchLabelKeys).
        part = (pod.metadata.namespace, rules, pod.metadata.labels if _reads_own_labels(pod) else None)
        return _once(self._topologies, part, lambda: _met_together(topology_rules(pod)))


def _once(known: dict[bytes, T], part: object, compile_part: Callable[[], T]) -> T:
    text = encode(part)
    found = known.get(text)
    if found is None:
        found = known[text] = compile_part()
    return found


def _met_together(rules: TopologyRules) -> TopologyRules:
    """Let each required affinity count only pods that all of them select, as Kubernetes' scheduler does."""
    required = [rule for rule in rules.affinities if rule.hard and not rule.anti]
    if len(required) < 2:
        return rules
    everyone = CountGroup.all_of(tuple(rule.group for rule in required))
    return TopologyRules(
        rules.spreads,
        tuple(
            AffinityRule(everyone.by(rule.group.key), rule.anti, rule.weight)
            if rule.hard and not rule.anti
            else rule
            for rule in rules.affinities
        ),
    )


def _reads_own_labels(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    terms = [
        term
        for side in ((affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ())
        if side is not None
        for term in (*side.required, *(wish.pod_affinity_term for wish in side.preferred))
    ]
    return any(each.match_label_keys for each in pod.spec.topology_spread_constraints) or any(
        term.match_label_keys or term.mismatch_label_keys for term in terms
    )


def _in_queue_order(classes: Iterable[PodClass]) -> tuple[PodClass, ...]:
    """Return the classes as they are tried: by priority, then by size, then by the age of their oldest pod."""
    for each in classes:
        if len(each.pods) > 1:
            each.pods.sort(key=age)

    def order(each: PodClass) -> tuple[object, ...]:
        requests = each.requests
        return (-each.priority, -requests.get("cpu", 0), -requests.get("memory", 0), age(each.pods[0]))

    ordered = tuple(sorted(classes, key=order))
    for index, each in enumerate(ordered):
        each.index = index
    return ordered


def age(pod: Pod) -> tuple[str, str, str, str]:
    """Return what puts pods of one priority in the order in which they came."""
    meta = pod.metadata
    created = meta.creation_timestamp.isoformat() if meta.creation_timestamp else ""
    return (created, meta.namespace, meta.name, meta.uid)


def profiles_of(pod_class: PodClass, *, respect_preferences: bool, taint_wishes: bool) -> tuple[Profile, ...]:
    """Return what a class insists on, level by level, the strictest first.

    One wish goes at a time, as Karpenter has it: preferred pod affinity, preferred anti-affinity, preferred node
    affinity (the heaviest first, each), soft spread, and last the taints that only discourage. Alternatives of
    node affinity are not given up: all of them count from the start.

    Args:
        pod_class: The class.
        respect_preferences: Whether wishes count at all.
        taint_wishes: Whether any pool or node has a taint that only discourages.
    """
    strict = pod_class.node.alternatives
    hard_spreads = tuple(rule for rule in pod_class.topology.spreads if rule.hard)
    hard_affinities = tuple(rule for rule in pod_class.topology.affinities if rule.hard)
    if not respect_preferences:
        return (Profile(strict, hard_spreads, hard_affinities, heeds_taint_wishes=False),)
    wishes = list(pod_class.node.preferences)
    together = [rule for rule in pod_class.topology.affinities if not rule.hard and not rule.anti]
    apart = [rule for rule in pod_class.topology.affinities if not rule.hard and rule.anti]
    soft = [rule for rule in pod_class.topology.spreads if not rule.hard]
    given_up: list[str] = []
    heeds = taint_wishes
    # Thousands of wishes go many at a time, or one pod would take all the time there is.
    at_once = 1 + (len(wishes) + len(together) + len(apart) + len(soft)) // _MOST_LEVELS
    levels = []
    while True:
        preferred = wishes[0].term if wishes else None
        levels.append(
            Profile(
                tuple(term.intersection(preferred) for term in strict) if preferred else strict,
                (*hard_spreads, *soft),
                (*hard_affinities, *together, *apart),
                heeds_taint_wishes=heeds,
                given_up=tuple(given_up),
            )
        )
        if together:
            gone, together = together[:at_once], together[at_once:]
            given_up += [f"preferred pod affinity by {rule.group.key}" for rule in gone]
        elif apart:
            gone, apart = apart[:at_once], apart[at_once:]
            given_up += [f"preferred pod anti-affinity by {rule.group.key}" for rule in gone]
        elif wishes:
            given_up += [f"preferred node affinity {wish.term.requirements}" for wish in wishes[:at_once]]
            wishes = wishes[at_once:]
        elif soft:
            given_up += [f"soft spread over {rule.group.key}" for rule in soft[:at_once]]
            soft = soft[at_once:]
        elif heeds:
            heeds = False
            given_up.append("taints of effect PreferNoSchedule")
        else:
            return tuple(levels)
