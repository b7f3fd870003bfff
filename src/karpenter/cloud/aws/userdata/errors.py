# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with user data, said so that a node class's condition can carry it.

Every error names the node class, the field and, where it is about a text that somebody wrote, the line.
``reason`` is the reason of the condition. What still works but hardly as meant is a warning, a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from karpenter.errors import KarpenterError

__all__ = [
    "CLUSTER_CIDR_UNKNOWN",
    "CUSTOM_FIELD",
    "INVALID",
    "TOO_LARGE",
    "BrokenTextError",
    "UnquotableError",
    "UserDataError",
    "UserDataWarning",
]

INVALID: Final = "InvalidUserData"
TOO_LARGE: Final = "UserDataSizeLimitExceeded"
CLUSTER_CIDR_UNKNOWN: Final = "ClusterCIDRResolutionFailed"

# Where people write their own user data.
CUSTOM_FIELD: Final = "spec.userData"


class UserDataError(KarpenterError):
    """User data that cannot be made for a node class.

    Attributes:
        node_class: The name of the EC2NodeClass.
        field: The field at fault, as a path into the object.
        line: The line within that field's text, from 1; None where it is not about a line.
        reason: The reason of the node class's condition.
    """

    def __init__(
        self,
        problem: str,
        *,
        node_class: str,
        field: str,
        line: int | None = None,
        reason: str = INVALID,
        hint: str = "",
    ) -> None:
        at = "" if line is None else f" line {line}"
        super().__init__(f"EC2NodeClass {node_class}: {field}{at}: {problem}", hint=hint)
        self.node_class = node_class
        self.field = field
        self.line = line
        self.reason = reason


class BrokenTextError(KarpenterError):
    """The user's own text cannot be read; whose text it is, its reader does not know."""

    def __init__(self, problem: str, *, line: int, hint: str = "") -> None:
        super().__init__(problem, hint=hint)
        self.line = line


class UnquotableError(KarpenterError):
    """A value that a language of user data cannot carry unharmed; ``what`` is the field it came from."""

    def __init__(self, problem: str, *, what: str, hint: str = "") -> None:
        super().__init__(problem, hint=hint)
        self.what = what


@dataclass(frozen=True, slots=True)
class UserDataWarning:
    """Something about user data that a person should look at although nodes are launched.

    Attributes:
        field: The field it is about.
        message: What was found.
        hint: What to do next.
    """

    field: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"
