# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter import facts
from karpenter.sandbox.ec2.compute.types import type_view
from karpenter.sandbox.ec2.front.serialise import render_item
from tests.unit.sandbox.ec2.compute.account import Account, only


@pytest.fixture(scope="module")
def account() -> Account:
    return Account()


def pages(account: Account, action: str, key: str, **params: Any) -> list[list[Any]]:
    found: list[list[Any]] = []
    token: dict[str, str] = {}
    while True:
        answer = account.call(action, **params, **token)
        found.append(answer[key])
        if "NextToken" not in answer:
            return found
        token = {"NextToken": answer["NextToken"]}


def test_all_types_of_the_region_come_in_pages_of_a_hundred(account: Account) -> None:
    found = pages(account, "DescribeInstanceTypes", "InstanceTypes", MaxResults=100)

    names = [each["InstanceType"] for page in found for each in page]
    assert {len(page) for page in found[:-1]} == {100}
    assert names == sorted(facts.offered("us-west-2"))


def test_an_architecture_filter_passes_types_that_have_one_of_the_values(account: Account) -> None:
    filters = [
        only("processor-info.supported-architecture", "x86_64"),
        only("supported-virtualization-type", "hvm"),
    ]

    names = {
        each["InstanceType"]
        for page in pages(account, "DescribeInstanceTypes", "InstanceTypes", Filters=filters)
        for each in page
    }

    assert {"t2.nano", "t2.medium", "m5.large"} <= names
    assert "m6g.large" not in names


def test_a_named_type_shows_its_facts(account: Account) -> None:
    (found,) = account.call("DescribeInstanceTypes", InstanceTypes=["m5.large"])["InstanceTypes"]

    assert found["VCpuInfo"]["DefaultVCpus"] == 2
    assert found["MemoryInfo"]["SizeInMiB"] == 8192
    assert found["NetworkInfo"]["MaximumNetworkInterfaces"] == 3
    assert found["NetworkInfo"]["Ipv4AddressesPerInterface"] == 10
    assert found["Hypervisor"] == "nitro"
    assert found["SupportedUsageClasses"] == ["on-demand", "spot"]


def test_gpus_neurons_disks_and_metal_are_told(account: Account) -> None:
    rows = {
        each["InstanceType"]: each
        for each in account.call(
            "DescribeInstanceTypes",
            InstanceTypes=["g5.xlarge", "inf2.xlarge", "m5d.large", "m5.metal", "p5.48xlarge"],
        )["InstanceTypes"]
    }

    assert rows["g5.xlarge"]["GpuInfo"]["Gpus"][0]["Manufacturer"] == "NVIDIA"
    assert rows["inf2.xlarge"]["NeuronInfo"]["NeuronDevices"][0]["Count"] == 1
    assert rows["m5d.large"]["InstanceStorageInfo"]["TotalSizeInGB"] == 75
    assert rows["m5.metal"]["BareMetal"] is True
    assert "Hypervisor" not in rows["m5.metal"]
    assert rows["p5.48xlarge"]["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"] == 32
    assert len(rows["p5.48xlarge"]["NetworkInfo"]["NetworkCards"]) == 32


def test_every_type_of_the_catalogue_can_be_written() -> None:
    for each in facts.instance_types().values():
        assert each.name in render_item("InstanceTypeInfo", type_view(each))


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"InstanceTypes": ["m5.large", "m99.large"]}, "InvalidInstanceType"),
        ({"MaxResults": 101}, "InvalidParameterValue"),
        ({"Filters": [only("colour", "red")]}, "InvalidParameterValue"),
    ],
)
def test_bad_requests_for_types_are_refused(account: Account, params: dict[str, Any], code: str) -> None:
    assert account.refused("DescribeInstanceTypes", **params).code == code


def test_offerings_are_told_by_zone_by_zone_id_and_by_region(account: Account) -> None:
    by_zone = [
        each
        for page in pages(
            account,
            "DescribeInstanceTypeOfferings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            MaxResults=1000,
        )
        for each in page
    ]

    assert len(by_zone) == sum(map(len, facts.offered("us-west-2").values()))
    chosen = [only("instance-type", "m5.large"), only("location", "us*")]
    by_id = account.call(
        "DescribeInstanceTypeOfferings", LocationType="availability-zone-id", Filters=chosen
    )["InstanceTypeOfferings"]
    assert {each["Location"] for each in by_id} == set(account.ec2.zones().values())
    (region,) = account.call("DescribeInstanceTypeOfferings", Filters=chosen)["InstanceTypeOfferings"]
    assert region["Location"] == "us-west-2"
    outposts = account.call("DescribeInstanceTypeOfferings", LocationType="outpost")
    assert outposts["InstanceTypeOfferings"] == []


def test_rendered_types_are_kept() -> None:
    account = Account(rendered=True)

    first = account.call("DescribeInstanceTypes", InstanceTypes=["m5.large"])["InstanceTypes"]
    second = account.call("DescribeInstanceTypes", InstanceTypes=["m5.large"])["InstanceTypes"]

    assert first[0] is second[0]
    assert "<defaultVCpus>2</defaultVCpus>" in first[0].xml
