# SPDX-License-Identifier: Apache-2.0
"""Requests that nobody should send: whatever comes, the API answers, and what was stored stays readable."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from tests.e2e.conformance.cases import all_requests
from tests.e2e.conformance.requests import Request
from tests.unit.sandbox.kube.api import Api

_JUNK: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        2**70,
        "",
        "x",
        "{}",
        [],
        {},
        [None],
        [[]],
        {"a": None},
        {"": ""},
        "\x00",
        [{}],
    ),
    *({"name": 5}, ["a", "b"], "1Gi", "50%", "2020-01-01T00:00:00Z", "é" * 50),
)
_WORDS = ("spec", "metadata", "$patch", "status", "labels", "name", "containers", "extra")
_OPTIONS = (
    "limit",
    "continue",
    "resourceVersion",
    "labelSelector",
    "fieldSelector",
    "dryRun",
    "gracePeriodSeconds",
)
_VALUES = ("", "x", "-1", "0", "All", "a in (", "!", "true", "5")
_REFERENCE = re.compile(r"\{(rv|uid|continue):[^}]*\}")


def _spoilt(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.12:
        return chance.choice(_JUNK)
    if isinstance(value, dict):
        kept = {key: _spoilt(inner, chance) for key, inner in value.items() if chance.random() > 0.05}
        return {**kept, chance.choice(_WORDS): chance.choice(_JUNK)} if chance.random() < 0.1 else kept
    return [_spoilt(item, chance) for item in value] if isinstance(value, list) else value


def _sent(api: Api, request: Request, chance: random.Random) -> int:
    path = _REFERENCE.sub("5", request.path)
    if chance.random() < 0.05:
        path += f"{'&' if '?' in path else '?'}{chance.choice(_OPTIONS)}={chance.choice(_VALUES)}"
    method = (
        request.method if chance.random() < 0.97 else chance.choice(["GET", "PUT", "POST", "PATCH", "DELETE"])
    )
    body = (
        request.body
        if isinstance(request.body, str) or request.body is None
        else _spoilt(request.body, chance)
    )
    answer = api.raw(
        method, path, body, content_type=request.content_type, accept=request.accept, user_agent="fuzz/1"
    )
    if answer.content_type.startswith("application/json") and answer.watch is None:
        json.loads(answer.body)
    return answer.status


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_sent_is_answered(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same in every run
    api = Api()
    requests = [request for request in all_requests() if not request.stream_s]

    for _ in range(2):
        for request in requests:
            assert 200 <= _sent(api, request, chance) <= 504, request.name

    for kind in api.engine.store.kinds():
        for stored in api.engine.store.items(kind):
            assert json.loads(b"{" + stored.tail)["metadata"]["resourceVersion"] == str(stored.revision)
