# SPDX-License-Identifier: Apache-2.0
"""Words for verdicts: why a node stays, as one sentence beside the values that it speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from karpenter.consolidation.protection import Obstacle
from karpenter.consolidation.types import Verdict, VerdictKind
from karpenter.kit.durations import later

__all__ = ["dollars", "held", "moment", "verdict"]

_HOURS_A_DAY = 24
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def verdict(
    node: str,
    kind: VerdictKind,
    words: str,
    price_per_hour: float | None = None,
    values: Mapping[str, str] | None = None,
) -> Verdict:
    """Return a verdict on a node, with what it costs a day."""
    cost = None if price_per_hour is None else price_per_hour * _HOURS_A_DAY
    verb = "goes" if kind is VerdictKind.GOES else "stays"
    return Verdict(node, kind, f"{node} {verb}: {words}", values or {}, cost)


def held(node: str, obstacle: Obstacle, price_per_hour: float | None) -> Verdict:
    """Return the verdict on a node that one of its pods holds."""
    pod, pdbs = obstacle.pod, " and ".join(obstacle.pdbs)
    values = {"pod": pod}
    if obstacle.kind is VerdictKind.SEVERAL_PDBS:
        words = f"pod {pod} cannot be evicted, since PodDisruptionBudgets {pdbs} both select it"
    elif obstacle.kind is VerdictKind.PDB:
        words = f"PodDisruptionBudget {pdbs} allows no eviction of pod {pod} now"
    elif obstacle.until is not None:
        words = f"pod {pod} is not to be disrupted before {moment(obstacle.until)}"
        values["until"] = moment(obstacle.until)
    else:
        words = f"pod {pod} is not to be disrupted"
    if obstacle.pdbs:
        values["pdb"] = ", ".join(obstacle.pdbs)
    return verdict(node, obstacle.kind, words, price_per_hour, values)


def dollars(per_hour: float) -> str:
    """Write an amount per hour: cents where there are some, more digits where there are not."""
    digits = 2 if abs(per_hour) >= 1 else 4
    return f"${per_hour:.{digits}f}"


def moment(seconds: float) -> str:
    """Write a moment as people do, in UTC and to the second."""
    return later(_EPOCH, seconds).strftime("%Y-%m-%dT%H:%M:%SZ")
