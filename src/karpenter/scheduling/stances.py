# SPDX-License-Identifier: Apache-2.0
"""A class at one level of giving way, ready for checking: every rule resolved to its group and its limit.

Spread and anti-affinity by host are one thing: while an owner stands on a node, the node may hold at most so many
pods of a group, the owner included. Rules over other keys are kept by key, because a place is chosen key by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from karpenter.api.core import Toleration
from karpenter.api.labels import HOSTNAME
from karpenter.scheduling.classes import PodClass, Profile
from karpenter.scheduling.groups import GroupTable

__all__ = ["PlaceRule", "Stance", "Stances"]


@dataclass(frozen=True, slots=True)
class PlaceRule:
    """A rule over a label other than the hostname.

    Attributes:
        kind: What the owner makes of the counts.
        group: The group it counts.
        counts_itself: Whether the owner is one of the counted.
        hard: Whether it is a need; only needs bind other pods in return.
        max_skew: For a spread, by how much a place may exceed the emptiest.
        min_domains: For a spread, with fewer places than this the emptiest counts as empty.
    """

    kind: Literal["spread", "together", "apart"]
    group: int
    counts_itself: bool
    hard: bool
    max_skew: int = 0
    min_domains: int = 1


class Stance(msgspec.Struct, frozen=True, eq=False):
    """What a class insists on, resolved.

    Attributes:
        pods: The class.
        level: How often it has given way.
        profile: What that level says.
        requests: What one pod asks for, in the order of the solve's resources.
        counted: The groups that count a pod of the class, as bits.
        ambiguous: Those of them that count it on some nodes only, and not by its own conditions.
        caps: Rules by host: while a pod of the class stands on a node, how many of a group may be there.
        hard_caps: The groups of ``caps`` whose rule is a need and so binds others in return.
        near: Groups of which a pod must be on the same host.
        places: Rules over other keys, by key.
        counted_by: The groups of ``counted``, by key.
        keys: The keys but the hostname over which the class's place matters: its own rules', and those of rules
            that count it.
        followed: The groups that the class's needs make it follow, onto a host or into a place.
        has_needs: Whether any rule of its own is a need.
    """

    pods: PodClass
    level: int
    profile: Profile
    requests: tuple[int, ...]
    counted: int
    ambiguous: int
    caps: tuple[tuple[int, int], ...]
    hard_caps: int
    near: tuple[PlaceRule, ...]
    places: dict[str, tuple[PlaceRule, ...]]
    counted_by: dict[str, tuple[int, ...]]
    keys: tuple[str, ...]
    followed: tuple[int, ...]
    has_needs: bool


class Stances:
    """Takes stances for one solve; classes that differ in size alone share what was resolved for the first."""

    def __init__(self, table: GroupTable, resources: Sequence[str]) -> None:
        self._table = table
        self._resources = tuple(resources)
        self._rules: dict[tuple[Profile, int, tuple[Toleration, ...]], _Rules] = {}

    def take(self, pod_class: PodClass, level: int, profiles: Sequence[Profile]) -> Stance:
        """Resolve the profile of a class at a level; every group must have been numbered before."""
        profile = profiles[level]
        counted = pod_class.counted
        key = (profile, counted, pod_class.tolerations)
        rules = self._rules.get(key)
        if rules is None:
            rules = self._rules[key] = _rules(pod_class, profile, self._table, counted)
        return Stance(
            pods=pod_class,
            level=level,
            profile=profile,
            requests=pod_class.requests.vector(self._resources),
            counted=counted,
            ambiguous=rules.ambiguous,
            caps=rules.caps,
            hard_caps=rules.hard_caps,
            near=rules.near,
            places=rules.places,
            counted_by=rules.counted_by,
            keys=rules.keys,
            followed=rules.followed,
            has_needs=rules.has_needs,
        )


class _Rules(NamedTuple):
    """What a stance knows that does not depend on the size of its pods; see there."""

    ambiguous: int
    caps: tuple[tuple[int, int], ...]
    hard_caps: int
    near: tuple[PlaceRule, ...]
    places: dict[str, tuple[PlaceRule, ...]]
    counted_by: dict[str, tuple[int, ...]]
    keys: tuple[str, ...]
    followed: tuple[int, ...]
    has_needs: bool


def _rules(pod_class: PodClass, profile: Profile, table: GroupTable, counted: int) -> _Rules:
    rules = list(_resolved(pod_class, profile, table, counted))
    by_host = [rule for rule in rules if table.groups[rule.group].by_host]
    caps: dict[int, int] = {}
    hard_caps = 0
    for rule in by_host:
        if rule.kind != "together":
            caps[rule.group] = min(caps.get(rule.group, _cap(rule)), _cap(rule))
            hard_caps |= int(rule.hard) << rule.group
    places: dict[str, list[PlaceRule]] = {}
    for rule in rules:
        if rule not in by_host:
            places.setdefault(table.groups[rule.group].key, []).append(rule)
    counted_by = table.by_key(counted)
    return _Rules(
        ambiguous=table.ambiguous(counted, pod_class),
        caps=tuple(sorted(caps.items())),
        hard_caps=hard_caps,
        near=tuple(rule for rule in by_host if rule.kind == "together"),
        places={key: tuple(found) for key, found in sorted(places.items())},
        counted_by=counted_by,
        keys=tuple(sorted({*places, *counted_by} - {HOSTNAME})),
        followed=tuple(rule.group for rule in rules if rule.kind == "together" and rule.hard),
        has_needs=any(rule.hard for rule in rules),
    )


def _resolved(pod_class: PodClass, profile: Profile, table: GroupTable, counted: int) -> Iterable[PlaceRule]:
    for spread in profile.spreads:
        group = table.number_of_rule(spread, pod_class)
        itself = bool(counted >> group & 1)
        yield PlaceRule("spread", group, itself, spread.hard, spread.max_skew, spread.min_domains)
    for affinity in profile.affinities:
        group = table.number_of_rule(affinity, pod_class)
        itself = bool(counted >> group & 1)
        yield PlaceRule("apart" if affinity.anti else "together", group, itself, affinity.hard)


def _cap(rule: PlaceRule) -> int:
    return rule.max_skew if rule.kind == "spread" else int(rule.counts_itself)
