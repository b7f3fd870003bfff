# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.sandbox.ec2.contract import ModelError
from karpenter.sandbox.ec2.front.routing import Arrived, caller_of, operation_of, parameters_of
from karpenter.sandbox.ec2.front.schema import SchemaMissingError, service


def signed(
    name: str, *, target: str = "/", method: str = "POST", body: bytes = b"", amz_target: str = ""
) -> Arrived:
    scope = f"AWS4-HMAC-SHA256 Credential=AKIA1/20260101/eu-west-1/{name}/aws4_request, Signature=00"
    return Arrived(method, target, {"Authorization": scope, "X-Amz-Target": amz_target}, body)


def routed(arrived: Arrived) -> tuple[str, str, dict[str, Any]]:
    caller = caller_of(arrived, "us-west-2")
    operation = operation_of(caller.service, arrived)
    return caller.service.name, operation.name, parameters_of(caller.service, operation, arrived)


def test_the_signature_names_service_key_and_region() -> None:
    caller = caller_of(signed("ec2"), "us-west-2")

    assert (caller.service.name, caller.access_key, caller.region) == ("ec2", "AKIA1", "eu-west-1")


def test_each_protocol_names_its_operation_in_its_own_place() -> None:
    assert routed(signed("ec2", body=b"Action=DescribeVpcs&Version=2016-11-15")) == (
        "ec2",
        "DescribeVpcs",
        {},
    )
    assert routed(signed("sqs", body=b'{"QueueName": "q"}', amz_target="AmazonSQS.GetQueueUrl")) == (
        "sqs",
        "GetQueueUrl",
        {"QueueName": "q"},
    )
    assert routed(signed("eks", method="GET", target="/clusters/a?x=y")) == (
        "eks",
        "DescribeCluster",
        {"name": "a"},
    )


def test_an_arn_in_a_path_is_decoded_after_matching() -> None:
    path = "/managedresources/arn%3Aaws%3Aeks%3Aus-west-2%3A1%3Acluster%2Fsandbox"

    assert routed(signed("arc-zonal-shift", method="GET", target=path))[2] == {
        "resourceIdentifier": "arn:aws:eks:us-west-2:1:cluster/sandbox"
    }


def test_query_strings_and_bodies_of_rest_calls_are_read() -> None:
    listed = signed("eks", method="GET", target="/clusters?maxResults=3&include=a&include=b")
    created = signed(
        "eks", target="/clusters/c/access-entries", body=b'{"principalArn": "p", "kubernetesGroups": ["g"]}'
    )

    assert routed(listed)[2] == {"maxResults": 3, "include": ["a", "b"]}
    assert routed(created)[2] == {"clusterName": "c", "principalArn": "p", "kubernetesGroups": ["g"]}


def test_calls_without_a_signature_are_known_by_what_they_ask() -> None:
    unsigned = Arrived("POST", "/", {}, b"Action=AssumeRoleWithWebIdentity&RoleArn=a")
    by_target = Arrived("POST", "/", {"X-Amz-Target": "AmazonSSM.GetParameter"}, b"{}")

    assert caller_of(unsigned, "us-west-2").service.name == "sts"
    assert caller_of(by_target, "us-west-2").service.name == "ssm"


def test_a_signed_address_needs_no_header() -> None:
    scope = "AKIA2%2F20260101%2Fus-east-1%2Fsts%2Faws4_request"
    target = f"/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Credential={scope}"
    arrived = Arrived("GET", target, {}, b"")

    assert caller_of(arrived, "us-west-2").access_key == "AKIA2"
    assert routed(arrived)[1] == "GetCallerIdentity"


@pytest.mark.parametrize(
    ("arrived", "code"),
    [
        (Arrived("POST", "/", {}, b""), "MissingAuthenticationToken"),
        (signed("s3"), "UnknownService"),
        (signed("ec2", body=b"Action=FlyToTheMoon"), "InvalidAction"),
        (signed("iam", body=b"Action=FlyToTheMoon"), "InvalidAction"),
        (signed("ec2", body=b""), "MissingAction"),
        (signed("sqs", amz_target="AmazonSQS.Fly"), "UnknownOperationException"),
        (signed("eks", method="PATCH", target="/moon"), "UnknownOperationException"),
        (signed("ssm", body=b"{", amz_target="AmazonSSM.GetParameter"), "SerializationException"),
        (signed("ssm", body=b"[]", amz_target="AmazonSSM.GetParameter"), "SerializationException"),
        (signed("ssm", body=b"{}", amz_target="AmazonSSM.GetParameter"), "ValidationException"),
        (
            signed("ssm", body=b'{"Name": 3}', amz_target="AmazonSSM.GetParameter"),
            "SerializationException",
        ),
        (signed("eks", target="/clusters/c/access-entries", body=b"{}"), "InvalidParameterException"),
        (signed("eks", method="GET", target="/clusters?maxResults=many"), "SerializationException"),
        (signed("eks", method="GET", target="/clusters?maxResults=1000"), "InvalidParameterException"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_code_of_the_service(
    arrived: Arrived, code: str
) -> None:
    with pytest.raises(ModelError) as refused:
        routed(arrived)

    assert refused.value.code == code


def test_a_service_without_a_description_is_named_in_the_error() -> None:
    with pytest.raises(SchemaMissingError, match="no-such-service"):
        service("no-such-service")
