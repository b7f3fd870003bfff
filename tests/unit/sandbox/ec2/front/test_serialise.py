# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from karpenter.sandbox.ec2.contract import Rendered
from karpenter.sandbox.ec2.front.schema import service
from karpenter.sandbox.ec2.front.serialise import escape, iso_milliseconds, render_item, render_result


def test_a_rendered_item_stands_in_a_list_as_it_is() -> None:
    ec2 = service("ec2")
    item = render_item("Instance", {"InstanceId": "i-1"})

    whole = render_result(
        ec2, ec2.operations["DescribeInstances"], {"Reservations": Rendered("<item>all</item>")}
    )
    mixed = render_result(
        ec2,
        ec2.operations["DescribeInstances"],
        {"Reservations": [{"ReservationId": "r-1", "Instances": [Rendered(item), {"InstanceId": "i-2"}]}]},
    )

    assert item == "<item><instanceId>i-1</instanceId></item>"
    assert whole == "<reservationSet><item>all</item></reservationSet>"
    assert mixed == (
        "<reservationSet><item><reservationId>r-1</reservationId><instancesSet><item><instanceId>i-1</instanceId></item>"
        "<item><instanceId>i-2</instanceId></item></instancesSet></item></reservationSet>"
    )


def test_nothing_is_said_of_what_is_none_and_empty_lists_are_closed() -> None:
    assert render_item("Instance", {"InstanceId": None, "Tags": []}) == "<item><tagSet/></item>"


def test_lists_whose_members_have_no_name_in_the_description_are_written_as_sdks_expect() -> None:
    device = {"Accelerators": [{"Name": "a"}]}

    written = render_item("InstanceTypeInfo", {"InferenceAcceleratorInfo": device})

    inner = "<accelerators><member><name>a</name></member></accelerators>"
    assert written == f"<item><inferenceAcceleratorInfo>{inner}</inferenceAcceleratorInfo></item>"


def test_a_field_that_the_shape_does_not_have_is_a_defect() -> None:
    with pytest.raises(KeyError, match="Colour"):
        render_item("Instance", {"Colour": "red"})


def test_text_is_escaped_and_what_xml_cannot_hold_is_replaced() -> None:
    assert escape("plain") == "plain"
    assert escape('<a & "b">\r\x00') == "&lt;a &amp; &quot;b&quot;&gt;&#xD;\ufffd"


def test_times_are_written_in_utc_with_milliseconds() -> None:
    moment = datetime(2026, 1, 1, 2, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))

    assert iso_milliseconds(moment) == "2026-01-01T00:00:00.123Z"
    assert iso_milliseconds(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00.000Z"
