# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from karpenter.sandbox.ec2.behaviour.access import Denial
from karpenter.sandbox.ec2.behaviour.actions import perform
from karpenter.sandbox.ec2.behaviour.calls import Call, CallLog
from karpenter.sandbox.ec2.behaviour.faults import Fault
from karpenter.sandbox.ec2.behaviour.throttling import Limits, Rate
from karpenter.sandbox.ec2.contract import Request
from karpenter.sandbox.ec2.dispatch import Dispatcher
from karpenter.sandbox.ec2.front.routing import Arrived
from karpenter.sandbox.ec2.world import UnknownRegionError, World
from tests.unit.sandbox.ec2.calling import a_world


def arrived(service: str, body: str, **headers: str) -> Arrived:
    scope = f"AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-west-2/{service}/aws4_request, Signature=00"
    return Arrived("POST", "/", {"Authorization": scope, **headers}, body.encode())


WHO = arrived("sts", "Action=GetCallerIdentity&Version=2011-06-15")
VPCS = arrived("ec2", "Action=DescribeVpcs&Version=2016-11-15")
NEW_VPC = arrived("ec2", "Action=CreateVpc&Version=2016-11-15&CidrBlock=10.9.0.0%2F16")
RECEIVE = arrived(
    "sqs",
    '{"QueueUrl": "http://x/1/sandbox", "WaitTimeSeconds": 20}',
    **{"X-Amz-Target": "AmazonSQS.ReceiveMessage"},
)


async def answered(world: World, *requests: Arrived) -> list[tuple[int, str] | None]:
    dispatcher = Dispatcher(world)
    found: list[tuple[int, str] | None] = []
    for request in requests:
        answer = await dispatcher.answer(request)
        found.append((answer.status, answer.body.decode()) if answer else None)
    return found


async def test_a_call_is_answered_and_logged() -> None:
    world = a_world()

    (answer,) = await answered(world, WHO)

    assert answer is not None
    assert answer[0] == 200
    assert "<Account>123456789012</Account>" in answer[1]
    (call,) = world.calls.select()
    assert (call.service, call.operation, call.outcome, call.mutating) == (
        "sts",
        "GetCallerIdentity",
        "ok",
        False,
    )
    assert call.as_dict()["requestId"] in answer[1]


async def test_the_log_tells_changing_calls_with_what_they_asked() -> None:
    world = a_world()
    dry = arrived("ec2", "Action=CreateVpc&Version=2016-11-15&CidrBlock=10.9.0.0%2F16&DryRun=true")

    await answered(world, VPCS, NEW_VPC, dry)

    (call,) = world.calls.select(mutating=True)
    assert call.parameters == {"CidrBlock": "10.9.0.0/16"}
    assert [each.outcome for each in world.calls.select(operation="Create*")] == ["ok", "DryRunOperation"]
    assert [each.number for each in world.calls.select(after=1)] == [2, 3]


async def test_a_dry_run_of_a_reading_call_is_stopped_too() -> None:
    (answer,) = await answered(a_world(), arrived("ec2", "Action=DescribeVpcs&DryRun=true"))

    assert answer is not None
    assert answer[0] == 412
    assert "DryRunOperation" in answer[1]


async def test_a_lost_reply_has_had_its_effect_and_a_lost_request_has_not() -> None:
    world = a_world()
    before = len(world.ec2.vpcs)
    world.faults.add(Fault(operation="CreateVpc", lost="reply", times=1))

    lost = await answered(world, NEW_VPC)
    world.faults.add(Fault(operation="CreateVpc", lost="request", times=1))
    never = await answered(world, NEW_VPC)

    assert lost == never == [None]
    assert len(world.ec2.vpcs) == before + 1
    assert [(call.outcome, call.lost) for call in world.calls.select()] == [
        ("ok", True),
        ("lost request", True),
    ]


async def test_an_injected_error_comes_instead_of_the_handler() -> None:
    world = a_world()
    before = len(world.ec2.vpcs)
    world.faults.add(Fault(operation="CreateVpc", code="InternalError", times=1))

    first, second = await answered(world, NEW_VPC, NEW_VPC)

    assert first is not None
    assert second is not None
    assert (first[0], second[0]) == (500, 200)
    assert len(world.ec2.vpcs) == before + 1


async def test_latency_delays_the_answer() -> None:
    world = a_world()
    world.faults.add(Fault(latency_s=0.05))
    started = asyncio.get_running_loop().time()

    await answered(world, WHO)

    assert asyncio.get_running_loop().time() - started >= 0.05


async def test_throttling_denials_and_credentials_stand_before_the_handler() -> None:
    world = a_world(limits=Limits(writes=Rate(0.001, 1)))
    before = len(world.ec2.vpcs)

    first, throttled = await answered(world, NEW_VPC, NEW_VPC)
    world.throttle.set(Limits())
    world.access.denials.append(Denial(service="ec2", operation="Create*"))
    (denied,) = await answered(world, NEW_VPC)
    (denied_dry,) = await answered(
        world, arrived("ec2", "Action=CreateVpc&CidrBlock=10.9.0.0%2F16&DryRun=true")
    )
    perform(world, "credentials", {"accept": ["good"]})
    (stranger,) = await answered(world, VPCS)

    codes = [each and each[0] for each in (first, throttled, denied, denied_dry, stranger)]
    assert codes == [200, 503, 403, 403, 401]
    assert denied_dry is not None
    assert "UnauthorizedOperation" in denied_dry[1]
    assert len(world.ec2.vpcs) == before + 1


async def test_a_long_poll_ends_when_a_message_comes() -> None:
    world = a_world()
    poll = asyncio.create_task(Dispatcher(world).answer(RECEIVE))
    await asyncio.sleep(0.01)
    assert not poll.done()

    perform(world, "message", {"body": "hello"})
    answer = await asyncio.wait_for(poll, 5)

    assert answer is not None
    assert json.loads(answer.body)["Messages"][0]["Body"] == "hello"


async def test_a_long_poll_is_woken_in_vain_and_waits_on() -> None:
    world = a_world()
    poll = asyncio.create_task(Dispatcher(world).answer(RECEIVE))
    await asyncio.sleep(0.01)

    world.sqs.wake()
    await asyncio.sleep(0.01)

    assert not poll.done()
    poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll


async def test_a_long_poll_without_messages_ends_by_itself() -> None:
    world = a_world()
    world.clock.set_speed(1000)

    answer = await asyncio.wait_for(Dispatcher(world).answer(RECEIVE), 5)

    assert answer is not None
    assert json.loads(answer.body) == {}


async def test_a_defect_of_a_handler_is_told_and_the_model_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_request: Request, _parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        raise ZeroDivisionError("oops")

    dispatcher = Dispatcher(a_world(), {"sts": {"GetCallerIdentity": broken}})

    answer = await dispatcher.answer(WHO)
    missing = await dispatcher.answer(VPCS)

    assert answer is not None
    assert missing is not None
    assert answer.status == 500
    assert b"ZeroDivisionError: oops" in answer.body
    assert missing.status == 501
    assert "GetCallerIdentity failed" in caplog.text


async def test_a_call_with_bad_parameters_is_refused_and_logged() -> None:
    world = a_world()

    (answer,) = await answered(world, arrived("ec2", "Action=DescribeVpcs&Colour=red"))

    assert answer is not None
    assert answer[0] == 400
    assert [call.outcome for call in world.calls.select()] == ["UnknownParameter"]


async def test_a_call_of_nothing_is_refused_and_not_logged() -> None:
    world = a_world()

    (answer,) = await answered(world, arrived("ec2", "Action=FlyToTheMoon"))

    assert answer is not None
    assert "InvalidAction" in answer[1]
    assert world.calls.count == 0


def test_a_region_that_nobody_knows_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownRegionError, match="mars-1") as refused:
        a_world(region="mars-1")
    assert "us-west-2" in refused.value.hint


def test_a_log_that_is_full_forgets_the_oldest() -> None:
    world = a_world()

    log = CallLog(kept=2)
    for number in range(3):
        log.add(Call(0, world.clock.now(), "ec2", f"Op{number}", {}, "k", "r", "id"))

    assert [call.operation for call in log.select()] == ["Op1", "Op2"]
    assert log.forgotten == 1
    log.clear()
    assert list(log.select()) == []


async def test_what_a_policy_of_the_callers_role_denies_is_refused_until_the_policy_is_gone() -> None:
    world = a_world()
    role = world.iam.role(world.controller_role)
    denial = {"Effect": "Deny", "Action": ["ec2:CreateVpc"], "Resource": "*"}
    role.inline["no-networks"] = json.dumps({"Version": "2012-10-17", "Statement": [denial]})
    role.inline["unreadable"] = '{"Statement": {"Effect": "Maybe"}}'

    denied, other = await answered(world, NEW_VPC, VPCS)
    del role.inline["no-networks"]
    (allowed,) = await answered(world, NEW_VPC)

    assert denied is not None
    assert denied[0] == 403
    assert "UnauthorizedOperation" in denied[1]
    assert other is not None
    assert other[0] == 200
    assert allowed is not None
    assert allowed[0] == 200
