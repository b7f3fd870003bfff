# SPDX-License-Identifier: Apache-2.0
"""A recording stand-in for ``Aws``: answers by operation, everything that was asked kept in order.

An answer is a dict, an exception to raise, a function of the parameters (which may itself be async), or a list of
those that are given out one per call (the last one for ever). What nobody prepared raises, so that a test cannot
pass by a call it did not mean.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from karpenter.cloud.aws.api import CALLS, AwsError, follow_pages


@dataclass
class FakeAws:
    """``FakeAws({"DescribeSubnets": {"Subnets": [...]}})``; ``calls`` holds (operation, parameters)."""

    answers: Mapping[str, Any] = field(default_factory=dict)
    region: str = "us-west-2"
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._queues = {name: list(each) for name, each in self.answers.items() if isinstance(each, list)}

    async def call(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        if (service, operation) not in CALLS:
            raise AssertionError(f"{service} {operation} is not in the table of calls")
        self.calls.append((operation, parameters))
        if operation not in self.answers:
            raise AssertionError(f"nobody prepared an answer to {service} {operation}({parameters})")
        queue = self._queues.get(operation)
        answer = self.answers[operation] if queue is None else queue.pop(0) if len(queue) > 1 else queue[0]
        if callable(answer) and not isinstance(answer, type):
            answer = answer(**parameters)
            if inspect.isawaitable(answer):
                answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        return dict(answer)

    def pages(self, service: str, operation: str, /, **parameters: Any) -> AsyncIterator[dict[str, Any]]:
        return follow_pages(self.call, service, operation, parameters)

    def named(self, operation: str) -> list[dict[str, Any]]:
        """The parameters of every call of one operation, in order."""
        return [parameters for name, parameters in self.calls if name == operation]


def aws_error(
    code: str, text: str = "", *, service: str = "ec2", operation: str = "Any", status: int = 400
) -> AwsError:
    """An error as AWS answers it."""
    return AwsError(service, operation, code=code, text=text, status=status)
