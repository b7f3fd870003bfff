# SPDX-License-Identifier: Apache-2.0
"""What to write instead of a value that a schema refused.

A schema says which pattern a value misses; a person wants to know what to write. Where the field holds a
duration, a quantity or a schedule, the reader of such texts knows better, and is asked. A field that stands
inside a list of its own name is the commonest slip with requirements, and gets a sentence of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from karpenter.api.legacy.conversion.fields import nearest_field
from karpenter.api.schema import Problem, ProblemType
from karpenter.errors import KarpenterError
from karpenter.kit import cron
from karpenter.kit.durations import parse_budget_duration, parse_nillable_duration
from karpenter.kit.quantity import parse_quantity

__all__ = ["explained"]

_READERS: Mapping[str, Callable[[Any], object]] = {
    "expireAfter": parse_nillable_duration,
    "consolidateAfter": parse_nillable_duration,
    "terminationGracePeriod": parse_nillable_duration,
    "duration": parse_budget_duration,
    "schedule": cron.parse,
    "volumeSize": parse_quantity,
}
_QUANTITY_MAPS = frozenset({"limits", "resources", "requests", "systemReserved", "kubeReserved"})
_SEGMENT = re.compile(r"[^.\[\]]+")


def explained(problem: Problem, spec_type: type) -> tuple[str, str]:
    """Returns the reason and the hint for a problem, in better words than its own if there are any.

    Args:
        problem: What the schema said.
        spec_type: The type of the object's spec, to tell which field was meant.
    """
    path = _SEGMENT.findall(problem.field)
    if path == ["metadata", "name"] and problem.type is ProblemType.REQUIRED:
        return "Required value", "give the object a name; generateName is not carried over"
    if problem.type is ProblemType.UNKNOWN_FIELD:
        return problem.message, _unknown_hint(path, spec_type)
    reader = _READERS.get(path[-1])
    if reader is None and len(path) > 1 and path[-2] in _QUANTITY_MAPS:
        reader = parse_quantity
    if reader is None or not isinstance(problem.value, (str, int, float)):
        return problem.message, ""
    # A value of the wrong type is named by its type alone: the reader can still say what a good one looks like.
    is_type = problem.type is ProblemType.TYPE_INVALID
    try:
        reader("" if is_type else problem.value)
    except KarpenterError as error:
        return problem.message if is_type else error.message, error.hint
    return problem.message, ""


def _unknown_hint(path: list[str], spec_type: type) -> str:
    *above, name = path
    if name in above:
        return f"{name} stands inside {name}: move what is below it one level up, and remove the inner {name}"
    meant = nearest_field(spec_type, path[1:]) if above[:1] == ["spec"] else ""
    return f"did you mean {meant}?" if meant else ""
