# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.cloud.aws.interruption import (
    Ignored,
    IgnoredReason,
    Interruption,
    InterruptionKind,
    parse_message,
)
from tests.unit.cloud.aws.interruption.bodies import (
    HEALTH,
    REBALANCE,
    RESERVED,
    SPOT,
    STATE,
    event,
    health,
    spot,
)

ONE = {"instance-id": "i-0a1"}


def parsed(body: bytes) -> Interruption | Ignored:
    return parse_message(body, account="111111111111", region="us-west-2")


def ignored(body: bytes) -> IgnoredReason:
    read = parsed(body)
    assert isinstance(read, Ignored)
    assert len(read.detail) <= 120
    return read.reason


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (spot(), InterruptionKind.SPOT_INTERRUPTED),
        (event(REBALANCE, ONE), InterruptionKind.REBALANCE_RECOMMENDATION),
        (event(STATE, {**ONE, "state": "stopping"}), InterruptionKind.INSTANCE_STOPPED),
        (event(STATE, {**ONE, "state": "stopped"}), InterruptionKind.INSTANCE_STOPPED),
        (event(STATE, {**ONE, "state": "shutting-down"}), InterruptionKind.INSTANCE_TERMINATED),
        (event(STATE, {**ONE, "state": "terminated"}), InterruptionKind.INSTANCE_TERMINATED),
        (event(RESERVED, ONE), InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED),
        (health("i-0a1"), InterruptionKind.SCHEDULED_CHANGE),
    ],
)
def test_every_kind_of_the_table_is_read(body: bytes, kind: InterruptionKind) -> None:
    read = parsed(body)

    assert isinstance(read, Interruption)
    assert read.kind is kind
    assert read.instance_ids == ("i-0a1",)
    assert read.at == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert read.message_id == "event-1"


def test_a_reservation_that_is_taken_back_is_named() -> None:
    read = parsed(event(RESERVED, {**ONE, "capacity-reservation-id": "cr-1"}))

    assert isinstance(read, Interruption)
    assert read.reservation_id == "cr-1"


def test_a_health_event_names_each_instance_once_and_volumes_are_left_out() -> None:
    arn = "arn:aws:ec2:us-west-2:111111111111:instance/i-0a2"
    read = parsed(health("i-0a1", "vol-1", arn, "i-0a1", {"other": 1}, {"entityValue": 5}))

    assert isinstance(read, Interruption)
    assert read.instance_ids == ("i-0a1", "i-0a2")
    assert read.detail == "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", IgnoredReason.NOT_JSON),
        (b"hello", IgnoredReason.NOT_JSON),
        (b"\xff\xfe\x00", IgnoredReason.NOT_JSON),
        (b"[" * 100_000, IgnoredReason.NOT_JSON),
        (b"[]", IgnoredReason.NOT_AN_EVENT),
        (b"null", IgnoredReason.NOT_AN_EVENT),
        (b"{}", IgnoredReason.NOT_AN_EVENT),
        (b'{"source": "aws.ec2"}', IgnoredReason.NOT_AN_EVENT),
        (spot(version="1"), IgnoredReason.UNKNOWN_VERSION),
        (spot(version=0), IgnoredReason.UNKNOWN_VERSION),
        (event("EC2 AMI State Change", ONE), IgnoredReason.UNKNOWN_KIND),
        (spot(source="aws.health"), IgnoredReason.UNKNOWN_KIND),
        (spot(account="222222222222"), IgnoredReason.FOREIGN_ACCOUNT),
        (spot(account=""), IgnoredReason.NO_ACCOUNT),
        (spot(account=None), IgnoredReason.NO_ACCOUNT),
        (spot(account=111111111111), IgnoredReason.NO_ACCOUNT),
        (spot(region=""), IgnoredReason.FOREIGN_REGION),
        (spot(region=None), IgnoredReason.FOREIGN_REGION),
        (spot(region="eu-west-1"), IgnoredReason.FOREIGN_REGION),
        (event(STATE, {**ONE, "state": "pending"}), IgnoredReason.NOTHING_TO_DO),
        (event(STATE, ONE), IgnoredReason.NOTHING_TO_DO),
        (health("i-0a1", service="RDS"), IgnoredReason.NOTHING_TO_DO),
        (health("i-0a1", category="issue"), IgnoredReason.NOTHING_TO_DO),
        (health(), IgnoredReason.NO_INSTANCE),
        (
            event(
                HEALTH, {"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": "x"}
            ),
            "no_instance",
        ),
        (event(SPOT, "text"), IgnoredReason.NO_INSTANCE),
        (event(SPOT, {"instance-id": ["i-0a1"]}), IgnoredReason.NO_INSTANCE),
        (spot("i-0a1; rm -rf /"), IgnoredReason.NO_INSTANCE),
        (event(RESERVED, {}), IgnoredReason.NO_INSTANCE),
        (b" " * (1024 * 1024 + 1), IgnoredReason.TOO_LARGE),
    ],
)
def test_what_means_nothing_to_us_is_a_value_with_its_reason(body: bytes, reason: IgnoredReason) -> None:
    assert ignored(body) == reason


def test_without_an_account_of_ours_none_is_taken() -> None:
    for account in ("", "111111111111"):
        assert isinstance(parse_message(spot(account=account), account="", region="us-west-2"), Ignored)


def test_only_a_message_that_our_account_cannot_have_sent_is_a_forgery() -> None:
    forgeries = {reason for reason in IgnoredReason if reason.is_forgery}

    assert forgeries == {IgnoredReason.NO_ACCOUNT, IgnoredReason.FOREIGN_ACCOUNT}


@pytest.mark.parametrize("time", [None, 5, "yesterday", "0001-01-01T00:00:00+23:59"])
def test_a_time_that_cannot_be_read_costs_nothing_else(time: Any) -> None:
    read = parsed(spot(time=time))

    assert isinstance(read, Interruption)
    assert read.at is None


def test_a_time_without_its_zone_is_utc() -> None:
    read = parsed(spot(time="2026-01-01T00:00:10"))

    assert isinstance(read, Interruption)
    assert read.at == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)


def test_only_a_recommendation_leaves_the_node_and_only_dead_checks_force() -> None:
    leaves = [kind for kind in InterruptionKind if not kind.ends_the_node]
    forces = [kind for kind in InterruptionKind if kind.is_forceful]

    assert leaves == [InterruptionKind.REBALANCE_RECOMMENDATION]
    assert forces == [InterruptionKind.INSTANCE_STATUS, InterruptionKind.SYSTEM_STATUS]
