# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import re

import pytest

from karpenter.sandbox.ec2.contract import Rendered
from karpenter.sandbox.ec2.front.schema import service
from karpenter.sandbox.ec2.front.serialise import render_item, render_result
from tests.unit.sandbox.ec2.compute.account import ZONES, Account, ids_of, only, tags


@pytest.fixture
def account() -> Account:
    return Account()


def test_an_instance_shows_all_that_a_node_autoscaler_reads(account: Account) -> None:
    instance_id = account.launch(ClientToken="token-1")

    instance = account.instance(instance_id)

    assert instance["InstanceType"] == "m5.large"
    assert instance["ImageId"] == account.image
    assert instance["Architecture"] == "x86_64"
    assert instance["LaunchTime"] == account.clock.now()
    assert instance["ClientToken"] == "token-1"
    assert instance["SubnetId"] == account.subnets[ZONES[0]]
    assert instance["VpcId"] == account.vpc
    assert instance["PrivateIpAddress"] == "10.0.0.4"
    assert instance["PrivateDnsName"] == "ip-10-0-0-4.us-west-2.compute.internal"
    assert instance["MetadataOptions"]["HttpTokens"] == "optional"
    assert instance["CapacityReservationSpecification"] == {"CapacityReservationPreference": "open"}
    assert instance["BlockDeviceMappings"][0]["DeviceName"] == "/dev/xvda"
    assert instance["NetworkInterfaces"][0]["Attachment"]["DeviceIndex"] == 0
    assert re.fullmatch("06(:[0-9a-f]{2}){5}", instance["NetworkInterfaces"][0]["MacAddress"])
    assert "SpotInstanceRequestId" not in instance
    assert "InstanceLifecycle" not in instance


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tag:pool", "a"),
        ("tag:pool", "?"),
        ("tag-key", "pool"),
        ("tag-key", "po*"),
        ("tag-value", "a"),
        ("instance-type", "c5.*"),
        ("availability-zone", ZONES[1]),
        ("instance-state-name", "pending"),
        ("instance-state-code", "0"),
        ("client-token", "mine"),
        ("instance-lifecycle", "spot"),
    ],
)
def test_filters_pick_the_one_that_fits(account: Account, name: str, value: str) -> None:
    account.launch()
    account.wait(10)
    (wanted,) = ids_of(
        account.fleet(
            account.at("c5.large", ZONES[1]),
            market="spot",
            ClientToken="mine",
            TagSpecifications=[tags("instance", pool="a")],
        )
    )

    found = [each["InstanceId"] for each in account.listed(only(name, value))]

    assert found == [wanted]


def test_filters_are_anded_and_their_values_ored(account: Account) -> None:
    ids = [account.launch(TagSpecifications=[tags("instance", pool=name, team="x")]) for name in "abc"]

    found = account.listed(only("tag:pool", "a", "b"), only("tag:team", "x"))

    assert [each["InstanceId"] for each in found] == ids[:2]
    assert account.listed(only("tag:pool", "a"), only("tag:team", "y")) == []


def test_a_backslash_takes_the_meaning_of_a_wildcard_away(account: Account) -> None:
    ids = [account.launch(TagSpecifications=[tags("instance", pool=name)]) for name in ("a*", "ab")]

    assert [each["InstanceId"] for each in account.listed(only("tag:pool", "a\\*"))] == ids[:1]
    assert len(account.listed(only("tag:pool", "a*"))) == 2


@pytest.mark.parametrize(
    ("filter_", "code"),
    [
        (only("colour", "red"), "InvalidParameterValue"),
        (only("instance-type"), "InvalidParameterValue"),
        (only("instance-type", *map(str, range(201))), "FilterLimitExceeded"),
    ],
)
def test_a_filter_that_ec2_would_not_take_is_refused(
    account: Account, filter_: dict[str, object], code: str
) -> None:
    assert account.refused("DescribeInstances", Filters=[filter_]).code == code


def test_pages_tell_every_instance_once_even_if_some_come_and_go_meanwhile(account: Account) -> None:
    ids = ids_of(account.fleet(count=23))
    first = account.call("DescribeInstances", MaxResults=10)
    account.call("TerminateInstances", InstanceIds=ids[:3])
    account.wait(4000)
    late = account.launch()

    seen = [each["InstanceId"] for row in first["Reservations"] for each in row["Instances"]]
    token = first["NextToken"]
    while token:
        page = account.call("DescribeInstances", MaxResults=10, NextToken=token)
        seen += [each["InstanceId"] for row in page["Reservations"] for each in row["Instances"]]
        token = page.get("NextToken")

    assert seen == [*ids, late]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"MaxResults": 4}, "InvalidParameterValue"),
        ({"MaxResults": 1001}, "InvalidParameterValue"),
        ({"NextToken": "no token of ours"}, "InvalidNextToken"),
        ({"NextToken": base64.urlsafe_b64encode(b"[null]").decode()}, "InvalidNextToken"),
        ({"InstanceIds": ["i-01"], "MaxResults": 10}, "InvalidParameterCombination"),
        ({"InstanceIds": ["i-01"]}, "InvalidInstanceID.NotFound"),
    ],
)
def test_a_page_that_cannot_be_is_refused(account: Account, params: dict[str, object], code: str) -> None:
    assert account.refused("DescribeInstances", **params).code == code


def test_instances_of_one_launch_share_a_reservation(account: Account) -> None:
    account.fleet(count=3)
    account.launch()

    rows = account.call("DescribeInstances")["Reservations"]

    assert [len(row["Instances"]) for row in rows] == [3, 1]


def test_rendered_listings_say_the_same_as_plain_ones() -> None:
    plain, rendered = Account(), Account(rendered=True)
    for account in (plain, rendered):
        ids = ids_of(account.fleet(count=3, market="spot", TagSpecifications=[tags("instance", a='<"&>')]))
        account.wait(7)
        account.call("TerminateInstances", InstanceIds=ids[:1])
        account.call("CreateTags", Resources=ids[1:2], Tags=[{"Key": "b", "Value": "c"}])

        account.wait(1)

    for _ in range(2):
        for row, other in zip(
            plain.call("DescribeInstances")["Reservations"],
            rendered.call("DescribeInstances")["Reservations"],
            strict=True,
        ):
            for expected, item in zip(row["Instances"], other["Instances"], strict=True):
                assert isinstance(item, Rendered)
                assert _parts(item.xml) == _parts(render_item("Instance", expected))
        plain.wait(60)
        rendered.wait(60)


def test_a_listing_renders_each_instance_once_whatever_is_asked_again() -> None:
    account = Account(rendered=True)
    spec = [tags("instance", **{"karpenter.sh/nodepool": "default", "eks:eks-cluster-name": "sandbox"})]
    account.fleet(*[account.at("m5.large", zone) for zone in ZONES], count=300, TagSpecifications=spec)
    account.wait(10)
    filters = [
        only("tag-key", "karpenter.sh/nodepool"),
        only("tag:eks:eks-cluster-name", "sandbox"),
        only("instance-state-name", "pending", "running"),
    ]
    operation = service("ec2").operations["DescribeInstances"]

    texts = {
        render_result(service("ec2"), operation, account.ec2.call("DescribeInstances", Filters=filters))
        for _ in range(2)
    }

    assert [text.count("<instanceId>") for text in texts] == [300]


def test_console_output_tells_why_a_node_did_not_come_up(account: Account) -> None:
    account.ec2.apply({"failures": {"kind": "never-joins", "instanceType": "m5.*"}})
    instance_id = account.launch()
    account.wait(10)

    output = account.call("GetConsoleOutput", InstanceId=instance_id)

    text = base64.b64decode(output["Output"]).decode()
    assert "cloud-init" in text
    assert "unable to register node" in text
    assert account.refused("GetConsoleOutput", InstanceId="i-01").code == "InvalidInstanceID.NotFound"


def test_console_output_of_a_dead_instance_names_the_reason(account: Account) -> None:
    account.ec2.apply({"failures": {"kind": "dies"}})
    instance_id = account.launch()
    account.wait(10)

    text = base64.b64decode(account.call("GetConsoleOutput", InstanceId=instance_id)["Output"]).decode()

    assert "Client.InternalError" in text


def _parts(xml: str) -> list[str]:
    return sorted(re.findall(r"<(\w+)>([^<]*)</\1>", xml))
