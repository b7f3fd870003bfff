# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest

from karpenter.sandbox.ec2.bus import checked_pattern, matches
from karpenter.sandbox.ec2.contract import ModelError
from tests.unit.sandbox.ec2.calling import a_world

EVENT = {"source": "aws.ec2", "detail-type": "X", "detail": {"state": "stopped", "n": 3, "many": ["a", "b"]}}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"source": ["aws.ec2"]}, True),
        ({"source": ["aws.health", "aws.ec2"]}, True),
        ({"source": ["aws.health"]}, False),
        ({"source": ["aws.ec2"], "detail": {"state": ["stopped"]}}, True),
        ({"source": ["aws.ec2"], "detail": {"state": ["running"]}}, False),
        ({"detail": {"state": {"deeper": ["x"]}}}, False),
        ({"detail": {"many": ["b"]}}, True),
        ({"detail": {"state": [{"prefix": "sto"}]}}, True),
        ({"detail": {"state": [{"suffix": "sto"}]}}, False),
        ({"detail": {"state": [{"suffix": "ped"}]}}, True),
        ({"detail": {"n": [{"prefix": "3"}]}}, False),
        ({"detail": {"state": [{"anything-but": ["running"]}]}}, True),
        ({"detail": {"state": [{"anything-but": "stopped"}]}}, False),
        ({"detail": {"state": [{"equals-ignore-case": "STOPPED"}]}}, True),
        ({"detail": {"state": [{"exists": True}]}}, True),
        ({"detail": {"absent": [{"exists": False}]}}, True),
        ({"detail": {"absent": [{"prefix": "a"}]}}, False),
    ],
)
def test_a_pattern_matches_as_eventbridge_says(pattern: dict[str, Any], expected: bool) -> None:  # noqa: FBT001
    assert matches(checked_pattern(json.dumps(pattern)), EVENT) is expected


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"source": "aws.ec2"}', '{"source": []}', '{"a": [{"numeric": [1]}]}']
)
def test_a_pattern_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="Event pattern is not valid") as refused:
        checked_pattern(text)
    assert refused.value.code == "InvalidEventPatternException"


def test_an_event_reaches_the_queue_in_the_envelope_of_eventbridge() -> None:
    world = a_world()

    world.bus.publish("aws.ec2", "EC2 Instance Rebalance Recommendation", {"instance-id": "i-1"}, ["arn:i-1"])

    (message,) = world.sqs.by_name["sandbox"].receive(10, world.clock.now(), 30)
    event = json.loads(message.body)
    assert len(event.pop("id")) == 36
    assert event == {
        "version": "0",
        "detail-type": "EC2 Instance Rebalance Recommendation",
        "source": "aws.ec2",
        "account": "123456789012",
        "time": "2026-01-01T00:00:00Z",
        "region": "us-west-2",
        "resources": ["arn:i-1"],
        "detail": {"instance-id": "i-1"},
    }


def test_an_event_that_no_rule_wants_goes_nowhere() -> None:
    world = a_world()

    world.bus.publish("aws.s3", "Object Created", {})

    assert world.sqs.by_name["sandbox"].receive(10, world.clock.now(), 30) == []


def test_an_event_for_a_queue_that_is_gone_is_counted_and_lost() -> None:
    world = a_world()
    del world.sqs.by_name["sandbox"]

    world.bus.publish("aws.health", "AWS Health Event", {})

    assert world.sqs.undelivered == 1
