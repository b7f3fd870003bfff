# SPDX-License-Identifier: Apache-2.0
"""The values that removing nodes is decided from, and those that it gives.

In: a ``Situation``, which with the ``Snapshot`` is everything that may be looked at. Out: a ``Command`` or a
``Blocked``, both with a ``Verdict`` for every node of ours. Times are seconds since 1970 (UTC), prices dollars per
hour. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from karpenter.api.base import EMPTY
from karpenter.api.core import Pod
from karpenter.api.core.policy import PodDisruptionBudget
from karpenter.consolidation.memory import Memory
from karpenter.kit.cron import Schedule
from karpenter.kit.durations import Duration
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling import NewNode, SolveOptions
from karpenter.scheduling.options import never

__all__ = [
    "Blocked",
    "BudgetRule",
    "Candidate",
    "Command",
    "Move",
    "Policy",
    "PoolPolicy",
    "Problem",
    "Rearrangement",
    "Reason",
    "Refusal",
    "RefusalKind",
    "Removable",
    "Settings",
    "Situation",
    "Stage",
    "Verdict",
    "VerdictKind",
    "World",
]


class Reason(StrEnum):
    """Why a node goes; as Karpenter spells it in budgets, conditions and metrics."""

    EMPTY = "Empty"
    DRIFTED = "Drifted"
    UNDERUTILIZED = "Underutilized"
    EXPIRED = "Expired"


class Policy(StrEnum):
    """Which nodes of a pool consolidation may take."""

    WHEN_EMPTY = "WhenEmpty"
    WHEN_EMPTY_OR_UNDERUTILIZED = "WhenEmptyOrUnderutilized"
    WHEN_UNDERUTILIZED = "WhenUnderutilized"
    BALANCED = "Balanced"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a NodePool that cannot be used, for its condition.

    Attributes:
        field: Where it stands, as a path from ``spec``.
        value: What stands there.
        words: What is wrong with it and what to write instead, one sentence.
    """

    field: str
    value: str
    words: str


@dataclass(frozen=True, slots=True)
class BudgetRule:
    """One budget of a pool, read.

    Attributes:
        text: The budget as people wrote it, for verdicts.
        nodes: How many nodes, or of a hundred.
        is_percent: Whether ``nodes`` is a share.
        reasons: What it bounds; empty means everything.
        schedule: When its window opens; None is always.
        duration: How long the window stays open.
        allows: Whether nodes may go only inside the window, instead of being bounded inside it.
        broken: Whether it cannot be read, and so allows nothing.
    """

    text: str
    nodes: int = 0
    is_percent: bool = False
    reasons: frozenset[Reason] = frozenset()
    schedule: Schedule | None = None
    duration: Duration | None = None
    allows: bool = False
    broken: bool = False


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """The disruption part of a NodePool; ``policies.pool_policy`` reads it.

    Attributes:
        name: The NodePool's name.
        policy: Which nodes consolidation may take.
        consolidate_after_s: How long a node must be without pod changes; None is Never.
        budgets: Its budgets.
        replicas: How many nodes a static pool keeps; None for others.
        node_limit: ``limits.nodes``, or None.
        minimum_saving: The least saving worth a move, as a share of what is removed; None takes the settings'.
        problems: What could not be read.
    """

    name: str
    policy: Policy = Policy.WHEN_EMPTY_OR_UNDERUTILIZED
    consolidate_after_s: float | None = 0.0
    budgets: tuple[BudgetRule, ...] = ()
    replicas: int | None = None
    node_limit: int | None = None
    minimum_saving: float | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the cluster says of one of our members, beside its ``NodeView``; those on their way out too.

    Attributes:
        name: The node's name as in the snapshot, or the claim's while it has none.
        claim: Its NodeClaim's name.
        pool: Its NodePool's name.
        created: When the claim was made.
        initialized_at: When it became ready for work; None if it is not.
        last_pod_event: When a pod last came or went (``status.lastPodEventTime``).
        drifted: The reason of its Drifted condition; empty if it has not drifted.
        drifted_at: When that condition turned True.
        nominated: Whether a pod that waits is promised to it.
        do_not_disrupt: Whether the node or the claim carries the annotation.
        leaving: Whether it is tainted, marked or being deleted; it uses up budgets and is no longer in the snapshot.
        not_ready: Whether its node is not Ready; it uses up budgets.
        gone: Whether its instance is being terminated; it no longer counts as one of the pool.
        termination_grace_period_s: How long draining may take; None is for ever.
        retry_at: Before this moment the node is not tried again: a command for it failed.
    """

    name: str
    claim: str
    pool: str
    created: float = 0.0
    initialized_at: float | None = 0.0
    last_pod_event: float | None = None
    drifted: str = ""
    drifted_at: float | None = None
    nominated: bool = False
    do_not_disrupt: bool = False
    leaving: bool = False
    not_ready: bool = False
    gone: bool = False
    termination_grace_period_s: float | None = None
    retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator may choose about removing nodes.

    Attributes:
        eviction_price: What moving one ordinary pod is worth, in dollars.
        horizon_h: For how many hours a saving is expected to last before a pool has taught anything.
        horizon_floor_h: The shortest horizon that regret can teach; yesterday may teach a shorter one.
        horizon_ceiling_h: The longest horizon that quiet can teach.
        minimum_saving: The least saving worth a move, as a share of what is removed.
        boot_s: How long a replacement is paid for before it takes pods.
        drain_s: How long a node is paid for while it drains.
        spot_to_spot: Whether a spot node may be replaced by another spot node.
        spot_choices: How many spot offerings a spot replacement must be able to choose from, or half of those that
            could hold its pods if that is less.
        validation_wait_s: How long a command waits before it is looked at again.
        tries: How many rearrangements the search may try.
        search: Whether many nodes may be exchanged for many; otherwise one after the other.
        solve: How placement is decided.
        stop: Asked now and then; once it says true, the best so far counts.
        seed: Settles what the search tries first.
    """

    eviction_price: float = 0.15
    horizon_h: float = 24.0
    horizon_floor_h: float = 3.0
    horizon_ceiling_h: float = 24.0
    minimum_saving: float = 0.02
    boot_s: float = 60.0
    drain_s: float = 30.0
    spot_to_spot: bool = True
    spot_choices: int = 5
    validation_wait_s: float = 15.0
    tries: int = 400
    search: bool = True
    solve: SolveOptions = field(default_factory=SolveOptions)
    stop: Callable[[], bool] = never
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything beside the snapshot that removing nodes depends on.

    Attributes:
        candidates: Every member of ours, those on their way in and out included.
        policies: By pool.
        pdbs: Every PodDisruptionBudget.
        pending: Pods without a place: those that wait, and those of nodes on their way out. They get room first.
        virtual: Pods that stand for capacity buffers: they need room, and are never moved.
        memory: What earlier rounds have taught.
        settings: What an operator has chosen.
        plan: The plan that the last command was a part of; None if it was all.
        bought: The names of nodes that were bought for the plan, by the uids of pods that go to them; empty as long as
            they have none.
    """

    candidates: tuple[Candidate, ...] = ()
    policies: Mapping[str, PoolPolicy] = field(default=EMPTY)
    pdbs: tuple[PodDisruptionBudget, ...] = ()
    pending: tuple[Pod, ...] = ()
    virtual: tuple[Pod, ...] = ()
    memory: Memory = field(default_factory=Memory)
    settings: Settings = field(default_factory=Settings)
    plan: Rearrangement | None = None
    bought: Mapping[str, str] = field(default=EMPTY)


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that must leave its node, and where there is room for its successor.

    Attributes:
        uid: The pod's uid.
        pod: Its namespace and name.
        source: The node that it leaves.
        target: The standing node with room for it; empty when a node to be launched has it.
        launch: Which launch of the stage has room for it, from 0; -1 when a standing node has it.
    """

    uid: str
    pod: str
    source: str
    target: str = ""
    launch: int = -1


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a command that is carried out by itself: its launches first, then its removals.

    Attributes:
        remove: Names of the nodes that go.
        launch: Nodes to buy before.
        moves: Where the pods of the removed nodes have room.
        saving_per_hour: Price of what goes less price of what comes.
        evictions: How many pods are moved.
        scores: What it saves for what it disturbs, by pool, where the policy Balanced asked for it.
    """

    remove: tuple[str, ...]
    launch: tuple[NewNode, ...] = ()
    moves: tuple[Move, ...] = ()
    saving_per_hour: float = 0.0
    evictions: int = 0
    scores: Mapping[str, float] = field(default=EMPTY, compare=False, repr=False)


class VerdictKind(StrEnum):
    """Why a node stays, or that it goes."""

    GOES = "Goes"
    LEAVING = "Leaving"
    NOT_OURS = "NotOurs"
    NOT_INITIALIZED = "NotInitialized"
    NO_POOL = "NoPool"
    NOMINATED = "Nominated"
    NODE_PROTECTED = "NodeProtected"
    POD_PROTECTED = "PodProtected"
    PDB = "PodDisruptionBudget"
    SEVERAL_PDBS = "SeveralPodDisruptionBudgets"
    BUDGET = "Budget"
    RECENT_CHANGE = "RecentChange"
    NEVER = "Never"
    POLICY = "Policy"
    STATIC = "StaticPool"
    RETRY = "Retry"
    NO_PRICE = "NoPrice"
    NO_ROOM = "NoRoom"
    BUFFER = "Buffer"
    PEAK = "RecentPeak"
    NOT_CHEAPER = "NotCheaper"
    SAVING = "SavingTooSmall"
    BALANCED = "BalancedScore"
    SPOT = "SpotDiversity"
    LIMITS = "Limits"
    WAITS = "Waits"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why one node stays, or that it goes.

    Attributes:
        node: The node.
        kind: The reason as a word.
        words: The reason as one sentence.
        values: What the sentence speaks of: ``pod``, ``pdb``, ``budget``, ``until``, ``saving_per_hour``, ...
        cost_per_day: What the node costs a day; None if its price is not known.
    """

    node: str
    kind: VerdictKind
    words: str
    values: Mapping[str, str] = field(default=EMPTY)
    cost_per_day: float | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """Nodes that go, and what comes before them.

    Attributes:
        id: Says the same for the same command, whoever computes it.
        reason: Why.
        stages: In the order to carry them out; the first ones alone pay too.
        price_before: What the removed nodes cost per hour.
        price_after: What the launched nodes cost per hour.
        evictions: How many pods are moved.
        weight: What those evictions weigh; an ordinary pod weighs 1.
        words: One sentence for logs and events.
        verdicts: For every node of ours.
        plan: The plan that it is a part of, if the rounds that follow take more nodes when budgets allow it.
    """

    id: str
    reason: Reason
    stages: tuple[Stage, ...]
    price_before: float
    price_after: float
    evictions: int
    weight: float
    words: str
    verdicts: Mapping[str, Verdict] = field(default=EMPTY, compare=False, repr=False)
    plan: Rearrangement | None = field(default=None, compare=False, repr=False)

    @property
    def later(self) -> frozenset[str]:
        """Nodes that go in the rounds that follow: pods had better not come to them."""
        return frozenset(self.plan.remove if self.plan is not None else ()).difference(self.remove)

    @property
    def saving_per_hour(self) -> float:
        """What it promises to save per hour; below 0 where something else than money asks for it."""
        return self.price_before - self.price_after

    @property
    def remove(self) -> tuple[str, ...]:
        """The nodes that go, in order."""
        return tuple(name for stage in self.stages for name in stage.remove)


@dataclass(frozen=True, slots=True)
class Blocked:
    """Nothing to do now.

    Attributes:
        words: One sentence.
        verdicts: For every node of ours why it stays.
        retry_at: When, without any change, the answer may be another; None for never.
    """

    words: str
    verdicts: Mapping[str, Verdict] = field(default=EMPTY, repr=False)
    retry_at: float | None = None


RefusalKind: TypeAlias = Literal["budget", "scheduling", "churn"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a stage must not be carried out after the wait.

    Attributes:
        kind: The reason as a word.
        words: The reason as one sentence.
        passes: Whether it is nobody's fault and soon over: a PodDisruptionBudget that others use up just now.
    """

    kind: RefusalKind
    words: str
    passes: bool = False


@dataclass(frozen=True, slots=True)
class Removable:
    """A node that the search may take away.

    Attributes:
        name: The node.
        pool: Its NodePool.
        price_per_hour: What it costs.
        cost: What taking it must save per hour to be worth it, for its pods have to move.
        minimum_saving: The least saving, as a share of its price, whatever the moving costs.
    """

    name: str
    pool: str
    price_per_hour: float
    cost: float
    minimum_saving: float


@dataclass(frozen=True, slots=True)
class World:
    """What a search for a cheaper cluster looks at; every rule but price, room and constraints is settled before.

    Attributes:
        snapshot: The cluster; its pools may launch.
        removable: The nodes that may go, by name.
        receivers: Standing nodes that may take moved pods, by name.
        waiting: Pods that get room first, whatever happens to the others.
        ghosts: Pods that need room, but for which nothing is bought.
        overlap_h: For how many hours a launched node is paid for twice, against a saving that lasts ``horizon_h``.
        horizon_h: For how many hours a saving is expected to last.
        most_removed: How many nodes of each pool may go in one command; for a first choice, stages are cut later.
        tries: How many rearrangements may be tried.
        stop: Once it says true, the best so far counts.
        seed: Settles what is tried first.
    """

    snapshot: Snapshot
    removable: Mapping[str, Removable]
    receivers: frozenset[str]
    waiting: tuple[Pod, ...] = ()
    ghosts: tuple[Pod, ...] = ()
    overlap_h: float = 0.025
    horizon_h: float = 2.0
    most_removed: Mapping[str, int] = field(default=EMPTY)
    tries: int = 400
    stop: Callable[[], bool] = never
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """A cheaper cluster: what goes, what comes, and who moves where; each pod at most once.

    Attributes:
        remove: Names of the nodes that go, in the order in which they pay best.
        launch: Nodes to buy.
        moves: Every pod of the removed nodes; ``launch`` of a move counts in ``launch`` here.
        saving_per_hour: Price of what goes less price of what comes.
        tries: How many rearrangements were looked at.
        steps: How many nodes of ``remove`` go together, in order: after each step what was done so far pays, and it
            needs no launches but those its moves name. Steps without launches come first.
    """

    remove: tuple[str, ...] = ()
    launch: tuple[NewNode, ...] = ()
    moves: tuple[Move, ...] = ()
    saving_per_hour: float = 0.0
    tries: int = 0
    steps: tuple[int, ...] = ()

    def by_step(self) -> Iterator[tuple[str, ...]]:
        """Yield the nodes that go together, in order."""
        start = 0
        for size in self.steps:
            yield self.remove[start : start + size]
            start += size
