# SPDX-License-Identifier: Apache-2.0
"""Plans as bytes, so that two of them can be compared to the last digit: in this process or from another.

``python -m tests.property.scheduling.rendering FIRST LAST`` prints the digest of the plans of a range of seeds. Pods
are named, not copied, so that labels that decide nothing do not show.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from karpenter.api.base import to_wire
from karpenter.api.core import Pod
from karpenter.scheduling import NewNode, Plan, solve
from tests.strategies import random_problem

__all__ = ["render"]


def render(plan: Plan) -> bytes:
    """Write everything that a plan says, in the order in which it says it."""
    return msgspec.json.encode(
        {
            "existing": {node: _names(pods) for node, pods in plan.existing.items()},
            "newNodes": [_node(node) for node in plan.new_nodes],
            "rejections": [
                [_names(each.pods), _plain(each.reasons), each.message] for each in plan.rejections
            ],
            "price": plan.price_per_hour,
            "bound": plan.lower_bound_per_hour,
            "relaxed": [[_names(each.pods), each.wishes] for each in plan.relaxed],
            "unfinished": _names(plan.unfinished),
        }
    )


def _node(node: NewNode) -> dict[str, Any]:
    return {
        "pool": node.pool,
        "alternatives": [dataclasses.astuple(each) for each in node.alternatives],
        "requirements": [to_wire(each) for each in node.requirements.entries()],
        "pods": _names(node.pods),
        "requests": dict(node.requests),
        "overhead": dict(node.daemon_overhead),
        "minValuesRelaxed": node.min_values_relaxed,
    }


def _plain(value: Any) -> Any:
    """Take a value apart into what JSON can say; sets in order, so that equal values give equal bytes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(each)] for key, each in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | float | str | None) else str(value)


def _names(pods: Iterable[Pod]) -> list[str]:
    return [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods]


def main(arguments: Sequence[str]) -> int:
    """Print the digest."""
    first, last = map(int, arguments)
    digest = hashlib.sha256()
    for seed in range(first, last):
        problem = random_problem(seed)
        digest.update(render(solve(problem.snapshot(), problem.pods)))
    sys.stdout.write(digest.hexdigest())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
