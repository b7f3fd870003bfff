# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from functools import cache
from typing import Any

import botocore.session
import pytest

from karpenter.cloud.aws.calls import CALLS, Call, Limit, Repeat
from karpenter.cloud.aws.ratelimit import PUBLISHED


@cache
def _described(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


@pytest.mark.parametrize("call", CALLS.values(), ids=lambda call: f"{call.service}-{call.operation}")
def test_every_call_exists_in_the_description_of_its_service(call: Call) -> None:
    model = _described(call.service)

    assert call.operation in model.operation_names
    assert call.why


def test_whatever_creates_or_ends_something_is_marked_as_changing() -> None:
    reads = {call.operation for call in CALLS.values() if not call.mutating}

    assert all(name.startswith(("Describe", "Get", "List", "Receive")) for name in reads)


def test_a_call_that_is_safe_only_by_token_takes_one() -> None:
    model = _described("ec2")
    tokens = [call for call in CALLS.values() if call.repeat is Repeat.TOKEN]

    assert tokens
    for call in tokens:
        assert "ClientToken" in model.operation_model(call.operation).input_shape.members


def test_every_limit_has_a_published_figure() -> None:
    assert set(PUBLISHED) == set(Limit)
