# SPDX-License-Identifier: Apache-2.0
"""Puts a key of the EC2 model under the policies that an installation gives the controller."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import boto3

from karpenter.cloud.aws.policy import Scope, Statement, controller_policies, document

__all__ = ["confine", "statements"]

_ACCOUNT = "123456789012"


def _policies(cluster: str, region: str) -> dict[str, tuple[Statement, ...]]:
    scope = Scope(
        cluster=cluster,
        region=region,
        account=_ACCOUNT,
        node_role_arn=f"arn:aws:iam::{_ACCOUNT}:role/KarpenterNodeRole-{cluster}",
        queue_arn=f"arn:aws:sqs:{region}:{_ACCOUNT}:{cluster}",
    )
    return dict(controller_policies(scope))


def statements(cluster: str, region: str = "us-west-2") -> dict[str, Statement]:
    """Give the statements of the controller's policies, by their names."""
    return {each.sid: each for policy in _policies(cluster, region).values() for each in policy}


def confine(url: str, cluster: str, access_key: str = "model", region: str = "us-west-2") -> None:
    """Give the controller's role its policies, and let the key have no more than these."""
    keys: dict[str, Any] = {"aws_access_key_id": "admin", "aws_secret_access_key": "admin"}
    iam = boto3.client("iam", endpoint_url=url, region_name=region, **keys)
    role = f"KarpenterControllerRole-{cluster}"
    for name, listed in _policies(cluster, region).items():
        iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=document(listed))
    body = json.dumps({"accessKey": access_key, "role": role}).encode()
    urllib.request.urlopen(f"{url}/_model/enforce", data=body, timeout=15).close()  # noqa: S310
