# SPDX-License-Identifier: Apache-2.0
"""An error as a node class's condition tells it: a reason, a sentence that names the field, and the next step.

Two sorts are told apart. A verdict is about the class or the permissions, and makes its condition False. What says only
that AWS could not be asked (a throttle, an outage, no connection) is no verdict: what was known stays, and it is tried
again soon. Sentences are the same each time the same thing is wrong, because a condition that changes is written, and
writing wakes everybody who watches: EC2's encoded messages and request ids are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from karpenter.cloud.aws.api import AwsError, AwsUnreachableError
from karpenter.cloud.aws.codes import Kind
from karpenter.cloud.errors import LAUNCH_FAILED
from karpenter.errors import KarpenterError

__all__ = ["UNAUTHORIZED", "UNREACHABLE", "Denied", "Problem", "denied", "problem_of"]

UNAUTHORIZED: Final = "Unauthorized"
UNREACHABLE: Final = "AWSUnreachable"

_DENIED: Final = re.compile(
    r"(?:(?:User|Principal): (?P<who>\S+) is )?not authorized to perform: (?P<action>[\w-]+:\w+)"
    r"(?: on resource: (?P<resource>\S+))?",
    re.IGNORECASE,
)
_ENCODED: Final = re.compile(r"\s*Encoded authorization failure message: *\S*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Denied:
    """A missing permission: which action, on what, and who lacks it, as far as AWS tells."""

    action: str
    resource: str = ""
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """What keeps a condition from being True.

    Attributes:
        reason: The condition's reason.
        message: What is wrong, naming the field.
        hint: What to do next.
        is_verdict: Whether it is about the class; if not, only AWS could not be asked.
        known_as: Karpenter's own sentence for it, which tools compare with; the condition has it alone, and the event
            says the rest.
    """

    reason: str
    message: str
    hint: str = ""
    is_verdict: bool = True
    known_as: str = ""

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message


def denied(error: AwsError) -> Denied:
    """Return which permission an error says is missing; the call itself where AWS does not name one."""
    found = _DENIED.search(error.text)
    if found is None:
        return Denied(f"{error.service}:{error.operation}")
    resource = (found["resource"] or "").rstrip(".,")
    return Denied(found["action"], "" if resource == "*" else resource, (found["who"] or "").rstrip(".,"))


def problem_of(error: KarpenterError, *, field: str, reason: str) -> Problem:
    """Return an error as a problem of a field.

    Args:
        error: What was raised.
        field: The field whose meaning was looked for, as a path into the node class.
        reason: The condition's reason unless the error itself has a better one.
    """
    if isinstance(error, AwsError):
        return _refused(error, field, reason)
    if isinstance(error, AwsUnreachableError):
        return Problem(UNREACHABLE, f"{field}: {error.message}", error.hint, is_verdict=False)
    own: str = getattr(error, "reason", "") or reason
    known_as: str = getattr(error, "known_as", "")
    message = (
        error.message if field in error.message or "spec." in error.message else f"{field}: {error.message}"
    )
    return Problem(own, message, error.hint, known_as=known_as)


def _refused(error: AwsError, field: str, reason: str) -> Problem:
    kind = error.cause.kind
    if kind is Kind.PERMISSION and error.cause.reason == UNAUTHORIZED:
        missing = denied(error)
        where = f" on {missing.resource}" if missing.resource else ""
        whose = f"the policy of {missing.principal}" if missing.principal else "the controller's policy"
        return Problem(
            reason if reason.endswith("AuthCheckFailed") else UNAUTHORIZED,
            f"{field}: the controller may not call {missing.action}{where}",
            f"allow {missing.action}{where} in {whose}; CloudTrail shows the denied call",
        )
    if kind is Kind.CREDENTIALS:
        return Problem(
            UNAUTHORIZED,
            f"{field}: AWS does not accept the controller's credentials ({error.code}: {_plain(error.text)})",
            error.hint,
        )
    said = f"{field}: {error.service} {error.operation} was refused: {error.code}: {_plain(error.text)}"
    if kind in {Kind.THROTTLE, Kind.INTERNAL} or error.status >= 500:
        return Problem(UNREACHABLE, said, "it is tried again by itself", is_verdict=False)
    own = error.cause.reason
    return Problem(reason if own == LAUNCH_FAILED else own, said, error.hint)


def _plain(text: str) -> str:
    return _ENCODED.sub("", text).strip()
