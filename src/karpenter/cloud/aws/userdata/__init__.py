# SPDX-License-Identifier: Apache-2.0
"""User data: what an instance is told at its first boot so that it joins the cluster.

Pure functions from a cluster, a node class and a NodeClaim's labels and taints to bytes. The reader of each
operating system gets its own language, merged with the user's own user data:

===============  ===========================================================================================
``rendering``    ``user_data``: the one way in; chooses the language, checks EC2's limit
``node``         what every node is told, whatever its language; the kubelet's flags
``amazonlinux``  AL2 (bootstrap.sh) and AL2023 (nodeadm's NodeConfig) in MIME archives
``bottlerocket`` TOML settings
``windows``      PowerShell
``quoting``      the only functions by which a value enters a shell, PowerShell or a kubelet flag
``mime``         archives read and written; a boundary that follows from the content and is not in it
``toml``         plain values as TOML
===============  ===========================================================================================
"""

from karpenter.cloud.aws.userdata.errors import (
    CLUSTER_CIDR_UNKNOWN,
    INVALID,
    TOO_LARGE,
    UserDataError,
    UserDataWarning,
)
from karpenter.cloud.aws.userdata.node import Cluster
from karpenter.cloud.aws.userdata.rendering import LIMIT_BYTES, UserData, user_data

__all__ = [
    "CLUSTER_CIDR_UNKNOWN",
    "INVALID",
    "LIMIT_BYTES",
    "TOO_LARGE",
    "Cluster",
    "UserData",
    "UserDataError",
    "UserDataWarning",
    "user_data",
]
