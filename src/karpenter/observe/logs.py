# SPDX-License-Identifier: Apache-2.0
"""Log lines: JSON with Karpenter's keys for machines, one readable line for a person at a terminal.

Messages are Karpenter's where it has one, so that alerts on them keep working; everything else of an event stands
in fields. What may hold a secret never reaches a line: values under telling keys are replaced, wherever they are.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, TextIO

import structlog

__all__ = ["LEVELS", "Log", "configure", "get_log", "redact"]

LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}

Log = structlog.typing.FilteringBoundLogger

_SECRET: Final = re.compile(
    r"token|password|passwd|secret|authorization|credential|user-?_?data|private-?_?key|certificate-?_?data",
    re.IGNORECASE,
)
# Text that is a secret whatever it is called: bearer headers, AWS key ids, signed addresses.
_SECRET_TEXT: Final = re.compile(
    r"(?i)bearer\s+[\w.~+/=-]+|\b(AKIA|ASIA)[0-9A-Z]{16}\b|X-Amz-Signature=[0-9a-f]+"
)
_HIDDEN: Final = "(hidden)"


def configure(*, level: str = "info", human: bool = False, stream: TextIO | None = None) -> None:
    """Sets up logging for the whole process.

    Args:
        level: One of `LEVELS`.
        human: One coloured line per event instead of JSON.
        stream: Where lines go; standard output by default.
    """
    out = stream or sys.stdout
    last: list[Any]
    if human:
        last = [structlog.dev.ConsoleRenderer(colors=out.isatty(), event_key="message")]
    else:
        last = [structlog.processors.JSONRenderer(sort_keys=False)]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.EventRenamer("message"),
            _error_text,
            redact,
            _in_order,
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )


def get_log(controller: str) -> Log:
    """Gives the log of one controller; its name is Karpenter's, e.g. ``nodeclaim.lifecycle``."""
    log: Log = structlog.get_logger().bind(logger="controller", controller=controller)
    return log


def redact(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replaces what may be a secret, at any depth."""
    for key, value in event.items():
        event[key] = _HIDDEN if _SECRET.search(key) else _clean(value)
    return event


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _SECRET_TEXT.sub(_HIDDEN, value)
    if isinstance(value, Mapping):
        return {
            key: _HIDDEN if isinstance(key, str) and _SECRET.search(key) else _clean(each)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return value


def _error_text(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Turns an exception under ``error`` into its words and, if it has one, its hint."""
    error = event.get("error")
    if isinstance(error, BaseException):
        event["error"] = str(error) or type(error).__name__
        hint = getattr(error, "hint", "")
        if hint:
            event.setdefault("hint", hint)
    return event


def _in_order(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Puts the keys that every line has first, as Karpenter's lines have them."""
    first = {
        key: event.pop(key) for key in ("level", "time", "logger", "message", "controller") if key in event
    }
    # As Karpenter spells them: WARN, not WARNING.
    first["level"] = str(first.get("level", "info")).upper().removesuffix("ING")
    return {**first, **event}
