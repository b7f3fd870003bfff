# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import json

import pytest

from karpenter.sandbox.ec2.behaviour.access import Access, Credentials, Denial
from karpenter.sandbox.ec2.contract import ModelError


@pytest.fixture
def access() -> Access:
    return Access("123456789012", "us-west-2")


def test_everybody_is_let_in_by_default(access: Access) -> None:
    access.check_credentials("ec2", "DescribeVpcs", "anything", "mars-1")
    access.check_permission("ec2", "RunInstances", "anything", {})


@pytest.mark.parametrize(
    ("service", "code", "status"),
    [
        ("ec2", "AuthFailure", 401),
        ("sts", "InvalidClientTokenId", 403),
        ("iam", "InvalidClientTokenId", 403),
        ("ssm", "UnrecognizedClientException", 400),
        ("eks", "UnrecognizedClientException", 403),
    ],
)
def test_a_wrong_key_is_refused_in_the_words_of_the_service(
    access: Access, service: str, code: str, status: int
) -> None:
    access.credentials = Credentials(accept=["good"])
    access.check_credentials(service, "Anything", "good", "us-west-2")

    with pytest.raises(ModelError) as refused:
        access.check_credentials(service, "Anything", "bad", "us-west-2")

    assert (refused.value.code, refused.value.status) == (code, status)


@pytest.mark.parametrize(
    ("service", "code"),
    [("ec2", "RequestExpired"), ("sts", "ExpiredToken"), ("eks", "ExpiredTokenException")],
)
def test_an_expired_key_is_told_so(access: Access, service: str, code: str) -> None:
    access.credentials = Credentials(expired=["old"])

    with pytest.raises(ModelError) as refused:
        access.check_credentials(service, "Anything", "old", "us-west-2")

    assert refused.value.code == code


def test_a_web_identity_needs_no_key(access: Access) -> None:
    access.credentials = Credentials(accept=["good"])

    access.check_credentials("sts", "AssumeRoleWithWebIdentity", "", "us-west-2")


def test_a_signature_for_another_region_can_be_refused(access: Access) -> None:
    access.credentials = Credentials(region="own")
    access.check_credentials("iam", "GetRole", "key", "us-east-1")

    with pytest.raises(ModelError, match="eu-west-1") as refused:
        access.check_credentials("ec2", "DescribeVpcs", "key", "eu-west-1")
    assert refused.value.code == "AuthFailure"


def test_ec2_encodes_why_it_denies(access: Access) -> None:
    access.denials.append(Denial(service="ec2", operation="RunInstances", resource="arn:x"))

    with pytest.raises(ModelError) as refused:
        access.check_permission("ec2", "RunInstances", "key", {})

    assert (refused.value.code, refused.value.status) == ("UnauthorizedOperation", 403)
    assert "is not authorized to perform: ec2:RunInstances on resource: arn:x" in refused.value.message
    encoded = refused.value.message.rpartition(" ")[2]
    details = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    assert details["context"]["action"] == "ec2:RunInstances"


@pytest.mark.parametrize(
    ("service", "code"),
    [("iam", "AccessDenied"), ("ssm", "AccessDeniedException"), ("eks", "AccessDeniedException")],
)
def test_others_deny_plainly(access: Access, service: str, code: str) -> None:
    access.denials.append(Denial(service=service))

    with pytest.raises(ModelError, match="no identity-based policy allows") as refused:
        access.check_permission(service, "Anything", "key", {})

    assert refused.value.code == code


def test_a_denial_may_be_for_one_key_and_certain_parameters(access: Access) -> None:
    access.denials.append(Denial(operation="PassRole*", access_key="bad", containing="admin"))

    access.check_permission("iam", "PassRole", "good", {"RoleName": "admin"})
    access.check_permission("iam", "PassRole", "bad", {"RoleName": "node"})
    with pytest.raises(ModelError):
        access.check_permission("iam", "PassRole", "bad", {"RoleName": "admin"})
