# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.sandbox.ec2.behaviour.actions import ACTIONS, ActionError, perform
from karpenter.sandbox.ec2.clock import ClockError
from tests.unit.sandbox.ec2.calling import START, a_world, ask

AL2023 = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"


def test_the_clock_is_moved_set_and_sped_up() -> None:
    world = a_world()

    assert perform(world, "clock", {"advanceSeconds": 60})["now"] > START
    perform(world, "clock", {"set": "2027-01-01T00:00:00Z"})
    perform(world, "clock", {"speed": 5})

    assert world.clock.now().year == 2027
    assert world.clock.speed == 5


@pytest.mark.parametrize(
    ("name", "document", "message"),
    [
        ("clock", {}, "exactly one of advanceSeconds, set, speed"),
        ("clock", {"advanceSeconds": -1}, "advanceSeconds must not be negative"),
        ("clock", {"set": "noon"}, r"\$\.set"),
        ("fault", {"code": "X", "status": "bad"}, r"\$\.status"),
        ("fly", {}, "there is no action 'fly'"),
        ("zonalShift", {"zone": "moon-1a"}, "no zone 'moon-1a'"),
        ("cluster", {"cluster": "other"}, "no cluster 'other'"),
        ("message", {"queue": "other", "body": "x"}, "no queue 'other'"),
        ("release", {"versions": ["next"]}, "1.33"),
        ("release", {"name": "new"}, "v20261101"),
        ("throttling", {"reads": {"perSecond": 0, "burst": 1}}, "perSecond"),
        ("capacity", {"count": "many"}, r"capacity\[0\]\.count"),
        ("interrupt", {"instanceIds": ["i-none"]}, "there is no instance i-none"),
    ],
)
def test_bad_documents_are_refused_by_field(name: str, document: dict[str, Any], message: str) -> None:
    with pytest.raises(ActionError, match=message):
        perform(a_world(), name, document)


def test_a_time_in_the_past_is_refused() -> None:
    with pytest.raises(ClockError, match="backwards"):
        perform(a_world(), "clock", {"set": "2020-01-01T00:00:00Z"})


def test_a_zonal_shift_is_seen_by_who_asks_and_ends() -> None:
    world = a_world()
    arn = world.eks.by_name["sandbox"].arn

    perform(world, "zonalShift", {"zone": "us-west-2a", "minutes": 10})
    shown = ask(world, "arc-zonal-shift", "GetManagedResource", resourceIdentifier=arn)
    perform(world, "zonalShift", {"zone": "us-west-2a", "minutes": 0})
    after = ask(world, "arc-zonal-shift", "GetManagedResource", resourceIdentifier=arn)

    assert [shift["awayFrom"] for shift in shown["zonalShifts"]] == [world.zones["us-west-2a"]]
    assert shown["appliedWeights"][world.zones["us-west-2a"]] == 0
    assert after["zonalShifts"] == []


def test_a_release_moves_the_parameters_to_new_images() -> None:
    world = a_world()
    before = ask(world, "ssm", "GetParameter", Name=AL2023)["Parameter"]

    ids = perform(world, "release", {"name": "v20260202"})["images"]

    after = ask(world, "ssm", "GetParameter", Name=AL2023)["Parameter"]
    assert after["Value"] in ids
    assert after["Value"] != before["Value"]
    assert after["Version"] == before["Version"] + 1
    assert before["Value"] in world.ec2.images


def test_what_was_denied_can_be_allowed_again() -> None:
    world = a_world()

    perform(world, "deny", {"service": "ec2", "operation": "*", "accessKey": "k"})
    perform(world, "credentials", {"accept": ["k"]})
    perform(world, "throttling", {"enabled": False})

    assert [each.access_key for each in world.access.denials] == ["k"]
    assert world.access.credentials.accept == ["k"]
    assert not world.throttle.limits.enabled
    perform(world, "allowAll", None)
    assert world.access.denials == []


def test_messages_events_and_parameters_can_be_planted() -> None:
    world = a_world()

    perform(world, "message", {"body": "{garbage", "copies": 3})
    perform(world, "event", {"source": "aws.health", "detailType": "AWS Health Event", "copies": 2})
    perform(world, "ssmParameter", {"name": "/aws/service/mine", "value": "ami-1"})
    perform(world, "cluster", {"version": "1.34", "endpoint": "https://x"})

    assert len(world.sqs.by_name["sandbox"].messages) == 5
    assert ask(world, "ssm", "GetParameter", Name="/aws/service/mine")["Parameter"]["Value"] == "ami-1"
    assert ask(world, "eks", "DescribeCluster", name="sandbox")["cluster"]["version"] == "1.34"


def test_every_action_says_what_it_is_for() -> None:
    assert all(verb.about for verb in ACTIONS.values())
