# SPDX-License-Identifier: Apache-2.0
"""What upstream's account for its suites has besides a cluster with Karpenter: a role for fault injection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import boto3

__all__ = ["prepare_account"]

# The name is fixed in upstream's suites.
_ROLE: Final = "FISInterruptionRole"
_TRUST: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "fis.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


def prepare_account(environ: Mapping[str, str]) -> None:
    """Make the role that FIS interrupts spot instances with."""
    iam = boto3.client(
        "iam",
        endpoint_url=environ["AWS_ENDPOINT_URL"],
        region_name=environ["AWS_REGION"],
        aws_access_key_id=environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
    )
    iam.create_role(RoleName=_ROLE, AssumeRolePolicyDocument=json.dumps(_TRUST))
