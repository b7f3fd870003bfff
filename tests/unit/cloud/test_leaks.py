# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.leaks import Owner, leaks
from karpenter.cloud.protocol import Machine
from tests.unit.cloud.aws.builders import claim

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def machine(
    name: str = "i-1", *, age_s: float | None = 1000, state: str = "running", uid: str = ""
) -> Machine:
    made = None if age_s is None else NOW - timedelta(seconds=age_s)
    return Machine(f"aws:///us-west-2a/{name}", state=state, created_at=made, claim_uid=uid)


def waiting(uid: str, *, age_s: float | None = 2000) -> NodeClaim:
    made = claim(uid)
    stamp = None if age_s is None else NOW - timedelta(seconds=age_s)
    return NodeClaim(metadata=replace(made.metadata, creation_timestamp=stamp), spec=made.spec)


def having(uid: str, name: str) -> NodeClaim:
    return claim(uid, provider_id=f"aws:///us-west-2a/{name}")


def by_tag(each: Machine) -> frozenset[str]:
    return frozenset(filter(None, [each.claim_uid]))


def found(machines: list[Machine], claims: list[NodeClaim]) -> list[str]:
    return [
        leak.machine.provider_id[-3:] for leak in leaks(machines, tuple(map(Owner.of, claims)), NOW, by_tag)
    ]


def test_a_machine_that_a_claim_names_is_no_leak() -> None:
    assert found([machine()], [having("uid-1", "i-1")]) == []


@pytest.mark.parametrize(("age_s", "leaked"), [(29.9, []), (30.0, ["i-1"])])
def test_a_machine_whose_claim_is_gone_is_ended_after_thirty_seconds(age_s: float, leaked: list[str]) -> None:
    assert found([machine(age_s=age_s, uid="gone")], []) == leaked


@pytest.mark.parametrize(("age_s", "leaked"), [(59.9, []), (60.0, ["i-1"])])
def test_a_machine_that_nobody_knows_waits_as_long_as_lists_may_lag(age_s: float, leaked: list[str]) -> None:
    assert found([machine(age_s=age_s)], []) == leaked


@pytest.mark.parametrize(("age_s", "leaked"), [(599.0, []), (600.0, ["i-1"])])
def test_a_machine_that_nobody_knows_may_belong_to_a_claim_that_still_waits(
    age_s: float, leaked: list[str]
) -> None:
    assert found([machine(age_s=age_s)], [waiting("uid-9")]) == leaked
    assert found([machine(age_s=age_s)], [waiting("uid-9", age_s=None)]) == leaked


def test_a_claim_that_is_younger_than_the_machine_cannot_be_its_owner() -> None:
    assert found([machine(age_s=100)], [waiting("uid-9", age_s=50)]) == ["i-1"]


def test_a_machine_of_a_claim_that_has_none_yet_is_left_alone_however_old() -> None:
    assert found([machine(uid="uid-1", age_s=100_000)], [waiting("uid-1")]) == []


def test_the_second_machine_of_a_claim_is_a_leak_and_says_so() -> None:
    (leak,) = leaks([machine("i-2", uid="uid-1")], [Owner.of(having("uid-1", "i-1"))], NOW, by_tag)

    assert leak.why == "claim claim-uid-1 has another machine, aws:///us-west-2a/i-1"


@pytest.mark.parametrize("odd", [machine(state="shutting-down"), machine(age_s=None)])
def test_what_is_going_already_or_of_unknown_age_is_left_alone(odd: Machine) -> None:
    assert found([odd], []) == []


def test_stopped_machines_are_leaks_too() -> None:
    assert found([machine(state="stopped")], []) == ["i-1"]
