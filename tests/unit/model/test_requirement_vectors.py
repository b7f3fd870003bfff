# SPDX-License-Identifier: Apache-2.0
"""What Karpenter 1.14.1 computes for random requirements, and that we compute the same.

A row of ``requirement_vectors.json`` has the requirements that are intersected one after the other (operator,
values, minValues), the result (complement, values, lower bound, upper bound, minValues, operator, and which
of UNIVERSE it has), and whether the last two overlapped. A row of ``compatibility_vectors.json`` has a node's
and a pod's requirements (key, operator, values), whether they are compatible with and without allowing
undefined well-known labels, and the keys on which they do not overlap.

We differ in one thing on purpose: where Karpenter forgets that a label must be there, we are stricter.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from karpenter.model.requirements import Requirement, Requirements

HERE = Path(__file__).parent
UNIVERSE = (
    "a",
    "b",
    "c",
    "1",
    "2",
    "5",
    "-3",
    "07",
    "+2",
    "1_0",
    str(2**63 - 1),
    str(2**63),
    "1.5",
    "",
)
WELL_KNOWN = frozenset({"topology.kubernetes.io/zone", "kubernetes.io/arch"})


def rows(name: str) -> list[Any]:
    found: list[Any] = json.loads((HERE / f"{name}_vectors.json").read_text())
    return found


def presence_was_forgotten(requirement: Requirement) -> bool:
    """Karpenter takes it for one that a node without the label meets; it is none."""
    return requirement.operator in ("NotIn", "DoesNotExist") and not requirement.allows_absence()


@pytest.mark.parametrize("row", rows("requirement"), ids=lambda row: " & ".join(part[0] for part in row[0]))
def test_intersections_are_those_of_karpenter(row: Any) -> None:
    parts, (complement, values, gte, lte, min_values, operator, has), overlapped = row
    requirements = [Requirement.of("k", op, given, min_values=least) for op, given, least in parts]

    met = requirements[0]
    for requirement in requirements[1:-1]:
        met = met.intersection(requirement)
    overlaps = met.intersects(requirements[-1])
    absence_was_shared = met.allows_absence() and requirements[-1].allows_absence()
    met = met.intersection(requirements[-1])

    assert (met.complement, sorted(met.values)) == (bool(complement), values)
    assert (met.gte, met.lte, met.min_values) == (gte, lte, min_values)
    assert met.operator == operator
    assert "".join("1" if met.has(value) else "0" for value in UNIVERSE) == has
    # Karpenter's overlap is about values alone; that both allow absence it asks elsewhere.
    assert overlaps is (bool(overlapped) or absence_was_shared)


@pytest.mark.parametrize("row", rows("compatibility"))
def test_compatibility_is_that_of_karpenter_or_stricter_where_a_label_must_be_there(row: Any) -> None:
    node_parts, pod_parts, open_ok, strict_ok, disjoint_keys = row
    node = Requirements(Requirement.of(*part) for part in node_parts)
    pod = Requirements(Requirement.of(*part) for part in pod_parts)

    ours = (node.compatible(pod, WELL_KNOWN), node.compatible(pod, frozenset()), node.intersects(pod))

    theirs = (bool(open_ok), bool(strict_ok), not disjoint_keys)
    if any(map(presence_was_forgotten, (*node, *pod))):
        assert all(stricter <= theirs_is for stricter, theirs_is in zip(ours, theirs, strict=True))
    else:
        assert ours == theirs
        disjoint = [each.key for each in node.conflicts(pod, WELL_KNOWN) if each.reason == "disjoint"]
        assert disjoint == disjoint_keys


def test_there_are_enough_vectors_and_most_compare_exactly() -> None:
    exact = [
        row
        for row in rows("compatibility")
        if not any(
            presence_was_forgotten(each)
            for side in row[:2]
            for each in Requirements(Requirement.of(*p) for p in side)
        )
    ]

    assert len(rows("requirement")) >= 300
    assert len(exact) >= 250
