# SPDX-License-Identifier: Apache-2.0
"""The differences that docs/reference/differences.md lists, and how each is recognised among those that are found.

A row is meant by a difference only if that holds of every case in which it was found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks.providers.comparing import Difference

__all__ = ["ROWS", "row_of"]

_LAUNCH_TAGS: Final = re.compile(
    r"launch\.fleet\.TagSpecifications\.\w+\.karpenter\.sh/(launch|nodeclaim|nodeclaim-uid)"
)
# What EC2 does where a launch template says nothing.
_EC2_DEFAULTS: Final[dict[str, Any]] = {
    "EnclaveOptions": {"Enabled": False},
    "DeleteOnTermination": True,
    "InterfaceType": "interface",
    "NetworkCardIndex": 0,
    "Placement": {"Tenancy": "default"},
    "Tenancy": "default",
}
_UNKNOWN_TO_GO: Final = ("LaunchFailed", "InternalError", False)


def _is_default(name: str, each: Difference) -> bool:
    default = _EC2_DEFAULTS.get(name.rpartition(".")[2])
    return default is not None and {str(each.go), str(each.ours)} == {str(default), "None"}


def _is_windows_on_arm(name: str, each: Difference) -> bool:
    if "/Windows" not in each.case:
        return False
    if name.startswith("types.offering."):
        return bool(each.go and not each.ours)
    return name.endswith("PrivateIPv4Address") and each.go is None


def _same_prices(found: Sequence[Difference]) -> bool:
    """Tell whether in each launch both sides left out as many types, at the same prices."""
    left_out: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for each in found:
        left_out[each.case.partition(" ")[0]][each.go is None].append(
            each.ours if each.go is None else each.go
        )
    return all(sorted(go) == sorted(ours) for go, ours in left_out.values())


ROWS: Final[dict[str, Callable[[str, Sequence[Difference]], bool]]] = {
    "launches": lambda name, found: (
        bool(_LAUNCH_TAGS.fullmatch(name)) and all(each.go is None for each in found)
    ),
    "settings at EC2's own defaults": lambda name, found: (
        name.startswith("launch.template.") and all(_is_default(name, each) for each in found)
    ),
    "Bottlerocket settings of `settings.kubernetes`": lambda name, found: (
        ".UserData.settings.kubernetes." in name and all(each.go is None for each in found)
    ),
    "Windows on Arm": lambda name, found: all(_is_windows_on_arm(name, each) for each in found),
    "types smaller than what they reserve": lambda name, found: (
        name.startswith("types.allocatable.") and all((each.go or 0) < 0 and not each.ours for each in found)
    ),
    "dedicated tenancy": lambda name, found: (
        name.endswith("/instance-tenancy") and all(set(each.ours) <= {"default"} for each in found)
    ),
    "types without offerings": lambda name, found: (
        name == "types.label.karpenter.k8s.aws/placement-group-partition"
        and all(not each.ours for each in found)
    ),
    "types of one price at the end of a fleet": lambda name, found: (
        name == "launch.pool" and _same_prices(found)
    ),
    "error codes": lambda name, found: (
        name.startswith("error.") and all(each.go in _UNKNOWN_TO_GO and each.ours for each in found)
    ),
    "equal settings of a node class, written differently": lambda name, found: (
        name.startswith("hash.") and all(each.go and not each.ours for each in found)
    ),
}


def row_of(name: str, found: Sequence[Difference]) -> str | None:
    """Return the row that tells of a difference; None if there is none."""
    return next((row for row, means in ROWS.items() if means(name, found)), None)
