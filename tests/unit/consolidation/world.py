# SPDX-License-Identifier: Apache-2.0
"""Clusters to take nodes from, and what happens when a command is carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from karpenter.api.core import Pod
from karpenter.api.core.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from karpenter.api.meta import LabelSelector, ObjectMeta, OwnerReference
from karpenter.api.nodepool import Budget, NodePool
from karpenter.consolidation import (
    Blocked,
    Candidate,
    Command,
    Memory,
    Settings,
    Situation,
    pool_policy,
    propose,
)
from karpenter.consolidation.types import PoolPolicy, Rearrangement, Reason, Refusal, Stage
from karpenter.consolidation.validating import validate
from karpenter.model.instancetypes import InstanceType
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.scheduling import NewNode
from tests.strategies.clusters import node, nodepool
from tests.strategies.machines import instance_type
from tests.strategies.pods import NOON, pod
from tests.strategies.problems import Problem

NOW = NOON.timestamp()
LONG_AGO = NOW - 86_400

C5_LARGE = instance_type("c5.large", cpu=2, memory_gib=3.5, price=0.085, capacity_types=("on-demand",))
M5_LARGE = instance_type("m5.large", cpu=2, memory_gib=7.4, price=0.096, capacity_types=("on-demand",))
R5_LARGE = instance_type("r5.large", cpu=2, memory_gib=15.2, price=0.126, capacity_types=("on-demand",))
M5_XLARGE = instance_type("m5.xlarge", cpu=4, memory_gib=15, price=0.192, capacity_types=("on-demand",))
W1_TYPES = (C5_LARGE, M5_LARGE, R5_LARGE, M5_XLARGE)


def replica(
    name: str, on: str, *, of: str = "inflate", annotations: Mapping[str, str] | None = None, **more: Any
) -> Pod:
    """Make a running replica of a workload, of 1 GiB."""
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=of, uid=of, controller=True)
    made = pod(
        name,
        **{"cpu": None, "memory": "1Gi", "owner": owner, "labels": {"app": of}, "node_name": on, **more},
    )
    return structs.replace(
        made,
        metadata=structs.replace(
            made.metadata, annotations={**made.metadata.annotations, **(annotations or {})}
        ),
    )


def replicas(number: int, on: str, **more: Any) -> tuple[Pod, ...]:
    """Make running replicas of a workload on a node."""
    return tuple(replica(f"{more.get('of', 'inflate')}-{on}-{index}", on, **more) for index in range(number))


def holding(name: str, pods: int = 0, kind: InstanceType = M5_LARGE, **more: Any) -> NodeView:
    """Make a node with some replicas on it."""
    return node(name, kind, pods=replicas(pods, name), **more)


def pool(
    name: str = "default",
    *,
    disruption: Mapping[str, Any] | None = None,
    replicas: int | None = None,
    **more: Any,
) -> NodePool:
    """Make a NodePool; without budgets it lets every node go at once."""
    made = nodepool(name, **more)
    asked = {"consolidate_after": "0s", "budgets": (), **(disruption or {})}
    spec = structs.replace(
        made.spec, disruption=structs.replace(made.spec.disruption, **asked), replicas=replicas
    )
    return structs.replace(made, spec=spec)


def budget(nodes: str, **more: Any) -> Budget:
    """Make a budget."""
    return Budget(nodes=nodes, **more)


def pdb(name: str = "pdb", *, app: str = "inflate", allowed: int = 0, **spec: Any) -> PodDisruptionBudget:
    """Make a PodDisruptionBudget on the pods of a workload."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": app}), **spec),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


@dataclass(frozen=True)
class Setting:
    """A cluster and all that is said of it."""

    nodes: tuple[NodeView, ...] = ()
    pools: tuple[NodePool, ...] = field(default_factory=lambda: (pool(),))
    types: tuple[InstanceType, ...] = W1_TYPES
    candidates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pdbs: tuple[PodDisruptionBudget, ...] = ()
    pending: tuple[Pod, ...] = ()
    virtual: tuple[Pod, ...] = ()
    memory: Memory = field(default_factory=Memory)
    settings: Settings = field(default_factory=Settings)
    now: float = NOW
    daemons: tuple[Pod, ...] = ()
    plan: Rearrangement | None = None
    bought: Mapping[str, str] = field(default_factory=dict)

    def snapshot(self) -> Snapshot:
        """Give the cluster without the nodes on their way out."""
        standing = tuple(each for each in self.nodes if not self.candidates.get(each.name, {}).get("leaving"))
        return self._problem(standing)

    def whole(self) -> Snapshot:
        """Give the cluster with the nodes on their way out too."""
        return self._problem(self.nodes)

    def _problem(self, nodes: tuple[NodeView, ...]) -> Snapshot:
        return Problem(nodepools=self.pools, types=self.types, nodes=nodes, daemons=self.daemons).snapshot()

    def policies(self) -> dict[str, PoolPolicy]:
        """Give what the pools say."""
        return {each.metadata.name: pool_policy(each) for each in self.pools}

    def situation(self) -> Situation:
        """Give everything beside the snapshot."""
        return Situation(
            candidates=tuple(
                Candidate(
                    **{
                        "name": each.name,
                        "claim": f"claim-{each.name}",
                        "pool": each.pool,
                        "created": LONG_AGO,
                        "initialized_at": LONG_AGO if each.initialized else None,
                        **self.candidates.get(each.name, {}),
                    }
                )
                for each in self.nodes
                if each.managed
            ),
            policies=self.policies(),
            pdbs=self.pdbs,
            pending=self.pending,
            virtual=self.virtual,
            memory=self.memory,
            settings=self.settings,
            plan=self.plan,
            bought=self.bought,
        )

    def propose(self) -> Command | Blocked:
        """Ask what goes."""
        return propose(self.snapshot(), self.situation(), self.now)

    def command(self) -> Command:
        """Ask what goes, and expect an answer."""
        found = self.propose()
        assert isinstance(found, Command), found.words
        return found

    def blocked(self) -> Blocked:
        """Ask what goes, and expect nothing."""
        found = self.propose()
        assert isinstance(found, Blocked), found.words
        return found

    def validate(self, stage: Stage, reason: Reason, launched: Iterable[str] = ()) -> Stage | Refusal:
        """Ask whether a stage may still go."""
        return validate(stage, reason, self.whole(), self.situation(), self.now, tuple(launched))

    def but(self, **changes: Any) -> Setting:
        """Give the same with some changes."""
        return replace(self, **changes)

    def after(self, stage: Stage) -> Setting:
        """Give the cluster once a stage has been carried out as planned."""
        names = [f"new-{len(self.nodes)}-{number}" for number in range(len(stage.launch))]
        pods = {each.metadata.uid: each for view in self.nodes for each in view.pods}
        arriving: dict[str, list[Pod]] = {}
        for move in stage.moves:
            target = move.target or names[move.launch]
            moved = pods[move.uid]
            spec = structs.replace(moved.spec, node_name=target)
            arriving.setdefault(target, []).append(structs.replace(moved, spec=spec))
        kept = [
            replace(each, pods=(*each.pods, *arriving.get(each.name, ())))
            for each in self.nodes
            if each.name not in stage.remove
        ]
        kinds = {kind.name: kind for kind in self.types}
        made = [
            _made(launch, name, kinds, arriving.get(name, ()))
            for launch, name in zip(stage.launch, names, strict=True)
        ]
        return replace(self, nodes=(*kept, *made))

    @property
    def price(self) -> float:
        """What the nodes of ours cost per hour."""
        listed = {
            (kind.name, each.zone, each.capacity_type): each.price_per_hour
            for kind in self.types
            for each in kind.offerings
        }
        return sum(
            listed[
                view.labels["node.kubernetes.io/instance-type"],
                view.labels["topology.kubernetes.io/zone"],
                view.labels["karpenter.sh/capacity-type"],
            ]
            for view in self.nodes
            if view.managed
        )


def _made(launch: NewNode, name: str, kinds: Mapping[str, InstanceType], pods: Iterable[Pod]) -> NodeView:
    return node(
        name,
        kinds[launch.instance_type],
        zone=launch.zone,
        capacity_type=launch.capacity_type,
        pool=launch.pool,
        labels=launch.labels,
        pods=pods,
    )
