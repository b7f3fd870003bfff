# SPDX-License-Identifier: Apache-2.0
"""The algebra against plain sets: a requirement is the set of labels, absence included, that meet it."""

from __future__ import annotations

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from karpenter.model.requirements import Requirement, Requirements, parse_label_integer

# Every member is a label's value, or None for a node without the label. Numbers come in several spellings: to
# Kubernetes "07" is seven, but not the value "7".
UNIVERSE: tuple[str | None, ...] = (
    None,
    "",
    "a",
    "b",
    "1.5",
    *(str(number) for number in range(-3, 7)),
    *(f"0{number}" for number in range(7)),
    *(f"-0{number}" for number in range(1, 4)),
    "-9",
    "9",
    str(2**63 - 1),
    str(-(2**63)),
    str(2**63),
)
KEYS = ("k", "l", "topology.kubernetes.io/zone")

values = st.lists(st.sampled_from([value for value in UNIVERSE if value is not None]), min_size=1, max_size=4)
numbers = st.sampled_from(["-4", "-3", "0", "1", "2", "3", "6", str(2**63 - 1), str(-(2**63))])
min_values = st.none() | st.integers(1, 5)


@st.composite
def stated(draw: st.DrawFn, key: str = "k") -> tuple[Requirement, frozenset[str | None]]:
    """Draws a requirement, and the set that its operator means, worked out without it."""
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]))
    if operator in ("In", "NotIn"):
        names = draw(values)
        meant = frozenset(v for v in UNIVERSE if (v in names) is (operator == "In"))
    elif operator in ("Exists", "DoesNotExist"):
        names = []
        meant = frozenset(v for v in UNIVERSE if (v is None) is (operator == "DoesNotExist"))
    else:
        names = [draw(numbers)]
        meant = frozenset(v for v in UNIVERSE if v is not None and _holds(operator, v, int(names[0])))
    return Requirement.of(key, operator, names, min_values=draw(min_values)), meant


def _holds(operator: str, value: str, bound: int) -> bool:
    try:
        number = int(value)
    except ValueError:
        return False
    if not -(2**63) <= number < 2**63:
        return False
    return {"Gt": number > bound, "Gte": number >= bound, "Lt": number < bound, "Lte": number <= bound}[
        operator
    ]


def members(requirement: Requirement) -> frozenset[str | None]:
    return frozenset(value for value in UNIVERSE if requirement.allows(value))


requirements = st.lists(stated(), min_size=1, max_size=4).map(
    lambda parts: reduce(Requirement.intersection, (part[0] for part in parts))
)


@st.composite
def sides(draw: st.DrawFn) -> Requirements:
    parts = draw(st.lists(st.sampled_from(KEYS).flatmap(stated), max_size=4))
    return Requirements(requirement for requirement, _ in parts)


@given(stated())
def test_each_operator_means_its_set(part: tuple[Requirement, frozenset[str | None]]) -> None:
    requirement, meant = part

    assert members(requirement) == meant


@given(st.lists(stated(), min_size=1, max_size=4))
def test_intersection_is_that_of_the_sets(parts: list[tuple[Requirement, frozenset[str | None]]]) -> None:
    met = reduce(Requirement.intersection, (requirement for requirement, _ in parts))

    assert members(met) == frozenset.intersection(*(meant for _, meant in parts))
    wanted = [requirement.min_values for requirement, _ in parts if requirement.min_values is not None]
    assert met.min_values == max(wanted, default=None)


@given(requirements, requirements, requirements)
def test_intersection_commutes_associates_and_repeats_itself(
    one: Requirement, two: Requirement, three: Requirement
) -> None:
    assert one.intersection(two) == two.intersection(one)
    assert one.intersection(two).intersection(three) == one.intersection(two.intersection(three))
    assert one.intersection(one) == one
    assert hash(one.intersection(two)) == hash(two.intersection(one))


@given(requirements)
def test_anything_changes_nothing(one: Requirement) -> None:
    assert one.intersection(Requirement.anything("k")) == one


@given(requirements, requirements)
def test_overlap_is_an_intersection_that_is_not_empty(one: Requirement, two: Requirement) -> None:
    met = one.intersection(two)

    assert one.intersects(two) is not met.is_empty
    assert one.intersects(two) is two.intersects(one)
    # The universe is finite: a range whose every spelling here is excluded may still have others.
    assert met.is_empty <= (not members(met))
    assert met.complement or met.is_empty is (not members(met))


@given(requirements)
def test_written_back_and_read_again_it_is_the_same(one: Requirement) -> None:
    entries = one.entries()

    assert reduce(Requirement.intersection, map(Requirement.from_expression, entries)) == one
    bounded = one.gte is not None and one.lte is not None
    assert [entry.operator for entry in entries[:2]] == ["Gte", "Lte"] or not bounded


@given(requirements)
def test_any_value_is_one_that_it_has(one: Requirement) -> None:
    value = one.any_value()

    assert value is not None or not one.complement or one.gte is not None
    assert value is None or one.has(value)
    assert (value is None) or parse_label_integer(value) is not None or not one.complement


@given(sides(), sides())
def test_compatible_means_some_labels_suit_both_and_no_needed_label_is_unknown(
    node: Requirements, pod: Requirements
) -> None:
    allowed = frozenset({"topology.kubernetes.io/zone"})

    suits = all(
        not want.is_empty
        and (
            want.intersects(node[want.key])
            if want.key in node
            else want.allows_absence() or want.key in allowed
        )
        for want in pod
    )

    assert node.compatible(pod, allowed) is suits
    assert bool(node.conflicts(pod, allowed)) is not suits
    assert node.intersects(pod) is node.compatible(pod, frozenset(KEYS))
    assert node.intersects(pod) is not node.intersection(pod).is_empty or node.is_empty


@given(sides(), sides())
def test_together_they_allow_the_labels_that_each_allows(one: Requirements, two: Requirements) -> None:
    both = one.intersection(two)

    assert both == two.intersection(one)
    assert both == Requirements((*two, *one))
    for labels in ({}, {"k": "a"}, {"k": "1", "l": "2"}, {"l": "b", "topology.kubernetes.io/zone": "a"}):
        assert both.allows(labels) is (one.allows(labels) and two.allows(labels))


@given(sides())
def test_all_of_them_are_written_back(side: Requirements) -> None:
    assert Requirements.from_expressions(side.entries()) == side
