# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from collections import Counter
from typing import Any

import pytest

from karpenter import facts
from karpenter.sandbox.ec2.contract import ModelError
from tests.unit.sandbox.ec2.compute.account import ZONES, Account, codes_of, ids_of, only, tags


@pytest.fixture
def account() -> Account:
    return Account()


def types_of(fleet: Any) -> dict[str, int]:
    return {row["InstanceType"]: len(row["InstanceIds"]) for row in fleet["Instances"]}


def test_lowest_price_takes_the_cheapest_type_wherever_it_stands_in_the_list(account: Account) -> None:
    overrides = [account.at("m5.4xlarge"), account.at("c5.large"), account.at("m5.large")]

    fleet = account.fleet(*overrides)

    assert types_of(fleet) == {"c5.large": 1}
    assert fleet["Errors"] == []


def test_the_answer_names_the_override_that_was_taken(account: Account) -> None:
    fleet = account.fleet(account.at("m5.large", ZONES[1], Priority=3.0))

    (row,) = fleet["Instances"]
    assert row["Lifecycle"] == "on-demand"
    assert row["AvailabilityZone"] == ZONES[1]
    assert row["SubnetId"] == account.subnets[ZONES[1]]
    told = row["LaunchTemplateAndOverrides"]
    assert told["LaunchTemplateSpecification"]["LaunchTemplateId"] == account.template
    assert told["LaunchTemplateSpecification"]["Version"] == "$Latest"
    assert told["Overrides"]["InstanceType"] == "m5.large"
    assert told["Overrides"]["Priority"] == 3.0


def test_prioritized_follows_the_priorities_and_not_the_prices(account: Account) -> None:
    overrides = [account.at("c5.large", Priority=2.0), account.at("m5.4xlarge", Priority=1.0)]

    fleet = account.fleet(*overrides, strategy="prioritized")

    assert types_of(fleet) == {"m5.4xlarge": 1}


def test_price_capacity_optimized_passes_over_a_cheap_pool_that_is_nearly_dry(account: Account) -> None:
    overrides = [account.at("c5.large"), account.at("c5a.large")]
    cheap = min(
        overrides,
        key=lambda each: account.ec2.prices.of("spot", each["InstanceType"], ZONES[0], account.clock.now()),
    )
    account.ec2.apply({"capacity": {"instanceType": cheap["InstanceType"], "count": 1}})

    fleet = account.fleet(*overrides, market="spot", strategy="price-capacity-optimized")

    assert cheap["InstanceType"] not in types_of(fleet)


def test_price_capacity_optimized_spreads_many_over_pools_of_similar_price(account: Account) -> None:
    account.ec2.apply({"prices": {"instanceType": "*", "capacityType": "spot", "price": 0.1}})

    fleet = account.fleet(
        *[account.at("m5.large", zone) for zone in ZONES],
        count=9,
        market="spot",
        strategy="price-capacity-optimized",
    )

    zones = Counter(row["AvailabilityZone"] for row in fleet["Instances"] for _ in row["InstanceIds"])
    assert zones == dict.fromkeys(ZONES, 3)


def test_capacity_optimized_takes_the_deepest_pool(account: Account) -> None:
    account.ec2.apply(
        {
            "capacity": [
                {"instanceType": "c5.large", "count": 5},
                {"instanceType": "m5.4xlarge", "count": 50},
            ]
        }
    )

    fleet = account.fleet(
        account.at("c5.large"), account.at("m5.4xlarge"), market="spot", strategy="capacity-optimized"
    )

    assert types_of(fleet) == {"m5.4xlarge": 1}


def test_capacity_optimized_prioritized_goes_by_priority_among_deep_pools(account: Account) -> None:
    account.ec2.apply({"capacity": {"instanceType": "r5.large", "count": 1}})
    overrides = [
        account.at("r5.large", Priority=0.0),
        account.at("c5.large", Priority=2.0),
        account.at("m5.large", Priority=1.0),
    ]

    fleet = account.fleet(*overrides, market="spot", strategy="capacity-optimized-prioritized")

    assert types_of(fleet) == {"m5.large": 1}


def test_diversified_goes_round_all_pools(account: Account) -> None:
    overrides = [account.at(name) for name in ("c5.large", "m5.large", "r5.large")]

    fleet = account.fleet(*overrides, count=6, market="spot", strategy="diversified")

    assert types_of(fleet) == {"c5.large": 2, "m5.large": 2, "r5.large": 2}


def test_lowest_price_over_several_pools_uses_as_many_as_asked(account: Account) -> None:
    overrides = [account.at(name) for name in ("c5.large", "m5.large", "r5.large", "m5.4xlarge")]

    fleet = account.fleet(
        *overrides,
        count=6,
        market="spot",
        strategy="lowest-price",
        SpotOptions={"InstancePoolsToUseCount": 2},
    )

    assert sorted(types_of(fleet).values()) == [3, 3]


def test_a_dry_pool_leaves_an_error_and_the_next_one_gives_the_rest(account: Account) -> None:
    account.ec2.apply({"capacity": {"instanceType": "c5.large", "count": 2}})

    fleet = account.fleet(account.at("c5.large"), account.at("m5.large"), count=5)

    assert types_of(fleet) == {"c5.large": 2, "m5.large": 3}
    (error,) = fleet["Errors"]
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"
    assert error["Lifecycle"] == "on-demand"
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"] == "c5.large"
    assert "c5.large capacity in the Availability Zone you requested (us-west-2a)" in error["ErrorMessage"]


def test_a_fleet_that_gets_less_than_it_asked_for_is_partial(account: Account) -> None:
    account.ec2.apply({"capacity": {"count": 2}})

    fleet = account.fleet(account.at("c5.large"), account.at("m5.large"), count=10)

    assert types_of(fleet) == {"c5.large": 2, "m5.large": 2}
    assert codes_of(fleet) == ["InsufficientInstanceCapacity"] * 2


def test_below_its_minimum_a_fleet_launches_nothing_and_gives_its_places_back(account: Account) -> None:
    account.ec2.apply({"capacity": {"count": 2}})

    fleet = account.fleet(count=5, OnDemandOptions={"MinTargetCapacity": 5})

    assert fleet["Instances"] == []
    assert codes_of(fleet) == ["UnfulfillableCapacity"]
    assert account.listed() == []
    assert account.bus.events == []
    assert len(ids_of(account.fleet(count=2))) == 2


def test_a_fleet_of_a_single_type_moves_on_to_a_type_with_room(account: Account) -> None:
    account.ec2.apply({"capacity": {"instanceType": "c5.large", "count": 2}})

    fleet = account.fleet(
        account.at("c5.large"),
        account.at("m5.large"),
        count=4,
        OnDemandOptions={"SingleInstanceType": True, "MinTargetCapacity": 4},
    )

    assert types_of(fleet) == {"m5.large": 4}


def test_a_fleet_in_a_single_zone_stays_there(account: Account) -> None:
    overrides = [account.at(name, zone) for name in ("c5.large", "m5.large") for zone in ZONES[:2]]
    account.ec2.apply({"capacity": {"instanceType": "c5.large", "count": 1}})

    fleet = account.fleet(*overrides, count=3, OnDemandOptions={"SingleAvailabilityZone": True})

    assert len({row["AvailabilityZone"] for row in fleet["Instances"]}) == 1
    assert len(ids_of(fleet)) == 3


def test_weights_count_toward_the_target(account: Account) -> None:
    fleet = account.fleet(account.at("m5.large", WeightedCapacity=2.0), count=6)

    assert len(ids_of(fleet)) == 3


def test_one_request_may_mix_on_demand_and_spot(account: Account) -> None:
    fleet = account.call(
        "CreateFleet",
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateId": account.template, "Version": "1"},
                "Overrides": [account.at("m5.large")],
            }
        ],
        TargetCapacitySpecification={
            "TotalTargetCapacity": 3,
            "OnDemandTargetCapacity": 1,
            "DefaultTargetCapacityType": "spot",
        },
    )

    assert {row["Lifecycle"]: len(row["InstanceIds"]) for row in fleet["Instances"]} == {
        "on-demand": 1,
        "spot": 2,
    }


@pytest.mark.parametrize(
    ("override", "code"),
    [
        ({"InstanceType": "m99.large"}, "InvalidParameterValue"),
        ({"InstanceType": "m6g.large"}, "InvalidParameterValue"),
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"ImageId": "nonsense"}, "InvalidAMIID.Malformed"),
        ({"AvailabilityZone": ZONES[1]}, "InvalidParameterCombination"),
    ],
)
def test_an_override_that_makes_no_sense_is_an_error_of_its_own(
    account: Account, override: dict[str, str], code: str
) -> None:
    fleet = account.fleet({**account.at("m5.large"), **override})

    assert codes_of(fleet) == [code]
    assert fleet["Instances"] == []


def test_a_type_that_the_zone_does_not_offer_is_an_error(account: Account) -> None:
    rare = next(name for name, zones in account.ec2.prices.offered.items() if ZONES[0] not in zones)
    image = account.image if "x86_64" in facts.instance_types()[rare].architectures else account.arm_image

    fleet = account.fleet(account.at(rare, ImageId=image))

    assert codes_of(fleet) == ["InvalidFleetConfiguration"]
    assert (
        f"({rare}) is not supported in your requested Availability Zone" in fleet["Errors"][0]["ErrorMessage"]
    )


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"IamInstanceProfile": {"Name": "nobody"}}, "InvalidParameterValue"),
        ({"SecurityGroupIds": ["sg-0123456789abcdef0"]}, "InvalidGroup.NotFound"),
        ({"SecurityGroups": ["nobody"], "SecurityGroupIds": []}, "InvalidGroup.NotFound"),
        ({"Placement": {"GroupName": "nobody"}}, "InvalidPlacementGroup.Unknown"),
        ({"NetworkInterfaces": [{"DeviceIndex": n} for n in range(9)]}, "AttachmentLimitExceeded"),
        ({"NetworkInterfaces": [{"DeviceIndex": 0, "NetworkCardIndex": 3}]}, "InvalidParameterValue"),
        ({"NetworkInterfaces": [{"DeviceIndex": 0, "InterfaceType": "efa"}]}, "Unsupported"),
    ],
)
def test_what_a_template_names_is_checked_at_launch(
    account: Account, data: dict[str, Any], code: str
) -> None:
    account.add_template("odd", **data)

    fleet = account.fleet(template="odd")

    assert codes_of(fleet) == [code]


def test_a_group_of_another_network_is_refused(account: Account) -> None:
    other = account.call("CreateVpc", CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    stranger = account.call("CreateSecurityGroup", GroupName="x", Description="d", VpcId=other)["GroupId"]
    account.add_template("odd", SecurityGroupIds=[stranger])

    fleet = account.fleet(template="odd")

    assert codes_of(fleet) == ["InvalidParameter"]
    assert "belong to different networks" in fleet["Errors"][0]["ErrorMessage"]


def test_everything_in_the_template_reaches_the_instance(account: Account) -> None:
    user_data = base64.b64encode(b"#!/bin/bash\n").decode()
    account.add_template(
        "full",
        UserData=user_data,
        Monitoring={"Enabled": True},
        EnclaveOptions={"Enabled": True},
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        Placement={"Tenancy": "dedicated"},
        NetworkInterfaces=[{"DeviceIndex": 0, "Groups": [account.group], "Description": "first"}],
        BlockDeviceMappings=[
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {
                    "VolumeSize": 30,
                    "VolumeType": "gp3",
                    "Iops": 3000,
                    "Throughput": 125,
                    "Encrypted": True,
                },
            }
        ],
        TagSpecifications=[tags("network-interface", nic="yes"), tags("spot-instances-request", sir="yes")],
    )

    fleet = account.fleet(
        account.at("m5.xlarge"),
        template="full",
        market="spot",
        TagSpecifications=[tags("instance", pool="a"), tags("volume", vol="yes"), tags("fleet", f="yes")],
    )

    (instance_id,) = ids_of(fleet)
    instance = account.instance(instance_id)
    assert instance["SecurityGroups"] == [{"GroupId": account.group, "GroupName": "nodes"}]
    assert instance["IamInstanceProfile"]["Arn"].endswith(":instance-profile/node")
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    assert instance["Monitoring"] == {"State": "enabled"}
    assert instance["EnclaveOptions"] == {"Enabled": True}
    assert instance["Placement"] == {
        "AvailabilityZone": ZONES[0],
        "AvailabilityZoneId": account.ec2.zones()[ZONES[0]],
        "Tenancy": "dedicated",
        "GroupName": "",
    }
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["NetworkInterfaces"][0]["Description"] == "first"
    found = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert found["pool"] == "a"
    assert found["aws:ec2:fleet-id"] == fleet["FleetId"]
    assert found["aws:ec2launchtemplate:version"] == "$Latest"
    (volume,) = account.call("DescribeVolumes", Filters=[only("attachment.instance-id", instance_id)])[
        "Volumes"
    ]
    assert (volume["Size"], volume["VolumeType"], volume["Iops"]) == (30, "gp3", 3000)
    assert volume["Tags"] == [{"Key": "vol", "Value": "yes"}]
    (nic,) = account.call("DescribeNetworkInterfaces", Filters=[only("tag:nic", "yes")])["NetworkInterfaces"]
    assert nic["Attachment"]["InstanceId"] == instance_id
    (request,) = account.call(
        "DescribeSpotInstanceRequests", SpotInstanceRequestIds=[instance["SpotInstanceRequestId"]]
    )["SpotInstanceRequests"]
    assert (request["State"], request["Tags"]) == ("active", [{"Key": "sir", "Value": "yes"}])
    (told,) = account.call("DescribeFleets", FleetIds=[fleet["FleetId"]])["Fleets"]
    assert told["Instances"] == [{"InstanceIds": [instance_id]}]
    assert told["Tags"] == [{"Key": "f", "Value": "yes"}]
    assert next(account.ec2.machines("pending")).user_data == b"#!/bin/bash\n"


def test_a_disk_smaller_than_its_snapshot_is_refused(account: Account) -> None:
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"SnapshotId": "snap-1", "VolumeSize": 20}}
    image = account.ec2.add_image(name="big", architecture="x86_64", disks=[disk]).id
    account.add_template(
        "small", ImageId=image, BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 4}}]
    )

    assert codes_of(account.fleet(template="small")) == ["InvalidBlockDeviceMapping"]


@pytest.mark.parametrize(
    ("limit", "codes"),
    [
        ("0.0001", ["SpotMaxPriceTooLow"]),
        ("cheap", ["InvalidParameterValue"]),
        ("nan", ["SpotMaxPriceTooLow"]),
        ("9", []),
    ],
)
def test_a_spot_price_limit_below_the_price_is_an_error(
    account: Account, limit: str, codes: list[str]
) -> None:
    fleet = account.fleet(account.at("m5.large", MaxPrice=limit), market="spot")

    assert codes_of(fleet) == codes


def test_a_free_pool_that_is_dry_does_not_upset_the_ranking(account: Account) -> None:
    account.ec2.apply(
        {
            "prices": {"instanceType": "c5.large", "capacityType": "spot", "price": 0},
            "capacity": {"instanceType": "c5.large", "count": 0},
        }
    )

    fleet = account.fleet(
        account.at("c5.large"), account.at("m5.large"), market="spot", strategy="price-capacity-optimized"
    )

    assert types_of(fleet) == {"m5.large": 1}


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"Type": "maintain"}, "InvalidParameterValue"),
        ({"LaunchTemplateConfigs": []}, "MissingParameter"),
        ({"TargetCapacitySpecification": {}}, "MissingParameter"),
        ({"TargetCapacitySpecification": {"TotalTargetCapacity": 0}}, "InvalidParameterValue"),
        (
            {"TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "free"}},
            "InvalidParameterValue",
        ),
        (
            {"TargetCapacitySpecification": {"TotalTargetCapacity": 1, "SpotTargetCapacity": 2}},
            "InvalidTargetCapacitySpecification",
        ),
        ({"SpotOptions": {"AllocationStrategy": "cheapest"}}, "InvalidParameterValue"),
        (
            {"LaunchTemplateConfigs": [{"LaunchTemplateSpecification": {"LaunchTemplateName": "gone"}}]},
            "InvalidLaunchTemplateName.NotFoundException",
        ),
        (
            {"LaunchTemplateConfigs": [{"LaunchTemplateSpecification": {"LaunchTemplateId": "lt-01"}}]},
            "InvalidLaunchTemplateId.NotFound",
        ),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_as_a_whole(
    account: Account, params: dict[str, Any], code: str
) -> None:
    good = {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "nodes"},
                "Overrides": [account.at("m5.large")],
            }
        ],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1},
    }

    refused = account.refused("CreateFleet", **{**good, **params})

    assert refused.code == code
    assert account.listed() == []


def test_an_instant_fleet_takes_more_than_three_hundred_overrides(account: Account) -> None:
    names = [name for name, kind in facts.instance_types().items() if "x86_64" in kind.architectures]
    sold = [name for name in names if set(ZONES) <= set(facts.offered("us-west-2").get(name, ()))]
    overrides = [account.at(name, zone) for name in sold for zone in ZONES]
    assert len(overrides) > 300

    fleet = account.fleet(*overrides)

    assert len(ids_of(fleet)) == 1


def test_an_override_by_zone_alone_finds_a_subnet_there(account: Account) -> None:
    fleet = account.fleet({"InstanceType": "m5.large", "AvailabilityZone": ZONES[2]})

    assert fleet["Instances"][0]["SubnetId"] == account.subnets[ZONES[2]]


def test_a_zone_without_a_subnet_is_an_error(account: Account) -> None:
    fleet = account.fleet({"InstanceType": "m5.large", "AvailabilityZone": "us-west-2d"})

    assert codes_of(fleet) == ["MissingInput"]


def test_a_fleet_is_forgotten_after_a_while_and_an_unknown_action_is_refused(account: Account) -> None:
    fleet_id = account.fleet()["FleetId"]
    assert account.call("DescribeFleets")["Fleets"] == []

    account.wait(48 * 3600)

    assert account.refused("DescribeFleets", FleetIds=[fleet_id]).code == "InvalidFleetId.NotFound"
    assert account.refused("CreateMoney").code == "InvalidAction"


def test_a_pool_that_is_named_twice_refuses_the_fleet_even_over_two_subnets(account: Account) -> None:
    second = account.add_subnet(ZONES[0], 3)

    with pytest.raises(ModelError) as caught:
        account.fleet(account.at("c5.large"), {**account.at("c5.large"), "SubnetId": second})

    assert caught.value.code == "InvalidFleetConfig"
    assert f"c5.large in {ZONES[0]}" in caught.value.message
    assert account.listed() == []


def test_a_pool_that_two_templates_name_refuses_the_fleet(account: Account) -> None:
    account.add_template("others")
    configs = [
        {
            "LaunchTemplateSpecification": {"LaunchTemplateName": name},
            "Overrides": [account.at("m5.large"), account.at("m5.large", ZONES[1])],
        }
        for name in ("nodes", "others")
    ]

    refused = account.refused(
        "CreateFleet",
        Type="instant",
        LaunchTemplateConfigs=configs,
        TargetCapacitySpecification={"TotalTargetCapacity": 1},
    )

    assert refused.code == "InvalidFleetConfig"


def test_an_override_may_place_and_disk_its_instance_otherwise(account: Account) -> None:
    account.call("CreatePlacementGroup", GroupName="racks", Strategy="spread")
    disks = [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 99}}]

    fleet = account.fleet(
        account.at(
            "m5.large", Placement={"GroupName": "racks"}, BlockDeviceMappings=disks, ImageId=account.image
        )
    )

    (instance_id,) = ids_of(fleet)
    assert account.instance(instance_id)["Placement"]["GroupName"] == "racks"
    assert [disk["Size"] for disk in account.call("DescribeVolumes")["Volumes"]] == [99]
    assert account.listed(only("placement-group-name", "racks"))[0]["InstanceId"] == instance_id
    assert account.listed(only("tenancy", "default"))[0]["InstanceId"] == instance_id


def test_a_template_can_leave_out_a_disk_of_the_image(account: Account) -> None:
    disks = [
        {"DeviceName": name, "Ebs": {"SnapshotId": "snap-1", "VolumeSize": 4}}
        for name in ("/dev/xvda", "/dev/xvdb")
    ]
    image = account.ec2.add_image(name="two", architecture="x86_64", disks=disks).id
    account.add_template(
        "one-disk", ImageId=image, BlockDeviceMappings=[{"DeviceName": "/dev/xvdb", "NoDevice": ""}]
    )

    instance = account.instance(account.launch(template="one-disk"))

    assert [disk["DeviceName"] for disk in instance["BlockDeviceMappings"]] == ["/dev/xvda"]


def test_a_type_that_is_not_sold_as_spot_is_unsupported(account: Account) -> None:
    name = next(
        each.name
        for each in facts.instance_types().values()
        if "spot" not in each.usage_classes
        and "x86_64" in each.architectures
        and ZONES[0] in account.ec2.prices.offered.get(each.name, ())
    )

    assert codes_of(account.fleet(account.at(name), market="spot")) == ["Unsupported"]


def test_spot_requests_close_with_their_instances(account: Account) -> None:
    instance_id = account.launch(market="spot")
    assert (
        len(
            account.call("DescribeSpotInstanceRequests", Filters=[only("state", "active")])[
                "SpotInstanceRequests"
            ]
        )
        == 1
    )

    account.call("TerminateInstances", InstanceIds=[instance_id])

    (request,) = account.call("DescribeSpotInstanceRequests", Filters=[only("instance-id", instance_id)])[
        "SpotInstanceRequests"
    ]
    assert request["State"] == "closed"
