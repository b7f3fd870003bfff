# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.cloud.aws.codes import (
    Kind,
    classify,
    is_already_there,
    is_not_found,
    is_template_missing,
    is_throttle,
)


@pytest.mark.parametrize(
    "code",
    [
        "InsufficientInstanceCapacity",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        "InsufficientFreeAddressesInSubnet",
        "MaxFleetCountExceeded",
        "ReservationCapacityExceeded",
    ],
)
def test_karpenters_eight_shortages_are_shortages(code: str) -> None:
    assert classify(code).is_unfulfillable


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "", "SpotSLRCreationFailed"),
        ("UnauthorizedOperation", "", "Unauthorized"),
        ("AuthFailure", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure"),
        (
            "InvalidParameter",
            "Security group sg-1 and subnet subnet-1 belong to different networks.",
            "SecurityGroupSubnetVPCMismatch",
        ),
        (
            "InvalidParameterValue",
            "Value (x) for Invalid IAM Instance Profile name",
            "InstanceProfileNameInvalid",
        ),
        ("InvalidLaunchTemplateName.NotFoundException", "", "LaunchTemplateNotFound"),
        ("InvalidParameterValue", "User data is limited to 16384 bytes", "UserDataSizeLimitExceeded"),
        ("InvalidAMIID.Malformed", "", "InvalidAMIID"),
        ("InvalidAMIID.NotFound", "", "AMINotFound"),
        ("RequestLimitExceeded", "", "RequestLimitExceeded"),
        ("InternalError", "", "InternalError"),
        ("InvalidParameterCombination", "The type is not eligible for Free Tier.", "FreeTierIneligible"),
        ("MaxFleetCountExceeded", "", "FleetQuotaExceeded"),
        ("PendingVerification", "", "AccountPendingVerification"),
        ("Blocked", "Your account is pending verification", "AccountPendingVerification"),
        ("MaxSpotInstanceCountExceeded", "", "SpotQuotaExceeded"),
        ("VcpuLimitExceeded", "", "VCPULimitExceeded"),
        ("InsufficientFreeAddressesInSubnet", "", "InsufficientFreeAddressesInSubnet"),
        ("SomethingNew", "", "LaunchFailed"),
    ],
)
def test_each_error_has_the_reason_that_karpenter_gives_it(code: str, message: str, reason: str) -> None:
    assert classify(code, message).reason == reason


def test_a_throttle_is_never_a_shortage() -> None:
    assert is_throttle("RequestLimitExceeded")
    assert not classify("RequestLimitExceeded").is_unfulfillable


def test_a_key_that_cannot_be_used_is_told_apart_from_a_missing_permission() -> None:
    by_code = classify("Client.InvalidKMSKey.InvalidState")
    by_message = classify("InvalidParameterValue", "The KMS key arn:aws:kms:1 is in state PendingDeletion")

    assert by_code.kind is by_message.kind is Kind.KMS
    assert "KMS key" in by_message.hint


def test_a_missing_permission_names_action_resource_and_who_lacks_it() -> None:
    message = (
        "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/karpenter/x is not"
        " authorized to perform: ec2:CreateFleet on resource: arn:aws:ec2:us-west-2:1:fleet/* because no"
        " identity-based policy allows the ec2:CreateFleet action"
    )

    cause = classify("UnauthorizedOperation", message)

    assert cause.kind is Kind.PERMISSION
    assert cause.hint == (
        "allow ec2:CreateFleet on arn:aws:ec2:us-west-2:1:fleet/* in the policy of"
        " arn:aws:sts::1:assumed-role/karpenter/x"
    )


def test_a_permission_without_resource_is_named_all_the_same() -> None:
    cause = classify("AccessDenied", "User: arn:x is not authorized to perform: iam:ListInstanceProfiles")

    assert cause.hint == "allow iam:ListInstanceProfiles in the policy of arn:x"


def test_an_encoded_refusal_is_said_to_be_encoded() -> None:
    cause = classify("UnauthorizedOperation", "Encoded authorization failure message: abc")

    assert "decode-authorization-message" in cause.hint
    assert "policy" in classify("UnauthorizedOperation", "no").hint


def test_a_limit_of_another_service_is_a_quota() -> None:
    assert classify("LimitExceeded").kind is Kind.QUOTA


def test_what_is_missing_and_what_exists_are_known() -> None:
    assert is_not_found("InvalidInstanceID.NotFound")
    assert is_not_found("InvalidLaunchTemplateId.NotFound")
    assert is_template_missing("InvalidLaunchTemplateId.NotFound")
    assert not is_template_missing("InvalidInstanceID.NotFound")
    assert is_already_there("EntityAlreadyExists")
    assert not is_already_there("NoSuchEntity")
