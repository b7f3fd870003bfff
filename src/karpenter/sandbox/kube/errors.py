# SPDX-License-Identifier: Apache-2.0
"""What the API answers when it refuses: an HTTP code and a ``Status`` object in Kubernetes' words.

Every refusal is an `ApiError`; the server turns it into the answer. Which refusal fits is decided where it is
raised; the words, reasons and codes are decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from karpenter.api.schema.problems import Problem, ProblemType
from karpenter.errors import KarpenterError

__all__ = ["ApiError", "invalid", "named", "status_body"]

_CAUSES: Final = {
    ProblemType.REQUIRED: "FieldValueRequired",
    ProblemType.INVALID: "FieldValueInvalid",
    ProblemType.TYPE_INVALID: "FieldValueTypeInvalid",
    ProblemType.NOT_SUPPORTED: "FieldValueNotSupported",
    ProblemType.DUPLICATE: "FieldValueDuplicate",
    ProblemType.FORBIDDEN: "FieldValueForbidden",
    ProblemType.TOO_LONG: "FieldValueTooLong",
    ProblemType.TOO_MANY: "FieldValueTooMany",
}


class ApiError(KarpenterError):
    """A request that is refused."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details: dict[str, Any] | None = None if details is None else dict(details)
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """Gives the Status object."""
        return status_body(self.code, self.reason, self.message, self.details)

    @classmethod
    def bad_request(cls, message: str) -> ApiError:
        """Says that the request cannot be understood."""
        return cls(400, "BadRequest", message)

    @classmethod
    def unauthorized(cls) -> ApiError:
        """Says that nobody vouches for the caller."""
        return cls(401, "Unauthorized", "Unauthorized")

    @classmethod
    def forbidden(cls, group: str, resource: str, name: str, why: str) -> ApiError:
        """Says that this may not be done to the object now."""
        return cls(
            403,
            "Forbidden",
            f'{named(resource, group)} "{name}" is forbidden: {why}',
            details=_of(group, resource, name),
        )

    @classmethod
    def not_found(cls, group: str, resource: str, name: str) -> ApiError:
        """Says that there is no such object."""
        return cls(
            404,
            "NotFound",
            f'{named(resource, group)} "{name}" not found',
            details=_of(group, resource, name),
        )

    @classmethod
    def no_such_path(cls) -> ApiError:
        """Says that nothing is served under the path."""
        return cls(404, "NotFound", "the server could not find the requested resource", details={})

    @classmethod
    def method_not_allowed(cls) -> ApiError:
        """Says that the resource does not do this."""
        return cls(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
            details={},
        )

    @classmethod
    def not_acceptable(cls, accepted: str) -> ApiError:
        """Says that the answer cannot be given in a form the caller takes."""
        return cls(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")

    @classmethod
    def already_exists(cls, group: str, resource: str, name: str) -> ApiError:
        """Says that the name is taken."""
        return cls(
            409,
            "AlreadyExists",
            f'{named(resource, group)} "{name}" already exists',
            details=_of(group, resource, name),
        )

    @classmethod
    def conflict(cls, group: str, resource: str, name: str, why: str) -> ApiError:
        """Says that someone else was there first."""
        return cls(
            409,
            "Conflict",
            f'Operation cannot be fulfilled on {named(resource, group)} "{name}": {why}',
            details=_of(group, resource, name),
        )

    @classmethod
    def expired(cls, message: str) -> ApiError:
        """Says that the version asked for is no longer kept."""
        return cls(410, "Expired", message)

    @classmethod
    def unsupported_media(cls, accepted: str) -> ApiError:
        """Says that the body is in a form that is not read."""
        return cls(
            415,
            "UnsupportedMediaType",
            f"the body of the request was in an unknown format - accepted media types include: {accepted}",
        )


def invalid(group: str, kind: str, name: str, problems: Iterable[Problem]) -> ApiError:
    """Gives the refusal of an object with problems, all of them in one message."""
    listed = list(problems)
    texts = [str(problem) for problem in listed]
    distinct = list(dict.fromkeys(texts))
    told = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
    causes = [
        {
            "reason": "FieldValueNotFound"
            if problem.message.startswith("Not found")
            else _CAUSES[problem.type],
            "message": problem.message,
            "field": problem.field,
        }
        for problem in listed
    ]
    details: dict[str, Any] = {"name": name} if name else {}
    details |= {"group": group} if group else {}
    details["kind"] = kind
    if causes:
        details["causes"] = causes
    return ApiError(422, "Invalid", f'{named(kind, group)} "{name}" is invalid: {told}', details=details)


def named(resource: str, group: str) -> str:
    """Gives ``deployments.apps``; resources of the core group have no suffix."""
    return f"{resource}.{group}" if group else resource


def status_body(
    code: int, reason: str, message: str, details: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Gives a Status that tells of a failure."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = dict(details)
    body["code"] = code
    return body


def _of(group: str, resource: str, name: str) -> dict[str, Any]:
    details = {"name": name} if name else {}
    details |= {"group": group} if group else {}
    return {**details, "kind": resource}
