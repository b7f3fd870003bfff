# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import http.client
import json
import urllib.request
from typing import Any

import pytest

from tests.component.ec2model.standing import Model


def test_the_front_page_lists_every_action_with_its_fields(model: Model) -> None:
    listed = model.get("")

    assert listed["POST"]["/_model/fault"]["fields"][:2] == ["service", "operation"]
    assert "/_model/interrupt" in listed["POST"]
    assert "/_model/calls" in listed["GET"]


@pytest.mark.parametrize(
    ("action", "document", "status", "text"),
    [
        ("fly", {}, 404, "there is no action 'fly'"),
        ("fault", {"code": 5}, 400, "$.code"),
        ("fault", {"cod": "X"}, 400, "unknown field `cod`"),
        ("clock", {"advanceSeconds": -5}, 400, "advanceSeconds"),
        ("clock", {"set": "2020-01-01T00:00:00Z"}, 400, "backwards"),
        ("capacity", [{"count": -1}], 400, "capacity[0].count"),
        ("actions", {"fault": {}}, 400, "expected a list"),
        ("actions", [{"fault": {"code": "A"}}, {"fault": {}}], 400, "actions[1]: fault"),
        ("reset", {"hard": True}, 400, "unknown field"),
    ],
)
def test_bad_input_is_refused_by_field(
    model: Model, action: str, document: Any, status: int, text: str
) -> None:
    answer = model.post(action, document)

    assert answer["status"] == status
    assert text in answer["error"]
    assert model.get("faults") == []


def test_a_body_that_is_not_json_is_refused(model: Model) -> None:
    request = urllib.request.Request(f"{model.url}/_model/fault", b"{", method="POST")  # noqa: S310 - our own address

    assert "not JSON" in model._asked(request)["error"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("moon", "nothing to see at 'moon'"),
        ("calls?mutating=perhaps", "mutating: 'perhaps'"),
        ("calls?after=x", "after: 'x'"),
        ("calls?colour=red", "unknown parameter 'colour'"),
    ],
)
def test_a_view_that_does_not_exist_is_refused(model: Model, path: str, text: str) -> None:
    assert text in model.get(path)["error"]


def test_other_methods_are_refused(model: Model) -> None:
    request = urllib.request.Request(f"{model.url}/_model/faults", method="DELETE")  # noqa: S310 - our own address

    assert model._asked(request)["status"] == 405


def test_several_actions_are_done_in_order(model: Model) -> None:
    done = model.post("actions", [{"clock": {"advanceSeconds": 5}}, {"fault": {"code": "X"}}])

    assert done[0]["now"] == "2026-01-01T00:00:05Z"
    assert len(model.get("faults")) == 1


def test_a_reset_begins_anew(model: Model) -> None:
    model.post("clock", {"advanceSeconds": 5})
    model.client("ec2").create_vpc(CidrBlock="10.7.0.0/16")

    model.post("reset")

    assert model.get("clock")["now"] == "2026-01-01T00:00:00Z"
    assert len(model.client("ec2").describe_vpcs()["Vpcs"]) == 1
    assert model.get("calls")["count"] == 1


def test_the_call_log_is_read_in_parts_and_emptied(model: Model) -> None:
    ec2 = model.client("ec2")
    ec2.describe_vpcs()
    ec2.create_vpc(CidrBlock="10.7.0.0/16")

    log = model.get("calls?mutating=1&service=ec2&operation=Create*")
    later = model.get(f"calls?after={log['calls'][0]['number']}")
    model.post("calls/clear")

    assert log["calls"][0]["parameters"] == {"CidrBlock": "10.7.0.0/16"}
    assert later["calls"] == []
    assert model.get("calls") == {"count": 2, "forgotten": 2, "calls": []}


def test_the_state_is_one_json_document(model: Model) -> None:
    state = model.get("state")

    assert state["region"] == "us-west-2"
    assert len(state["ec2"]["subnets"]) == 3
    assert state["queues"] == {"sandbox": {"visible": 0, "inFlight": 0, "delayed": 0}}
    assert "sandbox" in state["clusters"]
    assert json.dumps(state)


def test_a_body_that_is_too_long_is_refused(model: Model) -> None:
    connection = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=5)

    connection.request("POST", "/", body=b"x", headers={"Content-Length": str(10**9)})
    answer = connection.getresponse()

    assert answer.status == 413
    assert b"longer than" in answer.read()
    connection.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Content-Type": "text/plain"},
        {"Host": "evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_web_page_of_another_origin_changes_nothing_and_sees_nothing(
    model: Model, headers: dict[str, str]
) -> None:
    where = model.url.removeprefix("http://")
    terminate = "/?Action=TerminateInstances&InstanceId.1=i-1&X-Amz-Credential=a/1/us-west-2/ec2/aws4_request"
    for method, path, body in (
        ("POST", "/_model/fault", json.dumps({"code": "InternalError"})),
        ("GET", "/_model/state", None),
        ("GET", terminate, None),
    ):
        connection = http.client.HTTPConnection(where, timeout=10)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()

        assert answer.status == 403
        assert text.startswith("the request is refused: it ")
        assert "hint: " in text

    assert model.get("faults") == []
    assert model.get("calls")["count"] == 0
