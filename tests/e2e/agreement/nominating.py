# SPDX-License-Identifier: Apache-2.0
"""Which planned pods are told their node, and when: as the controller does it, or otherwise.

The scheduler looks at a nominated node first, and keeps its room free from pods of the same or a lower priority. But
nominated pods can keep each other out (see ``nominable``), so the controller tells them in turn.

Pods that are not nominated yet may go elsewhere. Equal pods are interchangeable: who stands where is settled by what
is bound, and the others share the places that are left, as the controller trades them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from functools import partial

from karpenter.controllers.provisioning.levels import Levels
from karpenter.controllers.provisioning.nominating import nominable
from tests.e2e.agreement.client import Wire
from tests.e2e.agreement.translation import Case, Key, key_of, sites

__all__ = ["Nominating", "nominations"]


class Nominating(StrEnum):
    """How planned pods are nominated."""

    NEVER = "never"
    AT_ONCE = "at once"
    IN_TURN = "in turn"


def nominations(case: Case, how: Nominating, bound: Mapping[Key, str]) -> dict[Key, str]:
    """Give the node to which each pod that waits should be nominated now.

    Args:
        case: The case.
        how: ``IN_TURN`` is the controller's way.
        bound: The node of each pod that is bound by now.
    """
    if how is Nominating.NEVER:
        return {}
    if how is Nominating.AT_ONCE:
        return {key: node for key, node in case.planned.items() if key not in bound}
    waiting: dict[str, list[Key]] = {}
    for key, node in _places_left(case, bound):
        waiting.setdefault(node, []).append(key)
    found: dict[Key, str] = {}
    levels = Levels(lambda: sites(case, bound))
    for node, keys in waiting.items():
        room = partial(levels.room, node=node.removeprefix(f"{case.name}-"))
        chosen = {id(pod) for pod in nominable((case.pods[key] for key in keys), room)}
        found |= {key: node for key in keys if id(case.pods[key]) in chosen}
    return found


def _places_left(case: Case, bound: Mapping[Key, str]) -> list[tuple[Key, str]]:
    """Give each planned pod that waits with its place: its own, or that of an equal pod that went elsewhere."""
    kinds = {key_of(pod): _kind(pod) for pod in case.pending}
    free = Counter((kinds[key], node) for key, node in case.planned.items())
    free -= Counter((kinds[key], node) for key, node in bound.items() if key in kinds)
    found: list[tuple[Key, str]] = []
    displaced: list[Key] = []
    for key, kind in kinds.items():
        if key not in case.planned or key in bound:
            continue
        own = (kind, case.planned[key])
        if free[own]:
            free[own] -= 1
            found.append((key, own[1]))
        else:
            displaced.append(key)
    for key in displaced:
        left = sorted(node for (owner, node), count in free.items() if count and owner == kinds[key])
        if left:
            free[kinds[key], left[0]] -= 1
            found.append((key, left[0]))
    return found


def _kind(pod: Wire) -> str:
    metadata = pod["metadata"]
    return json.dumps([metadata["namespace"], metadata["labels"], pod["spec"]], sort_keys=True)
