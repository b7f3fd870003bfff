# SPDX-License-Identifier: Apache-2.0
"""Puts an explanation into words: one sentence of at most 200 characters, a tree with everything, or plain data.

The sentence names the reason of the nearest pools first and counts the others, so that its length does not depend on
the number of pools. Reasons that differ only in detail (a taint's value, a limit's figures) are told as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from karpenter.kit.quantity import parse_quantity
from karpenter.scheduling.explanation.lists import listed
from karpenter.scheduling.explanation.phrases import TYPED, describe, describe_fix, lacking, on_standing
from karpenter.scheduling.reasons import Cause, Constraint, Explanation, Nearest, Reason

__all__ = ["LONGEST_SENTENCE", "as_data", "sentence", "tree"]

LONGEST_SENTENCE = 200
_MOST_NAMES = 3
_CUT = "…"
_OF_OFFERINGS = frozenset({Cause.REQUIREMENT, Cause.VOLUME_REACH, Cause.RESOURCES, Cause.SOLD_OUT})


@dataclass(frozen=True, slots=True)
class _Group:
    """Reasons told as one."""

    constraints: tuple[Constraint, ...]
    pools: tuple[str, ...]


def sentence(explanation: Explanation) -> str:
    """Return the explanation as one sentence of at most 200 characters."""
    groups = _groups(explanation.reasons)
    if len(groups) == 1:
        text = _cut(_in_pools(groups[0]), LONGEST_SENTENCE)
        near = _near(explanation.nearest, groups[0])
        return text + near if len(text) + len(near) <= LONGEST_SENTENCE else text
    text = "no NodePool can take it: " if groups[0].pools else ""
    text += _cut(_counted(groups[0]), LONGEST_SENTENCE - len(text) - len(_rest(groups[1:])))
    for index, group in enumerate(groups[1:], start=1):
        part = f"; {_counted(group)}"
        if len(text) + len(part) + len(_rest(groups[index + 1 :])) > LONGEST_SENTENCE:
            return text + _rest(groups[index:])
        text += part
    return text


def tree(explanation: Explanation, name: str) -> str:
    """Return everything there is to say about a pod, in lines.

    Args:
        explanation: The explanation.
        name: What to call the pod: ``shop/cart-7d9f9``.
    """
    number = explanation.pools
    whom = f" by any of {number} NodePools" if number > 1 else ""
    groups = _groups(explanation.reasons)
    lines = [f"pod {name}  cannot be placed{whom}", *_branches(groups)]
    standing = explanation.standing
    if standing.nodes:
        nodes = "1 standing node" if standing.nodes == 1 else f"{standing.nodes} standing nodes"
        some = f" (the first {standing.asked} looked at)" if standing.asked < standing.nodes else ""
        told = ", ".join(on_standing(obstacle, count) for obstacle, count in standing.obstacles)
        lines.append(f"  {nodes}{some}: {told}")
    lines += _nearest_lines(explanation.nearest)
    if explanation.fixes:
        lines.append(f"  smallest change: {', or '.join(map(describe_fix, explanation.fixes))}")
    return "\n".join(lines) + "\n"


def as_data(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as plain dicts, lists and texts, for JSON and YAML."""
    data = asdict(explanation)
    data["sentence"] = sentence(explanation)
    for fix, values in zip(explanation.fixes, data["fixes"], strict=True):
        values["words"] = describe_fix(fix)
        for change, value in zip(fix.changes, values["changes"], strict=True):
            value["field"] = change.field
            del value["path"]
    return data


def _groups(reasons: Sequence[Reason]) -> list[_Group]:
    """Put together what differs in detail alone, in the order of the nearest."""
    families: dict[tuple[tuple[str, ...], ...], list[Reason]] = {}
    for reason in reasons:
        families.setdefault(tuple(map(_family, _told(reason))), []).append(reason)
    return [
        _Group(
            tuple(_blend(alike) for alike in zip(*map(_told, family), strict=True)),
            tuple(pool for reason in family for pool in reason.pools),
        )
        for family in families.values()
    ]


def _told(reason: Reason) -> tuple[Constraint, ...]:
    """Return the constraints that the words speak of: the pool's own requirements only where nothing else is wrong."""
    wants = tuple(each for each in reason.constraints if each.cause is not Cause.POOL_REQUIREMENT)
    return wants or reason.constraints


def _family(constraint: Constraint) -> tuple[str, ...]:
    if constraint.cause is Cause.TAINT:
        return (constraint.cause, constraint.subject.partition(":")[0].partition("=")[0])
    if constraint.cause in (Cause.CONTRADICTION, Cause.VOLUME, Cause.POOL_REQUIREMENT):
        return (constraint.cause, constraint.subject, constraint.wanted, constraint.offered)
    return (constraint.cause, constraint.subject, "some" if constraint.offered else "none")


def _blend(alike: Sequence[Constraint]) -> Constraint:
    """Return one constraint for several of a family, without what differs."""
    first = alike[0]
    if all(each == first for each in alike):
        return first
    hint = first.hint if all(each.hint == first.hint for each in alike) else ""
    if first.cause is Cause.TAINT:
        key = first.subject.partition(":")[0].partition("=")[0]
        return replace(first, subject=f"{key}={_CUT}:{_CUT}")
    if first.cause is Cause.RESOURCES:
        return replace(max(alike, key=lambda each: parse_quantity(each.offered or "0").nano), hint=hint)
    wanted = first.wanted if all(each.wanted == first.wanted for each in alike) else _CUT
    return replace(first, wanted=wanted, offered="", facts=(), hint=hint)


def _in_pools(group: _Group) -> str:
    """Return the only group's reason, with its pools where pools are to blame."""
    text = describe(group.constraints)
    if not group.pools:
        return text
    single = f"NodePool {group.pools[0]}"
    many = f"{len(group.pools)} NodePools"
    if text.startswith(TYPED):
        where = f" in {single}" if len(group.pools) == 1 else f" in any of {many}"
        return f"{TYPED}{where}{text.removeprefix(TYPED)}"
    if len(group.pools) == 1:
        return f"{single}: {text}"
    return f"both NodePools: {text}" if len(group.pools) == 2 else f"all {many}: {text}"


def _counted(group: _Group) -> str:
    """Return a group's reason beside others: by name where it is one pool, else by number."""
    text = describe(group.constraints)
    if not group.pools:
        return text
    return f"{group.pools[0] if len(group.pools) == 1 else len(group.pools)}: {text}"


def _rest(groups: Sequence[_Group]) -> str:
    number = sum(len(group.pools) or 1 for group in groups)
    return f"; {number} more for other reasons" if number else ""


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - len(_CUT)] + _CUT


def _near(nearest: Nearest | None, group: _Group) -> str:
    """Return the nearest miss for the end of a sentence, where size or kind of the type is the matter."""
    typed = describe(group.constraints).startswith(TYPED) and not any(each.hint for each in group.constraints)
    if nearest is None or not nearest.fits or not typed:
        return ""
    return f"; nearest: {nearest.instance_type} fits {listed(nearest.fits)}"


def _nearest_lines(nearest: Nearest | None) -> list[str]:
    """Return the nearest miss, where it says something of the offering and not of the pool alone."""
    if nearest is None or all(each.cause not in _OF_OFFERINGS for each in nearest.misses):
        return []
    fits = f"fits {listed(nearest.fits)}" if nearest.fits else "fits nothing"
    missed = listed(map(lacking, nearest.misses))
    return [
        f"  nearest: {nearest.instance_type} in {nearest.zone} of NodePool {nearest.pool} {fits}, but {missed}"
    ]


def _branches(groups: Sequence[_Group]) -> list[str]:
    """Return a line for each group: how many pools, why, and which; a single pool is named in the reason."""
    rows = []
    for group in groups:
        number = len(group.pools)
        text = describe(group.constraints)
        if number == 0:
            rows.append(("", text, ""))
        elif number == 1:
            rows.append(("1 pool", f"{group.pools[0]}: {text}", ""))
        else:
            shown = ", ".join(group.pools[:_MOST_NAMES])
            more = f", {_CUT} -o json for all" if number > _MOST_NAMES else ""
            rows.append((f"{number} pools", text, f"({shown}{more})"))
    digits = max((len(count.partition(" ")[0]) for count, _, _ in rows), default=0)
    width = max((len(text) for count, text, names in rows if names), default=0)
    lines = []
    for count, text, names in rows:
        figure, _, unit = count.partition(" ")
        lead = f"{figure:>{digits}} {unit:<5}  " if count else ""
        lines.append(f"  {lead}{text:<{width}}  {names}".rstrip())
    return lines
