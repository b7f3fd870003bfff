# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from karpenter.api.conditions import (
    CAPACITY_BUFFER,
    EC2_NODE_CLASS,
    EC2_NODE_CLASS_WITH_RESERVATIONS,
    NODE_CLAIM,
    NODE_POOL,
    ConditionSet,
    DependentConditionError,
)
from karpenter.api.meta import Condition, ObjectMeta

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
LATER = CREATED + timedelta(minutes=1)
MUCH_LATER = CREATED + timedelta(minutes=2)


def claim(generation: int = 1, *, deleting: bool = False) -> ObjectMeta:
    return ObjectMeta(
        name="shop-x7k2p",
        generation=generation,
        creation_timestamp=CREATED,
        deletion_timestamp=LATER if deleting else None,
    )


def ready(conditions: ConditionSet) -> tuple[str, str, str]:
    root = conditions.get("Ready")
    assert root is not None
    return root.status, root.reason, root.message


def test_a_new_object_awaits_its_conditions_since_it_was_created() -> None:
    conditions = ConditionSet.of(NODE_CLAIM, claim())

    assert conditions.get("Launched") == Condition(
        type="Launched",
        status="Unknown",
        reason="AwaitingReconciliation",
        message="object is awaiting reconciliation",
        last_transition_time=CREATED,
        observed_generation=1,
    )
    assert ready(conditions) == (
        "Unknown",
        "ReconcilingDependents",
        "Launched=Unknown, Registered=Unknown, Initialized=Unknown",
    )
    assert {each.last_transition_time for each in conditions.conditions} == {CREATED}


def test_conditions_that_are_there_already_stay_as_they_are() -> None:
    before = ConditionSet.of(NODE_CLAIM, claim()).true("Launched", LATER)

    after = ConditionSet.of(NODE_CLAIM, claim(), before.conditions)

    assert after == before


def test_the_root_is_true_when_all_dependents_are() -> None:
    conditions = ConditionSet.of(NODE_CLAIM, claim())

    for name in ("Launched", "Registered", "Initialized"):
        conditions = conditions.true(name, LATER)

    assert conditions.is_true("Ready", "Launched")
    assert ready(conditions) == ("True", "Ready", "")


def test_the_root_is_false_as_soon_as_one_dependent_is() -> None:
    conditions = ConditionSet.of(NODE_CLAIM, claim()).false(
        "Launched", LATER, reason="LaunchFailed", message="no"
    )

    assert ready(conditions) == (
        "False",
        "UnhealthyDependents",
        "Launched=False, Registered=Unknown, Initialized=Unknown",
    )


def test_of_dependents_that_failed_within_one_second_the_last_is_named_first() -> None:
    conditions = (
        ConditionSet.of(NODE_CLAIM, claim())
        .false("Launched", LATER, reason="LaunchFailed")
        .false("Initialized", LATER + timedelta(microseconds=5), reason="Lost")
    )

    assert ready(conditions)[2] == "Initialized=False, Launched=False, Registered=Unknown"


def test_a_false_of_an_older_generation_leaves_the_root_unknown() -> None:
    old = ConditionSet.of(NODE_CLAIM, claim()).false("Launched", LATER, reason="LaunchFailed")

    conditions = ConditionSet.of(NODE_CLAIM, claim(generation=2), old.conditions).true(
        "Registered", MUCH_LATER
    )

    assert ready(conditions) == (
        "Unknown",
        "ReconcilingDependents",
        "Launched=False, Initialized=Unknown",
    )


def test_a_true_of_an_older_generation_is_not_enough() -> None:
    old = ConditionSet.of(NODE_POOL, claim()).true("ValidationSucceeded", LATER).true("NodeClassReady", LATER)

    conditions = ConditionSet.of(NODE_POOL, claim(generation=2), old.conditions).true(
        "NodeClassReady", MUCH_LATER
    )

    assert ready(conditions) == ("Unknown", "ReconcilingDependents", "ValidationSucceeded=True")
    assert conditions.is_current("NodeClassReady")
    assert not conditions.is_current("ValidationSucceeded")
    assert not conditions.is_current("NeverWritten")


def test_the_transition_time_moves_only_with_the_status() -> None:
    conditions = ConditionSet.of(NODE_CLAIM, claim()).false("Launched", LATER, reason="A")

    same_status = conditions.false("Launched", MUCH_LATER, reason="B", message="still no")
    other_status = same_status.true("Launched", MUCH_LATER + timedelta(microseconds=5))

    launched, turned = same_status.get("Launched"), other_status.get("Launched")
    assert launched is not None
    assert (launched.reason, launched.last_transition_time) == ("B", LATER)
    assert turned is not None
    assert turned.last_transition_time == MUCH_LATER


def test_nothing_new_gives_back_the_same_set() -> None:
    conditions = ConditionSet.of(NODE_CLAIM, claim()).true("Launched", LATER, reason="Launched")

    assert conditions.true("Launched", MUCH_LATER) is conditions
    assert conditions.without("Drifted") is conditions


def test_an_informing_condition_starts_when_it_is_set_and_leaves_the_root_alone() -> None:
    before = ConditionSet.of(NODE_CLAIM, claim())

    after = before.true("Drifted", LATER, reason="AMIDrift")

    drifted = after.get("Drifted")
    assert drifted is not None
    assert drifted.last_transition_time == LATER
    assert ready(after) == ready(before)
    assert after.without("Drifted").conditions == before.conditions


def test_a_deciding_condition_cannot_be_taken_away() -> None:
    conditions = ConditionSet.of(NODE_CLAIM, claim())

    with pytest.raises(DependentConditionError, match="condition Launched of shop-x7k2p decides"):
        conditions.without("Launched")
    with pytest.raises(DependentConditionError):
        conditions.without("Ready")


def test_conditions_stand_in_the_order_in_which_they_changed_with_the_root_last() -> None:
    conditions = ConditionSet.of(NODE_CLAIM, claim()).true("Launched", MUCH_LATER).true("Drifted", LATER)

    assert [each.type for each in conditions.conditions] == [
        "Registered",
        "Initialized",
        "Drifted",
        "Launched",
        "Ready",
    ]


def test_the_root_names_what_changed_last_first() -> None:
    conditions = (
        ConditionSet.of(NODE_CLAIM, claim())
        .false("Registered", LATER, reason="A")
        .false("Initialized", MUCH_LATER, reason="B")
    )

    assert ready(conditions)[2] == "Initialized=False, Registered=False, Launched=Unknown"


def test_on_an_object_that_is_being_deleted_every_condition_counts_as_seen() -> None:
    old = ConditionSet.of(NODE_CLAIM, claim())

    conditions = ConditionSet.of(NODE_CLAIM, claim(generation=2, deleting=True), old.conditions).true(
        "Drained", LATER
    )

    assert {each.observed_generation for each in conditions.conditions} == {2}


def test_conditions_without_a_root_stand_on_their_own() -> None:
    conditions = ConditionSet.of(CAPACITY_BUFFER, claim())

    provisioned = conditions.false("Provisioning", LATER, reason="BufferEmpty")

    assert conditions.conditions == ()
    assert [each.type for each in provisioned.conditions] == ["Provisioning"]


def test_a_condition_without_time_sorts_first() -> None:
    foreign = Condition(type="Foreign", status="True")

    conditions = ConditionSet.of(NODE_CLAIM, claim(), (foreign,)).true("Launched", LATER)

    assert conditions.conditions[0] == foreign


def test_an_object_that_was_never_created_has_conditions_without_time() -> None:
    conditions = ConditionSet.of(NODE_CLAIM, ObjectMeta(name="draft"))

    assert {each.last_transition_time for each in conditions.conditions} == {None}


def test_reservations_decide_about_a_node_class_only_with_their_gate() -> None:
    assert not EC2_NODE_CLASS.decides("CapacityReservationsReady")
    assert EC2_NODE_CLASS_WITH_RESERVATIONS.decides("CapacityReservationsReady")
    assert EC2_NODE_CLASS.decides("Ready")


def test_what_is_written_has_every_field_that_the_api_demands() -> None:
    written = ConditionSet.of(NODE_CLAIM, ObjectMeta(generation=2)).to_wire()

    assert [each["type"] for each in written] == ["Launched", "Registered", "Initialized", "Ready"]
    assert all(
        set(each) == {"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"}
        for each in written
    )
    assert all(each["status"] == "Unknown" for each in written)


def test_what_was_changed_is_put_onto_what_others_have_written_meanwhile() -> None:
    before = ConditionSet.of(NODE_CLAIM, claim()).true("Launched", LATER)
    ours = before.true("Registered", MUCH_LATER)
    theirs = before.true("Drifted", LATER, reason="Theirs").true("Initialized", LATER)

    found = ours.rebased(before.conditions, theirs)

    assert found.is_true("Launched", "Registered", "Initialized", "Drifted", "Ready")
    drifted, registered = found.get("Drifted"), found.get("Registered")
    assert drifted is not None
    assert registered is not None
    assert drifted.reason == "Theirs"
    assert registered.last_transition_time == MUCH_LATER


def test_conditions_that_nobody_wrote_yet_are_no_change_of_ours() -> None:
    ours = ConditionSet.of(NODE_CLAIM, claim()).true("Launched", LATER)
    theirs = ConditionSet.of(NODE_CLAIM, claim()).true("Registered", LATER)

    assert ours.rebased((), theirs).is_true("Launched", "Registered")
