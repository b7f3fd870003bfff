# SPDX-License-Identifier: Apache-2.0
"""Writes an installation down instead of making it: CloudFormation, Terraform, or what Kubernetes needs.

The same pieces as ``wanted`` gives are translated, so that what is written cannot differ from what would be made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import yaml

from karpenter.cloud.aws.install.awsauth import entry
from karpenter.cloud.aws.install.cloudformation import cloudformation
from karpenter.cloud.aws.install.pieces import Piece
from karpenter.cloud.aws.install.site import Site
from karpenter.cloud.aws.install.terraform import terraform
from karpenter.cloud.aws.install.wanted import controller_role_name, node_role_arn

__all__ = ["FORMS", "chart_values", "kubernetes"]


def kubernetes(site: Site, pieces: Sequence[Piece]) -> str:
    """Give what the cluster itself needs: the entry of aws-auth where it counts, and the chart's values."""
    del pieces
    parts = []
    if site.by_config_map:
        text = "".join(f"#   {line}\n" for line in entry(node_role_arn(site)).splitlines())
        parts.append(f"# Add to mapRoles of the ConfigMap kube-system/aws-auth:\n{text}")
    values = yaml.safe_dump(chart_values(site), sort_keys=False)
    parts.append(f"# Values of the karpenter chart: helm upgrade --install karpenter ... -f FILE\n{values}")
    return "\n".join(parts)


def chart_values(site: Site) -> dict[str, Any]:
    """Give the values with which the chart is installed."""
    cluster = site.choices.cluster
    account: dict[str, Any] = {"name": site.choices.service_account}
    if not site.choices.pod_identity:
        role = site.arn("iam", f"role/{controller_role_name(cluster)}", regional=False)
        account["annotations"] = {"eks.amazonaws.com/role-arn": role}
    settings = {"clusterName": cluster, "interruptionQueue": cluster}
    return {"serviceAccount": account, "settings": settings}


FORMS: Final[Mapping[str, Callable[[Site, Sequence[Piece]], str]]] = {
    "cloudformation": cloudformation,
    "terraform": terraform,
    "yaml": kubernetes,
}
