# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from random import Random
from typing import Any

import pytest

from karpenter.sandbox.ec2.behaviour.faults import Fault, Faults


def some(*faults: Fault, seed: int = 1) -> Faults:
    made = Faults(Random(seed))  # noqa: S311 - dice that repeat
    for fault in faults:
        made.add(fault)
    return made


def test_a_fault_strikes_the_calls_that_it_names_and_no_other() -> None:
    faults = some(Fault(service="ec2", operation="Create*", code="InternalError"))

    assert faults.strike("ec2", "CreateFleet", {}).error is not None
    assert faults.strike("ec2", "DescribeInstances", {}).error is None
    assert faults.strike("iam", "CreateRole", {}).error is None


def test_a_fault_happens_as_often_as_it_says() -> None:
    faults = some(Fault(code="InternalError", times=2))

    struck = [faults.strike("ec2", "CreateFleet", {}).error is not None for _ in range(4)]

    assert struck == [True, True, False, False]
    assert faults.active == []
    assert faults.struck == 2


def test_chance_repeats_with_the_seed() -> None:
    def run(seed: int) -> list[bool]:
        faults = some(Fault(code="InternalError", probability=0.5), seed=seed)
        return [faults.strike("ec2", "CreateFleet", {}).error is not None for _ in range(50)]

    assert run(7) == run(7)
    assert 5 < sum(run(7)) < 45


def test_a_fault_may_look_for_a_text_in_the_parameters() -> None:
    faults = some(Fault(code="InternalError", containing="i-42"))

    assert faults.strike("ec2", "TerminateInstances", {"InstanceIds": ["i-42"]}).error is not None
    assert faults.strike("ec2", "TerminateInstances", {"InstanceIds": ["i-43"]}).error is None


def test_error_latency_and_loss_can_come_together() -> None:
    faults = some(
        Fault(code="InternalError"), Fault(latency_s=(1.0, 2.0)), Fault(lost="reply"), Fault(code="Second")
    )

    struck = faults.strike("ec2", "CreateFleet", {})

    assert struck.error is not None
    assert struck.error.code == "InternalError"
    assert 1 <= struck.latency_s <= 2
    assert struck.lost == "reply"


def test_known_codes_have_their_message_and_status() -> None:
    error = Fault(code="RequestLimitExceeded").error()
    own = Fault(code="Odd", message="because", status=418).error()

    assert (error.message, error.status) == ("Request limit exceeded.", 503)
    assert (own.code, own.message, own.status) == ("Odd", "because", 418)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"code": "X", "probability": 0.0},
        {"code": "X", "probability": 1.5},
        {"code": "X", "times": 0},
        {"code": "X", "status": 200},
        {"latency_s": -1.0},
        {"latency_s": (5.0, 1.0)},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Fault(**fields)


def test_faults_can_be_taken_back() -> None:
    faults = some(Fault(code="InternalError"))

    faults.clear()

    assert faults.strike("ec2", "CreateFleet", {}).error is None
