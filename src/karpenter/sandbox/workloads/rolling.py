# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of rolling updates, pure: from sizes and what is available to the sizes of the next step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from karpenter.sandbox.workloads.resources import Wire

__all__ = ["Rollout", "resolve", "roll", "share_out"]


def resolve(value: str | int | None, total: int, *, up: bool, default: str | int) -> int:
    """Gives a number or a share of a total ("25%"), a broken share rounded up or down."""
    said = default if value is None else value
    if isinstance(said, int):
        return said
    if said.endswith("%") and said[:-1].isdigit():
        exact = total * int(said[:-1]) / 100
        return math.ceil(exact) if up else math.floor(exact)
    return int(said) if said.isdigit() else 0


@dataclass(frozen=True, slots=True)
class Rollout:
    """What a Deployment asks for: how many, how many more for a while, how many fewer available."""

    replicas: int
    surge: int
    unavailable: int

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Rollout:
        """Reads it from a Deployment's spec."""
        replicas = spec.get("replicas", 1)
        strategy = spec.get("strategy") or {}
        if strategy.get("type") == "Recreate":
            return cls(replicas, 0, replicas)
        said = strategy.get("rollingUpdate") or {}
        surge = resolve(said.get("maxSurge"), replicas, up=True, default="25%")
        unavailable = resolve(said.get("maxUnavailable"), replicas, up=False, default="25%")
        if surge == 0 and unavailable == 0:
            # Both round to nothing: it could never move.
            unavailable = 1
        return cls(replicas, surge, min(unavailable, replicas))

    @property
    def most(self) -> int:
        """Gives the most pods there may be; none at all for a Deployment of none."""
        return self.replicas + self.surge if self.replicas else 0

    def first(self, others: int) -> int:
        """Gives the size of a new set beside so many old pods."""
        return max(min(self.replicas, self.replicas + self.surge - others), 0)


def roll(rollout: Rollout, new: Wire, old: Sequence[Wire]) -> dict[str, int]:
    """Gives the new sizes of the sets that change in the next step; first up, and only then down."""
    size = new["spec"]["replicas"]
    others = sum(each["spec"]["replicas"] for each in old)
    if size != rollout.replicas:
        grown = rollout.replicas
        if size < rollout.replicas:
            grown = size + max(min(rollout.most - size - others, rollout.replicas - size), 0)
        if grown != size:
            return {new["metadata"]["name"]: grown}
    return _shrink(rollout, new, old) if others else {}


def _shrink(rollout: Rollout, new: Wire, old: Sequence[Wire]) -> dict[str, int]:
    sizes = {each["metadata"]["name"]: each["spec"]["replicas"] for each in old}
    changed: dict[str, int] = {}
    total = new["spec"]["replicas"] + sum(sizes.values())
    least = rollout.replicas - rollout.unavailable
    unready = new["spec"]["replicas"] - _available(new)
    spare = total - least - unready
    # Those that are not available are no loss; they go first.
    for each in old:
        name = each["metadata"]["name"]
        broken = min(max(spare, 0), max(sizes[name] - _available(each), 0))
        if broken:
            sizes[name] = changed[name] = sizes[name] - broken
            spare -= broken
    spare = min(spare, _available(new) + sum(map(_available, old)) - least)
    for each in old:
        name = each["metadata"]["name"]
        going = min(max(spare, 0), sizes[name])
        if going:
            sizes[name] = changed[name] = sizes[name] - going
            spare -= going
    return changed


def _available(owned: Wire) -> int:
    found: int = (owned.get("status") or {}).get("availableReplicas", 0)
    size: int = owned["spec"]["replicas"]
    return min(found, size)


def share_out(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Gives sizes in the same proportion that add up to a total; the largest takes what rounding leaves."""
    whole = sum(sizes.values())
    shares = {name: total * size // whole for name, size in sizes.items()}
    largest = max(sizes, key=lambda name: (sizes[name], name))
    shares[largest] += total - sum(shares.values())
    return shares
