# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between us and an API server, one class for each thing that a caller does about it.

::

    KubeError
      ConfigError             a kubeconfig, credential plugin or in-cluster setting that cannot be used
      UnreachableError        no answer: refused, timed out, broken off, TLS
        SilentWatchError      a watch that sends nothing, not even its end: list again
      UnreadableError         an answer whose JSON has another shape than its kind
      FencedError             we no longer hold the lease, so the write was not sent
      ApiError                the server answered with a Status
        UnauthorizedError     401  the credentials are not known to the server
        ForbiddenError        403  RBAC says no
        NotFoundError         404
        AlreadyExistsError    409  reason AlreadyExists
        ConflictError         409  somebody else has changed the object meanwhile
        GoneError             410  the resource version is too old: list again
        InvalidError          422  the object breaks its schema
        TooManyRequestsError  429  wait, or a PodDisruptionBudget forbids the eviction
        ServerError           5xx
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from karpenter.errors import KarpenterError

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "ConfigError",
    "ConflictError",
    "FencedError",
    "ForbiddenError",
    "GoneError",
    "InvalidError",
    "KubeError",
    "NotFoundError",
    "ServerError",
    "SilentWatchError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "UnreachableError",
    "UnreadableError",
    "api_error",
]


class KubeError(KarpenterError):
    """Anything between us and the API server."""


class ConfigError(KubeError):
    """How to reach the server cannot be worked out."""


class UnreachableError(KubeError):
    """The server gave no answer; whether it acted on the request is unknown."""


class SilentWatchError(UnreachableError):
    """A watch sent nothing for so long that what it should have sent is unknown."""


class UnreadableError(KubeError):
    """The server's answer has another shape than its kind."""


class FencedError(KubeError):
    """The write was held back, because this replica may no longer act."""


class ApiError(KubeError):
    """The server's own words about a request that it refused.

    Attributes:
        status: The HTTP status.
        reason: The machine-readable reason of the Status, e.g. ``NotFound``.
        causes: The reasons within: a field and its problem, or ``DisruptionBudget``.
        retry_after_s: How long the server asks to wait; None if it says nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        causes: tuple[Mapping[str, Any], ...] = (),
        retry_after_s: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after_s = retry_after_s


class UnauthorizedError(ApiError):
    """The server does not know who we are."""


class ForbiddenError(ApiError):
    """The server knows us and does not let us."""


class NotFoundError(ApiError):
    """There is no such object, or no such kind."""


class AlreadyExistsError(ApiError):
    """There is one of that name."""


class ConflictError(ApiError):
    """The object has changed since it was read, or a precondition does not hold."""


class GoneError(ApiError):
    """The server no longer remembers that far back."""


class InvalidError(ApiError):
    """The object breaks the rules of its kind."""


class TooManyRequestsError(ApiError):
    """The server wants us to wait, or a PodDisruptionBudget has nothing left."""

    @property
    def is_budget(self) -> bool:
        """Tells whether a PodDisruptionBudget forbade an eviction, rather than load."""
        return any(cause.get("reason") == "DisruptionBudget" for cause in self.causes)


class ServerError(ApiError):
    """The server failed."""


_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}

_HINTS: Final[Mapping[type[ApiError], str]] = {
    UnauthorizedError: "the token or certificate is wrong or has expired: try `kubectl auth whoami` with it",
    ForbiddenError: "the ClusterRole lacks this verb: compare it with the chart's, `kubectl auth can-i --list`",
}


def api_error(
    status: int, answer: Mapping[str, Any], request: str, retry_after_s: float | None = None
) -> ApiError:
    """Makes the error for an HTTP status and the Status object that came with it, if one did."""
    reason = str(answer.get("reason") or "")
    message = str(answer.get("message") or f"HTTP {status}")
    details = answer.get("details")
    found = details.get("causes") if isinstance(details, dict) else None
    causes = tuple(cause for cause in found or () if isinstance(cause, dict))
    if status == 409:
        kind: type[ApiError] = AlreadyExistsError if reason == "AlreadyExists" else ConflictError
    elif reason == "Expired":
        kind = GoneError
    else:
        kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    return kind(
        f"{request}: {message}",
        status=status,
        reason=reason,
        causes=causes,
        retry_after_s=retry_after_s,
        hint=_HINTS.get(kind, ""),
    )
