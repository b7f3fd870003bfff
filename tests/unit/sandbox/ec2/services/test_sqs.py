# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.sandbox.ec2.contract import ModelError, Waiting
from karpenter.sandbox.ec2.world import World
from tests.unit.sandbox.ec2.calling import a_world, ask

URL = "http://127.0.0.1:1/123456789012/sandbox"


@pytest.fixture
def world() -> World:
    return a_world()


def received(world: World, **parameters: Any) -> list[dict[str, Any]]:
    answer = ask(world, "sqs", "ReceiveMessage", QueueUrl=URL, **parameters)
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    return messages


def send(world: World, *bodies: str) -> None:
    for body in bodies:
        ask(world, "sqs", "SendMessage", QueueUrl=URL, MessageBody=body)


def test_messages_come_in_order_and_are_hidden_until_their_time_out(world: World) -> None:
    send(world, "a", "b", "c")

    first = received(world, MaxNumberOfMessages=2, VisibilityTimeout=20)
    world.advance(19)
    rest = received(world, MaxNumberOfMessages=10, VisibilityTimeout=60)
    world.advance(1)
    again = received(world, MaxNumberOfMessages=10)

    assert [each["Body"] for each in first] == ["a", "b"]
    assert [each["Body"] for each in rest] == ["c"]
    assert [each["Body"] for each in again] == ["a", "b"]


def test_a_deleted_message_does_not_come_back(world: World) -> None:
    send(world, "a")
    (message,) = received(world, VisibilityTimeout=5)

    ask(world, "sqs", "DeleteMessage", QueueUrl=URL, ReceiptHandle=message["ReceiptHandle"])
    world.advance(60)

    assert received(world) == []


def test_the_handle_of_an_earlier_receipt_deletes_nothing(world: World) -> None:
    send(world, "a")
    (early,) = received(world, VisibilityTimeout=1)
    world.advance(2)
    received(world, VisibilityTimeout=1)

    ask(world, "sqs", "DeleteMessage", QueueUrl=URL, ReceiptHandle=early["ReceiptHandle"])
    world.advance(2)

    assert len(received(world)) == 1


def test_attributes_tell_when_it_was_sent_and_how_often_it_came(world: World) -> None:
    send(world, "a")
    received(world, VisibilityTimeout=1)
    world.advance(2)

    (message,) = received(world, AttributeNames=["All"])

    assert message["Attributes"]["SentTimestamp"] == "1767225600000"
    assert message["Attributes"]["ApproximateReceiveCount"] == "2"


def test_a_long_poll_waits_for_a_message(world: World) -> None:
    waiting = ask(world, "sqs", "ReceiveMessage", QueueUrl=URL, WaitTimeSeconds=20)
    assert isinstance(waiting, Waiting)
    woken: list[bool] = []
    waiting.signal.add(lambda: woken.append(True))

    assert waiting.again(world.clock.now()) is None
    send(world, "late")

    assert woken == [True]
    found = waiting.again(world.clock.now())
    assert found is not None
    assert found["Messages"][0]["Body"] == "late"


def test_messages_are_not_kept_for_ever(world: World) -> None:
    send(world, "a")

    world.advance(301)

    assert received(world) == []


def test_a_time_out_can_be_changed(world: World) -> None:
    send(world, "a")
    (message,) = received(world, VisibilityTimeout=5)

    ask(
        world,
        "sqs",
        "ChangeMessageVisibility",
        QueueUrl=URL,
        ReceiptHandle=message["ReceiptHandle"],
        VisibilityTimeout=100,
    )
    world.advance(50)
    assert received(world) == []
    world.advance(50)

    assert len(received(world)) == 1


def test_a_batch_says_which_entries_failed(world: World) -> None:
    sent = ask(
        world,
        "sqs",
        "SendMessageBatch",
        QueueUrl=URL,
        Entries=[{"Id": "1", "MessageBody": "x"}, {"Id": "2", "MessageBody": ""}],
    )
    (message,) = received(world)
    deleted = ask(
        world,
        "sqs",
        "DeleteMessageBatch",
        QueueUrl=URL,
        Entries=[{"Id": "1", "ReceiptHandle": message["ReceiptHandle"]}, {"Id": "2", "ReceiptHandle": "?"}],
    )

    assert [each["Id"] for each in sent["Successful"]] == ["1"]
    assert sent["Failed"][0]["Code"] == "MissingParameter"
    assert deleted["Failed"][0]["Code"] == "ReceiptHandleIsInvalid"
    assert world.sqs.by_name["sandbox"].messages == {}


def test_a_queue_is_made_described_tagged_emptied_and_deleted(world: World) -> None:
    made = ask(
        world, "sqs", "CreateQueue", QueueName="q-1", Attributes={"VisibilityTimeout": "7"}, tags={"a": "b"}
    )
    url = made["QueueUrl"]

    assert ask(world, "sqs", "CreateQueue", QueueName="q-1", Attributes={"VisibilityTimeout": "7"}) == made
    ask(world, "sqs", "SendMessage", QueueUrl=url, MessageBody="x", DelaySeconds=30)
    ask(
        world, "sqs", "SetQueueAttributes", QueueUrl=url, Attributes={"VisibilityTimeout": "", "Policy": "{}"}
    )
    shown = ask(world, "sqs", "GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    few = ask(world, "sqs", "GetQueueAttributes", QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    ask(world, "sqs", "TagQueue", QueueUrl=url, Tags={"c": "d"})
    ask(world, "sqs", "UntagQueue", QueueUrl=url, TagKeys=["a"])

    assert shown["VisibilityTimeout"] == "30"
    assert shown["ApproximateNumberOfMessagesDelayed"] == "1"
    assert few == {"QueueArn": "arn:aws:sqs:us-west-2:123456789012:q-1"}
    assert ask(world, "sqs", "ListQueueTags", QueueUrl=url)["Tags"] == {"c": "d"}
    assert ask(world, "sqs", "ListQueues", QueueNamePrefix="q-")["QueueUrls"] == [url]
    ask(world, "sqs", "PurgeQueue", QueueUrl=url)
    assert world.sqs.by_name["q-1"].messages == {}
    ask(world, "sqs", "DeleteQueue", QueueUrl=url)
    assert ask(world, "sqs", "ListQueues")["QueueUrls"] == [
        ask(world, "sqs", "GetQueueUrl", QueueName="sandbox")["QueueUrl"]
    ]


@pytest.mark.parametrize(
    ("operation", "parameters", "code"),
    [
        ("GetQueueUrl", {"QueueName": "none"}, "QueueDoesNotExist"),
        ("CreateQueue", {"QueueName": "a b"}, "InvalidParameterValue"),
        ("CreateQueue", {"QueueName": "sandbox", "Attributes": {"DelaySeconds": "5"}}, "QueueNameExists"),
        ("CreateQueue", {"QueueName": "x", "Attributes": {"Colour": "red"}}, "InvalidAttributeName"),
        ("CreateQueue", {"QueueName": "x", "Attributes": {"DelaySeconds": "9999"}}, "InvalidAttributeValue"),
        ("ReceiveMessage", {"QueueUrl": URL, "MaxNumberOfMessages": 11}, "InvalidParameterValue"),
        ("ReceiveMessage", {"QueueUrl": URL, "WaitTimeSeconds": 21}, "InvalidParameterValue"),
        ("SendMessage", {"QueueUrl": URL, "MessageBody": "x" * 1048577}, "InvalidParameterValue"),
        ("SendMessageBatch", {"QueueUrl": URL, "Entries": []}, "EmptyBatchRequest"),
        (
            "SendMessageBatch",
            {"QueueUrl": URL, "Entries": [{"Id": str(n), "MessageBody": "x"} for n in range(11)]},
            "TooManyEntriesInBatchRequest",
        ),
        (
            "SendMessageBatch",
            {"QueueUrl": URL, "Entries": [{"Id": "1", "MessageBody": "x"}] * 2},
            "BatchEntryIdsNotDistinct",
        ),
        ("DeleteMessage", {"QueueUrl": URL, "ReceiptHandle": "abc"}, "ReceiptHandleIsInvalid"),
        (
            "ChangeMessageVisibility",
            {"QueueUrl": URL, "ReceiptHandle": "abc#1", "VisibilityTimeout": 1},
            "MessageNotInflight",
        ),
    ],
)
def test_refusals_have_the_codes_of_sqs(
    world: World, operation: str, parameters: dict[str, Any], code: str
) -> None:
    with pytest.raises(ModelError) as refused:
        ask(world, "sqs", operation, **parameters)

    assert refused.value.code == code


def test_message_attributes_are_carried_to_who_asks_for_them(world: World) -> None:
    carried = {"kind": {"DataType": "String", "StringValue": "x"}}
    ask(world, "sqs", "SendMessage", QueueUrl=URL, MessageBody="a", MessageAttributes=carried)

    (message,) = received(world, MessageAttributeNames=["All"])

    assert message["MessageAttributes"] == carried
