# SPDX-License-Identifier: Apache-2.0
"""Which operation a method and a path mean, and its parameters, for the protocol ``rest-json``.

Paths are matched as they came, still percent-encoded, because an ARN in a path carries encoded slashes. Of two
templates that match, the one with fewer placeholders wins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import unquote

from karpenter.sandbox.ec2.front import complaints, documents
from karpenter.sandbox.ec2.front.schema import Operation, Service
from karpenter.sandbox.ec2.front.schema import service as service_named

__all__ = ["find", "parse"]

_placeholder = re.compile(r"\{(\w+)(\+?)\}")


def find(service: Service, method: str, path: str) -> tuple[Operation, Mapping[str, str]] | None:
    """Gives the operation and the placeholders' values, decoded, or None."""
    for template_method, pattern, operation in _templates(service.name):
        if template_method == method and (match := pattern.fullmatch(path)):
            return operation, {name: unquote(value) for name, value in match.groupdict().items()}
    return None


def parse(
    service: Service,
    operation: Operation,
    labels: Mapping[str, str],
    arguments: Mapping[str, Sequence[str]],
    body: bytes,
) -> dict[str, Any]:
    """Reads a call's parameters from path, query string and body.

    Raises:
        ModelError: One is missing, of the wrong type, or breaks a constraint.
    """
    if operation.input is None:
        return {}
    shape = service.shape(operation.input)
    document = documents.decode(service, body)
    found: dict[str, Any] = {}
    for name, ref in shape.members.items():
        wire = ref.location_name or name
        if ref.location == "uri":
            found[name] = documents.scalar_from_text(service, ref, labels[wire], name)
        elif ref.location == "querystring" and wire in arguments:
            values = arguments[wire]
            member = service.shape(ref).member
            found[name] = (
                list(values) if member else documents.scalar_from_text(service, ref, values[0], name)
            )
        elif ref.location is None and document.get(wire) is not None:
            found[name] = documents.read(service, ref, document[wire], name)
        elif name in shape.required:
            raise complaints.missing(service.name, name)
    return found


@cache
def _templates(service_name: str) -> list[tuple[str, re.Pattern[str], Operation]]:
    made = []
    for operation in service_named(service_name).operations.values():
        uri = operation.http.request_uri.partition("?")[0]
        made.append((_placeholder.subn("", uri)[1], operation.http.method, _pattern(uri), operation))
    made.sort(key=lambda row: row[0])
    return [(method, pattern, operation) for _, method, pattern, operation in made]


def _pattern(uri: str) -> re.Pattern[str]:
    text, end = "", 0
    for match in _placeholder.finditer(uri):
        text += re.escape(uri[end : match.start()])
        text += f"(?P<{match[1]}>{'.+' if match[2] else '[^/]+'})"
        end = match.end()
    return re.compile(text + re.escape(uri[end:]))
