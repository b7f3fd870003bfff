# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.conditions import NODE_CLAIM, READY, ConditionSet
from karpenter.api.meta import ObjectMeta

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
STATUSES = ("True", "False", "Unknown")

# Generation of the object at the time, the condition, its status.
steps = st.lists(
    st.tuples(
        st.integers(1, 3), st.sampled_from([*NODE_CLAIM.dependents, "Drifted"]), st.sampled_from(STATUSES)
    ),
    max_size=12,
)


def play(taken: list[tuple[int, str, str]]) -> ConditionSet:
    conditions = ConditionSet.of(NODE_CLAIM, ObjectMeta(generation=1, creation_timestamp=CREATED))
    for second, (generation, name, status) in enumerate(taken):
        metadata = ObjectMeta(generation=generation, creation_timestamp=CREATED)
        conditions = ConditionSet.of(NODE_CLAIM, metadata, conditions.conditions)
        now = CREATED + timedelta(seconds=second + 1)
        match status:
            case "True":
                conditions = conditions.true(name, now)
            case "False":
                conditions = conditions.false(name, now, reason="Because")
            case _:
                conditions = conditions.unknown(name, now)
    return conditions


@given(steps)
def test_the_root_always_follows_from_its_dependents(taken: list[tuple[int, str, str]]) -> None:
    conditions = play(taken).judged(CREATED + timedelta(hours=1))

    dependents = [conditions.get(name) for name in NODE_CLAIM.dependents]
    root = conditions.get(READY)
    current = [
        each for each in dependents if each and each.observed_generation == conditions.metadata.generation
    ]
    assert root is not None
    if len(current) == 3 and all(each.status == "True" for each in current):
        assert root.status == "True"
    elif any(each.status == "False" for each in current):
        assert root.status == "False"
    else:
        assert root.status == "Unknown"


@given(steps)
def test_each_type_stands_once_and_the_root_last(taken: list[tuple[int, str, str]]) -> None:
    names = [each.type for each in play(taken).conditions]

    assert len(names) == len(set(names))
    assert names[-1] == READY


@given(steps)
def test_saying_the_same_again_changes_nothing(taken: list[tuple[int, str, str]]) -> None:
    once = play(taken)

    again = once
    for condition in once.conditions:
        if condition.observed_generation == once.metadata.generation and condition.status == "True":
            again = again.true(condition.type, CREATED + timedelta(days=1))

    assert again is once
