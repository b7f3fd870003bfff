# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sandbox.ec2.compute.account import ZONES, Account, codes_of, ids_of, only, tags


@pytest.fixture
def account() -> Account:
    return Account()


def test_subnets_are_found_by_tag_key_id_and_network(account: Account) -> None:
    everything = list(account.subnets.values())

    for filters in (
        [only("tag:karpenter.sh/discovery", "sandbox")],
        [only("tag-key", "karpenter.sh/discovery")],
        [only("subnet-id", *everything)],
        [only("vpc-id", account.vpc), only("state", "available")],
    ):
        found = account.call("DescribeSubnets", Filters=filters)["Subnets"]
        assert [each["SubnetId"] for each in found] == everything
    assert (
        account.call("DescribeSubnets", Filters=[only("tag:karpenter.sh/discovery", "other")])["Subnets"]
        == []
    )
    (one,) = account.call("DescribeSubnets", Filters=[only("availability-zone", ZONES[1])])["Subnets"]
    assert one["AvailabilityZoneId"] == account.ec2.zones()[ZONES[1]]


def test_free_addresses_fall_and_rise_with_instances(account: Account) -> None:
    def free() -> int:
        (subnet,) = account.call("DescribeSubnets", SubnetIds=[account.subnets[ZONES[0]]])["Subnets"]
        return int(subnet["AvailableIpAddressCount"])

    before = free()
    instance_id = account.launch()

    assert before == 2**14 - 5
    assert free() == before - 1
    account.call("TerminateInstances", InstanceIds=[instance_id])
    account.wait(60)
    assert free() == before


@pytest.mark.parametrize(
    ("action", "params", "code"),
    [
        ("DescribeSubnets", {"SubnetIds": ["subnet-01"]}, "InvalidSubnetID.NotFound"),
        ("DescribeVpcs", {"VpcIds": ["vpc-01"]}, "InvalidVpcID.NotFound"),
        ("DescribeSecurityGroups", {"GroupIds": ["sg-01"]}, "InvalidGroup.NotFound"),
        ("DescribeSecurityGroups", {"GroupNames": ["nobody"]}, "InvalidGroup.NotFound"),
        ("CreateVpc", {"CidrBlock": "10.0"}, "InvalidParameterValue"),
        ("CreateSubnet", {"VpcId": "vpc-01", "CidrBlock": "10.0.0.0/24"}, "InvalidVpcID.NotFound"),
        ("CreateSecurityGroup", {"Description": "d"}, "MissingParameter"),
        ("DeleteVpc", {"VpcId": "vpc-01"}, "InvalidVpcID.NotFound"),
        ("DescribeAvailabilityZones", {"ZoneNames": ["mars-1a"]}, "InvalidParameterValue"),
        ("DescribeRegions", {"RegionNames": ["mars-1"]}, "InvalidParameterValue"),
    ],
)
def test_what_is_not_there_or_not_right_is_refused(
    account: Account, action: str, params: dict[str, Any], code: str
) -> None:
    assert account.refused(action, **params).code == code


@pytest.mark.parametrize(
    ("cidr", "zone", "code"),
    [
        ("10.0.0.0/24", ZONES[0], "InvalidSubnet.Conflict"),
        ("10.0.192.0/30", ZONES[0], "InvalidSubnet.Range"),
        ("10.9.0.0/24", ZONES[0], "InvalidSubnet.Range"),
        ("10.0.192.0/24", "mars-1a", "InvalidParameterValue"),
        ("banana", ZONES[0], "InvalidParameterValue"),
    ],
)
def test_a_subnet_that_does_not_fit_is_refused(account: Account, cidr: str, zone: str, code: str) -> None:
    refused = account.refused("CreateSubnet", VpcId=account.vpc, CidrBlock=cidr, AvailabilityZone=zone)

    assert refused.code == code


def test_a_subnet_may_name_its_zone_by_id_and_have_ipv6(account: Account) -> None:
    subnet = account.call(
        "CreateSubnet",
        VpcId=account.vpc,
        CidrBlock="10.0.192.0/24",
        AvailabilityZoneId=account.ec2.zones()[ZONES[2]],
        Ipv6CidrBlock="2600::/64",
    )["Subnet"]

    assert subnet["AvailabilityZone"] == ZONES[2]
    assert subnet["Ipv6CidrBlockAssociationSet"][0]["Ipv6CidrBlock"] == "2600::/64"
    refused = account.refused(
        "CreateSubnet", VpcId=account.vpc, CidrBlock="10.0.193.0/24", AvailabilityZoneId="usw2-az99"
    )
    assert refused.code == "InvalidParameterValue"


def test_groups_are_found_by_name_and_names_are_unique_in_a_network(account: Account) -> None:
    assert [
        each["GroupId"]
        for each in account.call("DescribeSecurityGroups", GroupNames=["nodes"])["SecurityGroups"]
    ] == [account.group]
    (by_filter,) = account.call("DescribeSecurityGroups", Filters=[only("group-name", "no*")])[
        "SecurityGroups"
    ]
    assert by_filter["GroupId"] == account.group
    refused = account.refused("CreateSecurityGroup", GroupName="nodes", Description="d", VpcId=account.vpc)
    assert refused.code == "InvalidGroup.Duplicate"


def test_what_is_in_use_cannot_be_deleted(account: Account) -> None:
    account.launch()

    for action, params in (
        ("DeleteVpc", {"VpcId": account.vpc}),
        ("DeleteSubnet", {"SubnetId": account.subnets[ZONES[0]]}),
        ("DeleteSecurityGroup", {"GroupId": account.group}),
    ):
        assert account.refused(action, **params).code == "DependencyViolation"


def test_what_is_not_in_use_can_be_deleted() -> None:
    account = Account()
    for subnet in account.subnets.values():
        account.call("DeleteSubnet", SubnetId=subnet)
    account.call("DeleteSecurityGroup", GroupId=account.group)
    account.call("DeleteVpc", VpcId=account.vpc)

    assert account.call("DescribeVpcs")["Vpcs"] == []
    assert account.call("DescribeSubnets")["Subnets"] == []


def test_a_dry_run_makes_nothing(account: Account) -> None:
    before = len(account.ec2.records)

    for action, params in (
        ("CreateVpc", {"CidrBlock": "10.1.0.0/16"}),
        ("CreateSubnet", {"VpcId": account.vpc, "CidrBlock": "10.0.192.0/24"}),
        ("CreateSecurityGroup", {"GroupName": "x", "Description": "d"}),
        ("DeleteSubnet", {"SubnetId": account.subnets[ZONES[0]]}),
    ):
        assert account.refused(action, **params, DryRun=True).code == "DryRunOperation"
    assert len(account.ec2.records) == before


def test_zones_have_names_and_ids(account: Account) -> None:
    zones = account.call("DescribeAvailabilityZones", Filters=[only("state", "available")])[
        "AvailabilityZones"
    ]

    assert {each["ZoneName"]: each["ZoneId"] for each in zones} == dict(account.ec2.zones())
    (one,) = account.call("DescribeAvailabilityZones", ZoneNames=[ZONES[1]])["AvailabilityZones"]
    assert one["ZoneName"] == ZONES[1]


def test_regions_are_those_of_the_catalogue(account: Account) -> None:
    names = [each["RegionName"] for each in account.call("DescribeRegions")["Regions"]]

    assert "us-west-2" in names
    (one,) = account.call("DescribeRegions", RegionNames=["us-west-2"])["Regions"]
    assert one["Endpoint"] == "ec2.us-west-2.amazonaws.com"


def test_a_network_carries_its_tags(account: Account) -> None:
    account.call("CreateVpc", CidrBlock="10.1.0.0/16", TagSpecifications=[tags("vpc", Name="two")])

    (vpc,) = account.call("DescribeVpcs", Filters=[only("tag:Name", "two")])["Vpcs"]

    assert vpc["CidrBlock"] == "10.1.0.0/16"


@pytest.mark.parametrize(
    ("attribute", "shown"),
    [
        ("MapPublicIpOnLaunch", "MapPublicIpOnLaunch"),
        ("EnableDns64", "EnableDns64"),
    ],
)
def test_a_subnets_switches_are_turned_on_and_off(account: Account, attribute: str, shown: str) -> None:
    subnet = account.subnets[ZONES[0]]

    def look() -> Any:
        return account.call("DescribeSubnets", SubnetIds=[subnet])["Subnets"][0][shown]

    account.call("ModifySubnetAttribute", SubnetId=subnet, **{attribute: {"Value": True}})
    on = look()
    account.call("ModifySubnetAttribute", SubnetId=subnet, **{attribute: {"Value": False}})

    assert (on, look()) == (True, False)


def test_a_subnet_shows_how_it_names_hosts(account: Account) -> None:
    subnet = account.subnets[ZONES[0]]
    account.call("ModifySubnetAttribute", SubnetId=subnet, PrivateDnsHostnameTypeOnLaunch="resource-name")

    (found,) = account.call("DescribeSubnets", SubnetIds=[subnet])["Subnets"]

    assert found["PrivateDnsNameOptionsOnLaunch"] == {
        "HostnameType": "resource-name",
        "EnableResourceNameDnsARecord": False,
        "EnableResourceNameDnsAAAARecord": False,
    }


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, "InvalidParameterCombination"),
        (
            {"MapPublicIpOnLaunch": {"Value": True}, "EnableDns64": {"Value": True}},
            "InvalidParameterCombination",
        ),
        ({"PrivateDnsHostnameTypeOnLaunch": "pet-name"}, "InvalidParameterValue"),
        ({"AssignIpv6AddressOnCreation": {"Value": True}}, "InvalidParameterValue"),
        ({"EnableLniAtDeviceIndex": 1}, "UnsupportedOperation"),
        ({"MapPublicIpOnLaunch": {"Value": True}, "DryRun": True}, "DryRunOperation"),
        ({"SubnetId": "subnet-01", "MapPublicIpOnLaunch": {"Value": True}}, "InvalidSubnetID.NotFound"),
    ],
)
def test_attributes_of_subnets_that_ec2_refuses(account: Account, params: dict[str, Any], code: str) -> None:
    asked = {"SubnetId": account.subnets[ZONES[0]], **params}

    assert account.refused("ModifySubnetAttribute", **asked).code == code


LOCAL = "us-west-2-lax-1a"


def opt_in(account: Account) -> None:
    account.call("ModifyAvailabilityZoneGroup", GroupName="us-west-2-lax-1", OptInStatus="opted-in")


def test_a_local_zone_is_listed_only_on_request_until_it_is_opted_in_to(account: Account) -> None:
    def listed(**params: Any) -> dict[str, str]:
        found = account.call("DescribeAvailabilityZones", **params)["AvailabilityZones"]
        return {each["ZoneName"]: each["OptInStatus"] for each in found if each["ZoneType"] == "local-zone"}

    before, everything = listed(), listed(AllAvailabilityZones=True)
    opt_in(account)

    assert before == {}
    assert everything[LOCAL] == "not-opted-in"
    assert listed()[LOCAL] == "opted-in"


def test_subnets_and_instances_go_into_a_local_zone_once_it_is_opted_in_to(account: Account) -> None:
    subnet = {"VpcId": account.vpc, "CidrBlock": "10.0.192.0/20", "AvailabilityZone": LOCAL}
    refused = account.refused("CreateSubnet", **subnet)
    opt_in(account)
    account.subnets[LOCAL] = account.call("CreateSubnet", **subnet)["Subnet"]["SubnetId"]

    sold = account.instance(ids_of(account.fleet(account.at("m5.large", LOCAL)))[0])
    unsold = account.fleet(account.at("m7i.large", LOCAL))

    assert refused.code == "InvalidParameterValue"
    assert sold["Placement"]["AvailabilityZone"] == LOCAL
    assert codes_of(unsold) == ["InvalidFleetConfiguration"]


def test_types_are_offered_in_a_local_zone_once_it_is_opted_in_to(account: Account) -> None:
    def offered() -> set[str]:
        found = account.call(
            "DescribeInstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=[only("location", LOCAL)],
        )["InstanceTypeOfferings"]
        return {each["InstanceType"] for each in found}

    before = offered()
    opt_in(account)
    opt_in(account)

    assert before == set()
    assert "c5.large" in offered()
    assert "c7i.large" not in offered()


def test_a_group_of_zones_that_does_not_exist_or_is_left_is_refused(account: Account) -> None:
    def code(group: str, status: str, **params: Any) -> str:
        return account.refused(
            "ModifyAvailabilityZoneGroup", GroupName=group, OptInStatus=status, **params
        ).code

    assert code("us-west-2-moon-1", "opted-in") == "InvalidParameterValue"
    assert code("us-west-2-lax-1", "not-opted-in") == "OptInStatusNotSupported"
    assert code("us-west-2-lax-1", "opted-in", DryRun=True) == "DryRunOperation"


def test_a_subnet_takes_a_block_of_its_networks_ipv6_block_and_no_other(account: Account) -> None:
    vpc = account.call("CreateVpc", CidrBlock="10.1.0.0/16", AmazonProvidedIpv6CidrBlock=True)["Vpc"]
    block = vpc["Ipv6CidrBlockAssociationSet"][0]["Ipv6CidrBlock"]
    assert block.endswith("/56")
    subnet = account.call("CreateSubnet", VpcId=vpc["VpcId"], CidrBlock="10.1.0.0/24")["Subnet"]["SubnetId"]
    inside = block.replace("/56", "/64")

    def code(**params: Any) -> str:
        return account.refused("AssociateSubnetCidrBlock", **params).code

    assert code(SubnetId=subnet, Ipv6CidrBlock=block) == "InvalidSubnet.Range"
    assert code(SubnetId=subnet, Ipv6CidrBlock="2001:db9::/64") == "InvalidSubnet.Range"
    assert code(SubnetId=subnet, Ipv6CidrBlock="nonsense") == "InvalidParameterValue"
    assert code(SubnetId=account.subnets[ZONES[0]], Ipv6CidrBlock=inside) == "InvalidSubnet.Range"
    account.call("AssociateSubnetCidrBlock", SubnetId=subnet, Ipv6CidrBlock=inside)
    assert code(SubnetId=subnet, Ipv6CidrBlock=inside) == "InvalidSubnet.Conflict"
    (found,) = account.call("DescribeSubnets", SubnetIds=[subnet])["Subnets"]
    assert found["Ipv6CidrBlockAssociationSet"][0]["Ipv6CidrBlock"] == inside
