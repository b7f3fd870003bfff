# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks.providers.cases import changed_specs, error_cases, launches, node_classes
from benchmarks.providers.comparing import (
    Difference,
    Tally,
    error_differences,
    hash_differences,
    launch_differences,
    type_differences,
)
from benchmarks.providers.listed import ROWS, row_of

from karpenter.api import labels
from karpenter.api.schema.admission import load_crds
from karpenter.model.instancetypes import InstanceType, Offering

_DIFFERENCES = Path(__file__).parents[3] / "docs" / "reference" / "differences.md"
_ZONE = "us-west-2a"


def found(differences: Any) -> list[Difference]:
    """The differences among what was compared."""
    return [each for each in differences if each is not None]


def go_type(**more: Any) -> dict[str, Any]:
    """An instance type as the Go program gives it."""
    offered = {"labels": {labels.ZONE: _ZONE, labels.CAPACITY_TYPE: "spot"}, "price": 0.1, "available": True}
    return {
        "name": "m5.large",
        "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
        "allocatable": {"cpu": "1930m", "memory": "7Gi"},
        "requirements": {
            labels.ARCH: {"operator": "In", "values": ["amd64"]},
            "karpenter.k8s.aws/instance-gpu-count": {"operator": "DoesNotExist", "values": []},
        },
        "offerings": [offered],
        **more,
    }


def our_type(**more: Any) -> InstanceType:
    """The same type as ours."""
    facts: dict[str, Any] = {
        "name": "m5.large",
        "labels": {labels.ARCH: "amd64"},
        "capacity": {"cpu": 2000, "memory": 8 * 2**30, "pods": 29},
        "allocatable": {"cpu": 1930, "memory": 7 * 2**30},
        "offerings": (Offering(_ZONE, "spot", 0.1),),
    }
    return InstanceType(**{**facts, **more})


def test_equal_types_have_no_difference() -> None:
    assert found(type_differences("class", [go_type()], [our_type()])) == []


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        ({"capacity": {"cpu": 2000, "memory": 8 * 2**30, "pods": 30}}, "types.capacity.pods"),
        ({"allocatable": {"cpu": 1930, "memory": 1}}, "types.allocatable.memory"),
        ({"labels": {labels.ARCH: "arm64"}}, f"types.label.{labels.ARCH}"),
        ({"labels": {labels.ARCH: "amd64", "more": "x"}}, "types.label.more"),
        ({"offerings": ()}, "types.offering.spot"),
        ({"offerings": (Offering(_ZONE, "spot", 0.2),)}, "types.price.spot"),
        ({"name": "m5.xlarge"}, "types.listed"),
    ],
)
def test_a_difference_of_types_is_named_after_its_place(ours: dict[str, Any], name: str) -> None:
    differences = found(type_differences("class", [go_type()], [our_type(**ours)]))

    assert {each.name for each in differences} == {name}


def test_an_offering_that_is_not_available_is_none_and_its_labels_count_for_the_type() -> None:
    tenancy = {"operator": "In", "values": ["default"]}
    theirs = go_type(requirements={labels.ARCH: {"operator": "In", "values": ["amd64"]}, "tenancy": tenancy})
    theirs["offerings"].append({"labels": {labels.ZONE: "b"}, "price": 1, "available": False})
    offered = (
        Offering(_ZONE, "spot", 0.1, labels={"tenancy": "default"}),
        Offering("b", "spot", 1, available=False),
    )

    assert found(type_differences("class", [theirs], [our_type(offerings=offered)])) == []


def launched(
    user_data: str = "", price: float = 0.1, **template: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a launch asked for, and its launch templates."""
    data = {"ImageId": "ami-1", "UserData": base64.b64encode(user_data.encode()).decode(), **template}
    override = {"InstanceType": "m5.large", "AvailabilityZone": _ZONE, "Priority": price}
    config = {"LaunchTemplateSpecification": {"LaunchTemplateName": "t"}, "Overrides": [override]}
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "a"}]}]
    fleet = {
        "Type": "instant",
        "ClientToken": "x",
        "LaunchTemplateConfigs": [config],
        "TagSpecifications": tags,
    }
    made = {"instanceType": "m5.large", "capacityType": "spot", "fleets": [fleet]}
    return made, {"t": {"LaunchTemplateName": "t", "LaunchTemplateData": data}}


def compared(go: Any, ours: Any) -> list[Difference]:
    return found(launch_differences("case", go[0], ours[0], go[1], ours[1]))


@pytest.mark.parametrize(
    ("go", "ours", "same"),
    [
        ("a = 1\nb = 2\n", "b = 2\na = 1\n", True),
        ("a = 1\n", "a = 2\n", False),
        ("<powershell>\nx\n</powershell>", "<powershell>\nx\n\n</powershell>", True),
        (
            (
                'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n--//\n'
                "Content-Type: application/node.eks.aws\n\nspec: {a: 1, b: 2}\n--//--\n"
            ),
            (
                'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="x"\n\n--x\n'
                "Content-Type: application/node.eks.aws\n\nspec:\n  b: 2\n  a: 1\n--x--\n"
            ),
            True,
        ),
    ],
)
def test_user_data_is_compared_as_the_node_reads_it(go: str, ours: str, *, same: bool) -> None:
    differences = compared(launched(go), launched(ours))

    assert (differences == []) is same
    assert all(each.name.startswith("launch.template.LaunchTemplateData.UserData") for each in differences)


def test_user_data_that_is_no_base64_is_compared_as_it_is() -> None:
    assert compared(launched(UserData="%"), launched(UserData="%")) == []


def test_launch_templates_are_compared_field_by_field_and_nothing_said_is_nothing() -> None:
    go = launched(NetworkInterfaces=[{"DeviceIndex": 0, "InterfaceType": None}], KeyName="")
    ours = launched(NetworkInterfaces=[{"DeviceIndex": 1}])

    [difference] = compared(go, ours)

    assert difference.name == "launch.template.LaunchTemplateData.NetworkInterfaces[].DeviceIndex"
    assert (difference.go, difference.ours) == (0, 1)


def test_a_launch_that_only_one_refuses_is_a_difference_of_its_outcome() -> None:
    [difference] = compared(({"error": "no", "fleets": []}, {}), launched())

    assert (difference.name, difference.go, difference.ours) == ("launch.outcome", "refused", "m5.large spot")


def test_a_pool_that_only_one_names_is_told_with_its_price() -> None:
    go, ours = launched(price=0.1), launched(price=0.1)
    ours[0]["fleets"][0]["LaunchTemplateConfigs"][0]["Overrides"][0]["InstanceType"] = "m6i.large"

    differences = compared(go, ours)

    assert {(each.name, each.go, each.ours) for each in differences} == {
        ("launch.pool", 0.1, None),
        ("launch.pool", None, 0.1),
    }
    assert row_of("launch.pool", differences) == "types of one price at the end of a fleet"
    assert row_of("launch.pool", differences[:1]) is None


def test_errors_and_hashes_are_compared_by_what_they_tell() -> None:
    case = {"code": "Throttling", "message": "slow"}

    [difference] = found(error_differences(case, {"rateLimited": False}, {"rateLimited": True}))
    hashes = found(
        hash_differences(
            "class",
            {"nothing": "1", "volume": "2", "volume written otherwise": "2"},
            {"nothing": "a", "volume": "b", "volume written otherwise": "c"},
        )
    )

    assert (difference.name, difference.case) == ("error.rateLimited", "Throttling: slow")
    assert [(each.name, each.go, each.ours) for each in hashes] == [
        ("hash.volume written otherwise apart", False, True)
    ]


def test_a_tally_counts_what_was_compared_and_gathers_by_name() -> None:
    tally = Tally()

    tally.add(
        iter([None, Difference("b", "1", 0, 1), Difference("a", "1", 0, 1), Difference("b", "2", 0, 1)])
    )

    assert (tally.compared, tally.names, len(tally.differences["b"])) == (4, ["a", "b"], 2)


@pytest.mark.parametrize(
    ("name", "difference", "row"),
    [
        ("launch.fleet.TagSpecifications.volume.karpenter.sh/launch", ("c", None, "x"), "launches"),
        ("launch.fleet.TagSpecifications.volume.karpenter.sh/launch", ("c", "y", "x"), None),
        (
            "launch.template.LaunchTemplateData.NetworkInterfaces[].DeleteOnTermination",
            ("c", None, True),
            "settings at EC2's own defaults",
        ),
        (
            "launch.template.LaunchTemplateData.NetworkInterfaces[].DeleteOnTermination",
            ("c", None, False),
            None,
        ),
        ("launch.template.LaunchTemplateData.ImageId", ("c", "a", "b"), None),
        (
            "launch.template.LaunchTemplateData.UserData.settings.kubernetes.node-ip",
            ("c", None, "10.0.0.1"),
            "Bottlerocket settings of `settings.kubernetes`",
        ),
        ("types.offering.spot", ("c/Windows2022 a1.large", True, False), "Windows on Arm"),
        ("types.offering.spot", ("c/AL2023 a1.large", True, False), None),
        ("types.offering.spot", ("c/Windows2022 a1.large", False, True), None),
        ("types.allocatable.memory", ("c t3.nano", -5, None), "types smaller than what they reserve"),
        ("types.allocatable.memory", ("c t3.nano", 5, None), None),
        (
            "types.label.karpenter.k8s.aws/instance-tenancy",
            ("c", ["dedicated", "default"], ["default"]),
            "dedicated tenancy",
        ),
        ("types.label.karpenter.k8s.aws/instance-tenancy", ("c", ["default"], ["host"]), None),
        (
            "types.label.karpenter.k8s.aws/placement-group-partition",
            ("c", ["1"], []),
            "types without offerings",
        ),
        ("error.reason", ("Throttling", "LaunchFailed", "RequestLimitExceeded"), "error codes"),
        ("error.reason", ("VcpuLimitExceeded", "VCPULimitExceeded", "LaunchFailed"), None),
        ("hash.tags", ("c", True, False), "equal settings of a node class, written differently"),
        ("hash.tags", ("c", False, True), None),
    ],
)
def test_a_difference_is_listed_only_if_its_row_holds_of_it(
    name: str, difference: tuple[str, Any, Any], row: str | None
) -> None:
    assert row_of(name, [Difference(name, *difference)]) == row


def test_every_row_stands_in_the_document() -> None:
    rows = set(re.findall(r"^\| ([^|]+?) \|", _DIFFERENCES.read_text(encoding="utf-8"), re.MULTILINE))

    assert set(ROWS) <= rows


def test_cases_follow_from_their_seed_and_are_accepted_by_the_api() -> None:
    classes = node_classes(3, 40, ["cr-1"], ["near"])
    again = node_classes(3, 40, ["cr-1"], ["near"])

    assert classes == again
    assert classes != node_classes(4, 40, ["cr-1"], ["near"])
    assert [load_crds().admit(each).problems for each in classes] == [()] * len(classes)
    claims = launches(3, classes, 10)
    assert claims == launches(3, classes, 10)
    assert {each.node_class for each in claims} == set(range(len(classes)))
    assert [load_crds().admit(each.claim).problems for each in claims] == [()] * len(claims)


def test_changes_of_a_node_class_change_one_thing_each() -> None:
    [plain, *_] = node_classes(1, 1, ["cr-1"], [])
    changes = dict(changed_specs(plain))

    assert changes["nothing"] == plain
    assert len({repr(each) for each in changes.values()}) >= len(changes) - 1


def test_error_cases_are_distinct() -> None:
    cases = [(each["code"], each["message"]) for each in error_cases()]

    assert len(cases) == len(set(cases)) > 70
