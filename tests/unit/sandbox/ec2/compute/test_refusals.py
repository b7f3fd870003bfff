# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter import facts
from karpenter.sandbox.ec2.compute.refusals import check_interfaces
from karpenter.sandbox.ec2.contract import ModelError
from tests.unit.sandbox.ec2.compute.account import ZONES, Account, codes_of, ids_of


@pytest.fixture
def account() -> Account:
    return Account()


def nic(account: Account, card: int = 0, device: int = 0, **more: Any) -> dict[str, Any]:
    """An interface as a launch template names it."""
    return {"NetworkCardIndex": card, "DeviceIndex": device, "Groups": [account.group], **more}


def efa_only(card: int, device: int = 1, **more: Any) -> dict[str, Any]:
    """An interface for EFA traffic alone."""
    return {"NetworkCardIndex": card, "DeviceIndex": device, "InterfaceType": "efa-only", **more}


def outcome(account: Account, instance_type: str, **data: Any) -> tuple[str, str]:
    """Launches one type with a template; gives code and message of the error, both empty when it launched."""
    account.add_template("tried", **data)
    zone = next(zone for zone in ZONES if zone in account.ec2.prices.offered[instance_type])
    fleet = account.fleet(account.at(instance_type, zone), template="tried")
    if ids_of(fleet):
        return "", ""
    (error,) = fleet["Errors"]
    return error["ErrorCode"], error["ErrorMessage"]


def volume(**ebs: Any) -> list[dict[str, Any]]:
    """One block device mapping of the root volume."""
    return [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, **ebs}}]


@pytest.mark.parametrize(("public", "code"), [(True, "InvalidParameterCombination"), (False, ""), (None, "")])
def test_a_public_address_goes_with_one_interface_alone(account: Account, public: object, code: str) -> None:
    interfaces = [nic(account, 0, 0, AssociatePublicIpAddress=public), nic(account, 0, 1)]

    assert outcome(account, "m5.large", NetworkInterfaces=interfaces)[0] == code


def test_one_interface_may_have_a_public_address(account: Account) -> None:
    assert outcome(account, "m5.large", NetworkInterfaces=[nic(account, AssociatePublicIpAddress=True)]) == (
        "",
        "",
    )


@pytest.mark.parametrize(
    ("instance_type", "card", "device", "code"),
    [
        ("m5.large", 0, 2, ""),
        ("m5.large", 0, 3, "InvalidParameterValue"),
        ("m5.large", 1, 0, "InvalidParameterValue"),
        ("p5.48xlarge", 31, 1, ""),
        ("p5.48xlarge", 1, 3, "InvalidParameterValue"),
    ],
)
def test_device_indexes_end_with_their_card(
    account: Account, instance_type: str, card: int, device: int, code: str
) -> None:
    interfaces = [nic(account), nic(account, card, device)]

    told, message = outcome(account, instance_type, NetworkInterfaces=interfaces)

    assert told == code
    assert not code or instance_type in message


def test_a_second_card_with_one_interface_has_it_at_the_device_index_1(account: Account) -> None:
    kind = facts.instance_types()["hpc6id.32xlarge"]
    subnet = account.ec2.subnets[account.subnets[ZONES[0]]]
    assert [card.max_interfaces for card in kind.network_cards] == [1, 1]

    check_interfaces([nic(account), nic(account, 1, 1)], kind, subnet)

    with pytest.raises(ModelError, match="up to 1"):
        check_interfaces([nic(account), nic(account, 1, 2)], kind, subnet)


def test_no_two_interfaces_of_a_card_have_the_same_device_index(account: Account) -> None:
    assert outcome(account, "m5.large", NetworkInterfaces=[nic(account), nic(account)])[0] == (
        "InvalidParameterValue"
    )


@pytest.mark.parametrize("asked", [{"Ipv4PrefixCount": 1}, {"Ipv6PrefixCount": 1}])
def test_xen_types_have_no_prefixes(account: Account, asked: dict[str, Any]) -> None:
    code, message = outcome(account, "m4.large", NetworkInterfaces=[nic(account, **asked)])

    assert code == "UnsupportedOperation"
    assert "m4.large" in message


def test_nitro_types_have_prefixes(account: Account) -> None:
    assert outcome(account, "m5.large", NetworkInterfaces=[nic(account, Ipv4PrefixCount=1)])[0] == ""


@pytest.mark.parametrize("asked", [{"Ipv6AddressCount": 1}, {"PrimaryIpv6": True}, {"Ipv6PrefixCount": 1}])
def test_ipv6_needs_a_subnet_with_ipv6(account: Account, asked: dict[str, Any]) -> None:
    code, message = outcome(account, "m5.large", NetworkInterfaces=[nic(account, **asked)])

    assert code == "InvalidParameterValue"
    assert account.subnets[ZONES[0]] in message


def test_ipv6_works_in_a_subnet_with_ipv6_on_types_that_have_it(account: Account) -> None:
    account.ec2.subnets[account.subnets[ZONES[0]]].ipv6_cidr = "2001:db8::/64"
    account.add_template("six", NetworkInterfaces=[nic(account, Ipv6AddressCount=1)])

    assert ids_of(account.fleet(account.at("m5.large"), template="six"))
    refused = account.fleet(account.at("m3.medium"), template="six")

    assert codes_of(refused) == ["UnsupportedOperation"]


@pytest.mark.parametrize("asked", [{"AssociatePublicIpAddress": True}, {"Ipv4PrefixCount": 2}])
def test_an_efa_only_interface_has_no_addresses(account: Account, asked: dict[str, Any]) -> None:
    interfaces = [efa_only(0, **asked)]

    assert outcome(account, "p5.48xlarge", NetworkInterfaces=interfaces)[0] == "InvalidParameterValue"


@pytest.mark.parametrize(
    ("hops", "code"),
    [
        (0, "InvalidParameterValue"),
        (1, ""),
        (64, ""),
        (65, "InvalidParameterValue"),
        (100, "InvalidParameterValue"),
    ],
)
def test_hop_limits_are_from_1_to_64(account: Account, hops: int, code: str) -> None:
    assert outcome(account, "m5.large", MetadataOptions={"HttpPutResponseHopLimit": hops})[0] == code


@pytest.mark.parametrize(
    ("ebs", "code"),
    [
        ({"VolumeType": "io2"}, "InvalidParameterCombination"),
        ({"VolumeType": "io1"}, "InvalidParameterCombination"),
        ({"VolumeType": "io2", "Iops": 1000}, ""),
        ({"VolumeType": "gp2", "Iops": 1000}, "InvalidParameterCombination"),
        ({"VolumeType": "gp2", "Throughput": 125}, "InvalidBlockDeviceMapping"),
        ({"VolumeType": "io2", "Iops": 1000, "Throughput": 125}, "InvalidBlockDeviceMapping"),
        ({"VolumeType": "gp3", "Iops": 3000, "Throughput": 125}, ""),
        # Without a type, it is that of the image.
        ({"Throughput": 125}, ""),
        ({"VolumeType": "gp2"}, ""),
    ],
)
def test_volumes_have_the_settings_of_their_kind(account: Account, ebs: dict[str, Any], code: str) -> None:
    told, message = outcome(account, "m5.large", BlockDeviceMappings=volume(**ebs))

    assert told == code
    assert not code or "/dev/xvda" in message


@pytest.mark.parametrize(
    ("instance_type", "code"),
    [("m8i.large", ""), ("m5.large", "UnsupportedOperation"), ("m7a.large", "UnsupportedOperation")],
)
def test_nested_virtualization_needs_a_type_that_has_it(
    account: Account, instance_type: str, code: str
) -> None:
    told, message = outcome(account, instance_type, CpuOptions={"NestedVirtualization": "enabled"})

    assert told == code
    assert not code or instance_type in message


@pytest.mark.parametrize(("instance_type", "code"), [("m5.xlarge", ""), ("t3.large", "UnsupportedOperation")])
def test_enclaves_need_a_type_that_has_them(account: Account, instance_type: str, code: str) -> None:
    assert outcome(account, instance_type, EnclaveOptions={"Enabled": True})[0] == code


def test_options_that_are_switched_off_are_for_all_types(account: Account) -> None:
    options = {"CpuOptions": {"NestedVirtualization": "disabled"}, "EnclaveOptions": {"Enabled": False}}

    assert outcome(account, "t3.large", **options)[0] == ""


def test_run_instances_refuses_the_same_as_a_whole(account: Account) -> None:
    with pytest.raises(ModelError) as caught:
        account.ec2.call(
            "RunInstances",
            ImageId=account.image,
            InstanceType="t3.large",
            MinCount=1,
            MaxCount=1,
            SubnetId=account.subnets[ZONES[0]],
            EnclaveOptions={"Enabled": True},
        )

    assert caught.value.code == "UnsupportedOperation"
    assert account.listed() == []
