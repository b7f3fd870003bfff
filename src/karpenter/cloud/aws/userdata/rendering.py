# SPDX-License-Identifier: Apache-2.0
"""User data of a node class: which operating system's, how large, and what is odd about it.

A pure function: equal arguments give equal bytes, whatever the order of labels or settings, because the name
of a launch template is a hash of its content. Refused: what no node could boot from, and more than EC2 takes.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from karpenter.api.core import Taint
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.amis.families import AL2, AL2023, BOTTLEROCKET, CUSTOM, family_of
from karpenter.cloud.aws.userdata.amazonlinux import bootstrap_script, custom_parts, node_config
from karpenter.cloud.aws.userdata.bottlerocket import binds_by_itself, bottlerocket_settings
from karpenter.cloud.aws.userdata.errors import (
    CLUSTER_CIDR_UNKNOWN,
    CUSTOM_FIELD,
    TOO_LARGE,
    BrokenTextError,
    UnquotableError,
    UserDataError,
    UserDataWarning,
)
from karpenter.cloud.aws.userdata.mime import NODE_CONFIG, SHELL_SCRIPT, part_of, write_archive
from karpenter.cloud.aws.userdata.node import Cluster, Node, settle_node
from karpenter.cloud.aws.userdata.windows import powershell_script

__all__ = ["LIMIT_BYTES", "UserData", "user_data"]

# What EC2 takes, counted before base64.
LIMIT_BYTES: Final = 16384
_WARNING_BYTES: Final = LIMIT_BYTES * 9 // 10


@dataclass(frozen=True, slots=True)
class UserData:
    """User data, ready for a launch template.

    Attributes:
        data: The bytes that the instance will see.
        warnings: What a person should look at.
    """

    data: bytes
    warnings: tuple[UserDataWarning, ...] = ()

    @property
    def size_bytes(self) -> int:
        """How much of EC2's limit it takes."""
        return len(self.data)

    @property
    def base64(self) -> str:
        """The form in which EC2's API takes it."""
        return base64.b64encode(self.data).decode("ascii")


def user_data(
    cluster: Cluster,
    node_class: EC2NodeClass,
    *,
    labels: Mapping[str, str],
    taints: Sequence[Taint] = (),
    max_pods: int | None = None,
) -> UserData:
    """Make the user data for nodes of a class.

    Args:
        cluster: The cluster that they join.
        node_class: Gives family, kubelet settings, instance store policy, the user's own user data and, for
            Bottlerocket, the version of its images.
        labels: The labels of the NodeClaim and the capacity type; those that a kubelet may not set are left out.
        taints: The taints and then the startup taints of the NodeClaim.
        max_pods: How many pods the instance types hold, unless the node class says so.

    Raises:
        UserDataError: Node class, field, line and reason of what is wrong.
        FamilyError: The node class names a family that does not exist.
    """
    name = node_class.metadata.name
    if family_of(node_class) is CUSTOM:
        # Whatever this image wants to be told, only the user knows.
        return _within_limit(UserData(node_class.spec.user_data.encode()), name, lambda: 0)
    node = settle_node(cluster, node_class, labels=labels, taints=taints, max_pods=max_pods)
    try:
        made = _render(node, node_class)
    except BrokenTextError as error:
        raise UserDataError(
            error.message, node_class=name, field=CUSTOM_FIELD, line=error.line, hint=error.hint
        ) from error
    except UnquotableError as error:
        raise UserDataError(error.message, node_class=name, field=error.what, hint=error.hint) from error
    return _within_limit(made, name, lambda: _render(replace(node, custom=""), node_class).size_bytes)


def _render(node: Node, node_class: EC2NodeClass) -> UserData:
    family = family_of(node_class)
    warnings: tuple[UserDataWarning, ...] = ()
    if family is AL2:
        parts, warnings = custom_parts(node.custom, nodeadm=False)
        text = write_archive((*parts, part_of(bootstrap_script(node), SHELL_SCRIPT)))
    elif family is AL2023:
        _refuse_unknown_cidr(node, node_class)
        parts, warnings = custom_parts(node.custom, nodeadm=True)
        text = write_archive((*parts, part_of(node_config(node), NODE_CONFIG)))
    elif family is BOTTLEROCKET:
        text, warnings = bottlerocket_settings(node, binds_itself=binds_by_itself(node_class))
    else:
        text = powershell_script(node)
    return UserData(text.encode(), warnings)


def _refuse_unknown_cidr(node: Node, node_class: EC2NodeClass) -> None:
    if not node.cluster.service_cidr:
        raise UserDataError(
            "the service CIDR of the cluster is not known yet, and AL2023 cannot join without",
            node_class=node_class.metadata.name,
            field="spec.amiFamily",
            reason=CLUSTER_CIDR_UNKNOWN,
            hint="allow eks:DescribeCluster, which tells it",
        )


def _within_limit(made: UserData, node_class: str, count_own_bytes: Callable[[], int]) -> UserData:
    """Refuse what is too large and warn of what soon will be; only then it matters how much of it is ours."""
    size = made.size_bytes
    if size < _WARNING_BYTES:
        return made
    own = count_own_bytes()
    shares = f"{max(size - own, 0)} from {CUSTOM_FIELD}, {own} from us"
    hint = "fetch what is large from S3 or bake it into the image"
    if size > LIMIT_BYTES:
        excess = size - LIMIT_BYTES
        raise UserDataError(
            f"user data is {size} bytes ({shares}), {excess} more than the {LIMIT_BYTES} that EC2 takes",
            node_class=node_class,
            field=CUSTOM_FIELD,
            reason=TOO_LARGE,
            hint=hint,
        )
    message = f"user data is {size} bytes ({shares}), close to the {LIMIT_BYTES} that EC2 takes"
    return replace(made, warnings=(*made.warnings, UserDataWarning(CUSTOM_FIELD, message, hint)))
