# SPDX-License-Identifier: Apache-2.0
"""EventBridge's default bus: what happens becomes an event, and rules send events to queues.

A rule matches as EventBridge does for the patterns that people write for interruptions: every field of the pattern
must be in the event with one of the listed values; nested objects are matched field by field; the content filters
``prefix``, ``suffix``, ``anything-but`` (plain values), ``exists`` and ``equals-ignore-case`` are understood, others
are refused when the rule is made. Targets other than SQS queues are kept and get nothing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any

from karpenter.sandbox.ec2.clock import ModelClock
from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["Bus", "Rule", "checked_pattern", "matches"]

_FILTERS = frozenset({"prefix", "suffix", "anything-but", "exists", "equals-ignore-case"})


@dataclass(slots=True)
class Rule:
    """One rule: which events, to which targets (id -> target as PutTargets gave it)."""

    name: str
    pattern: Mapping[str, Any]
    pattern_text: str
    enabled: bool = True
    description: str = ""
    targets: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


class Bus:
    """The rules of the account and the way from an event to the queues."""

    def __init__(
        self,
        clock: ModelClock,
        deliver: Callable[[str, str, datetime], None],
        *,
        account: str,
        region: str,
        random: Random,
    ) -> None:
        self.rules: dict[str, Rule] = {}
        self.published = 0
        self._clock = clock
        self._deliver = deliver
        self._account = account
        self._region = region
        self._random = random

    def publish(
        self,
        source: str,
        detail_type: str,
        detail: Mapping[str, Any],
        resources: Iterable[str] = (),
        time: datetime | None = None,
    ) -> str:
        """Sends an event to the queues of all rules that match it, and gives the event's id.

        ``time`` is when it happened, by default now; a queue that does not exist any more loses the event, as
        EventBridge does without a dead-letter queue.
        """
        event = self.envelope(source, detail_type, detail, resources, time)
        self.published += 1
        body: str | None = None
        for rule in self.rules.values():
            if not rule.enabled or not matches(rule.pattern, event):
                continue
            for target in rule.targets.values():
                body = body or json.dumps(event, separators=(",", ":"))
                self._deliver(str(target["Arn"]), body, self._clock.now())
        return str(event["id"])

    def envelope(
        self,
        source: str,
        detail_type: str,
        detail: Mapping[str, Any],
        resources: Iterable[str] = (),
        time: datetime | None = None,
    ) -> dict[str, Any]:
        """Gives the event as EventBridge hands it to targets."""
        moment = time or self._clock.now()
        return {
            "version": "0",
            "id": str(uuid.UUID(int=self._random.getrandbits(128), version=4)),
            "detail-type": detail_type,
            "source": source,
            "account": self._account,
            "time": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self._region,
            "resources": list(resources),
            "detail": dict(detail),
        }


def checked_pattern(text: str) -> Mapping[str, Any]:
    """Reads an event pattern.

    Raises:
        ModelError: It is not a JSON object, or it uses a filter that the model does not know.
    """
    try:
        pattern = json.loads(text)
    except ValueError as broken:
        raise _invalid(f"Event pattern is not valid. Reason: {broken}") from broken
    if not isinstance(pattern, dict) or not pattern:
        raise _invalid("Event pattern is not valid. Reason: Filter is not an object")
    _check(pattern, "")
    return pattern


def matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Tells whether every field of the pattern accepts the event's."""
    for name, wanted in pattern.items():
        if isinstance(wanted, Mapping):
            inner = event.get(name)
            if not isinstance(inner, Mapping) or not matches(wanted, inner):
                return False
        elif not _accepts(wanted, name in event, event.get(name)):
            return False
    return True


def _accepts(wanted: Sequence[Any], there: bool, value: Any) -> bool:  # noqa: FBT001
    values = value if isinstance(value, list) else [value]
    return any(
        _filter_accepts(one, there, each) if isinstance(one, Mapping) else there and one == each
        for one in wanted
        for each in values or [None]
    )


def _filter_accepts(content: Mapping[str, Any], there: bool, value: Any) -> bool:  # noqa: FBT001
    (kind, argument), *_ = content.items()
    if kind == "exists":
        return there == bool(argument)
    if not there:
        return False
    if kind == "anything-but":
        return value not in (argument if isinstance(argument, list) else [argument])
    if not isinstance(value, str):
        return False
    if kind in {"prefix", "suffix"}:
        return value.startswith(argument) if kind == "prefix" else value.endswith(argument)
    return value.lower() == str(argument).lower()


def _check(pattern: Mapping[str, Any], path: str) -> None:
    for name, wanted in pattern.items():
        where = f"{path}.{name}" if path else name
        if isinstance(wanted, dict):
            _check(wanted, where)
        elif not isinstance(wanted, list) or not wanted:
            raise _invalid(f'Event pattern is not valid. Reason: "{where}" must be an object or an array')
        else:
            for one in wanted:
                if isinstance(one, dict) and (len(one) != 1 or not set(one) <= _FILTERS):
                    raise _invalid(f"Event pattern is not valid. Reason: Unrecognized match type at {where}")


def _invalid(message: str) -> ModelError:
    return ModelError("InvalidEventPatternException", message)
