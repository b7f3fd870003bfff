# SPDX-License-Identifier: Apache-2.0
"""From a result or a refusal to an HTTP answer in the service's protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from karpenter.sandbox.ec2.contract import ModelError
from karpenter.sandbox.ec2.front import documents
from karpenter.sandbox.ec2.front.schema import Operation, Service
from karpenter.sandbox.ec2.front.serialise import escape, render_result

__all__ = ["Answer", "refusal", "success"]

_XML = "text/xml;charset=UTF-8"
# SQS spoke the query protocol once; SDKs still show the codes of that time, which the descriptions no longer hold.
_OLD_CODES = {
    "QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue",
    "QueueNameExists": "QueueAlreadyExists",
    "BatchEntryIdsNotDistinct": "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
    "EmptyBatchRequest": "AWS.SimpleQueueService.EmptyBatchRequest",
    "MessageNotInflight": "AWS.SimpleQueueService.MessageNotInflight",
    "TooManyEntriesInBatchRequest": "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
}
_PROLOGUE = '<?xml version="1.0" encoding="UTF-8"?>\n'


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: status, headers, body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def success(service: Service, operation: Operation, result: Mapping[str, Any], request_id: str) -> Answer:
    """Writes an operation's result."""
    status = operation.http.response_code or 200
    if service.protocol in {"json", "rest-json"}:
        document = documents.write(service, operation.output, result) if operation.output else {}
        body = msgspec.json.encode(document)
        return Answer(status, _json_headers(service, request_id), body)
    inner = render_result(service, operation, result)
    name = operation.name
    if service.protocol == "ec2":
        inner = f"<requestId>{request_id}</requestId>{inner}"
    else:
        wrapper = operation.output.result_wrapper if operation.output else None
        inner = f"<{wrapper}>{inner}</{wrapper}>" if wrapper else inner
        inner += f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
    text = f'{_PROLOGUE}<{name}Response xmlns="{service.namespace}">{inner}</{name}Response>'
    return Answer(status, _xml_headers(request_id), text.encode())


def refusal(service: Service | None, error: ModelError, request_id: str) -> Answer:
    """Writes a refusal; without a service, as EC2 does, whose form every SDK shows readably."""
    code, message = error.code, error.message
    if service is not None and service.protocol in {"json", "rest-json"}:
        headers = dict(_json_headers(service, request_id))
        body: dict[str, str] = {"message": message}
        if service.protocol == "rest-json":
            headers["x-amzn-ErrorType"] = code
        else:
            body["__type"] = f"com.amazonaws.sqs#{code}" if service.name == "sqs" else code
        if service.metadata.aws_query_compatible is not None:
            headers["x-amzn-query-error"] = (
                f"{_OLD_CODES.get(code, code)};{'Sender' if error.status < 500 else 'Receiver'}"
            )
        return Answer(error.status, headers, msgspec.json.encode(body))
    if service is not None and service.protocol == "query":
        kind = "Sender" if error.status < 500 else "Receiver"
        text = (
            f'<ErrorResponse xmlns="{service.namespace}"><Error><Type>{kind}</Type><Code>{escape(code)}</Code>'
            f"<Message>{escape(message)}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
        )
    else:
        text = (
            f"<Response><Errors><Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error></Errors>"
            f"<RequestID>{request_id}</RequestID></Response>"
        )
    return Answer(error.status, _xml_headers(request_id), (_PROLOGUE + text).encode())


def _json_headers(service: Service, request_id: str) -> Mapping[str, str]:
    kind = f"x-amz-json-{service.metadata.json_version}" if service.protocol == "json" else "json"
    return {"Content-Type": f"application/{kind}", "x-amzn-RequestId": request_id}


def _xml_headers(request_id: str) -> Mapping[str, str]:
    return {"Content-Type": _XML, "x-amzn-RequestId": request_id}
