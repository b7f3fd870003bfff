# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from karpenter.sandbox.ec2.contract import ModelError
from karpenter.sandbox.ec2.front.answers import refusal, success
from karpenter.sandbox.ec2.front.schema import service

ERROR = ModelError("Broken", 'a < b & "c"', 409)


def test_ec2_puts_its_request_id_into_the_document() -> None:
    ec2 = service("ec2")

    answer = success(ec2, ec2.operations["DescribeVpcs"], {"Vpcs": []}, "rid")

    assert answer.body.decode().endswith(
        '<DescribeVpcsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15"><requestId>rid</requestId><vpcSet/>'
        "</DescribeVpcsResponse>"
    )


def test_query_services_wrap_their_results() -> None:
    sts = service("sts")

    answer = success(sts, sts.operations["GetCallerIdentity"], {"Account": "1"}, "rid")

    assert b"<GetCallerIdentityResult><Account>1</Account></GetCallerIdentityResult>" in answer.body
    assert b"<ResponseMetadata><RequestId>rid</RequestId></ResponseMetadata>" in answer.body


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "ec2",
            "<Response><Errors><Error><Code>Broken</Code><Message>a &lt; b &amp; &quot;c&quot;</Message>",
        ),
        (
            "iam",
            "<Error><Type>Sender</Type><Code>Broken</Code><Message>a &lt; b &amp; &quot;c&quot;</Message>",
        ),
    ],
)
def test_errors_are_xml_where_answers_are(name: str, expected: str) -> None:
    answer = refusal(service(name), ERROR, "rid")

    assert answer.status == 409
    assert expected in answer.body.decode()


def test_errors_are_json_where_answers_are() -> None:
    ssm, eks = refusal(service("ssm"), ERROR, "rid"), refusal(service("eks"), ERROR, "rid")

    assert json.loads(ssm.body) == {"__type": "Broken", "message": ERROR.message}
    assert json.loads(eks.body) == {"message": ERROR.message}
    assert eks.headers["x-amzn-ErrorType"] == "Broken"


def test_sqs_also_tells_its_old_codes() -> None:
    error = ModelError("QueueDoesNotExist", "no")

    answer = refusal(service("sqs"), error, "rid")

    assert answer.headers["x-amzn-query-error"] == "AWS.SimpleQueueService.NonExistentQueue;Sender"


def test_an_error_of_nobody_is_told_as_ec2_would() -> None:
    assert b"<Response><Errors><Error><Code>Broken" in refusal(None, ERROR, "rid").body
