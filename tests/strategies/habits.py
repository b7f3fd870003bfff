# SPDX-License-Identifier: Apache-2.0
"""What random pods insist on: one function for each kind of constraint, drawing its details.

A kind adds to the options with which the pods of one class will be made, and may put objects that they need (claims,
volumes, storage classes) into the cluster. ``POD_KINDS`` names them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from karpenter.api.core import (
    NodeSelectorRequirement,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    StorageClass,
)
from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    EBS_CSI_ZONE,
    HOSTNAME,
    INSTANCE_CPU,
    INSTANCE_FAMILY,
    INSTANCE_GPU_COUNT,
    ON_DEMAND,
    SPOT,
    ZONE,
)
from tests.strategies.clusters import EBS_DRIVER, storage_class, volume, volume_claim
from tests.strategies.expressions import (
    expression,
    node_term,
    pod_term,
    preferred,
    selector,
    spread,
    toleration,
    weighted,
)
from tests.strategies.pods import container, host_port, pod

__all__ = ["APPS", "POD_KINDS", "RACK", "TEAM", "Draft", "PodsDraft"]

APPS: Final = ("web", "api", "db")
TEAM: Final = "example.com/team"
RACK: Final = "example.com/rack"


@dataclass
class Draft:
    """The parts of a cluster that pods bring along, and what they can refer to."""

    random: Random
    zones: tuple[str, ...]
    nodes: list[str] = field(default_factory=list)
    claims: list[PersistentVolumeClaim] = field(default_factory=list)
    volumes: list[PersistentVolume] = field(default_factory=list)
    classes: list[StorageClass] = field(default_factory=list)

    def key(self) -> str:
        """Draw a node label to count pods by."""
        often = (ZONE,) * 6 + (HOSTNAME,) * 4 + (CAPACITY_TYPE,) * 2
        return self.random.choice((*often, TEAM, RACK, ARCH))


@dataclass
class PodsDraft:
    """Equal pods in the making: ``options`` are those of the builder ``pod``."""

    name: str
    count: int
    app: str
    options: dict[str, Any] = field(default_factory=dict)
    own_claims: list[str] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """The namespace of the pods."""
        namespace: str = self.options["namespace"]
        return namespace

    def add(self, option: str, value: object) -> None:
        """Add to an option that is a list."""
        self.options.setdefault(option, []).append(value)

    def pods(self) -> list[Pod]:
        """Make the pods; each has a claim of its own for every entry of ``own_claims``."""
        found = []
        for number in range(self.count):
            claims = [*self.options.get("claims", ()), *(f"{each}-{number}" for each in self.own_claims)]
            found.append(pod(f"{self.name}-{number}", **{**self.options, "claims": claims}))
        return found


# Nodes.


def _node_selector(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    key, value = random.choice(
        (
            (ZONE, random.choice(draft.zones)),
            (ARCH, random.choice(("amd64", "arm64"))),
            (CAPACITY_TYPE, random.choice((SPOT, ON_DEMAND))),
            (TEAM, random.choice("ab")),
            (INSTANCE_FAMILY, random.choice(("m5", "c5", "r5"))),
            ("beta.kubernetes.io/arch", "amd64"),
            ("failure-domain.beta.kubernetes.io/zone", random.choice(draft.zones)),
        )
    )
    pods.options["node_selector"] = {**pods.options.get("node_selector", {}), key: value}


def _expression(draft: Draft) -> NodeSelectorRequirement:
    random = draft.random
    return random.choice(
        (
            expression(ZONE, "In", *random.sample(draft.zones, random.randrange(1, 3))),
            expression(ZONE, "NotIn", random.choice(draft.zones)),
            expression(CAPACITY_TYPE, "In", random.choice((SPOT, ON_DEMAND))),
            expression(ARCH, "NotIn", "arm64"),
            expression(INSTANCE_CPU, "Gt", random.choice("123")),
            expression(INSTANCE_CPU, "Lt", random.choice("48")),
            expression(INSTANCE_GPU_COUNT, "DoesNotExist"),
            expression(TEAM, "Exists"),
            expression(TEAM, "In", "a"),
            expression(TEAM, "NotIn", "b"),
            expression(RACK, "In", "r1", "r2"),
            expression(RACK, "DoesNotExist"),
        )
    )


def _node_affinity(draft: Draft, pods: PodsDraft) -> None:
    expressions = [_expression(draft) for _ in range(draft.random.choice((1, 1, 2)))]
    pods.options["node_affinity"] = [node_term(*expressions)]


def _alternative_terms(draft: Draft, pods: PodsDraft) -> None:
    pods.options["node_affinity"] = [
        node_term(*(_expression(draft) for _ in range(draft.random.choice((1, 2)))))
        for _ in range(draft.random.choice((2, 2, 3)))
    ]


def _match_fields(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    name = random.choice((*draft.nodes, "node-0"))
    pods.options["node_affinity"] = [node_term(name=(random.choice(("In", "NotIn")), name))]


def _node_wishes(draft: Draft, pods: PodsDraft) -> None:
    for _ in range(draft.random.choice((1, 2))):
        pods.add(
            "preferred_node_affinity",
            preferred(node_term(_expression(draft)), draft.random.choice((1, 10, 100))),
        )


def _tolerations(draft: Draft, pods: PodsDraft) -> None:
    pods.add(
        "tolerations",
        draft.random.choice(
            (
                toleration(),
                toleration("team"),
                toleration("team", "data", "NoSchedule"),
                toleration("team", "other"),
                toleration("dedicated", "batch"),
                toleration("dedicated", effect="NoSchedule"),
                toleration("example.com/slow"),
            )
        ),
    )


# Other pods.


def _others(draft: Draft, pods: PodsDraft) -> dict[str, str]:
    """Draw labels to select pods by: mostly the pods themselves, else those of some app."""
    random = draft.random
    labels: Mapping[str, str] = pods.options["labels"]
    if random.random() < 0.65:
        return {"app": pods.app} if random.random() < 0.7 else {key: labels[key] for key in ("app", "tier")}
    return {"app": random.choice(APPS)}


def _zone_spread(draft: Draft, pods: PodsDraft) -> None:
    _add_spread(draft, pods, ZONE)


def _spread(draft: Draft, pods: PodsDraft) -> None:
    _add_spread(draft, pods, draft.key())


def _spread_wish(draft: Draft, pods: PodsDraft) -> None:
    _add_spread(draft, pods, draft.key(), soft=True)


def _spread_details(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    details: dict[str, Any] = random.choice(
        (
            {"min_domains": random.choice((2, 3, 4))},
            {"node_affinity_policy": "Ignore"},
            {"node_taints_policy": "Honor"},
            {"match_label_keys": ("version",)},
        )
    )
    _add_spread(draft, pods, draft.key(), **details)


def _add_spread(draft: Draft, pods: PodsDraft, key: str, *, soft: bool = False, **details: Any) -> None:
    known = pods.options.get("topology_spread", ())
    kind = "ScheduleAnyway" if soft else "DoNotSchedule"
    # An API server refuses a second constraint of the same key and kind.
    if not any((each.topology_key, each.when_unsatisfiable) == (key, kind) for each in known):
        skew = draft.random.choice((1, 1, 1, 2, 3))
        pods.add("topology_spread", spread(_others(draft, pods), key, max_skew=skew, soft=soft, **details))


def _term(draft: Draft, pods: PodsDraft, key: str | None = None) -> PodAffinityTerm:
    return pod_term(_others(draft, pods), key or draft.key())


def _affinity(draft: Draft, pods: PodsDraft) -> None:
    pods.add("affinity", _term(draft, pods))


def _host_affinity(draft: Draft, pods: PodsDraft) -> None:
    pods.add("affinity", _term(draft, pods, HOSTNAME))


def _anti_affinity(draft: Draft, pods: PodsDraft) -> None:
    pods.add("anti_affinity", _term(draft, pods))


def _host_anti_affinity(draft: Draft, pods: PodsDraft) -> None:
    pods.add("anti_affinity", _term(draft, pods, HOSTNAME))


def _pod_wishes(draft: Draft, pods: PodsDraft) -> None:
    side = draft.random.choice(("preferred_affinity", "preferred_anti_affinity"))
    pods.add(side, weighted(_term(draft, pods), draft.random.choice((1, 10, 100))))


def _namespaces(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    details: dict[str, Any] = random.choice(
        (
            {"namespaces": ("default", "shop")},
            {"namespaces": ("shop",)},
            {"namespace_selector": selector()},
            {"namespace_selector": selector({"team": random.choice("ab")})},
            {"namespace_selector": selector({"team": "b"}), "namespaces": ("default",)},
        )
    )
    side = random.choice(("affinity", "anti_affinity"))
    pods.add(side, pod_term(_others(draft, pods), draft.key(), **details))


def _selector_expressions(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    chosen = random.choice(
        (
            selector(None, ("app", "In", (pods.app, random.choice(APPS)))),
            selector(None, ("app", "NotIn", (pods.app,))),
            selector(None, ("tier", "Exists", ())),
            selector({"app": pods.app}, ("missing", "DoesNotExist", ())),
        )
    )
    side = random.choice(("affinity", "anti_affinity"))
    pods.add(side, pod_term(chosen, draft.key()))


def _label_keys(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    details: dict[str, Any] = random.choice(
        ({"match_label_keys": ("version",)}, {"mismatch_label_keys": ("version",)})
    )
    side = random.choice(("affinity", "anti_affinity"))
    pods.add(side, pod_term({"app": pods.app}, draft.key(), **details))


# Devices and sizes.


def _ports(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    pods.options["ports"] = [
        random.choice(
            (
                host_port(8080),
                host_port(8080, protocol="UDP"),
                host_port(8080, ip="10.0.0.1"),
                host_port(9100),
            )
        )
    ]


def _init_containers(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    pods.options["init_containers"] = [
        container("init", {"cpu": random.choice(("100m", "2"))}),
        container("side", {"cpu": "100m", "memory": "100Mi"}, sidecar=True),
        container("last", {"memory": random.choice(("100Mi", "3Gi"))}),
    ][: random.choice((1, 2, 3))]


def _overhead(draft: Draft, pods: PodsDraft) -> None:
    pods.options["overhead"] = {"cpu": draft.random.choice(("10m", "250m")), "memory": "120Mi"}


def _priority(draft: Draft, pods: PodsDraft) -> None:
    pods.options["priority"] = draft.random.choice((-10, 0, 1000))


def _storage_requests(draft: Draft, pods: PodsDraft) -> None:
    more = {"ephemeral-storage": draft.random.choice(("1Gi", "9Gi"))}
    pods.options["requests"] = {**pods.options.get("requests", {}), **more}


def _devices(draft: Draft, pods: PodsDraft) -> None:
    # Rare even among those who have the kind: nobody places such pods.
    if draft.random.random() < 0.2:
        pods.options["devices"] = ["gpu"]


# Volumes.


def _volumes(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    maker = random.choice((_bound_claims, _bound_claims, _unbound_claims, _unbound_claims, _shared_claim))
    if random.random() < 0.1:
        maker = _broken_claim
    maker(draft, pods)


def _bound_claims(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    pods.own_claims.append(f"data-{pods.name}")
    key = random.choice((ZONE, EBS_CSI_ZONE))
    for number in range(pods.count):
        name = f"data-{pods.name}-{number}"
        zones = random.sample(draft.zones, random.choice((1, 1, 2)))
        draft.claims.append(volume_claim(name, namespace=pods.namespace, volume_name=f"pv-{name}"))
        draft.volumes.append(
            volume(
                f"pv-{name}",
                zones=zones if random.random() < 0.9 else (),
                zone_key=key,
                in_tree=random.random() < 0.2,
                claim=(pods.namespace, name),
            )
        )


def _unbound_claims(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    pods.own_claims.append(f"new-{pods.name}")
    zones = random.sample(draft.zones, random.choice((1, 2))) if random.random() < 0.6 else ()
    provisioner = random.choice((EBS_DRIVER, "kubernetes.io/aws-ebs"))
    draft.classes.append(storage_class(f"class-{pods.name}", zones=zones, provisioner=provisioner))
    draft.claims += [
        volume_claim(
            f"new-{pods.name}-{number}", namespace=pods.namespace, storage_class_name=f"class-{pods.name}"
        )
        for number in range(pods.count)
    ]


def _shared_claim(draft: Draft, pods: PodsDraft) -> None:
    name = f"shared-{pods.name}"
    pods.add("claims", name)
    draft.claims.append(volume_claim(name, namespace=pods.namespace, volume_name=f"pv-{name}"))
    draft.volumes.append(
        volume(f"pv-{name}", zones=[draft.random.choice(draft.zones)], claim=(pods.namespace, name))
    )


def _broken_claim(draft: Draft, pods: PodsDraft) -> None:
    random = draft.random
    name = f"broken-{pods.name}"
    pods.add("claims", name)
    trouble = random.choice(("missing", "lost", "no-class", "no-volume", "not-bound"))
    if trouble == "lost":
        draft.claims.append(volume_claim(name, namespace=pods.namespace, phase="Lost"))
    elif trouble == "no-class":
        draft.claims.append(volume_claim(name, namespace=pods.namespace, storage_class_name="unknown"))
    elif trouble == "no-volume":
        draft.claims.append(volume_claim(name, namespace=pods.namespace, volume_name="unknown"))
    elif trouble == "not-bound":
        draft.classes.append(storage_class(f"slow-{pods.name}", immediate=True))
        draft.claims.append(
            volume_claim(name, namespace=pods.namespace, storage_class_name=f"slow-{pods.name}")
        )


POD_KINDS: Final[Mapping[str, Callable[[Draft, PodsDraft], None]]] = {
    "affinity": _affinity,
    "alternative-terms": _alternative_terms,
    "anti-affinity": _anti_affinity,
    "devices": _devices,
    "host-affinity": _host_affinity,
    "host-anti-affinity": _host_anti_affinity,
    "init-containers": _init_containers,
    "label-keys": _label_keys,
    "match-fields": _match_fields,
    "namespaces": _namespaces,
    "node-affinity": _node_affinity,
    "node-selector": _node_selector,
    "node-wishes": _node_wishes,
    "overhead": _overhead,
    "pod-wishes": _pod_wishes,
    "ports": _ports,
    "priority": _priority,
    "selector-expressions": _selector_expressions,
    "spread": _spread,
    "spread-details": _spread_details,
    "spread-wish": _spread_wish,
    "storage-requests": _storage_requests,
    "tolerations": _tolerations,
    "volumes": _volumes,
    "zone-spread": _zone_spread,
}
