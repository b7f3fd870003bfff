# SPDX-License-Identifier: Apache-2.0
"""Taints and tolerations: which taints of a node keep a pod away.

Decides as Kubernetes does: a toleration matches by key, operator (Equal, Exists) and effect, where an empty
key or effect matches all. An unknown operator tolerates nothing. ``PreferNoSchedule`` is only a wish, so it
is asked for apart from what forbids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from karpenter.api.core import Taint, Toleration
from karpenter.api.labels import EPHEMERAL_TAINT_PREFIX, EPHEMERAL_TAINTS

__all__ = [
    "canonical_tolerations",
    "discouraging_taints",
    "forbidding_taints",
    "is_ephemeral",
    "merge_taints",
    "same_taint",
    "tolerates",
    "tolerates_all",
]

_PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Tells whether one of the tolerations matches the taint."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def forbidding_taints(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> tuple[Taint, ...]:
    """Gives the taints that forbid the pod the node: not tolerated, and not of effect PreferNoSchedule."""
    return tuple(
        taint for taint in taints if taint.effect != _PREFER_NO_SCHEDULE and not tolerates(tolerations, taint)
    )


def discouraging_taints(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> tuple[Taint, ...]:
    """Gives the taints of effect PreferNoSchedule that the pod does not tolerate."""
    return tuple(
        taint for taint in taints if taint.effect == _PREFER_NO_SCHEDULE and not tolerates(tolerations, taint)
    )


def tolerates_all(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], *, heed_wishes: bool = False
) -> bool:
    """Tells whether the pod may go to a node with these taints.

    With ``heed_wishes``, PreferNoSchedule counts like NoSchedule: Karpenter does so until it must give way.
    """
    return all(
        (taint.effect == _PREFER_NO_SCHEDULE and not heed_wishes) or tolerates(tolerations, taint)
        for taint in taints
    )


def same_taint(left: Taint, right: Taint) -> bool:
    """Tells whether Kubernetes takes two taints for the same: by key and effect, whatever the value."""
    return left.key == right.key and left.effect == right.effect


def is_ephemeral(taint: Taint) -> bool:
    """Tells whether a new node loses the taint by itself, so that until then it says nothing."""
    known = any(same_taint(taint, ephemeral) for ephemeral in EPHEMERAL_TAINTS)
    return known or taint.key.startswith(EPHEMERAL_TAINT_PREFIX)


def merge_taints(taints: Iterable[Taint], more: Iterable[Taint]) -> tuple[Taint, ...]:
    """Gives the taints, then those of ``more`` that they lack; of the same taint the first one stays."""
    merged: dict[tuple[str, str], Taint] = {}
    for taint in (*taints, *more):
        merged.setdefault((taint.key, taint.effect), taint)
    return tuple(merged.values())


def canonical_tolerations(tolerations: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """Gives the tolerations each once, in order and in one form: equal for pods that tolerate alike.

    How long a taint is borne (``tolerationSeconds``) does not decide where a pod can go and is dropped.
    """
    plain = {
        replace(
            toleration,
            operator=toleration.operator or "Equal",
            value="" if toleration.operator == "Exists" else toleration.value,
            toleration_seconds=None,
        )
        for toleration in tolerations
    }
    return tuple(sorted(plain, key=lambda each: (each.key, each.effect, each.operator, each.value)))


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
