# SPDX-License-Identifier: Apache-2.0
"""Calls AWS for an installation, one call after the other, with the credentials of the person who installs.

These are not the controller's calls (``calls.CALLS``) and need other rights. A refusal for want of a right names the
action and the resource; whatever else AWS refuses is told with its code.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
from botocore import xform_name

from karpenter.errors import KarpenterError

__all__ = ["Account", "InstallError", "MissingRightError", "tag_list", "tags_of"]

_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"})


class InstallError(KarpenterError):
    """AWS, or what is there already, does not let the installation go on."""

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class MissingRightError(InstallError):
    """The person who installs lacks a right."""


class Account:
    """AWS as the person's credentials reach it."""

    def __init__(self, region: str | None = None, profile: str | None = None) -> None:
        try:
            # boto3 itself reads AWS_DEFAULT_REGION only.
            self._session = boto3.Session(
                region_name=region or os.environ.get("AWS_REGION"), profile_name=profile
            )
        except botocore.exceptions.BotoCoreError as error:
            raise InstallError(str(error), hint="see `aws configure list-profiles`") from error
        self._clients: dict[str, Any] = {}
        if not self._session.region_name:
            raise InstallError("no region is set", hint="pass --region, or set AWS_REGION")
        self.region: str = self._session.region_name

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Do one call and give its answer.

        Raises:
            MissingRightError: The caller may not do this.
            InstallError: AWS refuses, or does not answer.
        """
        try:
            answer: dict[str, Any] = getattr(self._client(service), xform_name(operation))(**parameters)
        except botocore.exceptions.ClientError as error:
            raise _refused(service, operation, error) from error
        except botocore.exceptions.BotoCoreError as error:
            raise InstallError(
                f"{service} {operation}: {error}",
                hint=f"check your credentials, and that {service} can be reached in region {self.region}",
            ) from error
        answer.pop("ResponseMetadata", None)
        return answer

    def ask(
        self, service: str, operation: str, missing: Collection[str], **parameters: Any
    ) -> dict[str, Any] | None:
        """Do one call that may find nothing: one of the codes in ``missing`` gives None."""
        try:
            return self.call(service, operation, **parameters)
        except InstallError as error:
            if error.code in missing:
                return None
            raise

    def pages(self, service: str, operation: str, field: str, **parameters: Any) -> list[Any]:
        """Give all members of a list that comes in pages."""
        pages = self._client(service).get_paginator(xform_name(operation)).paginate(**parameters)
        try:
            return [each for page in pages for each in page.get(field, ())]
        except botocore.exceptions.ClientError as error:
            raise _refused(service, operation, error) from error

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            retries: dict[str, Any] = {"mode": "standard", "total_max_attempts": 5}
            config = botocore.config.Config(connect_timeout=5, read_timeout=30, retries=retries)
            self._clients[service] = self._session.client(service, config=config)
        return self._clients[service]


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Give tags as most services take them."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def tags_of(listed: Collection[Mapping[str, str]] | None) -> dict[str, str]:
    """Read tags as most services give them."""
    return {each["Key"]: each["Value"] for each in listed or ()}


def _refused(service: str, operation: str, error: botocore.exceptions.ClientError) -> InstallError:
    body = error.response.get("Error", {})
    code, text = str(body.get("Code", "")), str(body.get("Message", ""))
    if code in _DENIED:
        return MissingRightError(
            f"you may not do {service}:{operation}: {text.partition(' Encoded authorization')[0]}",
            hint=f"ask for a policy that allows {service}:{operation}, or use another profile (--profile)",
            code=code,
        )
    return InstallError(f"{service} {operation}: {code}: {text}", code=code)
