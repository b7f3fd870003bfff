# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.sandbox.ec2.contract import ModelError
from karpenter.sandbox.ec2.front.query import parse
from karpenter.sandbox.ec2.front.schema import service


def parsed(service_name: str, operation: str, **form: str) -> dict[str, Any]:
    described = service(service_name)
    return parse(described, described.operations[operation], {"Action": operation, **form})


def test_flat_names_become_lists_and_structures_in_order() -> None:
    found = parsed(
        "ec2",
        "DescribeInstances",
        **{
            "Filter.2.Name": "b",
            "Filter.10.Name": "c",
            "Filter.1.Name": "a",
            "Filter.1.Value.2": "y",
            "Filter.1.Value.1": "x",
            "MaxResults": "50",
            "DryRun": "true",
        },
    )

    assert found == {
        "Filters": [{"Name": "a", "Values": ["x", "y"]}, {"Name": "b"}, {"Name": "c"}],
        "MaxResults": 50,
        "DryRun": True,
    }


def test_times_are_read_from_text_and_from_seconds() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    assert parsed("ec2", "DescribeSpotPriceHistory", StartTime="2026-01-01T00:00:00Z") == {
        "StartTime": moment
    }
    assert parsed("ec2", "DescribeSpotPriceHistory", StartTime="1767225600") == {"StartTime": moment}


def test_iam_lists_have_member_in_their_names() -> None:
    form = {"InstanceProfileName": "p", "Tags.member.1.Key": "k", "Tags.member.1.Value": "v"}

    assert parsed("iam", "TagInstanceProfile", **form) == {
        "InstanceProfileName": "p",
        "Tags": [{"Key": "k", "Value": "v"}],
    }


def test_an_instance_type_of_tomorrow_is_let_through() -> None:
    found = parsed("ec2", "DescribeInstanceTypes", **{"InstanceType.1": "z99.large"})

    assert found == {"InstanceTypes": ["z99.large"]}


def test_an_empty_list_can_be_said() -> None:
    assert parsed("ec2", "DescribeInstances", Filter="") == {"Filters": []}


@pytest.mark.parametrize(
    ("operation", "form", "code", "text"),
    [
        (
            "DescribeInstances",
            {"Filters.1.Name": "a"},
            "UnknownParameter",
            "The parameter Filters is not recognized",
        ),
        (
            "DescribeInstances",
            {"MaxResults": "ten"},
            "InvalidParameterValue",
            "Value (ten) for parameter MaxResults",
        ),
        ("DescribeInstances", {"MaxResults.1": "1"}, "UnknownParameter", "MaxResults.1"),
        ("DescribeInstances", {"DryRun": "maybe"}, "InvalidParameterValue", "DryRun"),
        ("DescribeInstances", {"Filter.x.Name": "a"}, "UnknownParameter", "Filter.x"),
        ("DescribeInstances", {"Filter": "abc"}, "InvalidParameterValue", "Filter"),
        ("DescribeInstances", {"Filter.1": "abc"}, "InvalidParameterValue", "Filter.1"),
        ("DescribeInstances", {"Filter.1.Name": "a", "Filter.1": "b"}, "UnknownParameter", "Filter.1"),
        ("DescribeInstances", {"Filter.1": "b", "Filter.1.Name": "a"}, "UnknownParameter", "Filter.1.Name"),
        ("DescribeSpotPriceHistory", {"StartTime": "1e20"}, "InvalidParameterValue", "StartTime"),
        ("DescribeSpotPriceHistory", {"StartTime": "noon"}, "InvalidParameterValue", "StartTime"),
        ("TerminateInstances", {}, "MissingParameter", "The request must contain the parameter InstanceId"),
        ("CreateFleet", {"Type": "never"}, "InvalidParameterValue", "Type"),
    ],
)
def test_ec2_refuses_what_it_does_not_understand(
    operation: str, form: dict[str, str], code: str, text: str
) -> None:
    with pytest.raises(ModelError) as refused:
        parsed("ec2", operation, **form)

    assert refused.value.code == code
    assert text in refused.value.message


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({}, "ValidationError"),
        ({"RoleName": "x" * 65}, "ValidationError"),
        ({"RoleName": ""}, "ValidationError"),
        ({"RoleName": "x", "Colour": "red"}, "MalformedInput"),
    ],
)
def test_iam_has_codes_of_its_own(form: dict[str, str], code: str) -> None:
    with pytest.raises(ModelError) as refused:
        parsed("iam", "GetRole", **form)

    assert refused.value.code == code


def test_an_iam_list_needs_its_member() -> None:
    with pytest.raises(ModelError, match="MalformedInput"):
        parsed("iam", "TagRole", RoleName="r", **{"Tags.1.Key": "k"})


def test_an_operation_without_parameters_takes_none() -> None:
    with pytest.raises(ModelError, match="Colour"):
        parsed("sts", "GetCallerIdentity", Colour="red")
