# SPDX-License-Identifier: Apache-2.0
"""Turns an obstacle into a constraint that stands on its own: what is wanted, what there is, and the figures.

"What there is" is taken from the offerings of the pool that everything else in the same reason leaves, so a reason
stays true when it is read without the rest: the largest type is the largest of those that the others allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from karpenter.api.labels import INSTANCE_TYPE
from karpenter.model.catalogue import bits, lowest_bit
from karpenter.model.requirements import Requirement
from karpenter.model.resources import Resources
from karpenter.scheduling.board import Board
from karpenter.scheduling.explanation.conditions import selected, short
from karpenter.scheduling.explanation.lists import either
from karpenter.scheduling.explanation.obstacles import (
    NODE_AFFINITY,
    NODE_NAME,
    Obstacle,
    PoolLayout,
    values_kept,
)
from karpenter.scheduling.explanation.spelling import Speller, misread_requests
from karpenter.scheduling.reasons import Cause, Constraint
from karpenter.scheduling.stances import PlaceRule, Stance

__all__ = ["Describer", "Reach", "amount", "smallest_capacity", "values_within"]

_MOST_PLACES = 8

# What is left of each row of a layout.
Reach = Sequence[int]


class Describer:
    """Describes obstacles to one class of pods."""

    def __init__(self, board: Board, stance: Stance, speller: Speller) -> None:
        self.board = board
        self.stance = stance
        self.speller = speller

    def describe(self, layout: PoolLayout, kept: int) -> tuple[Constraint, ...]:
        """Describe a smallest set of obstacles, given as bits: the pod's part first, then the pool's."""
        ordered = (*bits(kept & ~layout.of_pool), *bits(kept & layout.of_pool))
        return tuple(self.one(layout, index, _within_pool(layout, kept & ~(1 << index))) for index in ordered)

    def one(self, layout: PoolLayout, index: int, reach: Reach) -> Constraint:
        """Describe one obstacle, seen from the offerings that are left without it."""
        obstacle = layout.obstacles[index]
        known = {
            Cause.REQUIREMENT: self._requirement,
            Cause.UNDEFINED_LABEL: self._undefined,
            Cause.VOLUME_REACH: self._volumes,
            Cause.RESOURCES: self._resource,
            Cause.HOST_PORT: self._host_port,
            Cause.POOL_REQUIREMENT: self._pool_requirement,
            Cause.SOLD_OUT: self._sold_out,
            Cause.LIMIT: self._limit,
            Cause.MIN_VALUES: self._min_values,
            Cause.SPREAD: self._rule,
            Cause.AFFINITY: self._rule,
            Cause.ANTI_AFFINITY: self._rule,
        }.get(obstacle.cause)
        if known is None:
            return Constraint(obstacle.cause, obstacle.subject)
        return known(layout, obstacle, reach)

    def wanted(self, key: str) -> tuple[Requirement, ...]:
        """Return what the pod's alternatives ask of a label, each demand once."""
        if key == NODE_NAME:
            named = (term.name for term in self.stance.profile.alternatives)
            return tuple(dict.fromkeys(name for name in named if name is not None))
        found = (term.requirements.get(key) for term in self.stance.profile.alternatives)
        return tuple(dict.fromkeys(each for each in found if each is not None))

    def _requirement(self, layout: PoolLayout, obstacle: Obstacle, reach: Reach) -> Constraint:
        key = obstacle.subject
        if key == NODE_AFFINITY:
            terms = len(self.stance.profile.alternatives)
            wanted = f"{obstacle.number} more labels" if obstacle.number else f"one of the {terms} terms"
            return Constraint(obstacle.cause, key, wanted)
        demands = self.wanted(key)
        wanted = either(map(short, demands))
        if key == NODE_NAME:
            return Constraint(obstacle.cause, key, wanted, "is not known before a node exists")
        meant = self.speller.values(demands[0], layout.catalogue) if len(demands) == 1 else None
        own = layout.pool.requirements.get(key)
        if own is not None and not any(own.intersects(each) for each in demands):
            offered = own.describe()
        else:
            offered = f"is {either(values_within(layout, key, reach)) or 'not set'}"
        return Constraint(obstacle.cause, key, wanted, offered, hint=meant.words if meant else "")

    def _undefined(self, _layout: PoolLayout, obstacle: Obstacle, _reach: Reach) -> Constraint:
        meant = self.speller.label(obstacle.subject)
        wanted = either(map(short, self.wanted(obstacle.subject)))
        return Constraint(obstacle.cause, obstacle.subject, wanted, hint=meant.words if meant else "")

    def _pool_requirement(self, layout: PoolLayout, obstacle: Obstacle, _reach: Reach) -> Constraint:
        requirement = layout.pool.requirements[obstacle.subject]
        meant = self.speller.values(requirement, layout.catalogue)
        hint = meant.words if meant else ""
        return Constraint(obstacle.cause, obstacle.subject, offered=requirement.describe(), hint=hint)

    def _volumes(self, layout: PoolLayout, obstacle: Obstacle, reach: Reach) -> Constraint:
        demands = self.stance.pods.volumes.alternatives
        keys = sorted({requirement.key for demand in demands for requirement in demand})
        if len(keys) > 1:
            return Constraint(obstacle.cause, either(keys), either(map(str, demands)))
        wanted = either(short(demand[keys[0]]) for demand in demands)
        return Constraint(obstacle.cause, keys[0], wanted, either(values_within(layout, keys[0], reach)))

    def _resource(self, layout: PoolLayout, obstacle: Obstacle, reach: Reach) -> Constraint:
        resource = obstacle.subject
        if resource not in self.board.resources:
            return Constraint(obstacle.cause, resource)
        most, extra = -1, 0
        for row, mask in zip(layout.rows, reach, strict=True):
            found = layout.catalogue.most(resource, mask)
            if mask and found > most:
                position = lowest_bit(mask & layout.catalogue.at_least(resource, found))
                overhead = row.template.overhead_at(position)
                most, extra = found, overhead[row.template.resources.index(resource)]
        mistake = next((each for _, each in misread_requests(self.stance.pods.pods[0], resource)), None)
        return Constraint(
            obstacle.cause,
            resource,
            amount(resource, layout.requests.get(resource, 0) + extra),
            amount(resource, most) if most > 0 else "",
            (("daemons", amount(resource, extra)),) if extra else (),
            f'"{mistake.written}" is {mistake.amounts_to}, did you mean "{mistake.meant}"?'
            if mistake
            else "",
        )

    def _host_port(self, layout: PoolLayout, obstacle: Obstacle, reach: Reach) -> Constraint:
        conflicts = [
            taken.conflict(self.stance.pods.ports)
            for row, mask in zip(layout.rows, reach, strict=True)
            for part, _, taken in row.template.overheads
            if part & mask
        ]
        return Constraint(obstacle.cause, either(str(each.wanted) for each in conflicts if each is not None))

    def _sold_out(self, layout: PoolLayout, obstacle: Obstacle, reach: Reach) -> Constraint:
        return Constraint(obstacle.cause, wanted=either(values_within(layout, INSTANCE_TYPE, reach)))

    def _limit(self, layout: PoolLayout, obstacle: Obstacle, reach: Reach) -> Constraint:
        resource = obstacle.subject
        left = self.board.left_of_limits(layout.rows[0].template)[resource]
        limit = layout.pool.limits[resource] + layout.pool.used.get(resource, 0)
        needed = smallest_capacity(layout, resource, reach)
        figures = {"limit": limit, "in use": limit - left, "left": left, "needed": needed}
        facts = tuple((name, amount(resource, figure)) for name, figure in figures.items())
        return Constraint(obstacle.cause, resource, amount(resource, needed), amount(resource, left), facts)

    def _min_values(self, layout: PoolLayout, obstacle: Obstacle, reach: Reach) -> Constraint:
        rows = zip(layout.rows, reach, strict=True)
        kept = max(values_kept(row, obstacle.subject, mask) for row, mask in rows)
        return Constraint(obstacle.cause, obstacle.subject, str(obstacle.number), str(kept))

    def _rule(self, layout: PoolLayout, obstacle: Obstacle, reach: Reach) -> Constraint:
        rule, key = obstacle.rule, obstacle.subject
        places = values_within(layout, key, reach)
        if rule is None:
            return Constraint(obstacle.cause, key, offered=either(places))
        group = self.board.table.groups[rule.group]
        if group.by_host:
            return self._host_rule(obstacle, rule)
        counts = self.board.counts[rule.group]
        if rule.kind == "spread":
            shown = sorted({*self.board.eligible(rule.group, self.stance), *places})
            return Constraint(
                obstacle.cause, key, f"maxSkew {rule.max_skew}", either(places), _counted(shown, counts)
            )
        taken = sorted(place for place, count in counts.items() if count > 0)
        facts = _counted(taken, counts)
        if not taken and self.board.nowhere[rule.group]:
            facts = (("elsewhere", str(self.board.nowhere[rule.group])),)
        offered = either(taken if rule.kind == "together" else places)
        return Constraint(obstacle.cause, key, selected(group.pods.selector), offered, facts)

    def _host_rule(self, obstacle: Obstacle, rule: PlaceRule) -> Constraint:
        if rule.kind == "spread":
            return Constraint(obstacle.cause, obstacle.subject, f"maxSkew {rule.max_skew}")
        held = [host for host in self.board.hosts if host.counts.get(rule.group, 0) > 0]
        selector = self.board.table.groups[rule.group].pods.selector
        return Constraint(obstacle.cause, obstacle.subject, selected(selector), _nodes(len(held)))


def _within_pool(layout: PoolLayout, kept: int) -> Reach:
    """Return what some obstacles leave of the pool as it is; of a wider one where they leave nothing of that."""
    reach = layout.left(kept | layout.of_pool)
    return reach if any(reach) else layout.left(kept)


def amount(resource: str, number: int) -> str:
    """Return an amount as Kubernetes writes it."""
    return Resources({resource: number}).to_quantities().get(resource, "0")


def _nodes(number: int) -> str:
    return f"{number} node{'s' * (number > 1)}" if number else ""


def smallest_capacity(layout: PoolLayout, resource: str, reach: Reach) -> int:
    """Return the least that counts against a limit if one of these offerings is bought."""
    if resource == "nodes":
        return 1
    return min(layout.catalogue.least_capacity(resource, mask) for mask in reach if mask)


def values_within(layout: PoolLayout, key: str, reach: Reach) -> list[str]:
    """Return the values that a label has within reach."""
    found: set[str] = set()
    for row, mask in zip(layout.rows, reach, strict=True):
        if mask and key in row.template.labels:
            found.add(row.template.labels[key])
        found.update(value for value, part in layout.catalogue.values(key).items() if part & mask)
    return sorted(found)


def _counted(places: Iterable[str], counts: dict[str, int]) -> tuple[tuple[str, str], ...]:
    return tuple((place, str(counts.get(place, 0))) for place in places)[:_MOST_PLACES]
