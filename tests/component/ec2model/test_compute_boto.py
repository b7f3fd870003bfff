# SPDX-License-Identifier: Apache-2.0
"""EC2's actions as real boto3 meets them over HTTP."""

from __future__ import annotations

import base64
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.component.ec2model.standing import START, Model

DISCOVERY = {"Name": "tag:karpenter.sh/discovery", "Values": ["sandbox"]}


@pytest.fixture(autouse=True)
def _unthrottled(model: Model) -> None:
    model.post("throttling", {"enabled": False})


def change(model: Model, **sections: Any) -> None:
    """Changes EC2 by data, a section at a time."""
    for section, document in sections.items():
        assert model.post(section, document) == {}


def wait(model: Model, seconds: float) -> None:
    """Lets model time pass."""
    model.post("clock", {"advanceSeconds": seconds})


def code_of(call: Any, **params: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**params)
    return str(caught.value.response["Error"]["Code"])


def ready(model: Model) -> tuple[Any, list[dict[str, Any]]]:
    """Makes the profile and the launch template of a node class, and gives the client and the overrides."""
    ec2, iam = model.client("ec2"), model.client("iam")
    iam.create_instance_profile(InstanceProfileName="nodes")
    group = ec2.describe_security_groups(Filters=[DISCOVERY])["SecurityGroups"][0]["GroupId"]
    path = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
    image = model.client("ssm").get_parameter(Name=path)["Parameter"]["Value"]
    ec2.create_launch_template(
        LaunchTemplateName="karpenter.k8s.aws/1",
        LaunchTemplateData={
            "ImageId": image,
            "IamInstanceProfile": {"Name": "nodes"},
            "UserData": base64.b64encode(b"#!/bin/bash").decode(),
            "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [group]}],
            "BlockDeviceMappings": [
                {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 30, "VolumeType": "gp3", "Encrypted": True}}
            ],
            "MetadataOptions": {"HttpTokens": "required"},
            "TagSpecifications": [
                {"ResourceType": "network-interface", "Tags": [{"Key": "nic", "Value": "yes"}]}
            ],
        },
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": [{"Key": "a", "Value": "b"}]}],
    )
    subnets = ec2.describe_subnets(Filters=[DISCOVERY])["Subnets"]
    overrides = [
        {
            "InstanceType": name,
            "SubnetId": subnet["SubnetId"],
            "ImageId": image,
            "AvailabilityZone": subnet["AvailabilityZone"],
            "Priority": 1.0,
        }
        for name in ("m5.large", "c5.large")
        for subnet in subnets
    ]
    return ec2, overrides


def fleet(
    overrides: list[dict[str, Any]], count: int = 1, market: str = "on-demand", **params: Any
) -> dict[str, Any]:
    return {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateName": "karpenter.k8s.aws/1",
                    "Version": "$Latest",
                },
                "Overrides": overrides,
            }
        ],
        "TargetCapacitySpecification": {"TotalTargetCapacity": count, "DefaultTargetCapacityType": market},
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": [{"Key": "karpenter.sh/nodepool", "Value": "default"}]}
            for kind in ("instance", "volume", "fleet")
        ],
        **params,
    }


def test_a_fleet_is_launched_listed_tagged_and_ended(model: Model) -> None:
    ec2, overrides = ready(model)

    answer = ec2.create_fleet(**fleet(overrides, market="spot", ClientToken="t-1"))

    (row,) = answer["Instances"]
    (instance_id,) = row["InstanceIds"]
    assert row["Lifecycle"] == "spot"
    wait(model, 10)
    (reservation,) = ec2.describe_instances(
        Filters=[
            {"Name": "tag-key", "Values": ["karpenter.sh/nodepool"]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
    )["Reservations"]
    (instance,) = reservation["Instances"]
    assert instance["InstanceId"] == instance_id
    assert instance["State"]["Name"] == "running"
    assert instance["LaunchTime"] == START
    assert instance["SpotInstanceRequestId"].startswith("sir-")
    assert instance["IamInstanceProfile"]["Arn"].endswith("instance-profile/nodes")
    assert instance["SecurityGroups"][0]["GroupId"].startswith("sg-")
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["Placement"]["AvailabilityZoneId"].startswith("usw2-az")
    (volume,) = ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [instance_id]}])[
        "Volumes"
    ]
    assert (volume["Size"], volume["Encrypted"]) == (30, True)
    ec2.create_tags(Resources=[instance_id], Tags=[{"Key": "Name", "Value": "node-1"}])
    named = ec2.describe_instances(Filters=[{"Name": "tag:Name", "Values": ["node-*"]}])["Reservations"]
    assert named[0]["Instances"][0]["InstanceId"] == instance_id
    again = ec2.create_fleet(**fleet(overrides, market="spot", ClientToken="t-1"))
    assert again["Instances"] == answer["Instances"]
    assert (
        code_of(ec2.create_fleet, **fleet(overrides, 2, ClientToken="t-1")) == "IdempotentParameterMismatch"
    )
    ended = ec2.terminate_instances(InstanceIds=[instance_id])["TerminatingInstances"]
    assert ended[0]["CurrentState"]["Name"] == "shutting-down"


def test_the_same_token_from_many_at_once_launches_once(model: Model) -> None:
    ec2, overrides = ready(model)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ec2.create_fleet(**fleet(overrides, ClientToken="t-1")), range(16)))

    assert len({answer["Instances"][0]["InstanceIds"][0] for answer in answers}) == 1
    assert len(model.get("state")["ec2"]["instances"]) == 1


def test_errors_per_override_come_through_the_wire(model: Model) -> None:
    ec2, overrides = ready(model)
    zone = overrides[0]["AvailabilityZone"]
    change(
        model,
        capacity={"instanceType": "c5.*", "count": 0},
        errors={"code": "VcpuLimitExceeded", "zone": zone, "instanceType": "m5.*", "times": 1},
    )

    answer = ec2.create_fleet(**fleet(overrides))

    found = {
        (each["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"], each["ErrorCode"])
        for each in answer["Errors"]
    }
    assert found == {("c5.large", "InsufficientInstanceCapacity"), ("m5.large", "VcpuLimitExceeded")}
    assert answer["Instances"][0]["InstanceType"] == "m5.large"
    assert [each["pricePerHour"] for each in model.get("state")["ec2"]["instances"]] == [0.096]


def test_refusals_carry_ec2s_codes(model: Model) -> None:
    ec2 = model.client("ec2")

    assert (
        code_of(ec2.describe_instances, InstanceIds=["i-0123456789abcdef0"]) == "InvalidInstanceID.NotFound"
    )
    assert (
        code_of(ec2.delete_launch_template, LaunchTemplateName="gone")
        == "InvalidLaunchTemplateName.NotFoundException"
    )
    assert code_of(ec2.describe_instance_types, DryRun=True) == "DryRunOperation"
    assert (
        code_of(ec2.create_tags, Resources=["i-0123456789abcdef0"], Tags=[{"Key": "a", "Value": "b"}])
        == "InvalidInstanceID.NotFound"
    )
    assert (
        code_of(
            ec2.run_instances,
            LaunchTemplate={"LaunchTemplateName": "gone"},
            InstanceType="m5.large",
            MinCount=1,
            MaxCount=1,
            DryRun=True,
        )
        == "InvalidLaunchTemplateName.NotFoundException"
    )


def test_types_offerings_and_prices_come_in_pages(model: Model) -> None:
    ec2 = model.client("ec2")

    types = [
        each
        for page in ec2.get_paginator("describe_instance_types").paginate(
            Filters=[{"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]}],
            PaginationConfig={"PageSize": 100},
        )
        for each in page["InstanceTypes"]
    ]
    offerings = [
        each
        for page in ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone"
        )
        for each in page["InstanceTypeOfferings"]
    ]
    prices = [
        each
        for page in ec2.get_paginator("describe_spot_price_history").paginate(StartTime=START)
        for each in page["SpotPriceHistory"]
    ]

    assert len(types) > 1000
    assert next(each for each in types if each["InstanceType"] == "m5.large")["VCpuInfo"]["DefaultVCpus"] == 2
    assert len(offerings) > 4000
    assert len({(each["InstanceType"], each["AvailabilityZone"]) for each in prices}) == len(prices) > 4000
    assert all(float(each["SpotPrice"]) > 0 for each in prices)


def test_a_template_is_read_back_over_the_wire(model: Model) -> None:
    ec2, _ = ready(model)

    (version,) = ec2.describe_launch_template_versions(LaunchTemplateName="karpenter.k8s.aws/1")[
        "LaunchTemplateVersions"
    ]
    (template,) = ec2.describe_launch_templates(Filters=[{"Name": "tag:a", "Values": ["b"]}])[
        "LaunchTemplates"
    ]

    assert version["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 30
    assert version["LaunchTemplateData"]["MetadataOptions"]["HttpTokens"] == "required"
    assert template["LaunchTemplateId"] == version["LaunchTemplateId"]


def test_reservations_groups_status_and_console_speak_the_protocol(model: Model) -> None:
    ec2, overrides = ready(model)
    zone = overrides[0]["AvailabilityZone"]

    reservation = ec2.create_capacity_reservation(
        InstanceType="m5.large", InstancePlatform="Linux/UNIX", AvailabilityZone=zone, InstanceCount=2
    )["CapacityReservation"]
    group = ec2.create_placement_group(GroupName="racks", Strategy="partition", PartitionCount=2)[
        "PlacementGroup"
    ]
    (instance_id,) = ec2.create_fleet(**fleet(overrides[:1]))["Instances"][0]["InstanceIds"]
    wait(model, 10)
    change(model, impair={}, scheduleEvent={"code": "instance-retirement"})

    assert reservation["AvailableInstanceCount"] == 2
    (after,) = ec2.describe_capacity_reservations()["CapacityReservations"]
    assert after["AvailableInstanceCount"] == 1
    assert (
        ec2.describe_placement_groups(GroupIds=[group["GroupId"]])["PlacementGroups"][0]["PartitionCount"]
        == 2
    )
    (status,) = ec2.describe_instance_status(
        Filters=[{"Name": "instance-status.status", "Values": ["impaired"]}]
    )["InstanceStatuses"]
    assert status["InstanceId"] == instance_id
    assert status["Events"][0]["Code"] == "instance-retirement"
    assert "cloud-init" in ec2.get_console_output(InstanceId=instance_id)["Output"]


def test_interruptions_reach_the_queue(model: Model) -> None:
    ec2, overrides = ready(model)
    (instance_id,) = ec2.create_fleet(**fleet(overrides, market="spot"))["Instances"][0]["InstanceIds"]
    sqs = model.client("sqs")
    url = sqs.get_queue_url(QueueName="sandbox")["QueueUrl"]

    change(model, interrupt={"instanceIds": [instance_id]}, rebalance={})

    bodies = "".join(
        message["Body"]
        for _ in range(3)
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    )
    for kind in (
        "EC2 Spot Instance Interruption Warning",
        "EC2 Instance Rebalance Recommendation",
        "EC2 Instance State-change Notification",
    ):
        assert kind in bodies
    assert instance_id in bodies
    wait(model, 121)
    assert ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]["State"][
        "Name"
    ] in {
        "shutting-down",
        "terminated",
    }


def test_two_thousand_instances_are_listed_over_http_on_one_page(model: Model) -> None:
    ec2, overrides = ready(model)
    for _ in range(2):
        answer = ec2.create_fleet(**fleet(overrides, 1000, "spot"))
        assert sum(len(row["InstanceIds"]) for row in answer["Instances"]) == 1000
    wait(model, 10)
    body = (
        b"Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=tag-key&Filter.1.Value.1=karpenter.sh%2Fnodepool"
        b"&Filter.2.Name=instance-state-name&Filter.2.Value.1=running"
    )
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Authorization": "AWS4-HMAC-SHA256 Credential=any/20260101/us-west-2/ec2/aws4_request, "
        "SignedHeaders=host, Signature=0",
    }

    request = urllib.request.Request(model.url, data=body, headers=headers)  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=15) as reply:  # noqa: S310
        text = reply.read()

    assert text.count(b"<instanceId>") == 2000
