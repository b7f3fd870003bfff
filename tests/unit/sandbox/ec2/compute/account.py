# SPDX-License-Identifier: Apache-2.0
"""An EC2 account to try things on: a clock that stands still, a list as bus, and a network that is ready.

Every answer is also written as XML, so that a field which EC2's own description does not have fails the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from karpenter.sandbox.ec2.compute import Ec2
from karpenter.sandbox.ec2.compute.seam import Profile
from karpenter.sandbox.ec2.contract import ModelError
from karpenter.sandbox.ec2.front.schema import service
from karpenter.sandbox.ec2.front.serialise import render_result

START = datetime(2026, 1, 1, tzinfo=UTC)
ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")


class StillClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = START

    def now(self) -> datetime:
        return self.moment


class ListBus:
    """Keeps what is published."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Mapping[str, Any], datetime | None]] = []

    def publish(
        self,
        source: str,
        detail_type: str,
        detail: Mapping[str, Any],
        resources: Iterable[str] = (),
        time: datetime | None = None,
    ) -> None:
        assert source
        assert all(each.startswith("arn:") for each in resources)
        self.events.append((detail_type, detail, time))


class Account:
    """One account with a network, two images and a template called ``nodes``."""

    def __init__(self, *, seed: int = 0, rendered: bool = False) -> None:
        self.clock = StillClock()
        self.bus = ListBus()
        self.profiles = {"node": Profile("arn:aws:iam::123456789012:instance-profile/node", "AIPA1")}
        self.ec2 = Ec2(
            clock=self.clock, bus=self.bus, profiles=self.profiles.get, seed=seed, rendered=rendered
        )
        self.vpc = self.call("CreateVpc", CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.group = self.call("CreateSecurityGroup", GroupName="nodes", Description="d", VpcId=self.vpc)[
            "GroupId"
        ]
        self.subnets = {zone: self.add_subnet(zone, index) for index, zone in enumerate(ZONES)}
        self.image = self.ec2.add_image(
            name="al2023-x86", architecture="x86_64", owner_alias="amazon", owner="1"
        ).id
        self.arm_image = self.ec2.add_image(
            name="al2023-arm", architecture="arm64", owner_alias="amazon", owner="1"
        ).id
        self.template = self.add_template("nodes")

    def add_subnet(self, zone: str, index: int, size: int = 18) -> str:
        subnet = self.call(
            "CreateSubnet",
            VpcId=self.vpc,
            CidrBlock=f"10.0.{index * 64}.0/{size}",
            AvailabilityZone=zone,
            TagSpecifications=[tags("subnet", **{"karpenter.sh/discovery": "sandbox"})],
        )
        return str(subnet["Subnet"]["SubnetId"])

    def add_template(self, name: str, **data: Any) -> str:
        content = {
            "ImageId": self.image,
            "SecurityGroupIds": [self.group],
            "IamInstanceProfile": {"Name": "node"},
            **data,
        }
        if "NetworkInterfaces" in data:
            del content["SecurityGroupIds"]
        made = self.call("CreateLaunchTemplate", LaunchTemplateName=name, LaunchTemplateData=content)
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def call(self, action: str, **params: Any) -> Any:
        """Does an action and checks that its answer can be written."""
        answer = self.ec2.call(action, **params)
        render_result(service("ec2"), service("ec2").operations[action], answer)
        return answer

    def refused(self, action: str, **params: Any) -> ModelError:
        """Does an action that must be refused, and gives the refusal."""
        with pytest.raises(ModelError) as caught:
            self.ec2.call(action, **params)
        return caught.value

    def wait(self, seconds: float) -> None:
        """Lets model time pass and settles what has become due."""
        self.clock.moment += timedelta(seconds=seconds)
        self.ec2.settle()

    def fleet(
        self,
        *overrides: Mapping[str, Any],
        count: int = 1,
        market: str = "on-demand",
        template: str = "nodes",
        strategy: str = "",
        **params: Any,
    ) -> Any:
        """Asks for an instant fleet; an override is ``at(type, zone)``."""
        options = {"AllocationStrategy": strategy} if strategy else {}
        merged = {
            "SpotOptions": {**options, **params.pop("SpotOptions", {})} if market == "spot" else {},
            "OnDemandOptions": {**options, **params.pop("OnDemandOptions", {})} if market != "spot" else {},
        }
        return self.call(
            "CreateFleet",
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "$Latest"},
                    "Overrides": list(overrides) or [self.at("m5.large")],
                }
            ],
            TargetCapacitySpecification={"TotalTargetCapacity": count, "DefaultTargetCapacityType": market},
            **{key: value for key, value in merged.items() if value},
            **params,
        )

    def at(self, instance_type: str, zone: str = ZONES[0], **more: Any) -> dict[str, Any]:
        """Gives an override of a fleet."""
        return {
            "InstanceType": instance_type,
            "SubnetId": self.subnets[zone],
            "AvailabilityZone": zone,
            **more,
        }

    def launch(self, **options: Any) -> str:
        """Launches one instance and gives its id."""
        (only,) = ids_of(self.fleet(**options))
        return only

    def instance(self, instance_id: str) -> Any:
        """Describes one instance by its id."""
        answer = self.call("DescribeInstances", InstanceIds=[instance_id])
        return answer["Reservations"][0]["Instances"][0]

    def listed(self, *filters: Mapping[str, Any], **params: Any) -> list[Any]:
        """Gives all instances that a listing shows."""
        answer = self.call("DescribeInstances", Filters=list(filters), **params)
        return [each for row in answer["Reservations"] for each in row["Instances"]]

    def events(self, detail_type: str) -> list[Mapping[str, Any]]:
        """Gives the details of the events of one type."""
        return [detail for kind, detail, _ in self.bus.events if kind == detail_type]


def tags(kind: str, **pairs: str) -> dict[str, Any]:
    """Gives a tag specification."""
    return {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in pairs.items()]}


def only(name: str, *values: str) -> dict[str, Any]:
    """Gives a filter."""
    return {"Name": name, "Values": list(values)}


def ids_of(fleet: Mapping[str, Any]) -> list[str]:
    """Gives the ids of all instances of a fleet's answer."""
    return [each for row in fleet["Instances"] for each in row["InstanceIds"]]


def codes_of(fleet: Mapping[str, Any]) -> list[str]:
    """Gives the error codes of a fleet's answer."""
    return [error["ErrorCode"] for error in fleet["Errors"]]
