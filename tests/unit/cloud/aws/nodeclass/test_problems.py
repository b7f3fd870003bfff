# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.cloud.aws.api import AwsError, AwsUnreachableError
from karpenter.cloud.aws.nodeclass import Denied, denied, problem_of
from karpenter.cloud.aws.nodeclass.problems import UNAUTHORIZED, UNREACHABLE
from karpenter.cloud.errors import LaunchError
from karpenter.errors import KarpenterError

WHO = "arn:aws:sts::111111111111:assumed-role/controller/x"


def refused(code: str, text: str = "", *, status: int = 403, operation: str = "CreateFleet") -> AwsError:
    return AwsError("ec2", operation, code=code, text=text, status=status)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"No. User: {WHO} is not authorized to perform: iam:PassRole on resource: arn:aws:iam::1:role/nodes",
            Denied("iam:PassRole", "arn:aws:iam::1:role/nodes", WHO),
        ),
        (f"User: {WHO} is not authorized to perform: ec2:RunInstances", Denied("ec2:RunInstances", "", WHO)),
        (f"User: {WHO} is not authorized to perform: ec2:X on resource: *", Denied("ec2:X", "", WHO)),
        ("You are not authorized to perform this operation.", Denied("ec2:CreateFleet")),
    ],
)
def test_the_missing_permission_is_read_from_what_aws_says(text: str, expected: Denied) -> None:
    assert denied(refused("UnauthorizedOperation", text)) == expected


def test_a_missing_permission_names_action_resource_and_whose_policy() -> None:
    text = f"User: {WHO} is not authorized to perform: ec2:DescribeSubnets on resource: arn:x"

    problem = problem_of(
        refused("UnauthorizedOperation", text), field="spec.subnetSelectorTerms", reason="SubnetsNotFound"
    )

    assert problem.reason == UNAUTHORIZED
    assert problem.is_verdict
    assert str(problem) == (
        "spec.subnetSelectorTerms: the controller may not call ec2:DescribeSubnets on arn:x"
        f" (hint: allow ec2:DescribeSubnets on arn:x in the policy of {WHO}; CloudTrail shows the denied call)"
    )


def test_the_reason_of_an_authorisation_check_is_kept_and_an_unknown_principal_is_the_controller() -> None:
    problem = problem_of(refused("UnauthorizedOperation"), field="spec", reason="CreateFleetAuthCheckFailed")

    assert problem.reason == "CreateFleetAuthCheckFailed"
    assert "in the controller's policy" in problem.hint


def test_what_changes_at_every_call_is_left_out_of_the_sentence() -> None:
    texts = [f"Nope. Encoded authorization failure message: {blob}" for blob in ("abc", "def")]

    told = {str(problem_of(refused("AuthFailure", text), field="spec", reason="X")) for text in texts}

    assert len(told) == 1
    assert "Encoded" not in told.pop()


def test_wrong_credentials_are_a_verdict_with_a_hint() -> None:
    problem = problem_of(refused("AuthFailure", "nope", status=401), field="spec.role", reason="X")

    assert (problem.reason, problem.is_verdict) == (UNAUTHORIZED, True)
    assert "does not accept the controller's credentials (AuthFailure: nope)" in problem.message
    assert "region" in problem.hint


@pytest.mark.parametrize(
    "error",
    [
        refused("RequestLimitExceeded", status=503),
        refused("InternalError", status=500),
        refused("Strange", status=502),
        AwsUnreachableError("ec2", "DescribeSubnets", "no connection", hint="check the region"),
    ],
)
def test_trouble_of_aws_itself_is_no_verdict(error: KarpenterError) -> None:
    problem = problem_of(error, field="spec.subnetSelectorTerms", reason="SubnetsNotFound")

    assert (problem.reason, problem.is_verdict) == (UNREACHABLE, False)
    assert problem.hint


def test_a_code_with_a_reason_of_its_own_keeps_it() -> None:
    mismatch = refused(
        "InvalidParameter",
        "Security group sg-1 and subnet subnet-1 belong to different networks.",
        status=400,
    )

    known = problem_of(mismatch, field="spec", reason="RunInstancesAuthCheckFailed")
    other = problem_of(refused("Strange", "odd", status=400), field="spec", reason="Given")

    assert known.reason == "SecurityGroupSubnetVPCMismatch"
    assert (other.reason, other.message) == ("Given", "spec: ec2 CreateFleet was refused: Strange: odd")


def test_errors_of_our_own_keep_their_reason_and_get_the_field_where_they_name_none() -> None:
    own = problem_of(LaunchError("too long", reason="UserDataSizeLimitExceeded"), field="spec.x", reason="Y")
    bare = problem_of(
        KarpenterError("spec.role: nope", hint="mend it"), field="spec.instanceProfile", reason="Y"
    )

    assert (own.reason, own.message) == ("UserDataSizeLimitExceeded", "spec.x: too long")
    assert (bare.reason, str(bare)) == ("Y", "spec.role: nope (hint: mend it)")
    assert str(own) == "spec.x: too long"
