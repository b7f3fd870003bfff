# SPDX-License-Identifier: Apache-2.0
"""Proposes, for one obstacle, the changes that would take it away: on the pod, or on the pool.

A proposal is a guess until it is tried; see ``fixes``. Where several are possible the smallest comes first. Some
obstacles no change of pod or pool takes away (what is sold out, where volumes are, rules of other pods): there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from karpenter.api.core import NodeSelectorRequirement, Pod
from karpenter.api.labels import POD_ENI
from karpenter.model.catalogue import lowest_bit
from karpenter.model.ports import NO_PORTS
from karpenter.model.requirements import Requirement
from karpenter.model.snapshot import Snapshot
from karpenter.model.topology import topology_rules
from karpenter.scheduling.explanation import podchanges
from karpenter.scheduling.explanation.changes import (
    allowing,
    apply,
    limit_change,
    min_values_change,
    requirement_change,
)
from karpenter.scheduling.explanation.description import (
    Describer,
    Reach,
    amount,
    smallest_capacity,
    values_within,
)
from karpenter.scheduling.explanation.obstacles import NODE_AFFINITY, Obstacle, PoolLayout
from karpenter.scheduling.explanation.spelling import Meant
from karpenter.scheduling.reasons import Cause, Change, ChangeKind, Fix
from karpenter.scheduling.stances import PlaceRule

__all__ = ["Proposer"]

_GIB = 2**30

# Where a resource comes from that hardly anybody writes into a pod by hand.
_ORIGINS = {POD_ENI: "a SecurityGroupPolicy asks for it"}


class Proposer:
    """Proposes changes for one class of pods, made to one pod that stands for all."""

    def __init__(self, describer: Describer, pod: Pod) -> None:
        self._describer = describer
        self._board = describer.board
        self._stance = describer.stance
        self._pod = pod

    def after(self, changes: Iterable[Change]) -> Proposer:
        """Return who proposes changes to the pod as these changes leave it."""
        _, changed = apply(Snapshot(), self._pod, Fix(tuple(changes)))
        return Proposer(self._describer, changed)

    def proposals(self, layout: PoolLayout, index: int, reach: Reach) -> Iterator[tuple[Change, ...]]:
        """Yield sets of changes that would take an obstacle away.

        Args:
            layout: The pool.
            index: The obstacle.
            reach: What would be left without it.
        """
        obstacle = layout.obstacles[index]
        match obstacle.cause:
            case Cause.TAINT if obstacle.taint is not None:
                yield (podchanges.tolerating(self._pod, obstacle.taint, obstacle.subject),)
            case Cause.REQUIREMENT | Cause.UNDEFINED_LABEL if obstacle.subject != NODE_AFFINITY:
                yield from self._relabel(layout, obstacle)
            case Cause.POOL_REQUIREMENT:
                yield from self._allow(layout, obstacle.subject, reach)
            case Cause.RESOURCES:
                yield from self._resize(layout, obstacle.subject, reach)
            case Cause.HOST_PORT:
                yield self._free_ports(layout, reach)
            case Cause.LIMIT:
                yield (self._raise_limit(layout, obstacle.subject, reach),)
            case Cause.MIN_VALUES:
                yield (self._lower_min_values(layout, index, reach),)
            case Cause.SPREAD | Cause.AFFINITY | Cause.ANTI_AFFINITY if obstacle.rule is not None:
                yield self._loosen(layout, obstacle.subject, obstacle.rule, reach)

    def _relabel(self, layout: PoolLayout, obstacle: Obstacle) -> Iterator[tuple[Change, ...]]:
        key = obstacle.subject
        speller, demands = self._describer.speller, self._describer.wanted(key)
        meant = None
        if obstacle.cause is Cause.UNDEFINED_LABEL:
            meant = speller.label(key)
        elif len(demands) == 1:
            meant = speller.values(demands[0], layout.catalogue)
        if meant is not None:
            respell = _Respelling(meant)
            yield podchanges.relabelled(self._pod, key, respell.kind, respell.expression)
        yield podchanges.relabelled(self._pod, key, ChangeKind.DROP_REQUIREMENT, lambda _: None)

    def _allow(self, layout: PoolLayout, key: str, reach: Reach) -> Iterator[tuple[Change, ...]]:
        pool = layout.pool
        requirement = pool.requirements[key]
        meant = self._describer.speller.values(requirement, layout.catalogue)
        if meant is not None:
            respell = _Respelling(meant)
            yield (requirement_change(respell.kind, pool, key, respell.requirement(requirement)),)
        position = min(lowest_bit(mask) for mask in reach if mask)
        values = layout.catalogue.values(key).items()
        value = next((value for value, mask in values if mask >> position & 1), None)
        note = f"{layout.catalogue.type_at(position).name} is the cheapest"
        widened = allowing(requirement, value)
        yield (requirement_change(ChangeKind.ALLOW_IN_POOL, pool, key, widened, note),)

    def _raise_limit(self, layout: PoolLayout, resource: str, reach: Reach) -> Change:
        left = self._board.left_of_limits(layout.rows[0].template)[resource]
        limit = layout.pool.limits[resource] + layout.pool.used.get(resource, 0)
        needed = smallest_capacity(layout, resource, reach)
        unit = {"cpu": 1000, "memory": _GIB}.get(resource, 1)
        new = -(-(limit - left + needed) // unit) * unit
        return limit_change(layout.pool, resource, amount(resource, limit), amount(resource, new))

    def _lower_min_values(self, layout: PoolLayout, index: int, reach: Reach) -> Change:
        key = layout.obstacles[index].subject
        kept = int(self._describer.one(layout, index, reach).offered)
        return min_values_change(layout.pool, key, kept)

    def _resize(self, layout: PoolLayout, resource: str, reach: Reach) -> Iterator[tuple[Change, ...]]:
        if resource not in self._board.resources:
            return
        corrected = podchanges.corrected_requests(self._pod, resource)
        if corrected:
            yield corrected
        room = max(
            layout.catalogue.most(resource, part & mask) - overhead[row.template.resources.index(resource)]
            for row, mask in zip(layout.rows, reach, strict=True)
            for part, overhead, _ in row.template.overheads
            if part & mask
        )
        if room > 0:
            excess = layout.requests.get(resource, 0) - room
            lowered = podchanges.lowered_request(self._pod, resource, excess)
            if lowered is not None:
                yield (lowered,)
        else:
            dropped = podchanges.dropped_requests(self._pod, resource)
            note = _ORIGINS.get(resource, "")
            yield tuple(replace(each, note=note) for each in dropped)

    def _free_ports(self, layout: PoolLayout, reach: Reach) -> tuple[Change, ...]:
        taken = NO_PORTS
        for row, mask in zip(layout.rows, reach, strict=True):
            for part, _, ports in row.template.overheads:
                if part & mask:
                    taken = taken.union(ports)
        return podchanges.freed_ports(self._pod, taken)

    def _loosen(self, layout: PoolLayout, key: str, rule: PlaceRule, reach: Reach) -> tuple[Change, ...]:
        """Return the change that loosens one of the pod's rules; none where an equal rule has been loosened before."""
        if rule.kind == "together":
            softened = podchanges.softened_affinity(self._pod)
            return () if softened is None else (softened,)
        group = self._board.table.groups[rule.group].pods
        rules = topology_rules(self._pod)
        if rule.kind == "apart":
            apart = [each.group for each in rules.affinities if each.hard and each.anti]
            return tuple(
                podchanges.softened_anti_affinity(self._pod, nth)
                for nth in [nth for nth, each in enumerate(apart) if each == group][:1]
            )
        hard = [(each.group, each.max_skew) for each in rules.spreads if each.hard]
        found = [nth for nth, each in enumerate(hard) if each == (group, rule.max_skew)]
        return tuple(self._loosened_spread(nth, layout, key, rule, reach) for nth in found[:1])

    def _loosened_spread(
        self, nth: int, layout: PoolLayout, key: str, rule: PlaceRule, reach: Reach
    ) -> Change:
        written = self._pod.spec.topology_spread_constraints
        index = [i for i, each in enumerate(written) if each.when_unsatisfiable != "ScheduleAnyway"][nth]
        if self._board.table.groups[rule.group].by_host:
            return podchanges.loosened_spread(index, rule.max_skew, 1)
        counts, emptiest = self._board.counts[rule.group], self._board.emptiest(rule, self._stance)
        places = values_within(layout, key, reach)
        skews = [counts.get(place, 0) + rule.counts_itself - emptiest for place in places]
        return podchanges.loosened_spread(index, rule.max_skew, min(skews, default=None))


class _Respelling:
    """Puts what was meant in the place of what was written."""

    def __init__(self, meant: Meant) -> None:
        self._meant = meant
        self._values = dict(meant.values)

    @property
    def kind(self) -> ChangeKind:
        return ChangeKind.RENAME_LABEL if self._meant.key else ChangeKind.CORRECT_VALUE

    def expression(self, written: NodeSelectorRequirement) -> NodeSelectorRequirement:
        return msgspec.structs.replace(
            written,
            key=self._meant.key or written.key,
            values=tuple(self._values.get(value, value) for value in written.values),
        )

    def requirement(self, written: Requirement) -> Requirement:
        return msgspec.structs.replace(
            written,
            key=self._meant.key or written.key,
            values=frozenset(self._values.get(value, value) for value in written.values),
        )
