# SPDX-License-Identifier: Apache-2.0
"""Lays out, for one pool and one class of pods, every constraint as the set of offerings that it leaves.

A constraint that leaves everything is no obstacle and does not appear. Alternatives of the pod's node affinity and open
labels of the pool are cells: the pool can take the pod if in one cell some offering is left by all constraints. The
pool's own requirements are obstacles too, apart from the pod's, so that "no type of this pool" and "no type at all" can
be told from each other; the sets are therefore over the whole catalogue.

Work is bounded: more alternatives, labels, resources or rules than the numbers below are not told apart but count as
one constraint, which is as true and less precise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from karpenter.api.core import Taint
from karpenter.model.affinity import NodeTerm
from karpenter.model.catalogue import Catalogue, bits
from karpenter.model.pools import Pool
from karpenter.model.requirements import Requirements
from karpenter.model.taints import tolerates_all
from karpenter.scheduling.board import Board
from karpenter.scheduling.reasons import Cause
from karpenter.scheduling.stances import PlaceRule, Stance
from karpenter.scheduling.templates import Daemon, Template

__all__ = [
    "NODE_AFFINITY",
    "NODE_NAME",
    "Obstacle",
    "PoolLayout",
    "Row",
    "Surveyor",
    "values_kept",
    "widened_templates",
]

# Judgements: more than a person writes by hand, few enough to search.
MOST_ALTERNATIVES = 16
MOST_LABELS = 16
MOST_RULES = 16
MOST_RESOURCES = 16
MOST_LAUNCHES = 256

NODE_NAME = "metadata.name"
NODE_AFFINITY = "node affinity"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A constraint that leaves less than everything.

    Attributes:
        cause: Its kind.
        subject: The label, taint, resource, limit or place key that, with the kind, tells it from the others.
        number: Tells rules over the same key from each other; for minValues, how many values must stay open; for
            labels that are not told apart, how many they are.
        taint: The taint, for a taint.
        rule: The rule, for one about other pods.
        rest: Whether it stands for all that were not told apart; it is named where nothing else will do.
    """

    cause: Cause
    subject: str = ""
    number: int = 0
    taint: Taint | None = field(default=None, compare=False)
    rule: PlaceRule | None = field(default=None, compare=False)
    rest: bool = field(default=False, compare=False)

    @property
    def of_pool(self) -> bool:
        """Whether it is one of the pool's own requirements."""
        return self.cause is Cause.POOL_REQUIREMENT


_Left = tuple[Obstacle, int]


@dataclass(frozen=True, slots=True)
class Row:
    """One template of the pool.

    Attributes:
        template: The template, widened.
        cells: For each alternative of the pod, what each obstacle leaves.
        launches: What one launch may choose among; worked out only where minValues ask how much that is.
    """

    template: Template
    cells: tuple[tuple[int, ...], ...]
    launches: tuple[int, ...] = ()


class PoolLayout:
    """A pool before a class of pods: the obstacles, in the order in which a person would check them, and their sets."""

    def __init__(
        self, pool: Pool, obstacles: Sequence[Obstacle], rows: Sequence[Row], requests: Mapping[str, int]
    ) -> None:
        self.pool = pool
        self.requests = requests
        self.catalogue: Catalogue = pool.catalogue
        self.obstacles = tuple(obstacles)
        self.rows = tuple(rows)

    @cached_property
    def all(self) -> int:
        """Every obstacle, as bits."""
        return (1 << len(self.obstacles)) - 1

    @cached_property
    def of_pool(self) -> int:
        """The pool's own requirements, as bits."""
        return sum(1 << index for index, each in enumerate(self.obstacles) if each.of_pool)

    def left(self, kept: int) -> tuple[int, ...]:
        """Return, for each row, the offerings that these obstacles, as bits, leave."""
        chosen = list(bits(kept))
        counted = [
            self.obstacles[index] for index in chosen if self.obstacles[index].cause is Cause.MIN_VALUES
        ]
        found = []
        for row in self.rows:
            mask = 0
            for cell in row.cells:
                part = self.catalogue.everything
                for index in chosen:
                    part &= cell[index]
                mask |= part
            found.append(mask if not counted or _keeps(row, counted, mask) else 0)
        return tuple(found)

    def excludes(self, kept: int) -> bool:
        """Tell whether these obstacles, as bits, leave nothing of the pool."""
        return not any(self.left(kept))


def values_kept(row: Row, key: str, mask: int) -> int:
    """Return how many values of a label a launch among some offerings keeps open at best."""
    return max(_number_of_values(row, key, mask & part) for part in row.launches)


def _keeps(row: Row, obstacles: Sequence[Obstacle], mask: int) -> bool:
    """Tell whether some launch keeps as many values open as every minValues asks for."""
    return any(
        all(_number_of_values(row, each.subject, mask & part) >= each.number for each in obstacles)
        for part in row.launches
    )


def _number_of_values(row: Row, key: str, mask: int) -> int:
    allowed = row.template.as_small_as_cheapest(mask)
    return sum(1 for part in row.template.catalogue.values(key).values() if part & allowed)


def _launches(template: Template, keys: Iterable[str]) -> tuple[int, ...]:
    """Return what one launch may choose among: what anybody can buy or one reservation, in one place by every key."""
    catalogue = template.catalogue
    listed = catalogue.everything
    for reserved in catalogue.reservations.values():
        listed &= ~reserved
    found = [listed, *catalogue.reservations.values()]
    for key in keys:
        if key not in template.labels:
            places = [*catalogue.values(key).values()]
            nowhere = catalogue.everything
            for place in places:
                nowhere &= ~place
            found = [part & place for part in found for place in (*places, nowhere)][:MOST_LAUNCHES]
    return tuple(found)


def widened_templates(templates: Iterable[Template], daemons: Sequence[Daemon]) -> tuple[Template, ...]:
    """Return the templates as if their pools asked for nothing of the instance type."""
    found = []
    for template in templates:
        pool = template.pool
        own = Requirements(each for each in pool.requirements if not pool.catalogue.knows(each.key))
        wide = replace(pool, requirements=own)
        found.append(Template(template.index, wide, template.labels, daemons, template.resources))
    return tuple(found)


class Surveyor:
    """Lays pools out for one class, which has given up every wish; what pools have in common is worked out once."""

    def __init__(self, board: Board, stance: Stance) -> None:
        self.board = board
        self.stance = stance
        self._common: dict[tuple[object, ...], tuple[_Left, ...]] = {}

    def lay_out(self, pool: Pool, templates: Sequence[Template]) -> PoolLayout:
        """Lay a pool out; its templates must be widened."""
        defined = frozenset(key for template in templates for key in template.labels)
        everything = pool.catalogue.everything
        found: dict[Obstacle, None] = {}
        rows: dict[tuple[tuple[_Left, ...], ...], Template] = {}
        for template in templates:
            survey = _Survey(self, pool, template, defined)
            # Order matters to readers: the pod's own wants first, then the pool's, then other pods.
            common = [*survey.taints(), *survey.volumes(), *survey.sizes(), *survey.ports()]
            common += [*survey.pool_requirements(), *survey.market(), *survey.limits(), *survey.min_values()]
            common += survey.rules()
            cells = []
            for labels in survey.labels():
                cell = tuple(
                    each for each in (*labels, *common) if each[1] != everything or _is_counted(each[0])
                )
                cells.append(cell)
                found.update((obstacle, None) for obstacle, _ in cell)
            rows.setdefault(tuple(dict.fromkeys(cells)), template)
        obstacles = sorted(found, key=_turn)
        counts_values = any(map(_is_counted, obstacles))
        laid_out = [
            Row(
                template,
                tuple(tuple(dict(cell).get(each, everything) for each in obstacles) for cell in cells),
                _launches(template, self.stance.keys) if counts_values else (),
            )
            for cells, template in rows.items()
        ]
        return PoolLayout(pool, obstacles, laid_out, self.stance.pods.requests)

    def once(
        self, what: str, template: Template, keys: Iterable[str], work_out: Callable[[], Iterable[_Left]]
    ) -> tuple[_Left, ...]:
        """Return what templates of one catalogue have in common if they agree on some labels, worked out once."""
        agreed = tuple(template.labels.get(key) for key in keys)
        # Catalogues are compared by identity, and living in the key they cannot make room for another.
        key = (what, template.catalogue, agreed)
        if key not in self._common:
            self._common[key] = tuple(work_out())
        return self._common[key]


def _is_counted(obstacle: Obstacle) -> bool:
    """Tell whether an obstacle is judged by the number of values left, not by offerings."""
    return obstacle.cause is Cause.MIN_VALUES


_ORDER = {cause: turn for turn, cause in enumerate(Cause)}


def _turn(obstacle: Obstacle) -> tuple[bool, int, str, int]:
    return (obstacle.rest, _ORDER[obstacle.cause], obstacle.subject, obstacle.number)


class _Survey:
    """One template before one class: each method yields obstacles with the offerings they leave."""

    def __init__(self, surveyor: Surveyor, pool: Pool, template: Template, defined: frozenset[str]) -> None:
        self.once = surveyor.once
        self.defined = defined
        self.board = surveyor.board
        self.stance = surveyor.stance
        self.pods = surveyor.stance.pods
        self.pool = pool
        self.template = template
        self.catalogue = template.catalogue
        self.everything = template.catalogue.everything

    def taints(self) -> Iterator[_Left]:
        heeds = self.stance.profile.heeds_taint_wishes
        for taint in self.pool.taints:
            if not tolerates_all((taint,), self.pods.tolerations, heed_wishes=heeds):
                value = f"={taint.value}" if taint.value else ""
                yield Obstacle(Cause.TAINT, f"{taint.key}{value}:{taint.effect}", taint=taint), 0

    def labels(self) -> Iterator[list[_Left]]:
        """Yield what the pod asks of labels, once for each alternative."""
        alternatives = self.stance.profile.alternatives
        if len(alternatives) > MOST_ALTERNATIVES:
            asked = sorted({each.key for term in alternatives for each in term.requirements})
            yield list(self.once("labels", self.template, asked, lambda: self._any_of(alternatives)))
            return
        for term in alternatives:
            yield self._folded(list(self._term(term)))

    def _term(self, term: NodeTerm) -> Iterator[_Left]:
        if term.name is not None and not term.name.complement:
            # A new node has no name yet: it cannot be the one that is asked for.
            yield Obstacle(Cause.REQUIREMENT, NODE_NAME), 0
        for requirement in term.requirements:
            known = requirement.key in self.defined or self.catalogue.knows(requirement.key)
            cause = Cause.REQUIREMENT if known else Cause.UNDEFINED_LABEL
            yield Obstacle(cause, requirement.key), self.template.meeting(Requirements((requirement,)))

    def _folded(self, labels: list[_Left]) -> list[_Left]:
        """Fold labels that are too many to be told apart into one; those that leave nothing are told first."""
        biting = sorted(
            (each for each in labels if each[1] != self.everything), key=lambda each: bool(each[1])
        )
        rest = self.everything
        for _, mask in biting[MOST_LABELS:]:
            rest &= mask
        more = Obstacle(Cause.REQUIREMENT, NODE_AFFINITY, number=max(len(biting) - MOST_LABELS, 0), rest=True)
        return [*biting[:MOST_LABELS], (more, rest)]

    def _any_of(self, alternatives: Iterable[NodeTerm]) -> Iterator[_Left]:
        mask = 0
        for term in alternatives:
            mask |= self.template.meeting_term(term)
        yield Obstacle(Cause.REQUIREMENT, NODE_AFFINITY), mask

    def volumes(self) -> Iterator[_Left]:
        mask = 0
        for demand in self.pods.volumes.alternatives:
            mask |= self.template.meeting(demand)
        yield Obstacle(Cause.VOLUME_REACH), mask

    def sizes(self) -> Iterator[_Left]:
        masks = [
            (resource, self._holding(index, amount))
            for index, (resource, amount) in enumerate(
                zip(self.template.resources, self.stance.requests, strict=True)
            )
        ]
        biting = [each for each in masks if each[1] != self.everything]
        for resource, mask in biting[:MOST_RESOURCES]:
            yield Obstacle(Cause.RESOURCES, resource), mask
        rest = self.everything
        for _, mask in biting[MOST_RESOURCES:]:
            rest &= mask
        yield Obstacle(Cause.RESOURCES, f"{len(biting) - MOST_RESOURCES} more resources", rest=True), rest

    def _holding(self, index: int, amount: int) -> int:
        found = 0
        for part, overhead, _ in self.template.overheads:
            found |= part & self.catalogue.at_least(self.template.resources[index], amount + overhead[index])
        return found

    def ports(self) -> Iterator[_Left]:
        if self.pods.ports:
            yield Obstacle(Cause.HOST_PORT), self.template.without_port_clash(self.pods.ports)

    def pool_requirements(self) -> Iterator[_Left]:
        for requirement in self.pool.requirements:
            if self.catalogue.knows(requirement.key):
                yield Obstacle(Cause.POOL_REQUIREMENT, requirement.key), self.catalogue.where(requirement)

    def market(self) -> Iterator[_Left]:
        mask = self.catalogue.available
        for reservation, reserved in self.catalogue.reservations.items():
            if self.board.left_of_reservation(reservation, self.template) <= 0:
                mask &= ~reserved
        yield Obstacle(Cause.SOLD_OUT), mask

    def limits(self) -> Iterator[_Left]:
        for resource, amount in sorted(self.board.left_of_limits(self.template).items()):
            if resource == "nodes":
                mask = self.everything if amount >= 1 else 0
            else:
                mask = self.catalogue.at_most(resource, amount)
            yield Obstacle(Cause.LIMIT, resource), mask

    def min_values(self) -> Iterator[_Left]:
        if not self.board.best_effort:
            for requirement in self.pool.requirements:
                if requirement.min_values is not None:
                    obstacle = Obstacle(Cause.MIN_VALUES, requirement.key, requirement.min_values)
                    yield obstacle, self.everything

    def rules(self) -> Iterator[_Left]:
        """Yield rules about other pods, the pod's own and those of others that count it."""
        yield from self.once("rules", self.template, self.stance.keys, self._rules)

    def _rules(self) -> Iterator[_Left]:
        stance = self.stance
        number = len(stance.near) + len(stance.caps) + sum(map(len, stance.places.values()))
        found = chain(self._host_rules(), self._place_rules())
        if number <= MOST_RULES:
            yield from found
            return
        mask = self.everything
        for _, each in found:
            mask &= each
        yield Obstacle(Cause.TOPOLOGY, f"{number} rules about other pods"), mask

    def _host_rules(self) -> Iterator[_Left]:
        """Yield rules by host: a new node is empty, so only following others and a skew of none can fail."""
        stance, groups = self.stance, self.board.table.groups
        for number, rule in enumerate(stance.near):
            first = self.board.may_found(rule, stance)
            obstacle = Obstacle(Cause.AFFINITY, groups[rule.group].key, number, rule=rule)
            yield obstacle, self.everything if first else 0
        for group, cap in stance.caps:
            counted = stance.counted >> group & 1
            if counted > cap:
                rule = PlaceRule("spread", group, bool(counted), hard=True, max_skew=cap)
                yield Obstacle(Cause.SPREAD, groups[group].key, rule=rule), 0

    def _place_rules(self) -> Iterator[_Left]:
        causes = {"spread": Cause.SPREAD, "together": Cause.AFFINITY, "apart": Cause.ANTI_AFFINITY}
        for key in self.stance.keys:
            places = self._places(key)
            for number, rule in enumerate(self.stance.places.get(key, ())):
                closed = [place for place in places if not self.board.rule_holds(rule, self.stance, place)]
                mask = self._outside(places, closed)
                if rule.kind != "apart":
                    mask &= self._inside(places)
                yield Obstacle(causes[rule.kind], key, number, rule=rule), mask
            shut = [place for place in places if self._is_shut(key, place)]
            # The number sets it apart from the pod's own rules over the key.
            yield Obstacle(Cause.ANTI_AFFINITY, key, -1), self._outside(places, shut)

    def _places(self, key: str) -> Mapping[str, int]:
        if key in self.template.labels:
            return {self.template.labels[key]: self.everything}
        return self.catalogue.values(key)

    def _inside(self, places: Mapping[str, int]) -> int:
        mask = 0
        for part in places.values():
            mask |= part
        return mask

    def _outside(self, places: Mapping[str, int], closed: Iterable[str]) -> int:
        mask = self.everything
        for place in closed:
            mask &= ~places[place]
        return mask

    def _is_shut(self, key: str, place: str) -> bool:
        """Tell whether pods that keep away from this one stand in a place."""
        groups = self.stance.counted_by.get(key, ())
        return any(self.board.kept_apart[group].get(place) for group in groups)
