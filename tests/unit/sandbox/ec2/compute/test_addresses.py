# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sandbox.ec2.compute.account import ZONES, Account

TRACKING = {"TcpEstablishedTimeout": 300, "UdpStreamTimeout": 120, "UdpTimeout": 45}


@pytest.fixture
def account() -> Account:
    return Account()


def interfaces(account: Account, *specs: dict[str, Any], **options: Any) -> str:
    """Launches an instance whose interfaces are those of a template, and gives its id."""
    account.add_template(
        "interfaces",
        NetworkInterfaces=[{"DeviceIndex": 0, "Groups": [account.group], **each} for each in specs],
    )
    return account.launch(template="interfaces", **options)


def only_interface(account: Account, instance: str) -> Any:
    (found,) = account.call(
        "DescribeNetworkInterfaces",
        Filters=[{"Name": "attachment.instance-id", "Values": [instance]}],
    )["NetworkInterfaces"]
    return found


def test_an_instance_has_no_public_address_unless_it_or_its_subnet_asks(account: Account) -> None:
    plain = account.instance(account.launch())

    assert "PublicIpAddress" not in plain
    assert plain["PublicDnsName"] == ""


def test_an_interface_that_asks_gets_a_public_address_in_any_subnet(account: Account) -> None:
    instance = interfaces(account, {"AssociatePublicIpAddress": True})

    shown = account.instance(instance)
    address = shown["PublicIpAddress"]
    assert shown["PublicDnsName"] == f"ec2-{address.replace('.', '-')}.us-west-2.compute.amazonaws.com"
    assert shown["NetworkInterfaces"][0]["Association"]["PublicIp"] == address
    assert only_interface(account, instance)["Association"]["IpOwnerId"] == "amazon"


def test_a_subnet_that_maps_public_addresses_gives_one_unless_the_launch_says_no(account: Account) -> None:
    account.call(
        "ModifySubnetAttribute", SubnetId=account.subnets[ZONES[0]], MapPublicIpOnLaunch={"Value": True}
    )

    assert account.instance(account.launch())["PublicIpAddress"]
    assert "PublicIpAddress" not in account.instance(interfaces(account, {"AssociatePublicIpAddress": False}))


def test_a_stopped_instance_loses_its_public_address(account: Account) -> None:
    instance = interfaces(account, {"AssociatePublicIpAddress": True})
    account.wait(5)

    account.call("StopInstances", InstanceIds=[instance])

    assert "PublicIpAddress" not in account.instance(instance)


def test_interfaces_show_the_connection_tracking_that_the_launch_asked_for_and_nothing_else(
    account: Account,
) -> None:
    tracked = interfaces(account, {"ConnectionTrackingSpecification": TRACKING})

    assert only_interface(account, tracked)["ConnectionTrackingConfiguration"] == TRACKING
    assert "ConnectionTrackingConfiguration" not in only_interface(account, account.launch())


def test_a_subnet_decides_whether_hosts_are_named_after_their_address_or_their_id(account: Account) -> None:
    subnet = account.subnets[ZONES[0]]
    before = account.launch()
    account.call(
        "ModifySubnetAttribute", SubnetId=subnet, EnableResourceNameDnsARecordOnLaunch={"Value": True}
    )
    account.call("ModifySubnetAttribute", SubnetId=subnet, PrivateDnsHostnameTypeOnLaunch="resource-name")

    named = account.launch()

    shown = account.instance(named)
    assert shown["PrivateDnsName"] == f"{named}.us-west-2.compute.internal"
    assert shown["PrivateDnsNameOptions"]["EnableResourceNameDnsARecord"] is True
    assert account.instance(before)["PrivateDnsName"].startswith("ip-10-0-")
    assert {each.id: each.host_name for each in account.ec2.machines("pending")} == {
        before: account.instance(before)["PrivateDnsName"],
        named: shown["PrivateDnsName"],
    }


def test_ipv6_addresses_are_of_the_subnets_block_and_one_may_be_primary(account: Account) -> None:
    account.ec2.subnets[account.subnets[ZONES[0]]].ipv6_cidr = "2600:1f14:1:1::/64"

    instance = interfaces(account, {"Ipv6AddressCount": 1, "PrimaryIpv6": True, "Ipv6PrefixCount": 1})

    shown = account.instance(instance)
    (interface,) = shown["NetworkInterfaces"]
    (address,) = interface["Ipv6Addresses"]
    assert address["Ipv6Address"].startswith("2600:1f14:1:1:")
    assert address["IsPrimaryIpv6"] is True
    assert shown["Ipv6Address"] == address["Ipv6Address"]
    assert interface["Ipv6Prefixes"][0]["Ipv6Prefix"].endswith("/80")
    assert only_interface(account, instance)["Ipv6Addresses"] == [address]


def test_a_subnet_that_assigns_ipv6_gives_each_interface_an_address_of_its_own(account: Account) -> None:
    subnet = account.subnets[ZONES[0]]
    account.ec2.subnets[subnet].ipv6_cidr = "2600:1f14:1:1::/64"
    account.call("ModifySubnetAttribute", SubnetId=subnet, AssignIpv6AddressOnCreation={"Value": True})

    first, second = (account.instance(account.launch())["Ipv6Address"] for _ in range(2))

    assert first != second
