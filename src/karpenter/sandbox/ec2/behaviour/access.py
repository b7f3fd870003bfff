# SPDX-License-Identifier: Apache-2.0
"""Who may do what: accepted credentials, regions that credentials are good for, denied operations.

By default everything is allowed. Denials are worded as each service words them; EC2's carries an encoded message,
here readable: base64 of JSON with action, resource and principal.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["Access", "Credentials", "Denial"]

# These are the same in every region, whatever region a signature carries.
_GLOBAL = frozenset({"iam", "sts", "pricing"})


class Denial(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """Operations that are not permitted: to one access key or to all, with certain parameters or with any."""

    service: str = "*"
    operation: str = "*"
    access_key: str = "*"
    containing: str = ""
    resource: str = "*"


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which access keys are good, and whether their region is checked."""

    accept: list[str] | Literal["any"] = "any"
    expired: list[str] = []
    region: Literal["any", "own"] = "any"


class Access:
    """The account's door."""

    def __init__(self, account: str, region: str) -> None:
        self.credentials = Credentials()
        self.denials: list[Denial] = []
        self._account = account
        self._region = region

    def check_credentials(self, service: str, operation: str, access_key: str, region: str) -> None:
        """Lets a caller in or not.

        Raises:
            ModelError: The key is unknown or expired, or the signature is for another region.
        """
        wanted = self.credentials
        if operation == "AssumeRoleWithWebIdentity":
            return
        if access_key in wanted.expired:
            code = {"ec2": "RequestExpired", "iam": "ExpiredToken", "sts": "ExpiredToken"}.get(service)
            text = "The security token included in the request is expired"
            raise ModelError(code or "ExpiredTokenException", text, 400 if code == "RequestExpired" else 403)
        if wanted.accept != "any" and access_key not in wanted.accept:
            raise _bad_credentials(service)
        if wanted.region == "own" and service not in _GLOBAL and region != self._region:
            raise ModelError(
                "AuthFailure" if service == "ec2" else "SignatureDoesNotMatch",
                f"Credential should be scoped to a valid Region, not '{region}'. ",
                status=403,
            )

    def check_permission(
        self, service: str, operation: str, access_key: str, parameters: Mapping[str, Any]
    ) -> None:
        """Lets an operation pass or denies it.

        Raises:
            ModelError: A denial matches.
        """
        for denial in self.denials:
            if (
                fnmatchcase(service, denial.service)
                and fnmatchcase(operation, denial.operation)
                and fnmatchcase(access_key, denial.access_key)
                and (not denial.containing or denial.containing in json.dumps(parameters, default=str))
            ):
                raise self.denied(service, f"{service}:{operation}", denial.resource)

    def denied(self, service: str, action: str, resource: str) -> ModelError:
        """Gives the refusal of an action such as ``iam:PassRole``, worded as the service that was asked words it."""
        principal = f"arn:aws:sts::{self._account}:assumed-role/KarpenterControllerRole-sandbox/model"
        reason = (
            f"User: {principal} is not authorized to perform: {action} on resource: {resource} because no "
            f"identity-based policy allows the {action} action"
        )
        if service == "ec2":
            details = {
                "allowed": False,
                "context": {"principal": principal, "action": action, "resource": resource},
            }
            encoded = base64.urlsafe_b64encode(json.dumps(details).encode()).decode().rstrip("=")
            return ModelError(
                "UnauthorizedOperation",
                f"You are not authorized to perform this operation. {reason}. "
                f"Encoded authorization failure message: {encoded}",
                status=403,
            )
        if service in {"iam", "sts", "sqs"}:
            return ModelError("AccessDenied", reason, status=403)
        return ModelError("AccessDeniedException", reason, status=403 if service == "eks" else 400)


def _bad_credentials(service: str) -> ModelError:
    if service == "ec2":
        text = "AWS was not able to validate the provided access credentials"
        return ModelError("AuthFailure", text, status=401)
    text = "The security token included in the request is invalid."
    if service in {"iam", "sts", "sqs"}:
        return ModelError("InvalidClientTokenId", text, status=403)
    return ModelError("UnrecognizedClientException", text, status=403 if service == "eks" else 400)
