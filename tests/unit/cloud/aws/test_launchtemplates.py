# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.ec2nodeclass import ConnectionTracking, MetadataOptions, NetworkInterface
from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.launchtemplates import (
    NAME_PREFIX,
    LaunchSpec,
    LaunchTemplates,
    template_data,
    template_name,
)
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.fakes import FakeAws, aws_error


def _spec(**changes: Any) -> LaunchSpec:
    return LaunchSpec(
        **{"image_id": "ami-1", "user_data": "dGV4dA==", "security_group_ids": ("sg-1",), **changes}
    )


def _interfaces(**changes: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = template_data(_spec(**changes))["NetworkInterfaces"]
    return found


def test_a_plain_template_says_everything_that_a_node_class_always_settles() -> None:
    data = template_data(_spec(tags={"a": "1"}, instance_profile="nodes"))

    assert data == {
        "ImageId": "ami-1",
        "UserData": "dGV4dA==",
        "Monitoring": {"Enabled": False},
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "HttpPutResponseHopLimit": 1,
            "HttpTokens": "required",
            "InstanceMetadataTags": "disabled",
        },
        "NetworkInterfaces": [
            {
                "DeviceIndex": 0,
                "NetworkCardIndex": 0,
                "InterfaceType": "interface",
                "Groups": ["sg-1"],
                "DeleteOnTermination": True,
            }
        ],
        "TagSpecifications": [{"ResourceType": "network-interface", "Tags": [{"Key": "a", "Value": "1"}]}],
        "IamInstanceProfile": {"Name": "nodes"},
        "CapacityReservationSpecification": {"CapacityReservationPreference": "none"},
    }


def test_what_a_node_class_may_add_is_in_the_template() -> None:
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 30}}

    data = template_data(
        _spec(
            block_devices=(disk,),
            detailed_monitoring=True,
            metadata=MetadataOptions(http_put_response_hop_limit=2, http_tokens="optional"),
            tenancy="dedicated",
            placement_group_id="pg-1",
            partition=3,
            enclave=True,
            nested_virtualization="enabled",
            capacity_type=labels.SPOT,
        )
    )

    assert data["BlockDeviceMappings"] == [disk]
    assert data["Monitoring"] == {"Enabled": True}
    assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    assert data["Placement"] == {"Tenancy": "dedicated", "GroupId": "pg-1", "PartitionNumber": 3}
    assert data["EnclaveOptions"] == {"Enabled": True}
    assert data["CpuOptions"] == {"NestedVirtualization": "enabled"}
    assert [each["ResourceType"] for each in data["TagSpecifications"]] == [
        "network-interface",
        "spot-instances-request",
    ]


def test_every_interface_with_addresses_keeps_what_the_class_says_of_them() -> None:
    wanted = (
        NetworkInterface(network_card_index=0, device_index=0, interface_type="interface"),
        NetworkInterface(network_card_index=1, device_index=1, interface_type="interface"),
        NetworkInterface(network_card_index=2, device_index=1, interface_type="efa-only"),
    )
    tracking = ConnectionTracking(udp_timeout=45)
    first, second, efa_only = _interfaces(
        public_ip=False, ip_prefix_count=2, network_interfaces=wanted, connection_tracking=tracking
    )
    efa = _interfaces(public_ip=False, ip_prefix_count=2, efa_count=2)
    six = _interfaces(ipv6=True, ip_prefix_count=1, efa_count=2)

    assert all(
        (each["AssociatePublicIpAddress"], each["Ipv4PrefixCount"]) == (False, 2)
        for each in (first, second, *efa)
    )
    assert {
        "AssociatePublicIpAddress",
        "Ipv4PrefixCount",
        "ConnectionTrackingSpecification",
    }.isdisjoint(efa_only)
    assert all(
        (each["PrimaryIpv6"], each["Ipv6AddressCount"], each["Ipv6PrefixCount"]) == (True, 1, 1)
        for each in six
    )


def test_efa_devices_take_one_network_card_each_and_the_second_place_on_all_but_the_first() -> None:
    places = [
        (each["NetworkCardIndex"], each["DeviceIndex"], each["InterfaceType"])
        for each in _interfaces(efa_count=3)
    ]

    assert places == [(0, 0, "efa"), (1, 1, "efa"), (2, 1, "efa")]


def test_interfaces_of_the_node_class_take_the_place_of_all_others() -> None:
    wanted = (
        NetworkInterface(network_card_index=1, device_index=1, interface_type="efa-only"),
        NetworkInterface(network_card_index=0, device_index=0, interface_type="interface"),
    )
    tracking = ConnectionTracking(tcp_established_timeout=300, udp_timeout=30)

    primary, efa = _interfaces(network_interfaces=wanted, efa_count=4, connection_tracking=tracking)

    assert primary["ConnectionTrackingSpecification"] == {"TcpEstablishedTimeout": 300, "UdpTimeout": 30}
    assert (efa["NetworkCardIndex"], efa["InterfaceType"]) == (1, "efa-only")
    assert "ConnectionTrackingSpecification" not in efa


@pytest.mark.parametrize(
    ("changes", "market"),
    [
        ({}, None),
        ({"reservation_type": "capacity-block"}, "capacity-block"),
        ({"interruptible": True}, "interruptible-capacity-reservation"),
    ],
)
def test_reserved_capacity_is_aimed_at_its_reservation(changes: dict[str, Any], market: str | None) -> None:
    data = template_data(_spec(capacity_type=labels.RESERVED, reservation_id="cr-1", **changes))

    assert data["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
    }
    assert data.get("InstanceMarketOptions", {}).get("MarketType") == market


def test_without_the_gate_nothing_is_said_about_reservations() -> None:
    assert "CapacityReservationSpecification" not in template_data(_spec(keeps_off_reservations=False))


def test_a_name_follows_from_everything_in_the_template_and_on_it() -> None:
    names = {
        template_name(_spec()),
        template_name(_spec(user_data="b3RoZXI=")),
        template_name(_spec(tags={"a": "1"})),
        template_name(_spec(public_ip=True)),
    }

    assert len(names) == 4
    assert template_name(_spec()) == template_name(_spec())
    assert all(name.startswith(NAME_PREFIX) and len(name) <= 128 for name in names)


def _templates(aws: FakeAws, clock: FakeClock) -> LaunchTemplates:
    return LaunchTemplates(aws, clock, cluster_name="demo")


async def test_a_template_is_made_once_for_many_launches() -> None:
    aws = FakeAws({"CreateLaunchTemplate": {}})
    templates = _templates(aws, FakeClock())

    names = await asyncio.gather(*(templates.ensure(_spec(tags={"a": "1"})) for _ in range(5)))

    (call,) = aws.named("CreateLaunchTemplate")
    assert set(names) == {call["LaunchTemplateName"]}
    assert call["TagSpecifications"] == [
        {"ResourceType": "launch-template", "Tags": [{"Key": "a", "Value": "1"}]}
    ]


async def test_who_needed_a_template_that_was_not_there_is_told() -> None:
    templates = _templates(FakeAws({"CreateLaunchTemplate": {}}), FakeClock())
    told: list[str] = []

    for _ in range(2):
        await templates.ensure(_spec(), lambda name, spec: told.append(name + spec.image_id))

    assert told == [template_name(_spec()) + "ami-1"]


async def test_a_template_that_exists_is_the_right_one_and_any_other_refusal_is_raised() -> None:
    aws = FakeAws(
        {
            "CreateLaunchTemplate": [
                aws_error("InvalidLaunchTemplateName.AlreadyExistsException"),
                aws_error("UnauthorizedOperation"),
            ]
        }
    )
    templates = _templates(aws, FakeClock())

    await templates.ensure(_spec())
    with pytest.raises(AwsError):
        await templates.ensure(_spec(image_id="ami-2"))


async def test_what_was_forgotten_is_made_again() -> None:
    aws = FakeAws({"CreateLaunchTemplate": {}})
    templates = _templates(aws, FakeClock())
    name = await templates.ensure(_spec())

    templates.forget([name, "unknown"])
    await templates.ensure(_spec())

    assert len(aws.calls) == 2


async def test_unused_templates_go_after_a_minute_and_held_ones_stay() -> None:
    clock = FakeClock()
    aws = FakeAws({"CreateLaunchTemplate": {}, "DeleteLaunchTemplate": {}})
    templates = _templates(aws, clock)
    unused, held = await templates.ensure(_spec()), await templates.ensure(_spec(image_id="ami-2"))

    early = await templates.sweep()
    async with templates.holding([held]):
        await clock.advance(60)
        swept = await templates.sweep()
    after = await templates.sweep()

    assert early == after == ()
    assert swept == (unused,)
    assert aws.named("DeleteLaunchTemplate") == [{"LaunchTemplateName": unused}]


async def test_a_template_that_is_used_again_while_others_are_swept_stays() -> None:
    clock = FakeClock()
    deleting = asyncio.Event()
    proceed = asyncio.Event()

    async def delete(**_: Any) -> dict[str, Any]:
        deleting.set()
        await proceed.wait()
        return {}

    aws = FakeAws({"CreateLaunchTemplate": {}, "DeleteLaunchTemplate": delete})
    templates = _templates(aws, clock)
    first, second = await templates.ensure(_spec()), await templates.ensure(_spec(image_id="ami-2"))
    await clock.advance(60)

    sweeping = asyncio.create_task(templates.sweep())
    await deleting.wait()
    await templates.ensure(_spec(image_id="ami-2"))
    proceed.set()

    assert await sweeping == (first,)
    assert [call["LaunchTemplateName"] for call in aws.named("DeleteLaunchTemplate")] == [first]
    assert second != first


async def test_a_template_that_is_gone_already_is_no_error_and_a_refusal_is() -> None:
    clock = FakeClock()
    aws = FakeAws(
        {
            "CreateLaunchTemplate": {},
            "DeleteLaunchTemplate": [
                aws_error("InvalidLaunchTemplateName.NotFoundException"),
                aws_error("UnauthorizedOperation"),
            ],
        }
    )
    templates = _templates(aws, clock)
    await templates.ensure(_spec())
    await clock.advance(60)
    await templates.sweep()
    await templates.ensure(_spec())
    await clock.advance(60)

    with pytest.raises(AwsError):
        await templates.sweep()


async def test_templates_of_an_earlier_process_are_found_used_and_removed() -> None:
    clock = FakeClock()
    mine = template_name(_spec())
    listed = {"LaunchTemplates": [{"LaunchTemplateName": mine}, {"LaunchTemplateName": "somebody-elses"}]}
    aws = FakeAws({"DescribeLaunchTemplates": listed, "DeleteLaunchTemplate": {}})
    templates = _templates(aws, clock)

    found = await templates.hydrate()
    await templates.ensure(_spec())
    await clock.advance(60)
    swept = await templates.sweep()

    assert found == 1
    assert swept == (mine,)
    assert aws.named("DescribeLaunchTemplates")[0]["Filters"] == [
        {"Name": "tag:eks:eks-cluster-name", "Values": ["demo"]}
    ]


async def test_all_templates_of_a_node_class_are_removed() -> None:
    listed = {"LaunchTemplates": [{"LaunchTemplateName": f"{NAME_PREFIX}{n}"} for n in "ab"]}
    aws = FakeAws({"DescribeLaunchTemplates": listed, "DeleteLaunchTemplate": {}})

    removed = await _templates(aws, FakeClock()).delete_of("default")

    assert removed == 2
    assert aws.named("DescribeLaunchTemplates")[0]["Filters"][1] == {
        "Name": "tag:karpenter.k8s.aws/ec2nodeclass",
        "Values": ["default"],
    }
