# SPDX-License-Identifier: Apache-2.0
"""STS: who a key belongs to, and temporary keys for roles.

Any access key that was not handed out here belongs to the controller's role. Roles must exist to be assumed; web
identity tokens are taken as they come, unless they are empty.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

from karpenter.sandbox.ec2.contract import Handler, ModelError, Request

__all__ = ["Identity", "Sessions", "handlers"]

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


class Identity(NamedTuple):
    """Who a key belongs to."""

    arn: str
    user_id: str


class Sessions:
    """The temporary keys that were handed out."""

    def __init__(self, account: str, default_role: str, random: Random) -> None:
        self._default = Identity(
            f"arn:aws:sts::{account}:assumed-role/{default_role}/sandbox", "AROASANDBOXCONTROLLER:sandbox"
        )
        self._by_key: dict[str, Identity] = {}
        self._random = random

    def identity(self, access_key: str) -> Identity:
        """Gives who a key belongs to."""
        return self._by_key.get(access_key, self._default)

    def open(self, identity: Identity) -> str:
        """Hands out a new access key for an identity."""
        key = "ASIA" + "".join(self._random.choices(_ALPHABET, k=16))
        self._by_key[key] = identity
        return key

    def secret(self, length: int) -> str:
        """Gives a text that looks like a secret; nothing checks it."""
        return base64.b64encode(self._random.randbytes(length)).decode()


def get_caller_identity(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Says who calls."""
    del parameters
    who = request.world.sts.identity(request.access_key)
    return {"UserId": who.user_id, "Account": request.world.account, "Arn": who.arn}


def assume_role(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Hands out keys of a role."""
    caller = request.world.sts.identity(request.access_key).arn
    return _assumed(request, parameters, f"User: {caller} is not authorized to perform: sts:AssumeRole")


def assume_role_with_web_identity(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Hands out keys of a role to who holds a token of an identity provider."""
    token = parameters["WebIdentityToken"]
    if not token.strip():
        raise ModelError(
            "InvalidIdentityToken", "No OpenIDConnect provider found in your account for the token"
        )
    refusal = "Not authorized to perform sts:AssumeRoleWithWebIdentity"
    answer = dict(_assumed(request, parameters, refusal))
    answer |= {"SubjectFromWebIdentityToken": "system:serviceaccount:kube-system:karpenter"}
    return answer


def handlers() -> Mapping[str, Handler]:
    """Gives the handler of each operation."""
    return {
        "GetCallerIdentity": get_caller_identity,
        "AssumeRole": assume_role,
        "AssumeRoleWithWebIdentity": assume_role_with_web_identity,
    }


def _assumed(request: Request, parameters: Mapping[str, Any], refusal: str) -> Mapping[str, Any]:
    world, arn, session = request.world, parameters["RoleArn"], parameters["RoleSessionName"]
    role = world.iam.roles.get(arn.rpartition("/")[2])
    if role is None or role.arn != arn:
        raise ModelError("AccessDenied", f"{refusal} on resource: {arn}", status=403)
    who = Identity(f"arn:aws:sts::{world.account}:assumed-role/{role.name}/{session}", f"{role.id}:{session}")
    lasts = timedelta(seconds=parameters.get("DurationSeconds", 3600))
    return {
        "Credentials": {
            "AccessKeyId": world.sts.open(who),
            "SecretAccessKey": world.sts.secret(30),
            "SessionToken": world.sts.secret(120),
            "Expiration": request.now + lasts,
        },
        "AssumedRoleUser": {"AssumedRoleId": who.user_id, "Arn": who.arn},
    }
