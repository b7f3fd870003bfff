# SPDX-License-Identifier: Apache-2.0
"""Policies are weighed as IAM weighs them, and what is not understood is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from karpenter.sandbox.ec2.rights import Asked, PolicyError, read_policy, weigh


def _policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def _decision(policy: str, asked: Asked) -> str:
    decided = weigh(read_policy(policy), asked)
    return "" if decided is None else ("allow" if decided.allows else "deny")


_TERMINATE = {"Sid": "End", "Effect": "Allow", "Action": "ec2:Terminate*", "Resource": "arn:*:instance/*"}
_ASKED = Asked("ec2:TerminateInstances", "arn:aws:ec2:us-west-2:1:instance/i-1")


def test_what_nobody_allows_is_not_allowed() -> None:
    assert _decision(_policy(), _ASKED) == ""
    assert _decision(_policy(_TERMINATE), Asked("ec2:RunInstances", _ASKED.resource)) == ""
    assert _decision(_policy(_TERMINATE), Asked(_ASKED.action, "arn:aws:ec2:us-west-2:1:volume/v-1")) == ""


def test_the_case_of_an_action_does_not_count_and_that_of_a_resource_does() -> None:
    policy = _policy(_TERMINATE)

    assert _decision(policy, Asked("EC2:terminateinstances", _ASKED.resource)) == "allow"
    assert _decision(policy, Asked(_ASKED.action, _ASKED.resource.upper())) == ""


def test_a_denial_wins_over_whatever_allows() -> None:
    denial = {"Effect": "Deny", "Action": "*", "Resource": "*"}

    assert _decision(_policy(_TERMINATE, denial), _ASKED) == "deny"


def test_all_but_some_actions_and_resources() -> None:
    policy = _policy({"Effect": "Allow", "NotAction": "iam:*", "NotResource": "arn:aws:s3:::secret"})

    assert _decision(policy, Asked("ec2:RunInstances", "*")) == "allow"
    assert _decision(policy, Asked("iam:PassRole", "*")) == ""
    assert _decision(policy, Asked("s3:GetObject", "arn:aws:s3:::secret")) == ""


@pytest.mark.parametrize(
    ("operator", "wanted", "values", "holds"),
    [
        ("StringEquals", "owned", "owned", True),
        ("StringEquals", ["shared", "owned"], "owned", True),
        ("StringEquals", "owned", None, False),
        ("StringEqualsIfExists", "owned", None, True),
        ("StringEqualsIfExists", "owned", "other", False),
        ("StringNotEquals", "owned", None, True),
        ("StringNotEquals", "owned", "owned", False),
        ("StringEqualsIgnoreCase", "OWNED", "owned", True),
        ("StringLike", "own*", "owned", True),
        ("StringLike", "[o]wned", "owned", False),
        ("StringNotLike", "own*", "owned", False),
        ("ArnLike", "arn:aws:*", "arn:aws:sqs", True),
        ("Bool", "false", "False", True),
        ("Null", "true", None, True),
        ("Null", "true", "owned", False),
        ("ForAllValues:StringEquals", ["a", "b"], ("a", "b"), True),
        ("ForAllValues:StringEquals", ["a"], ("a", "b"), False),
        ("ForAllValues:StringEquals", ["a"], None, True),
        ("ForAnyValue:StringEquals", ["a"], ("a", "b"), True),
        ("ForAnyValue:StringEquals", ["c"], ("a", "b"), False),
    ],
)
def test_conditions_hold_as_in_iam(operator: str, wanted: Any, values: Any, *, holds: bool) -> None:
    condition = {operator: {"aws:ResourceTag/Owner": wanted}}
    policy = _policy({**_TERMINATE, "Condition": condition})
    context = {} if values is None else {"aws:resourcetag/owner": values}

    assert (_decision(policy, Asked(_ASKED.action, _ASKED.resource, context)) == "allow") is holds


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "not a policy document"),
        ("{}", "not a policy document"),
        (_policy({**_TERMINATE, "Effect": "Maybe"}), "End: Effect is 'Maybe', not Allow or Deny"),
        (_policy({"Effect": "Allow", "Resource": "*"}), "statement 0: there is no Action"),
        (_policy({**_TERMINATE, "Conditions": {}}), "End: Conditions is not understood"),
        (
            _policy({**_TERMINATE, "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}),
            "End: the condition operator IpAddress is not understood",
        ),
    ],
)
def test_what_is_not_understood_is_refused_and_not_passed_over(document: str, words: str) -> None:
    with pytest.raises(PolicyError) as refused:
        read_policy(document)

    assert words in refused.value.message
