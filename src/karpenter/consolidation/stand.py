# SPDX-License-Identifier: Apache-2.0
"""The cluster as it would be: asks the solver where pods go when nodes do, and keeps what was settled so far.

Pods without a place get room first, those that stand for buffers after them. A workload that swings keeps the room of
its recent peak: its missing replicas stand somewhere as ghosts, move with their node, and never make anything be
bought. Nodes that may not take moved pods stay where they are, for spreading and affinity count their pods, but have
no room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from karpenter.api.base import EMPTY
from karpenter.api.core import Pod, Taint
from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE
from karpenter.consolidation.memory import workload_of
from karpenter.consolidation.types import Move, VerdictKind
from karpenter.model.catalogue import Catalogue, bits, lowest_bit
from karpenter.model.instancetypes import Offering
from karpenter.model.pods import is_active
from karpenter.model.pools import Pool
from karpenter.model.requirements import Requirement
from karpenter.model.resources import Resources
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.model.topology import CountGroup, topology_rules
from karpenter.scheduling import NewNode, Plan, SolveOptions, solve
from karpenter.scheduling.plan import pod_name

__all__ = ["Placed", "Stand", "Trial", "bound", "numbered_anew", "phantoms", "prepare", "together"]

# A peak far above this is no reason to hold room for ever more pods that are not there.
_MOST_GHOSTS = 1000
_NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a pod of a node that goes would be.

    Attributes:
        pod: The pod.
        source: The node that it leaves.
        target: The standing node that it goes to; empty when a launch has it.
        launch: Which launch of the trial has it, from 0; -1 when a standing node has it.
        is_shadow: Whether the pod is not there and only its room is kept.
    """

    pod: Pod
    source: str
    target: str = ""
    launch: int = -1
    is_shadow: bool = False

    @property
    def move(self) -> Move:
        """The same, for whoever carries it out."""
        return Move(self.pod.metadata.uid, pod_name(self.pod), self.source, self.target, self.launch)


@dataclass(frozen=True, slots=True)
class Trial:
    """What would happen if some nodes went.

    Attributes:
        remove: The nodes.
        launch: What would have to be bought, with the pods that are really there.
        placed: Where their pods would be, by the pods' names.
        problem: Why it cannot be, or None.
        words: The problem in words.
        blamed: The nodes whose pods have no place.
        relaxed: The nodes whose pods had to give up a wish.
    """

    remove: tuple[str, ...]
    launch: tuple[NewNode, ...] = ()
    placed: tuple[Placed, ...] = ()
    problem: VerdictKind | None = None
    words: str = ""
    blamed: frozenset[str] = frozenset()
    relaxed: frozenset[str] = frozenset()

    @property
    def moves(self) -> tuple[Move, ...]:
        """The pods that are really there."""
        return tuple(each.move for each in self.placed if not each.is_shadow)


@dataclass(frozen=True, slots=True)
class Stand:
    """A cluster with everything settled that was settled so far.

    Attributes:
        snapshot: The cluster; what has no room there is closed.
        options: How placement is decided.
        homes: The pods to move when a node goes, by node.
        shadows: Pods that are not there and hold room on a node, by node.
        ghosts: Which of the shadows are replicas of a recent peak, by uid.
        launched: How many nodes were bought so far.
    """

    snapshot: Snapshot
    options: SolveOptions
    homes: Mapping[str, tuple[Pod, ...]] = field(default=EMPTY)
    shadows: Mapping[str, tuple[Pod, ...]] = field(default=EMPTY)
    ghosts: frozenset[str] = frozenset()
    launched: int = 0

    def attempt(self, names: Iterable[str], targets: Mapping[str, str] = EMPTY) -> Trial:
        """Ask where the pods of some nodes would go without them, whatever has to be bought.

        Args:
            names: The nodes.
            targets: The standing node that a pod must go to, by the pod's uid; others go where they like.
        """
        gone = tuple(names)
        displaced = list(self._displaced(gone))
        if not displaced:
            return Trial(gone)
        plan = solve(self.snapshot.without(gone), self._sent(displaced, targets), self.options)
        asked = {each.pod.metadata.uid: each for each in displaced}
        problem = self._problem(plan, asked)
        if problem is not None:
            return replace(problem, remove=gone)
        placed = [
            replace(asked[pod.metadata.uid], target=target)
            for target, pods in plan.existing.items()
            for pod in pods
        ]
        for number, each in enumerate(plan.new_nodes):
            placed += (replace(asked[pod.metadata.uid], launch=number) for pod in each.pods)
        relaxed = frozenset(asked[pod.metadata.uid].source for each in plan.relaxed for pod in each.pods)
        return replace(_trial(gone, plan.new_nodes, placed), relaxed=relaxed)

    def attempt_with(
        self, names: Iterable[str], launch: Sequence[NewNode], moves: Iterable[Move] = ()
    ) -> Trial:
        """Ask where the pods of some nodes would go when these nodes are bought and nothing else.

        What turns out not to be needed is not bought. A wish that only a purchase can fulfil is not given up, if
        wishes are to be respected.

        Args:
            names: The nodes.
            launch: What is bought.
            moves: Where pods must go; those that are not named go where they like.
        """
        gone = tuple(names)
        stocked = self._stocked(launch)
        if any(left < 0 for pool in stocked.snapshot.pools for left in pool.limits.values()):
            return Trial(
                gone, problem=VerdictKind.LIMITS, words="the limits of a NodePool leave no room for it"
            )
        targets = {each.uid: self._name(each.launch) if each.launch >= 0 else each.target for each in moves}
        trial = replace(stocked, snapshot=_without_buying(stocked.snapshot)).attempt(gone, targets)
        if trial.problem is not None:
            return trial
        if trial.relaxed and self.options.preferences == "Respect":
            words = "its pods would have to give up wishes"
            return Trial(gone, problem=VerdictKind.NO_ROOM, words=words, blamed=trial.relaxed)
        numbers = {self._name(number): number for number in range(len(launch))}
        again = numbered_anew(numbers[each.target] for each in trial.placed if each.target in numbers)
        placed = [
            replace(each, target="", launch=again[numbers[each.target]]) if each.target in numbers else each
            for each in trial.placed
        ]
        guests: dict[int, list[Pod]] = {}
        for each in placed:
            guests.setdefault(each.launch, []).append(each.pod)
        fitted = [self._fitted(launch[number], guests[index]) for number, index in again.items()]
        return _trial(gone, fitted, placed)

    def _sent(self, displaced: Iterable[Placed], targets: Mapping[str, str]) -> list[Pod]:
        """Return the pods to place, each bound to its target by the target's hostname."""
        if not targets:
            return [each.pod for each in displaced]
        hosts = {node.name: node.labels.get(HOSTNAME, "") for node in self.snapshot.nodes}
        found = []
        for each in displaced:
            host = hosts.get(targets.get(each.pod.metadata.uid, ""), "")
            found.append(_only_on(each.pod, host) if host else each.pod)
        return found

    def _fitted(self, launch: NewNode, pods: list[Pod]) -> NewNode:
        """Return a launch as what the solver would buy for just these pods, where and how the launch is bought.

        Zone, capacity type, and whatever else pods are counted by stay as they were when the whole was tried. What
        others follow to stays as it is.
        """
        if launch.has_followers:
            return launch
        labels = _labels(launch, "")
        keys = {ZONE, CAPACITY_TYPE, *launch.labels}
        keys.update(group.key for census in self.snapshot.censuses() for group in census.groups_apart())
        for pod in pods:
            rules = topology_rules(pod)
            keys.update(spread.group.key for spread in rules.spreads)
            keys.update(rule.group.key for rule in rules.affinities)
        fixed = [
            Requirement.of(key, "In", (labels[key],)) for key in sorted(keys - {HOSTNAME}) if key in labels
        ]
        pools = tuple(
            replace(pool, requirements=pool.requirements.plus(*fixed))
            for pool in self.snapshot.pools
            if pool.name == launch.pool
        )
        plan = solve(replace(self.snapshot, pools=pools, nodes=()), pods, self.options)
        if len(plan.new_nodes) == 1 and not plan.rejections:
            return replace(plan.new_nodes[0], pool_requirements=launch.pool_requirements)
        return replace(launch, usable=launch.usable & -launch.usable)

    def after(self, trial: Trial, launch: tuple[NewNode, ...]) -> Stand:
        """Return the cluster once a trial has been carried out, with what is really bought for it."""
        # What is bought for these pods has no name yet, so nobody else can be sent there.
        fresh = self._stocked(launch).closing({self._name(number) for number in range(len(launch))})
        arrived = [(each, bound(each.pod, each.target or self._name(each.launch))) for each in trial.placed]
        shadows = {name: pods for name, pods in self.shadows.items() if name not in trial.remove}
        for each, pod in arrived:
            if each.is_shadow:
                shadows[pod.spec.node_name] = (*shadows.get(pod.spec.node_name, ()), pod)
        return replace(
            fresh,
            snapshot=fresh.snapshot.without(trial.remove).plus(pod for _, pod in arrived),
            homes={name: pods for name, pods in self.homes.items() if name not in trial.remove},
            shadows=shadows,
        )

    def closing(self, names: Collection[str]) -> Stand:
        """Return the cluster with no room left on some nodes."""
        if not names:
            return self
        nodes = tuple(node.closed() if node.name in names else node for node in self.snapshot.nodes)
        return replace(self, snapshot=replace(self.snapshot, nodes=nodes))

    def without_ghosts(self) -> Stand:
        """Return the cluster with the room free again that recent peaks hold."""
        nodes = tuple(
            replace(node, pods=tuple(pod for pod in node.pods if pod.metadata.uid not in self.ghosts))
            if node.name in self.shadows
            else node
            for node in self.snapshot.nodes
        )
        shadows = {
            name: tuple(pod for pod in pods if pod.metadata.uid not in self.ghosts)
            for name, pods in self.shadows.items()
        }
        snapshot = replace(self.snapshot, nodes=nodes)
        return replace(self, snapshot=snapshot, shadows=shadows, ghosts=frozenset())

    def parted(self, trials: Iterable[Trial]) -> tuple[list[Trial], list[Trial]]:
        """Return the trials whose placement holds by itself, and those where it may depend on other nodes.

        It does where pods mind pods on other nodes or standing pods mind them, and where they have wishes, which may
        be out of reach only because of what else has gone.
        """
        standing = [
            group
            for census in self.snapshot.censuses()
            for group in census.groups_apart()
            if group.key != HOSTNAME
        ]
        discouraging = any(
            taint.effect == "PreferNoSchedule" for node in self.snapshot.nodes for taint in node.taints
        )
        plain: list[Trial] = []
        special: list[Trial] = []
        for trial in trials:
            minds = discouraging or any(self._minds_others(each.pod, standing) for each in trial.placed)
            (special if minds else plain).append(trial)
        return plain, special

    def _minds_others(self, pod: Pod, standing: Iterable[CountGroup]) -> bool:
        affinity = pod.spec.affinity
        if affinity is not None and affinity.node_affinity is not None and affinity.node_affinity.preferred:
            return True
        rules = topology_rules(pod)
        if any(spread.group.key != HOSTNAME or not spread.hard for spread in rules.spreads):
            return True
        if any(
            rule.group.key != HOSTNAME or not rule.anti or rule.weight is not None
            for rule in rules.affinities
        ):
            return True
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        around = self.snapshot.namespaces.get(namespace, EMPTY)
        return any(group.counts(namespace, labels, around) for group in standing)

    def guests(self) -> Iterator[Pod]:
        """Yield the shadows as they were before they got their room."""
        return (bound(pod, "") for pods in self.shadows.values() for pod in pods)

    def _displaced(self, names: Iterable[str]) -> Iterator[Placed]:
        for name in names:
            yield from (Placed(pod, name) for pod in self.homes.get(name, ()))
            yield from (Placed(pod, name, is_shadow=True) for pod in self.shadows.get(name, ()))

    def _stocked(self, launch: Sequence[NewNode]) -> Stand:
        """Return the cluster once some nodes have been bought and are empty."""
        if not launch:
            return self
        taints = {pool.name: pool.taints for pool in self.snapshot.pools}
        nodes = tuple(
            _standing(each, self._name(number), taints[each.pool]) for number, each in enumerate(launch)
        )
        snapshot = replace(
            self.snapshot,
            nodes=(*self.snapshot.nodes, *nodes),
            pools=_less_reserved((_charged(pool, launch) for pool in self.snapshot.pools), launch),
        )
        return replace(self, snapshot=snapshot, launched=self.launched + len(launch))

    def _name(self, number: int) -> str:
        # No name of a node has a colon.
        return f"launch:{self.launched + number}"

    def _problem(self, plan: Plan, asked: Mapping[str, Placed]) -> Trial | None:
        """Say why a plan will not do: somebody has no place, or something is bought for ghosts alone."""
        words = {pod.metadata.uid: each.message for each in plan.rejections for pod in each.pods}
        words |= {pod.metadata.uid: "there was no time to find one" for pod in plan.unfinished}
        left = sorted((asked[uid] for uid in words), key=lambda each: pod_name(each.pod))
        blamed = frozenset(each.source for each in left)
        for each in left:
            if not each.is_shadow:
                text = f"pod {pod_name(each.pod)} has no other place: {words[each.pod.metadata.uid]}"
                return Trial((), problem=VerdictKind.NO_ROOM, words=text, blamed=blamed)
        if any(each.pod.metadata.uid not in self.ghosts for each in left):
            text = "pods without a place, or a capacity buffer, need its room"
            return Trial((), problem=VerdictKind.BUFFER, words=text, blamed=blamed)
        alone = [
            pod.metadata.uid
            for node in plan.new_nodes
            if all(pod.metadata.uid in self.ghosts for pod in node.pods)
            for pod in node.pods
        ]
        if not left and not alone:
            return None
        text = "a workload that swings had more replicas a short while ago, and they would have no room"
        blamed |= {asked[uid].source for uid in alone}
        return Trial((), problem=VerdictKind.PEAK, words=text, blamed=blamed)


def numbered_anew(launches: Iterable[int]) -> dict[int, int]:
    """Return the new number of each launch that is still wanted, in order; below zero there is none."""
    return {number: index for index, number in enumerate(sorted({each for each in launches if each >= 0}))}


def together(trials: Iterable[Trial]) -> Trial:
    """Return trials as one."""
    remove: list[str] = []
    launch: list[NewNode] = []
    placed: list[Placed] = []
    for trial in trials:
        before = len(launch)
        remove += trial.remove
        launch += trial.launch
        placed += (
            replace(each, launch=each.launch + before) if each.launch >= 0 else each for each in trial.placed
        )
    return Trial(tuple(remove), tuple(launch), tuple(placed))


def _trial(gone: tuple[str, ...], launch: Sequence[NewNode], placed: list[Placed]) -> Trial:
    """Return a trial that worked; each launch is for the pods that are really there."""
    placed.sort(key=lambda each: (pod_name(each.pod), each.pod.metadata.uid))
    pods: dict[int, list[Pod]] = {}
    for each in placed:
        if not each.is_shadow:
            pods.setdefault(each.launch, []).append(each.pod)
    bought = (replace(each, pods=tuple(pods.get(number, ()))) for number, each in enumerate(launch))
    return Trial(gone, tuple(bought), tuple(placed))


def prepare(
    snapshot: Snapshot,
    homes: Mapping[str, tuple[Pod, ...]],
    closed: Collection[str],
    waiting: Iterable[Pod],
    ghosts: Mapping[str, int],
    options: SolveOptions,
) -> Stand:
    """Return the cluster with room taken by whoever comes before the pods that are moved.

    Args:
        snapshot: The cluster; its pools may buy.
        homes: The pods to move when a node goes, by node.
        closed: Nodes that take no moved pods.
        waiting: Pods without a place, those that stand for buffers last.
        ghosts: How many replicas each workload had more of late.
        options: How placement is decided.
    """
    here = {pod.metadata.uid for node in snapshot.nodes for pod in node.pods}
    settled = _settle(snapshot, [pod for pod in waiting if pod.metadata.uid not in here], options)
    missing = phantoms(snapshot, ghosts)
    # Nothing is bought for a ghost: it stands where there is room, or nowhere.
    filled = _settle(_without_buying(settled), missing, options)
    shut = frozenset(closed)
    nodes = tuple(node.closed() if node.name in shut else node for node in filled.nodes)
    return Stand(
        # Counted anew, so that what is shared by all trials knows every node as it is here.
        snapshot=Snapshot(snapshot.pools, nodes, snapshot.daemons, snapshot.storage, snapshot.namespaces),
        options=options,
        homes=homes,
        shadows={
            node.name: found
            for node in nodes
            if (found := tuple(pod for pod in node.pods if pod.metadata.uid not in here))
        },
        ghosts=frozenset(pod.metadata.uid for pod in missing),
    )


def _settle(snapshot: Snapshot, pods: list[Pod], options: SolveOptions) -> Snapshot:
    """Give pods room on standing nodes as far as there is; what would have to be bought is none of our business."""
    if not pods:
        return snapshot
    plan = solve(snapshot, pods, options)
    return snapshot.plus(bound(pod, name) for name, found in plan.existing.items() for pod in found)


def phantoms(snapshot: Snapshot, ghosts: Mapping[str, int]) -> list[Pod]:
    """Make the missing replicas of workloads in the image of one that is there."""
    if not ghosts:
        return []
    models: dict[str, Pod] = {}
    for node in snapshot.nodes:
        for pod in node.pods:
            workload = workload_of(pod)
            if workload in ghosts and is_active(pod):
                models[workload] = min(models.get(workload, pod), pod, key=pod_name)
    made = []
    for workload, model in sorted(models.items()):
        for number in range(min(ghosts[workload], _MOST_GHOSTS)):
            metadata = structs.replace(
                model.metadata,
                name=f"{model.metadata.name}-ghost-{number}",
                uid=f"{model.metadata.uid}-ghost-{number}",
            )
            made.append(structs.replace(bound(model, ""), metadata=metadata))
    return made


def _without_buying(snapshot: Snapshot) -> Snapshot:
    """Return the cluster with pools that can buy nothing; the zones that they reach still count for spreading."""
    pools = tuple(replace(pool, limits={**pool.limits, _NODES: 0}) for pool in snapshot.pools)
    return replace(snapshot, pools=pools)


def bound(pod: Pod, name: str) -> Pod:
    """Return a pod as it is once it is bound to a node."""
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=name))


def _only_on(pod: Pod, host: str) -> Pod:
    selector = {**pod.spec.node_selector, HOSTNAME: host}
    return structs.replace(pod, spec=structs.replace(pod.spec, node_selector=selector))


def _standing(launch: NewNode, name: str, taints: tuple[Taint, ...]) -> NodeView:
    position = lowest_bit(launch.usable)
    return NodeView(
        name=name,
        labels=_labels(launch, name),
        allocatable=Resources(launch.catalogue.type_at(position).allocatable),
        taints=taints,
        pool=launch.pool,
        price_per_hour=launch.price_per_hour,
    )


def _labels(launch: NewNode, name: str) -> dict[str, str]:
    """Return the labels of a node that becomes the chosen offering."""
    position = lowest_bit(launch.usable)
    kind = launch.catalogue.type_at(position)
    offering = launch.catalogue.offerings[position]
    return {
        **kind.labels,
        **offering.labels,
        **launch.labels,
        INSTANCE_TYPE: kind.name,
        ZONE: offering.zone,
        CAPACITY_TYPE: offering.capacity_type,
        NODEPOOL: launch.pool,
        HOSTNAME: name,
    }


def _charged(pool: Pool, launch: Iterable[NewNode]) -> Pool:
    """Return the pool with what its launches may take of its limits at most gone from them."""
    left = dict(pool.limits)
    for each in launch:
        if each.pool == pool.name:
            kinds = {each.catalogue.type_of[position] for position in bits(each.usable)}
            for resource in left:
                sizes = (each.catalogue.types[kind].capacity.get(resource, 0) for kind in kinds)
                left[resource] -= 1 if resource == _NODES else max(sizes)
    return replace(pool, limits=left)


def _less_reserved(pools: Iterable[Pool], launch: Iterable[NewNode]) -> tuple[Pool, ...]:
    """Return the pools without the reservations that launches may use up."""
    used: dict[str, int] = {}
    for each in launch:
        for reservation, mask in each.catalogue.reservations.items():
            if mask & each.usable:
                used[reservation] = used.get(reservation, 0) + 1
    if not used:
        return tuple(pools)
    made: dict[int, Catalogue] = {}
    found = []
    for pool in pools:
        key = id(pool.catalogue)
        if key not in made:
            made[key] = Catalogue(
                replace(kind, offerings=tuple(_less(offering, used) for offering in kind.offerings))
                for kind in pool.catalogue.types
            )
        found.append(replace(pool, catalogue=made[key]))
    return tuple(found)


def _less(offering: Offering, used: Mapping[str, int]) -> Offering:
    left = offering.reservation_capacity - used.get(offering.reservation_id, 0)
    if not offering.reservation_id or left > 0:
        return replace(offering, reservation_capacity=max(0, left))
    return replace(offering, reservation_capacity=0, available=False)
