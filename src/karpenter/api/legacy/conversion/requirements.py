# SPDX-License-Identifier: Apache-2.0
"""Requirements under v1 names, and those that the old admission webhook added.

The old schema took any values with any operator, and such a requirement matched nothing in silence; v1
refuses it, and so is it refused here, at the value. A requirement on a label that v1 lacks is refused as
well: dropping it would widen what a pool may launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from karpenter.api import labels
from karpenter.api.legacy.conversion.findings import Journal, RawObject
from karpenter.api.legacy.conversion.names import GONE_LABELS, RENAMED_LABELS

__all__ = ["converted_requirements", "default_requirements"]

_TYPE_LABELS = frozenset(
    {labels.INSTANCE_TYPE, labels.INSTANCE_FAMILY, labels.INSTANCE_CATEGORY, labels.INSTANCE_GENERATION}
)
_INSTEAD_OF_GONE = {
    labels.INSTANCE_PODS: f"require {labels.INSTANCE_CPU}, or set maxPods of the kubelet",
    labels.INSTANCE_AMI_ID: "choose the images with the image selector of the node class",
}


def converted_requirements(requirements: Sequence[RawObject], path: str, journal: Journal) -> list[RawObject]:
    """Returns the requirements under v1 names, with what v1 refuses noted."""
    converted = []
    for index, requirement in enumerate(requirements):
        _check(requirement, f"{path}[{index}]", journal)
        key = requirement["key"]
        converted.append({**requirement, "key": RENAMED_LABELS.get(key, key)})
        if "values" in requirement:
            converted[-1]["values"] = list(requirement["values"])
    return converted


def default_requirements(given: Iterable[str]) -> list[RawObject]:
    """Returns what the old webhook added to a Provisioner that said nothing about some labels.

    Args:
        given: The labels that the Provisioner has requirements on, or sets.
    """
    known = {labels.stable_name(key) for key in given}
    wanted = [
        (labels.OS, "In", [labels.LINUX]),
        (labels.ARCH, "In", [labels.AMD64]),
        (labels.CAPACITY_TYPE, "In", [labels.ON_DEMAND]),
    ]
    if known.isdisjoint(_TYPE_LABELS):
        wanted += [
            (labels.INSTANCE_CATEGORY, "In", ["c", "m", "r"]),
            (labels.INSTANCE_GENERATION, "Gt", ["2"]),
        ]
    return [
        {"key": key, "operator": operator, "values": values}
        for key, operator, values in wanted
        if key not in known
    ]


def _check(requirement: RawObject, path: str, journal: Journal) -> None:
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values") or []
    if key in GONE_LABELS:
        journal.refuse(
            f"{path}.key", f"{key} cannot be required: {GONE_LABELS[key]}", _INSTEAD_OF_GONE.get(key, "")
        )
    if operator == "In" and not values:
        journal.refuse(f"{path}.values", "Required value: operator In needs at least one")
    if operator in {"Gt", "Lt"} and len(values) != 1:
        journal.refuse(
            f"{path}.values", f"operator {operator} needs exactly one value, here are {len(values)}"
        )
    elif operator in {"Gt", "Lt"} and not (values[0].isascii() and values[0].isdecimal()):
        journal.refuse(
            f"{path}.values[0]",
            f'"{values[0]}" is not a number (operator {operator} needs one)',
            f'for example {key} {operator} "4"',
        )
