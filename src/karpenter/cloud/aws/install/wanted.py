# SPDX-License-Identifier: Apache-2.0
"""The pieces of an installation for one site, in the order in which they are made.

Names are those of Karpenter's CloudFormation template and of the notes that people wrote about installing it, so that
an installation by hand and one by us end alike.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.cloud.aws.install.entrance import AccessEntryPiece, PodIdentityPiece
from karpenter.cloud.aws.install.pieces import Piece
from karpenter.cloud.aws.install.queues import RULES, QueuePiece, RulePiece
from karpenter.cloud.aws.install.roles import ProfilePiece, RolePiece, trust
from karpenter.cloud.aws.install.site import Site
from karpenter.cloud.aws.install.tagging import TagPiece
from karpenter.cloud.aws.policy import Scope, controller_policies, document

__all__ = ["controller_role_name", "node_role_arn", "node_role_name", "wanted_pieces"]

_NODE_POLICIES: Final = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonSSMManagedInstanceCore",
)


def node_role_name(cluster: str) -> str:
    """Give the name of the role that nodes take."""
    return f"KarpenterNodeRole-{cluster}"


def node_role_arn(site: Site) -> str:
    """Give the ARN of the role that nodes take."""
    return site.arn("iam", f"role/{node_role_name(site.choices.cluster)}", regional=False)


def controller_role_name(cluster: str) -> str:
    """Give the name of the role that the controller takes."""
    return f"KarpenterControllerRole-{cluster}"


def wanted_pieces(site: Site) -> tuple[Piece, ...]:
    """Give all pieces that a site needs."""
    cluster = site.choices.cluster
    node_role, controller_role = node_role_name(cluster), controller_role_name(cluster)
    queue_arn = site.arn("sqs", cluster)
    scope = Scope(cluster, site.region, site.account, node_role_arn(site), queue_arn, site.partition)
    rules = [
        RulePiece(f"{cluster}-{name}", cluster, source, detail_type, queue_arn)
        for name, (source, detail_type) in RULES.items()
    ]
    pieces: list[Piece] = [
        RolePiece(
            node_role,
            cluster,
            trust({"Principal": {"Service": _ec2(site)}, "Action": "sts:AssumeRole"}),
            "the role of nodes",
            managed=tuple(f"arn:{site.partition}:iam::aws:policy/{each}" for each in _NODE_POLICIES),
        ),
        ProfilePiece(f"KarpenterNodeInstanceProfile-{cluster}", cluster, node_role),
        QueuePiece(
            cluster, cluster, queue_arn, tuple(site.arn("events", f"rule/{each.name}") for each in rules)
        ),
        *rules,
        RolePiece(
            controller_role,
            cluster,
            _controller_trust(site),
            "the role of the controller",
            inline={name: document(each) for name, each in controller_policies(scope).items()},
        ),
    ]
    if site.choices.pod_identity:
        choices = site.choices
        role_arn = site.arn("iam", f"role/{controller_role}", regional=False)
        where = f"{choices.namespace}/{choices.service_account}"
        pieces.append(PodIdentityPiece(where, cluster, choices.namespace, choices.service_account, role_arn))
    pieces += [TagPiece(each, cluster) for each in (*site.subnets, *site.groups)]
    if site.by_entries:
        pieces.append(AccessEntryPiece(node_role_arn(site), cluster))
    return tuple(pieces)


def _controller_trust(site: Site) -> dict[str, Any]:
    choices = site.choices
    if choices.pod_identity:
        # EKS says by session tags for whom it takes the role; without them any pod of any cluster could be given it.
        tags = {
            "eks-cluster-arn": site.arn("eks", f"cluster/{choices.cluster}"),
            "kubernetes-namespace": choices.namespace,
            "kubernetes-service-account": choices.service_account,
        }
        return trust(
            {
                "Principal": {"Service": "pods.eks.amazonaws.com"},
                "Action": ["sts:AssumeRole", "sts:TagSession"],
                "Condition": {
                    "StringEquals": {f"aws:RequestTag/{key}": value for key, value in tags.items()}
                },
            }
        )
    subject = f"system:serviceaccount:{choices.namespace}:{choices.service_account}"
    return trust(
        {
            "Principal": {"Federated": site.provider_arn},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {
                "StringEquals": {f"{site.issuer}:aud": "sts.amazonaws.com", f"{site.issuer}:sub": subject}
            },
        }
    )


def _ec2(site: Site) -> str:
    return f"ec2.amazonaws.com{'.cn' if site.partition == 'aws-cn' else ''}"
