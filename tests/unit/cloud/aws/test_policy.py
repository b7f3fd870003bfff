# SPDX-License-Identifier: Apache-2.0
"""The controller's policies follow from its calls."""

from __future__ import annotations

import json

import pytest

from karpenter.cloud.aws import policy
from karpenter.cloud.aws.calls import CALLS, Call
from karpenter.cloud.aws.policy import (
    Scope,
    UncoveredCallError,
    action_of,
    controller_policies,
    document,
)

_SCOPE = Scope(
    cluster="prod",
    region="eu-west-1",
    account="111122223333",
    node_role_arn="arn:aws:iam::111122223333:role/KarpenterNodeRole-prod",
    queue_arn="arn:aws:sqs:eu-west-1:111122223333:prod",
)


def test_exactly_the_calls_of_the_table_are_allowed_and_passing_the_node_role() -> None:
    given = {
        action for each in controller_policies(_SCOPE).values() for one in each for action in one.actions
    }

    assert given == {action_of(call) for call in CALLS.values()} - {""} | {"iam:PassRole"}


def test_each_policy_is_within_iams_limit_and_each_statement_has_a_name_and_a_reason() -> None:
    policies = controller_policies(_SCOPE)

    sids = [one.sid for each in policies.values() for one in each]
    assert len(sids) == len(set(sids))
    for each in policies.values():
        assert len(document(each)) <= 6144
        assert all(one.why for one in each)


def test_what_changes_something_is_confined_by_tags_or_by_name() -> None:
    for each in controller_policies(_SCOPE).values():
        for one in each:
            changing = [call for call in CALLS.values() if call.mutating and action_of(call) in one.actions]
            using = one.sid == "AllowScopedEC2InstanceAccessActions"
            assert not changing or using or one.conditions or one.resources == (_SCOPE.queue_arn,)


def test_without_a_queue_there_is_no_right_to_queues() -> None:
    scope = Scope("prod", "eu-west-1", "111122223333", _SCOPE.node_role_arn)

    text = "".join(document(each) for each in controller_policies(scope).values())

    assert "sqs:" not in text


def test_other_partitions_have_other_arns_and_in_china_another_service() -> None:
    scope = Scope("prod", "cn-north-1", "1", "arn:aws-cn:iam::1:role/n", partition="aws-cn")

    text = "".join(document(each) for each in controller_policies(scope).values())

    assert "arn:aws:" not in text
    assert "ec2.amazonaws.com.cn" in text


def test_a_call_that_no_statement_allows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    more = {**CALLS, ("kms", "Decrypt"): Call("kms", "Decrypt", "reads a secret")}
    monkeypatch.setattr(policy, "CALLS", more)

    with pytest.raises(UncoveredCallError) as refused:
        controller_policies(_SCOPE)

    assert "kms:Decrypt" in refused.value.message


def test_a_document_is_what_iam_reads() -> None:
    (first, *_) = controller_policies(_SCOPE).values()

    read = json.loads(document(first))

    assert read["Version"] == "2012-10-17"
    assert {"Sid", "Effect", "Action", "Resource"} <= set(read["Statement"][0])
