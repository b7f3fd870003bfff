# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from karpenter.cloud.aws.api import CallRecord
from karpenter.kit.clock import FakeClock
from karpenter.kube import Recorder
from karpenter.observe import get_log
from karpenter.operator.awshealth import AwsHealth
from karpenter.state import STORED_NODE_CLASSES
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import stored_class


class Scene:
    """A cluster with one node class, and what is told of AWS."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        client, cluster = paper_cluster(self.clock)
        client.store(STORED_NODE_CLASSES, stored_class("default"))
        self.recorder = Recorder(client, clock=self.clock)
        self.health = AwsHealth(cluster, self.recorder, self.clock, get_log("aws"))

    def call(self, code: str = "", *, seconds: float = 0.1, operation: str = "DescribeInstances") -> None:
        service = "sqs" if operation == "ReceiveMessage" else "ec2"
        self.health(CallRecord(service, operation, seconds, code, 1))

    @property
    def events(self) -> list[tuple[str, str, str]]:
        return [(each.subject.name, each.reason, each.message) for each in self.recorder._queue]


def test_a_call_that_keeps_failing_is_logged_at_once_then_every_minute_and_told_on_the_classes() -> None:
    scene = Scene()
    lines: list[Any]

    with capture_logs() as lines:
        scene.call("InternalError")
        early = list(scene.events)
        scene.call("InternalError")
        scene.clock.tick(61)
        scene.call("Unreachable")
        scene.call()
        scene.call()

    assert early == []
    ((name, reason, words),) = scene.events
    assert (name, reason) == ("default", "AWSCallFailing")
    assert words.startswith("ec2 DescribeInstances fails: InternalError; calls are retried")
    assert [each["event"] for each in lines] == [
        "AWS is in trouble",
        "AWS is in trouble",
        "AWS call works again",
    ]
    assert (lines[1]["requests"], lines[1]["for_s"]) == (3, 61)
    assert lines[2]["after_s"] == 61


def test_a_call_that_is_answered_late_is_told_unless_it_waits_on_purpose() -> None:
    scene = Scene()

    for _ in range(2):
        scene.call(seconds=30, operation="CreateFleet")
        scene.call(seconds=20, operation="ReceiveMessage")

    ((_, reason, words),) = scene.events
    assert reason == "AWSCallSlow"
    assert words.startswith("ec2 CreateFleet is answered after 30 s")


def test_refusals_and_throttles_are_left_to_those_who_called() -> None:
    scene = Scene()

    with capture_logs() as lines:
        for code in ("UnauthorizedOperation", "RequestLimitExceeded", "InvalidInstanceID.NotFound") * 2:
            scene.call(code)

    assert lines == []
    assert scene.events == []
