# SPDX-License-Identifier: Apache-2.0
"""From an HTTP request to a parsed call: which service, which operation, by whom, with which parameters.

The service is the one in the signature's credential scope. Calls that are not signed name it by ``X-Amz-Target``
or by an ``Action`` that only STS has (AssumeRoleWithWebIdentity). Signatures are read, never checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl

from karpenter.sandbox.ec2.contract import ModelError
from karpenter.sandbox.ec2.front import complaints, documents, query, rest
from karpenter.sandbox.ec2.front.schema import SERVICES, Operation, Service
from karpenter.sandbox.ec2.front.schema import service as service_named

__all__ = ["Arrived", "Caller", "caller_of", "operation_of", "parameters_of"]

_credential = re.compile(r"Credential=([^/,\s]+)/(\d+)/([^/]*)/([^/]+)/aws4_request")
_TARGETS = {
    "AmazonSQS": "sqs",
    "AmazonSSM": "ssm",
    "AWSPriceListService": "pricing",
    "AWSEvents": "events",
}


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Arrived:
    """An HTTP request as it came; ``target`` is path and query string, still encoded.

    ``gone`` tells whether its sender has hung up meanwhile.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    gone: Callable[[], bool] = _never
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Gives the path, still encoded."""
        return self.target.partition("?")[0]

    def arguments(self) -> Mapping[str, Sequence[str]]:
        """Gives the query string's values, decoded."""
        return parse_qs(self.target.partition("?")[2], keep_blank_values=True)

    def form(self) -> dict[str, str]:
        """Gives the form in the body, or that in the query string if there is no body (signed addresses)."""
        text = self.body.decode("utf-8", "replace") if self.body else self.target.partition("?")[2]
        return dict(parse_qsl(text, keep_blank_values=True))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls which service: from the signature, or guessed for the calls that need none."""

    service: Service
    access_key: str
    region: str


def caller_of(arrived: Arrived, default_region: str) -> Caller:
    """Finds out whom a request is for and who sent it.

    Raises:
        ModelError: Nothing in the request names a service, or one that is not served.
    """
    signature = arrived.headers.get("Authorization", "")
    if not signature and "X-Amz-Credential" in arrived.target:
        signature = f"Credential={arrived.arguments()['X-Amz-Credential'][0]}"
    match = _credential.search(signature)
    if match:
        name = match[4]
        if name not in SERVICES:
            raise ModelError(
                "UnknownService",
                f"the service {name} is not modelled; modelled are {', '.join(SERVICES)}",
                status=501,
            )
        return Caller(service_named(name), match[1], match[3])
    guessed = _TARGETS.get(arrived.headers.get("X-Amz-Target", "").partition(".")[0])
    if guessed is None and arrived.form().get("Action", "") in service_named("sts").operations:
        guessed = "sts"
    if guessed is None:
        raise ModelError("MissingAuthenticationToken", "Request is missing Authentication Token", status=403)
    return Caller(service_named(guessed), "", default_region)


def operation_of(service: Service, arrived: Arrived) -> Operation:
    """Finds the operation that a request asks for; for REST also remembers what stands in the path.

    Raises:
        ModelError: The service has no such operation.
    """
    if service.protocol == "rest-json":
        found = rest.find(service, arrived.method, arrived.path)
        if found is None:
            raise complaints.unknown_operation(service.name, f"{arrived.method} {arrived.path}")
        arrived.labels.update(found[1])
        return found[0]
    if service.protocol == "json":
        name = arrived.headers.get("X-Amz-Target", "").partition(".")[2]
    else:
        name = arrived.form().get("Action", "")
    operation = service.operations.get(name)
    if operation is None:
        if not name:
            raise ModelError("MissingAction", f"The request to {service.name} names no action")
        raise complaints.unknown_operation(service.name, name, service.metadata.api_version)
    return operation


def parameters_of(service: Service, operation: Operation, arrived: Arrived) -> dict[str, Any]:
    """Reads the parameters of a call as a boto3 user passed them.

    Raises:
        ModelError: One is missing, unknown, of the wrong type, or breaks a constraint.
    """
    if service.protocol == "rest-json":
        return rest.parse(service, operation, arrived.labels, arrived.arguments(), arrived.body)
    if service.protocol == "json":
        document = documents.decode(service, arrived.body)
        if operation.input is None:
            return {}
        parameters: dict[str, Any] = documents.read(service, operation.input, document)
        return parameters
    return query.parse(service, operation, arrived.form())
