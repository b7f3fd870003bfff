# SPDX-License-Identifier: Apache-2.0
"""What there is to install into: the cluster as EKS describes it, and the network of its node groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from karpenter.cloud.aws.install.account import Account, InstallError

__all__ = ["Choices", "Site", "read_site"]

_GONE: Final = frozenset({"ResourceNotFoundException"})


@dataclass(frozen=True, slots=True)
class Choices:
    """What the person chose.

    Attributes:
        cluster: The cluster's name.
        namespace: Where the controller runs.
        service_account: The name of its ServiceAccount.
        pod_identity: Whether its role comes by EKS Pod Identity instead of an identity provider.
    """

    cluster: str
    namespace: str = "karpenter"
    service_account: str = "karpenter"
    pod_identity: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster and its surroundings.

    Attributes:
        choices: What the person chose.
        region: The cluster's region.
        account: The number of its account.
        partition: The partition of its ARN.
        endpoint: The address of its API server.
        issuer: Who vouches for its service accounts, without the scheme.
        provider_arn: That issuer as IAM knows it; empty if IAM does not.
        by_entries: Whether access entries count.
        by_config_map: Whether the aws-auth ConfigMap counts.
        subnets: The subnets of its node groups, or its own if it has none.
        groups: The security groups that nodes need.
    """

    choices: Choices
    region: str
    account: str
    partition: str
    endpoint: str
    issuer: str
    provider_arn: str
    by_entries: bool
    by_config_map: bool
    subnets: tuple[str, ...]
    groups: tuple[str, ...]

    def arn(self, service: str, resource: str, *, regional: bool = True) -> str:
        """Give an ARN of this account."""
        region = self.region if regional else ""
        return f"arn:{self.partition}:{service}:{region}:{self.account}:{resource}"


def read_site(account: Account, choices: Choices) -> Site:
    """Read what there is.

    Raises:
        InstallError: There is no such cluster here, it is not ready, or its identity provider is missing.
    """
    cluster = _cluster(account, choices.cluster)
    parts = cluster["arn"].split(":")
    issuer = cluster.get("identity", {}).get("oidc", {}).get("issuer", "").removeprefix("https://")
    mode = cluster.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    network = cluster["resourcesVpcConfig"]
    subnets, groups = _node_groups(account, choices.cluster)
    site = Site(
        choices=choices,
        region=account.region,
        account=parts[4],
        partition=parts[1],
        endpoint=cluster["endpoint"],
        issuer=issuer,
        provider_arn=_provider(account, issuer),
        by_entries=mode != "CONFIG_MAP",
        by_config_map=mode == "CONFIG_MAP",
        subnets=tuple(subnets or network["subnetIds"]),
        groups=tuple(groups or [network["clusterSecurityGroupId"]]),
    )
    if not site.provider_arn and not choices.pod_identity:
        raise InstallError(
            f"IAM does not know the identity provider of cluster {choices.cluster} (https://{issuer})",
            hint="run `eksctl utils associate-iam-oidc-provider --approve --cluster "
            f"{choices.cluster}`, or install with --pod-identity",
        )
    return site


def _cluster(account: Account, name: str) -> dict[str, Any]:
    answer = account.ask("eks", "DescribeCluster", _GONE, name=name)
    if answer is None:
        others = account.pages("eks", "ListClusters", "clusters")
        raise InstallError(
            f"there is no EKS cluster {name!r} in region {account.region}",
            hint=f"there are {', '.join(sorted(others))}" if others else "pass another --region",
        )
    cluster: dict[str, Any] = answer["cluster"]
    if cluster["status"] != "ACTIVE":
        raise InstallError(
            f"cluster {name} is {cluster['status']}, not ACTIVE", hint="wait until it is, and try again"
        )
    return cluster


def _provider(account: Account, issuer: str) -> str:
    listed = account.call("iam", "ListOpenIDConnectProviders")["OpenIDConnectProviderList"]
    return next((each["Arn"] for each in listed if issuer and each["Arn"].endswith(f"/{issuer}")), "")


def _node_groups(account: Account, cluster: str) -> tuple[list[str], list[str]]:
    """Give subnets and security groups of the managed node groups, in the order in which they come up."""
    subnets: dict[str, None] = {}
    groups: dict[str, None] = {}
    for name in account.pages("eks", "ListNodegroups", "nodegroups", clusterName=cluster):
        answer = account.call("eks", "DescribeNodegroup", clusterName=cluster, nodegroupName=name)
        found = answer["nodegroup"]
        subnets.update(dict.fromkeys(found.get("subnets", ())))
        groups.update(dict.fromkeys(_template_groups(account, found.get("launchTemplate") or {})))
    return list(subnets), list(groups)


def _template_groups(account: Account, template: Mapping[str, Any]) -> list[str]:
    """Give the security groups that a node group's launch template names, if it names any."""
    if not template:
        return []
    named = (
        {"LaunchTemplateId": template["id"]} if "id" in template else {"LaunchTemplateName": template["name"]}
    )
    versions = account.call(
        "ec2",
        "DescribeLaunchTemplateVersions",
        Versions=[str(template.get("version", "$Default"))],
        **named,
    )["LaunchTemplateVersions"]
    data = versions[0]["LaunchTemplateData"]
    listed = [data, *data.get("NetworkInterfaces", ())]
    return [group for each in listed for group in each.get("SecurityGroupIds") or each.get("Groups") or ()]
