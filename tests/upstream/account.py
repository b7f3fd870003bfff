# SPDX-License-Identifier: Apache-2.0
"""What upstream's accounts for its suites have besides a cluster with Karpenter: a role for FIS, a Local Zone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import boto3

__all__ = ["prepare_account"]

# The name is fixed in upstream's suites.
_ROLE: Final = "FISInterruptionRole"
_LOCAL_ZONE: Final = "us-west-2-lax-1a"
# Behind the subnets that the model begins with.
_LOCAL_CIDR: Final = "10.0.192.0/20"
_TRUST: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "fis.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


def prepare_account(environ: Mapping[str, str], *, local_zone: bool = False) -> None:
    """Make the role that FIS interrupts spot instances with and, if asked, a subnet in a Local Zone."""
    _client("iam", environ).create_role(RoleName=_ROLE, AssumeRolePolicyDocument=json.dumps(_TRUST))
    if local_zone:
        _add_local_zone(environ)


def _add_local_zone(environ: Mapping[str, str]) -> None:
    ec2, cluster = _client("ec2", environ), environ["CLUSTER_NAME"]
    ec2.modify_availability_zone_group(GroupName=_LOCAL_ZONE[:-1], OptInStatus="opted-in")
    described = _client("eks", environ).describe_cluster(name=cluster)["cluster"]
    names = {"Name": f"{cluster}/SubnetPrivate{_LOCAL_ZONE}", "karpenter.sh/discovery": cluster}
    ec2.create_subnet(
        VpcId=described["resourcesVpcConfig"]["vpcId"],
        CidrBlock=_LOCAL_CIDR,
        AvailabilityZone=_LOCAL_ZONE,
        TagSpecifications=[
            {
                "ResourceType": "subnet",
                "Tags": [{"Key": key, "Value": value} for key, value in names.items()],
            }
        ],
    )


def _client(service: str, environ: Mapping[str, str]) -> Any:
    return boto3.client(
        service,
        endpoint_url=environ["AWS_ENDPOINT_URL"],
        region_name=environ["AWS_REGION"],
        aws_access_key_id=environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
    )
