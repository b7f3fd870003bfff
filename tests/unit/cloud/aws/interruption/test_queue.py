# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.interruption import (
    Actor,
    Interruption,
    InterruptionQueue,
    Misfit,
    PollReport,
    Refused,
    Verdict,
)
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.fakes import FakeAws, aws_error
from tests.unit.cloud.aws.interruption.bodies import health, spot

ADDRESS = "https://sqs.us-west-2.amazonaws.com/111111111111/demo"


def message(number: int, body: bytes | str, **more: Any) -> dict[str, Any]:
    text = body if isinstance(body, str) else body.decode()
    return {"MessageId": f"m-{number}", "ReceiptHandle": f"h-{number}", "Body": text, **more}


class Stand:
    """A queue that gives out prepared batches, and a handler that fails for named instances."""

    def __init__(
        self,
        *batches: Any,
        failing: frozenset[str] = frozenset(),
        deleting: Any = None,
        address: str = ADDRESS,
    ) -> None:
        self.misfits: dict[str, Misfit] = {}
        self.clock = FakeClock()
        self.told: list[str] = []
        self.failing = failing
        self.reports: list[PollReport] = []
        self.problems: list[Exception] = []
        answers = [each if isinstance(each, Exception) else {"Messages": each} for each in batches]
        self.aws = FakeAws(
            {
                "GetQueueUrl": {"QueueUrl": address},
                "ReceiveMessage": [*answers, self._nothing],
                "DeleteMessageBatch": deleting or {"Successful": []},
            }
        )
        self.queue = InterruptionQueue(
            self.aws,
            self.clock,
            Actor(self._handle, self.clock),
            queue_name="demo",
            verify=self._verify,
            on_poll=self.reports.append,
            on_problem=self.problems.append,
        )

    async def _handle(self, interruption: Interruption) -> None:
        if self.failing & set(interruption.instance_ids):
            raise RuntimeError("the API server is away")
        self.told += interruption.instance_ids

    async def _verify(self, interruption: Interruption) -> Verdict:
        ids = interruption.instance_ids
        return Verdict(
            tuple(each for each in ids if each not in self.misfits),
            {each: self.misfits[each] for each in ids if each in self.misfits},
        )

    async def _nothing(self, **asked: Any) -> dict[str, Any]:
        await self.clock.sleep(asked["WaitTimeSeconds"])
        return {}

    def deleted(self) -> list[str]:
        return [
            each["ReceiptHandle"] for call in self.aws.named("DeleteMessageBatch") for each in call["Entries"]
        ]


async def test_messages_are_received_as_told_acted_on_and_deleted_together() -> None:
    stand = Stand([message(1, spot("i-01")), message(2, spot("i-02")), message(3, "garbage")])

    report = await stand.queue.poll()

    assert sorted(stand.told) == ["i-01", "i-02"]
    assert stand.aws.named("ReceiveMessage") == [
        {
            "QueueUrl": ADDRESS,
            "MaxNumberOfMessages": 10,
            "WaitTimeSeconds": 20,
            "VisibilityTimeout": 20,
            "AttributeNames": ["SentTimestamp"],
        }
    ]
    assert sorted(stand.deleted()) == ["h-1", "h-2", "h-3"]
    assert len(stand.aws.named("DeleteMessageBatch")) == 1
    assert report.received == {"spot_interrupted": 2, "no_op": 1}
    assert (report.count, report.acted, report.deleted) == (3, 2, 3)
    assert report.ignored == {"not_json": 1}


async def test_the_address_of_the_queue_is_asked_for_once_and_nothing_is_deleted_for_nothing() -> None:
    stand = Stand([], [])

    await stand.queue.poll()
    await stand.queue.poll()

    assert len(stand.aws.named("GetQueueUrl")) == 1
    assert stand.deleted() == []


async def test_a_message_that_comes_twice_is_acted_on_once_and_deleted_twice() -> None:
    stand = Stand([message(1, spot()), message(2, spot())], [message(3, spot(id="event-2"))])

    first, second = await stand.queue.poll(), await stand.queue.poll()

    assert stand.told == ["i-0a1"]
    assert (first.acted, first.duplicates, second.duplicates) == (1, 1, 1)
    assert sorted(stand.deleted()) == ["h-1", "h-2", "h-3"]


async def test_a_message_whose_handler_fails_stays_and_is_parked_after_the_fifth_time() -> None:
    bad, good = message(1, spot("i-0bad")), message(2, spot("i-01"))
    stand = Stand([bad, good], *[[bad]] * 4, failing=frozenset({"i-0bad"}))

    reports = [await stand.queue.poll() for _ in range(5)]

    assert [len(report.failures) for report in reports] == [1, 1, 1, 1, 0]
    assert [len(report.parked) for report in reports] == [0, 0, 0, 0, 1]
    assert stand.deleted() == ["h-2", "h-1"]
    (parked,) = stand.queue.parked
    assert (parked.message_id, parked.interruption.instance_ids) == ("m-1", ("i-0bad",))
    assert parked.problem == "the API server is away"
    assert stand.told == ["i-01"]


async def test_a_success_starts_the_count_of_failures_anew() -> None:
    again = message(1, spot("i-0bad"))
    stand = Stand(*[[again]] * 3, failing=frozenset({"i-0bad"}))
    await stand.queue.poll()
    stand.failing = frozenset()
    await stand.queue.poll()

    assert (await stand.queue.poll()).duplicates == 1
    assert len(stand.deleted()) == 2


async def test_what_could_not_be_deleted_is_not_counted_as_deleted() -> None:
    stand = Stand([message(1, spot()), message(2, "x")], deleting={"Failed": [{"Id": "0"}]})

    assert (await stand.queue.poll()).deleted == 1


async def test_ages_are_told_for_messages_that_say_when_they_were_sent() -> None:
    sent = {"Attributes": {"SentTimestamp": str(int((FakeClock().now().timestamp() - 7) * 1000))}}
    odd = {"Attributes": {"SentTimestamp": "soon"}}
    stand = Stand([message(1, spot(), **sent), message(2, "x", **odd), message(3, "x")])

    assert (await stand.queue.poll()).ages_s == (7.0,)


async def test_a_queue_that_is_gone_is_told_and_looked_for_again() -> None:
    gone = aws_error("AWS.SimpleQueueService.NonExistentQueue", service="sqs", operation="ReceiveMessage")
    stand = Stand(gone, aws_error("AccessDenied", service="sqs"), [message(1, spot())])

    running = asyncio.create_task(stand.queue.run())
    await stand.clock.advance(5)
    running.cancel()

    assert [type(each) for each in stand.problems] == [AwsError, AwsError]
    assert stand.told == ["i-0a1"]
    assert len(stand.aws.named("GetQueueUrl")) == 2


async def test_full_batches_are_drained_by_several_receivers() -> None:
    batches = [
        [message(n, spot(f"i-{n:04x}")) for n in range(start, start + 10)] for start in range(0, 70, 10)
    ]
    stand = Stand(*batches)

    running = asyncio.create_task(stand.queue.run())
    await stand.clock.advance(3)
    running.cancel()

    assert len(stand.told) == len(set(stand.told)) == 70
    assert [report.count for report in stand.reports[:7]] == [10] * 7
    waits = [call["WaitTimeSeconds"] for call in stand.aws.named("ReceiveMessage")]
    assert waits[0] == 20
    assert waits[1:11] == [1] * 10


async def test_a_refusal_of_sqs_goes_to_whoever_polls() -> None:
    stand = Stand(aws_error("AccessDenied", service="sqs"))

    with pytest.raises(AwsError):
        await stand.queue.poll()


async def test_a_receiver_that_fails_while_draining_is_told_after_the_others_are_done() -> None:
    batch = [message(n, spot(f"i-{n:04x}")) for n in range(10)]
    stand = Stand(batch, aws_error("AccessDenied", service="sqs"), [message(11, spot("i-0b"))])

    running = asyncio.create_task(stand.queue.run())
    await stand.clock.advance(3)
    running.cancel()

    assert [each.code for each in stand.problems if isinstance(each, AwsError)] == ["AccessDenied"]
    assert len(stand.told) == 11


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (spot(account=None), "no_account"),
        (spot(account=""), "no_account"),
        (spot(account="222222222222"), "foreign_account"),
    ],
)
async def test_a_message_without_our_account_is_refused_deleted_and_told(body: bytes, reason: str) -> None:
    stand = Stand([message(1, body)])

    report = await stand.queue.poll()

    assert stand.told == []
    assert stand.deleted() == ["h-1"]
    assert [(each.message_id, each.reason) for each in report.refused] == [("m-1", reason)]
    assert report.received == {"no_op": 1}


async def test_our_account_is_that_of_the_queue() -> None:
    theirs = "https://sqs.us-west-2.amazonaws.com/333333333333/demo"
    stand = Stand([message(1, spot(account="333333333333"))], address=theirs)

    report = await stand.queue.poll()

    assert (stand.told, report.refused) == (["i-0a1"], ())


async def test_a_queue_whose_account_is_unknown_obeys_no_message() -> None:
    stand = Stand([message(1, spot()), message(2, spot(account=""))], address="https://queue")

    report = await stand.queue.poll()

    assert stand.told == []
    assert {each.reason for each in report.refused} == {"foreign_account", "no_account"}


async def test_a_message_that_does_not_fit_its_instance_is_refused_at_once_and_a_genuine_one_is_obeyed() -> (
    None
):
    stand = Stand([message(1, spot("i-01")), message(2, spot("i-02"))])
    stand.misfits = {"i-01": Misfit.NOT_SPOT}

    report = await stand.queue.poll()

    assert stand.told == ["i-02"]
    assert report.refused == (Refused("m-1", "not_spot", "spot_interrupted of i-01"),)
    assert sorted(stand.deleted()) == ["h-1", "h-2"]


async def test_a_message_that_ec2_contradicts_is_looked_at_twice_before_it_is_refused() -> None:
    again = message(1, health("i-01", "i-02"))
    stand = Stand([again], [again])
    stand.misfits = {"i-01": Misfit.NO_SCHEDULED_EVENT}

    first, second = await stand.queue.poll(), await stand.queue.poll()

    assert stand.told == ["i-02"]
    assert (first.refused, first.deleted, first.failures) == ((), 0, ())
    assert [each.detail for each in second.refused] == ["scheduled_change of i-01"]
    assert stand.deleted() == ["h-1"]


async def test_a_message_that_ec2_confirms_at_the_second_look_is_obeyed() -> None:
    again = message(1, health("i-01"))
    stand = Stand([again], [again])
    stand.misfits = {"i-01": Misfit.NO_SCHEDULED_EVENT}
    await stand.queue.poll()
    stand.misfits = {}

    second = await stand.queue.poll()

    assert (stand.told, second.refused, stand.deleted()) == (["i-01"], (), ["h-1"])
