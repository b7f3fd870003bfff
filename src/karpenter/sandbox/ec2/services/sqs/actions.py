# SPDX-License-Identifier: Apache-2.0
"""The operations of SQS, with the codes and sentences that SQS uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from karpenter.sandbox.ec2.contract import Handler, ModelError, Request, Waiting
from karpenter.sandbox.ec2.services.sqs.store import Message, Queue, default_attributes

__all__ = ["handlers"]

# What CreateQueue and SetQueueAttributes take, with the range of those that are numbers.
_RANGES: Mapping[str, tuple[int, int]] = {
    "VisibilityTimeout": (0, 43_200),
    "MaximumMessageSize": (1024, 1_048_576),
    "MessageRetentionPeriod": (60, 1_209_600),
    "DelaySeconds": (0, 900),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
}
_TEXTS = frozenset(
    {"Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId", "SqsManagedSseEnabled"}
)
_BATCH_LIMIT = 10


def create_queue(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Makes a queue; asking again with the same attributes gives the same queue."""
    name, attributes = parameters["QueueName"], parameters.get("Attributes", {})
    if not 1 <= len(name) <= 80 or not name.replace("-", "").replace("_", "").isalnum():
        raise ModelError(
            "InvalidParameterValue",
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        )
    _check_attributes(attributes)
    queue = request.world.sqs.by_name.get(name)
    if queue is None:
        queue = request.world.sqs.create(name, request.now)
        queue.attributes.update(attributes)
        queue.tags.update(parameters.get("tags", {}))
    elif differing := [key for key, value in attributes.items() if queue.attributes.get(key) != value]:
        raise ModelError(
            "QueueNameExists",
            f"A queue already exists with the same name and a different value for attribute {differing[0]}",
        )
    return {"QueueUrl": _url(request, queue)}


def get_queue_url(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the address of a queue by its name."""
    return {"QueueUrl": _url(request, _queue_named(request, parameters["QueueName"]))}


def list_queues(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the addresses of all queues whose name starts with a prefix."""
    prefix = parameters.get("QueueNamePrefix", "")
    return {
        "QueueUrls": [
            _url(request, each)
            for name, each in sorted(request.world.sqs.by_name.items())
            if name.startswith(prefix)
        ]
    }


def delete_queue(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Forgets a queue and its messages."""
    del request.world.sqs.by_name[_queue(request, parameters).name]
    return {}


def get_queue_attributes(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the attributes that were asked for."""
    queue = _queue(request, parameters)
    visible, in_flight, delayed = queue.counts(request.now)
    created = str(int(queue.created_at.timestamp()))
    known = queue.attributes | {
        "QueueArn": queue.arn,
        "CreatedTimestamp": created,
        "LastModifiedTimestamp": created,
        "ApproximateNumberOfMessages": str(visible),
        "ApproximateNumberOfMessagesNotVisible": str(in_flight),
        "ApproximateNumberOfMessagesDelayed": str(delayed),
    }
    wanted = parameters.get("AttributeNames", [])
    if "All" in wanted:
        return {"Attributes": known}
    return {"Attributes": {name: known[name] for name in wanted if name in known}}


def set_queue_attributes(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Changes attributes; an empty text takes one back."""
    queue, attributes = _queue(request, parameters), parameters["Attributes"]
    _check_attributes(attributes)
    for name, value in attributes.items():
        if value:
            queue.attributes[name] = value
        else:
            queue.attributes.pop(name, None)
    queue.attributes = default_attributes() | queue.attributes
    return {}


def send_message(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Puts a message into a queue."""
    return _sent(_send(request, _queue(request, parameters), parameters))


def send_message_batch(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Puts up to ten messages into a queue."""
    queue = _queue(request, parameters)

    def one(entry: Mapping[str, Any]) -> Mapping[str, Any]:
        return _sent(_send(request, queue, entry))

    return _batch(parameters["Entries"], one)


def receive_message(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any] | Waiting:
    """Hands out messages, waiting for the first one if the caller or the queue wants that."""
    queue = _queue(request, parameters)
    count = _within(parameters, "MaxNumberOfMessages", 1, 10, 1)
    wait_s = _within(
        parameters, "WaitTimeSeconds", 0, 20, int(queue.attributes["ReceiveMessageWaitTimeSeconds"])
    )
    visibility_s = _within(
        parameters, "VisibilityTimeout", 0, 43_200, int(queue.attributes["VisibilityTimeout"])
    )
    wanted = {*parameters.get("AttributeNames", ()), *parameters.get("MessageSystemAttributeNames", ())}

    def attempt(now: datetime) -> Mapping[str, Any] | None:
        messages = queue.receive(count, now, visibility_s)
        if not messages:
            return None
        names = parameters.get("MessageAttributeNames", ())
        return {"Messages": [_received(each, wanted, names) for each in messages]}

    found = attempt(request.now)
    if found is not None or not wait_s:
        return found or {}
    return Waiting(wait_s, queue.signal, attempt, {})


def delete_message(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Forgets a message; one that is gone already is no error."""
    queue = _queue(request, parameters)
    message = _by_handle(queue, parameters["ReceiptHandle"])
    if message is not None:
        queue.delete(message)
    return {}


def delete_message_batch(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Forgets up to ten messages."""

    def one(entry: Mapping[str, Any]) -> Mapping[str, Any]:
        return delete_message(request, {**entry, "QueueUrl": parameters["QueueUrl"]})

    return _batch(parameters["Entries"], one)


def change_message_visibility(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sets when a received message shows up again."""
    queue = _queue(request, parameters)
    seconds = _within(parameters, "VisibilityTimeout", 0, 43_200, 0)
    message = _by_handle(queue, parameters["ReceiptHandle"])
    if message is None or message.visible_at <= request.now:
        raise ModelError(
            "MessageNotInflight",
            f"Value {parameters['ReceiptHandle']} for parameter ReceiptHandle is invalid.",
        )
    queue.change_visibility(message, request.now, seconds)
    return {}


def purge_queue(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Forgets all messages of a queue."""
    _queue(request, parameters).purge()
    return {}


def tag_queue(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sets tags of a queue."""
    _queue(request, parameters).tags.update(parameters["Tags"])
    return {}


def untag_queue(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Takes tags of a queue back."""
    tags = _queue(request, parameters).tags
    for key in parameters["TagKeys"]:
        tags.pop(key, None)
    return {}


def list_queue_tags(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the tags of a queue."""
    return {"Tags": dict(_queue(request, parameters).tags)}


def handlers() -> Mapping[str, Handler]:
    """Gives the handler of each operation."""
    return {
        "CreateQueue": create_queue,
        "GetQueueUrl": get_queue_url,
        "ListQueues": list_queues,
        "DeleteQueue": delete_queue,
        "GetQueueAttributes": get_queue_attributes,
        "SetQueueAttributes": set_queue_attributes,
        "SendMessage": send_message,
        "SendMessageBatch": send_message_batch,
        "ReceiveMessage": receive_message,
        "DeleteMessage": delete_message,
        "DeleteMessageBatch": delete_message_batch,
        "ChangeMessageVisibility": change_message_visibility,
        "PurgeQueue": purge_queue,
        "TagQueue": tag_queue,
        "UntagQueue": untag_queue,
        "ListQueueTags": list_queue_tags,
    }


def _url(request: Request, queue: Queue) -> str:
    world = request.world
    base = world.endpoint or f"https://sqs.{world.region}.amazonaws.com"
    return f"{base}/{world.account}/{queue.name}"


def _queue(request: Request, parameters: Mapping[str, Any]) -> Queue:
    return _queue_named(request, parameters["QueueUrl"].rstrip("/").rpartition("/")[2])


def _queue_named(request: Request, name: str) -> Queue:
    queue = request.world.sqs.by_name.get(name)
    if queue is None:
        raise ModelError("QueueDoesNotExist", "The specified queue does not exist.")
    return queue


def _within(parameters: Mapping[str, Any], name: str, low: int, high: int, default: int) -> int:
    value = int(parameters.get(name, default))
    if not low <= value <= high:
        raise ModelError(
            "InvalidParameterValue",
            f"Value {value} for parameter {name} is invalid. Reason: Must be between {low} and {high}, if provided.",
        )
    return value


def _check_attributes(attributes: Mapping[str, str]) -> None:
    for name, value in attributes.items():
        if name in _TEXTS:
            continue
        if name not in _RANGES:
            raise ModelError("InvalidAttributeName", f"Unknown Attribute {name}.")
        low, high = _RANGES[name]
        if value and not (value.isdecimal() and low <= int(value) <= high):
            raise ModelError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")


def _send(request: Request, queue: Queue, parameters: Mapping[str, Any]) -> Message:
    body = parameters["MessageBody"]
    limit = int(queue.attributes["MaximumMessageSize"])
    if not body:
        raise ModelError("MissingParameter", "The request must contain the parameter MessageBody.")
    if len(body.encode()) > limit:
        raise ModelError(
            "InvalidParameterValue",
            f"One or more parameters are invalid. Reason: Message must be shorter than {limit} bytes.",
        )
    delay_s = _within(parameters, "DelaySeconds", 0, 900, int(queue.attributes["DelaySeconds"]))
    return queue.send(body, request.now, delay_s, parameters.get("MessageAttributes"))


def _sent(message: Message) -> Mapping[str, Any]:
    return {"MessageId": message.id, "MD5OfMessageBody": message.md5}


def _received(message: Message, wanted: set[str], names: list[str]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": message.handle,
        "MD5OfBody": message.md5,
        "Body": message.body,
    }
    first = message.first_received_at or message.sent_at
    known = {
        "SenderId": "AIDAMODEL",
        "SentTimestamp": _milliseconds(message.sent_at),
        "ApproximateReceiveCount": str(message.receipts),
        "ApproximateFirstReceiveTimestamp": _milliseconds(first),
    }
    attributes = known if "All" in wanted else {name: known[name] for name in known if name in wanted}
    if attributes:
        shown["Attributes"] = attributes
    carried = {k: v for k, v in message.attributes.items() if k in names or "All" in names or ".*" in names}
    if carried:
        shown["MessageAttributes"] = carried
    return shown


def _milliseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1000))


def _by_handle(queue: Queue, handle: str) -> Message | None:
    try:
        return queue.by_handle(handle)
    except ValueError:
        raise ModelError(
            "ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is invalid.'
        ) from None


def _batch(
    entries: list[Mapping[str, Any]], one: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> dict[str, Any]:
    if not entries:
        raise ModelError("EmptyBatchRequest", "There should be at least one entry in the request.")
    if len(entries) > _BATCH_LIMIT:
        text = f"Maximum number of entries per request are {_BATCH_LIMIT}. You have sent {len(entries)}."
        raise ModelError("TooManyEntriesInBatchRequest", text)
    if len({entry["Id"] for entry in entries}) < len(entries):
        raise ModelError(
            "BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id."
        )
    done: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for entry in entries:
        try:
            done.append({"Id": entry["Id"], **one(entry)})
        except ModelError as refused:
            failed.append(
                {"Id": entry["Id"], "SenderFault": True, "Code": refused.code, "Message": refused.message}
            )
    return {"Successful": done, "Failed": failed}
