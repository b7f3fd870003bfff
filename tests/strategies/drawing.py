# SPDX-License-Identifier: Apache-2.0
"""Random scheduling problems: small mixtures of every kind of constraint, the same for the same seed.

``random_problem`` draws a catalogue, pools, DaemonSets, standing nodes and classes of pods. What may occur is a set of
kinds, so that a test can leave out what its peer does not know: ``KINDS`` are all of them. Sizes and values come from
small sets, so that pods meet: the same few apps select each other, nodes and pools share a few labels.

Everything drawn would pass an API server. Problems need not have a solution: some pods are too large, contradict
themselves or exclude each other, as in life.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Final

from karpenter.api.core import NodeSelectorTerm, Pod, Taint
from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_FAMILY,
    INSTANCE_TYPE,
    NVIDIA_GPU,
    ON_DEMAND,
    SPOT,
    ZONE,
)
from karpenter.api.nodeclaim import Requirement
from karpenter.api.nodepool import NodePool
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.snapshot import NodeView
from tests.strategies.clusters import EBS_DRIVER, node, nodepool
from tests.strategies.expressions import (
    expression,
    node_term,
    pod_term,
    requirement,
    taint,
    toleration,
)
from tests.strategies.habits import APPS, POD_KINDS, RACK, TEAM, Draft, PodsDraft
from tests.strategies.machines import ZONES, instance_type, reserved
from tests.strategies.pods import daemon, daemon_on, host_port, pod
from tests.strategies.problems import Problem, namespaces

__all__ = ["CLUSTER_KINDS", "KINDS", "random_problem"]

CLUSTER_KINDS: Final = (
    "daemons",
    "gpus",
    "limits",
    "min-values",
    "nodes",
    "open-labels",
    "pools",
    "reserved",
    "sold-out",
    "taint-wishes",
    "taints",
)
KINDS: Final = frozenset({*CLUSTER_KINDS, *POD_KINDS})

_FAMILIES: Final = (("c5", 2, "amd64"), ("m5", 4, "amd64"), ("r5", 8, "amd64"), ("m6g", 4, "arm64"))
_SIZES: Final = (("medium", 1), ("large", 2), ("xlarge", 4), ("2xlarge", 8))
_CPUS: Final = ("100m", "250m", "500m", "900m", "1", "1500m", "3")
_MEMORIES: Final = ("64Mi", "256Mi", "1Gi", "2Gi", "3500Mi", "6Gi")
_TAINTS: Final = (taint("team", "data"), taint("dedicated", "batch", "NoExecute"))


def random_problem(
    seed: int, *, kinds: Collection[str] = KINDS, max_pods: int = 40, max_classes: int = 12
) -> Problem:
    """Draw a problem.

    Args:
        seed: The same seed gives the same problem.
        kinds: What may occur in it, of ``KINDS``.
        max_pods: The most pods without a place.
        max_classes: The most different kinds of them.
    """
    # Not a secret: the point of a seed is that everybody gets the same problem.
    return _Drawing(Random(seed), frozenset(kinds)).problem(max_pods, max_classes)  # noqa: S311


class _Drawing:
    """One problem in the making."""

    def __init__(self, random: Random, kinds: frozenset[str]) -> None:
        self.random = random
        self.kinds = kinds
        self.zones = ZONES[: random.choice((2, 3, 3))]
        self.types = self._types()
        self.daemons = self._daemons()
        self.draft = Draft(random, self.zones)

    def problem(self, max_pods: int, max_classes: int) -> Problem:
        nodepools = self._nodepools()
        nodes = self._nodes(nodepools)
        pods = self._pods(max_pods, max_classes, [each.name for each in nodes])
        return Problem(
            pods=pods,
            nodepools=nodepools,
            types=self.types,
            nodes=nodes,
            daemons=self.daemons,
            claims=tuple(self.draft.claims),
            volumes=tuple(self.draft.volumes),
            classes=tuple(self.draft.classes),
            namespaces=namespaces("default", "kube-system", shop={"team": "a"}, lab={"team": "b"}),
        )

    def _may(self, kind: str, chance: float) -> bool:
        # Drawn whether or not the kind is wanted, so that leaving one out disturbs the others little.
        return self.random.random() < chance and kind in self.kinds

    # What can be bought.

    def _types(self) -> tuple[InstanceType, ...]:
        names = [(*family, *size) for family in _FAMILIES for size in _SIZES]
        drawn = self.random.sample(names, self.random.randrange(2, 11))
        # One large type for everyday pods, so that most of them have a place somewhere.
        anchor = ("m5", 4, "amd64", "2xlarge", 8)
        found = []
        for family, ratio, arch, size, cpu in sorted({*drawn, anchor}):
            price = round(cpu * (0.03 + 0.004 * ratio) * (0.8 if arch == "arm64" else 1), 6)
            found.append(
                instance_type(
                    f"{family}.{size}",
                    cpu=cpu,
                    memory_gib=cpu * ratio,
                    pods=self.random.choice((8, 29, 58)),
                    arch=arch,
                    offerings=self._offerings(f"{family}.{size}", price),
                )
            )
        if self._may("gpus", 0.3):
            found.append(
                instance_type(
                    "g4dn.xlarge",
                    cpu=4,
                    memory_gib=16,
                    gpus=self.random.choice((1, 4)),
                    offerings=self._offerings("g4dn.xlarge", 0.526),
                )
            )
        return tuple(found)

    def _offerings(self, name: str, price: float) -> list[Offering]:
        found = []
        for zone in self.zones:
            spot = round(price * self.random.choice((0.3, 0.4, 0.55)), 6)
            for capacity_type, amount in ((ON_DEMAND, price), (SPOT, spot)):
                if self.random.random() < 0.9:
                    found.append(
                        Offering(zone, capacity_type, amount, available=not self._may("sold-out", 0.08))
                    )
        if self._may("reserved", 0.06):
            zone = self.random.choice(self.zones)
            capacity = self.random.choice((1, 1, 2))
            found.append(reserved(f"cr-{name}-{zone}", capacity, zone, round(price / 1000, 6)))
        return found or [Offering(self.zones[0], ON_DEMAND, price)]

    # Who may buy it.

    def _nodepools(self) -> tuple[NodePool, ...]:
        count = self.random.choice((1, 1, 2, 3)) if self._may("pools", 1.0) else 1
        pools = [self._nodepool(name) for name in ("default", "extra", "third")[:count]]
        if self.random.random() < 0.7:
            pools[0] = nodepool("default", weight=pools[0].spec.weight)
        return tuple(pools)

    def _nodepool(self, name: str) -> NodePool:
        random = self.random
        limits = {}
        if self._may("limits", 0.15):
            limits = random.choice(({"cpu": "6"}, {"cpu": "20"}, {"memory": "24Gi"}, {"nodes": "2"}))
        labels = {TEAM: random.choice("ab")} if random.random() < 0.3 else {}
        return nodepool(
            name,
            requirements=self._pool_requirements(labels),
            labels=labels,
            taints=self._pool_taints(),
            startup_taints=(taint("example.com/starting"),) if random.random() < 0.1 else (),
            weight=random.choice((None, None, 10, 50)),
            limits=limits,
        )

    def _pool_requirements(self, labels: dict[str, str]) -> list[Requirement]:
        random = self.random
        found = []
        if random.random() < 0.4:
            found.append(
                requirement(CAPACITY_TYPE, "In", *random.choice(((ON_DEMAND,), (SPOT,), (SPOT, ON_DEMAND))))
            )
        if random.random() < 0.15:
            found.append(requirement(ZONE, "In", *random.sample(self.zones, random.randrange(1, 3))))
        if random.random() < 0.15:
            found.append(requirement(ARCH, "In", "amd64"))
        if random.random() < 0.1:
            found.append(requirement(INSTANCE_CPU, "Lt", "8"))
        if random.random() < 0.1:
            found.append(requirement(INSTANCE_CATEGORY, "NotIn", "c"))
        if self._may("open-labels", 0.15) and TEAM not in labels:
            found.append(requirement(TEAM, "In", "a", "b"))
        if self._may("open-labels", 0.1):
            found.append(
                random.choice(
                    (
                        requirement(RACK, "Exists"),
                        requirement(RACK, "NotIn", "r1"),
                        requirement(RACK, "In", "r1", "r2", "r3"),
                    )
                )
            )
        if self._may("min-values", 0.1):
            key = random.choice((INSTANCE_TYPE, INSTANCE_FAMILY))
            found.append(requirement(key, "Exists", min_values=random.choice((2, 3))))
        return found

    def _pool_taints(self) -> list[Taint]:
        found = [each for each in _TAINTS if self._may("taints", 0.12)]
        if self._may("taint-wishes", 0.08):
            found.append(taint("example.com/slow", "yes", "PreferNoSchedule"))
        return found

    # What stands.

    def _daemons(self) -> tuple[Pod, ...]:
        random = self.random
        found = []
        for number in range(random.choice((0, 1, 1, 2)) if self._may("daemons", 0.6) else 0):
            terms: tuple[NodeSelectorTerm, ...] = ()
            if random.random() < 0.3:
                terms = (
                    node_term(expression(ARCH, "In", "arm64")),
                    node_term(
                        expression(CAPACITY_TYPE, "In", ON_DEMAND), expression(INSTANCE_CPU, "Gt", "2")
                    ),
                )[: random.choice((1, 2))]
            found.append(
                daemon(
                    f"daemon-{number}",
                    cpu=random.choice(("20m", "100m", "300m")),
                    memory=random.choice(("50Mi", "200Mi")),
                    node_affinity=terms,
                    tolerations=(toleration(),) if random.random() < 0.6 else (),
                    ports=(host_port(9100),) if random.random() < 0.3 else (),
                )
            )
        return tuple(found)

    def _nodes(self, nodepools: tuple[NodePool, ...]) -> tuple[NodeView, ...]:
        count = self.random.choice((0, 0, 1, 2, 3, 5)) if self._may("nodes", 1.0) else 0
        return tuple(self._node(f"node-{number}", nodepools) for number in range(count))

    def _node(self, name: str, nodepools: tuple[NodePool, ...]) -> NodeView:
        random = self.random
        pool = random.choice((*nodepools, None))
        labels = {RACK: random.choice(("r1", "r2"))} if random.random() < 0.4 else {}
        taints = [each for each in _TAINTS if self._may("taints", 0.06)]
        if pool is not None:
            labels |= pool.spec.template.metadata.labels
            taints = list(dict.fromkeys((*pool.spec.template.spec.taints, *taints)))
        pods = [daemon_on(each, name) for each in self.daemons if random.random() < 0.6]
        pods += [self._bound(f"{name}-{number}", name) for number in range(random.choice((0, 1, 2, 4)))]
        return node(
            name,
            random.choice(self.types),
            zone=random.choice(self.zones),
            capacity_type=random.choice((ON_DEMAND, SPOT)),
            pool=pool.metadata.name if pool is not None else "",
            labels=labels,
            taints=taints,
            pods=pods,
            initialized=random.random() < 0.85,
            volume_limits={EBS_DRIVER: random.choice((1, 2, 5))} if random.random() < 0.4 else {},
        )

    def _bound(self, name: str, node_name: str) -> Pod:
        random = self.random
        app = random.choice(APPS)
        return pod(
            name,
            cpu=random.choice(("50m", "200m", "500m")),
            memory=random.choice(("64Mi", "512Mi")),
            namespace=random.choice(("default", "default", "shop")),
            labels={"app": app, "tier": random.choice("xy")},
            node_name=node_name,
            anti_affinity=(
                [pod_term({"app": random.choice(APPS)}, random.choice((ZONE, "kubernetes.io/hostname")))]
                if self._may("anti-affinity", 0.12)
                else ()
            ),
            ports=(host_port(8080),) if self._may("ports", 0.1) else (),
            phase="Succeeded" if random.random() < 0.05 else "Running",
            terminating=random.random() < 0.05,
        )

    # Who has no place.

    def _pods(self, max_pods: int, max_classes: int, nodes: list[str]) -> tuple[Pod, ...]:
        random = self.random
        self.draft.nodes = nodes
        found: list[Pod] = []
        wanted = [kind for kind in POD_KINDS if kind in self.kinds]
        for number in range(random.choice((1, 2, 3, 4, 6, max_classes))):
            count = min(random.choice((1, 1, 2, 3, 5, 9)), max_pods - len(found))
            if count <= 0 or number >= max_classes:
                break
            drawn = self._class(f"p{number}", count)
            for kind in random.sample(wanted, min(len(wanted), random.choice((0, 1, 1, 2, 2, 3)))):
                POD_KINDS[kind](self.draft, drawn)
            found += drawn.pods()
        return tuple(found)

    def _class(self, name: str, count: int) -> PodsDraft:
        random = self.random
        app = random.choice(APPS)
        drawn = PodsDraft(name, count, app)
        drawn.options |= {
            "cpu": random.choice(_CPUS) if random.random() < 0.97 else "64",
            "memory": random.choice(_MEMORIES),
            "labels": {"app": app, "tier": random.choice("xy"), "version": random.choice("12")},
            "namespace": "shop" if "namespaces" in self.kinds and random.random() < 0.2 else "default",
            "age_s": random.randrange(5),
        }
        if random.random() < 0.3:
            drawn.add("tolerations", random.choice((toleration(), toleration("team", "data"))))
        has_gpus = any(NVIDIA_GPU in kind.capacity for kind in self.types)
        if self._may("gpus", 0.15) and (has_gpus or random.random() < 0.05):
            drawn.options["requests"] = {NVIDIA_GPU: "1"}
        return drawn
