# SPDX-License-Identifier: Apache-2.0
"""EKS: clusters that exist, who may enter them, and node groups that were put there.

Clusters are made by seeds and admin calls, not through the API: nothing here starts a control plane.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from karpenter.sandbox.ec2.contract import Handler, ModelError, Request
from karpenter.sandbox.ec2.services.paging import page

__all__ = ["VERSIONS", "AccessEntry", "Cluster", "Clusters", "handlers"]

# Kubernetes versions that EKS offers, newest first.
VERSIONS = ("1.35", "1.34", "1.33", "1.32", "1.31", "1.30", "1.29")
_PAGE = 100


@dataclass(slots=True)
class AccessEntry:
    """Who may enter a cluster, and as what."""

    principal: str
    type: str
    groups: list[str]
    username: str
    created_at: datetime
    tags: dict[str, str] = field(default_factory=dict)
    policies: dict[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class PodIdentity:
    """Which role the pods of a ServiceAccount get."""

    id: str
    namespace: str
    service_account: str
    role_arn: str
    created_at: datetime
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Cluster:
    """A cluster as DescribeCluster shows it."""

    name: str
    arn: str
    version: str
    endpoint: str
    certificate_authority: str
    service_cidr: str
    role_arn: str
    created_at: datetime
    vpc: Mapping[str, Any] = field(default_factory=dict)
    status: str = "ACTIVE"
    issuer: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    entries: dict[str, AccessEntry] = field(default_factory=dict)
    nodegroups: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    identities: dict[str, PodIdentity] = field(default_factory=dict)
    authentication_mode: str = "API_AND_CONFIG_MAP"
    ip_family: str = "ipv4"

    def shown(self) -> dict[str, Any]:
        """Gives the cluster in the shape of the API."""
        return {
            "name": self.name,
            "arn": self.arn,
            "createdAt": self.created_at,
            "version": self.version,
            "endpoint": self.endpoint,
            "roleArn": self.role_arn,
            "resourcesVpcConfig": dict(self.vpc),
            "kubernetesNetworkConfig": {
                "serviceIpv6Cidr" if self.ip_family == "ipv6" else "serviceIpv4Cidr": self.service_cidr,
                "ipFamily": self.ip_family,
                "elasticLoadBalancing": {"enabled": False},
            },
            "identity": {"oidc": {"issuer": self.issuer}},
            "status": self.status,
            "certificateAuthority": {"data": self.certificate_authority},
            "platformVersion": "eks.1",
            "tags": dict(self.tags),
            "health": {"issues": []},
            "accessConfig": {"authenticationMode": self.authentication_mode},
            "upgradePolicy": {"supportType": "STANDARD"},
            "zonalShiftConfig": {"enabled": True},
            "deletionProtection": False,
        }


class Clusters:
    """The account's clusters by name."""

    def __init__(self, account: str, region: str) -> None:
        self.by_name: dict[str, Cluster] = {}
        self._account = account
        self._region = region

    def arn(self, rest: str) -> str:
        """Gives an ARN of this service."""
        return f"arn:aws:eks:{self._region}:{self._account}:{rest}"

    def add(self, cluster: Cluster) -> Cluster:
        """Takes a cluster in."""
        self.by_name[cluster.name] = cluster
        return cluster


def describe_cluster(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives one cluster."""
    return {"cluster": _cluster(request, parameters["name"]).shown()}


def list_clusters(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the names of all clusters."""
    return _names("clusters", request.world.eks.by_name, parameters)


def describe_cluster_versions(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the Kubernetes versions that are offered."""
    del request
    wanted = parameters.get("clusterVersions") or VERSIONS
    return {
        "clusterVersions": [
            {
                "clusterVersion": version,
                "clusterType": "eks",
                "defaultVersion": version == VERSIONS[1],
                "versionStatus": "STANDARD_SUPPORT" if place < 4 else "EXTENDED_SUPPORT",
            }
            for place, version in enumerate(VERSIONS)
            if version in wanted
        ]
    }


def create_access_entry(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Lets a principal into a cluster."""
    cluster, principal = _cluster(request, parameters["clusterName"]), parameters["principalArn"]
    if principal in cluster.entries:
        raise ModelError(
            "ResourceInUseException",
            "The specified access entry resource is already in use on this cluster.",
            status=409,
        )
    kind = parameters.get("type", "STANDARD")
    username = parameters.get("username") or (
        "system:node:{{EC2PrivateDNSName}}" if kind.startswith("EC2") else principal
    )
    groups = ["system:nodes"] if kind.startswith("EC2") else list(parameters.get("kubernetesGroups", []))
    entry = AccessEntry(principal, kind, groups, username, request.now, dict(parameters.get("tags", {})))
    cluster.entries[principal] = entry
    return {"accessEntry": _entry_shown(request, cluster, entry)}


def describe_access_entry(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives one access entry."""
    cluster, entry = _entry(request, parameters)
    return {"accessEntry": _entry_shown(request, cluster, entry)}


def list_access_entries(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the principals that may enter a cluster."""
    cluster = _cluster(request, parameters["clusterName"])
    return _names("accessEntries", cluster.entries, parameters)


def delete_access_entry(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Shuts a principal out."""
    cluster, entry = _entry(request, parameters)
    del cluster.entries[entry.principal]
    return {}


def associate_access_policy(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives a principal rights in a cluster."""
    cluster, entry = _entry(request, parameters)
    associated = {
        "policyArn": parameters["policyArn"],
        "accessScope": parameters["accessScope"],
        "associatedAt": request.now,
        "modifiedAt": request.now,
    }
    entry.policies[parameters["policyArn"]] = associated
    return {
        "clusterName": cluster.name,
        "principalArn": entry.principal,
        "associatedAccessPolicy": associated,
    }


def list_associated_access_policies(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the rights of a principal in a cluster."""
    cluster, entry = _entry(request, parameters)
    return {
        "clusterName": cluster.name,
        "principalArn": entry.principal,
        "associatedAccessPolicies": list(entry.policies.values()),
    }


def list_nodegroups(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the names of a cluster's node groups."""
    return _names("nodegroups", _cluster(request, parameters["clusterName"]).nodegroups, parameters)


def describe_nodegroup(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives one node group."""
    cluster, name = _cluster(request, parameters["clusterName"]), parameters["nodegroupName"]
    if name not in cluster.nodegroups:
        raise _not_found(f"No node group found for name: {name}.")
    return {"nodegroup": cluster.nodegroups[name]}


def create_pod_identity_association(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the pods of a ServiceAccount a role."""
    cluster = _cluster(request, parameters["clusterName"])
    namespace, account = parameters["namespace"], parameters["serviceAccount"]
    if any(
        (each.namespace, each.service_account) == (namespace, account) for each in cluster.identities.values()
    ):
        raise ModelError(
            "ResourceInUseException",
            f"Association already exists: {namespace}/{account}",
            status=409,
        )
    unique = uuid.uuid5(uuid.NAMESPACE_URL, f"{cluster.arn}/{namespace}/{account}/{request.request_id}")
    made = PodIdentity(
        f"a-{unique.hex[:17]}",
        namespace,
        account,
        parameters["roleArn"],
        request.now,
        dict(parameters.get("tags", {})),
    )
    cluster.identities[made.id] = made
    return {"association": _identity_shown(request, cluster, made)}


def describe_pod_identity_association(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives one association."""
    cluster, found = _identity(request, parameters)
    return {"association": _identity_shown(request, cluster, found)}


def update_pod_identity_association(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Changes the role of an association."""
    cluster, found = _identity(request, parameters)
    found.role_arn = parameters.get("roleArn", found.role_arn)
    return {"association": _identity_shown(request, cluster, found)}


def delete_pod_identity_association(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Forgets an association."""
    cluster, found = _identity(request, parameters)
    del cluster.identities[found.id]
    return {"association": _identity_shown(request, cluster, found)}


def list_pod_identity_associations(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the associations of a cluster, of a namespace or of one ServiceAccount."""
    cluster = _cluster(request, parameters["clusterName"])
    shown = [
        _identity_shown(request, cluster, each)
        for each in cluster.identities.values()
        if parameters.get("namespace") in {None, each.namespace}
        and parameters.get("serviceAccount") in {None, each.service_account}
    ]
    fields = ("clusterName", "namespace", "serviceAccount", "associationArn", "associationId")
    return {"associations": [{name: each[name] for name in fields} for each in shown]}


def handlers() -> Mapping[str, Handler]:
    """Gives the handler of each operation."""
    return {
        "DescribeCluster": describe_cluster,
        "ListClusters": list_clusters,
        "DescribeClusterVersions": describe_cluster_versions,
        "CreateAccessEntry": create_access_entry,
        "DescribeAccessEntry": describe_access_entry,
        "ListAccessEntries": list_access_entries,
        "DeleteAccessEntry": delete_access_entry,
        "AssociateAccessPolicy": associate_access_policy,
        "ListAssociatedAccessPolicies": list_associated_access_policies,
        "CreatePodIdentityAssociation": create_pod_identity_association,
        "DescribePodIdentityAssociation": describe_pod_identity_association,
        "UpdatePodIdentityAssociation": update_pod_identity_association,
        "DeletePodIdentityAssociation": delete_pod_identity_association,
        "ListPodIdentityAssociations": list_pod_identity_associations,
        "ListNodegroups": list_nodegroups,
        "DescribeNodegroup": describe_nodegroup,
    }


def _cluster(request: Request, name: str) -> Cluster:
    cluster = request.world.eks.by_name.get(name)
    if cluster is None:
        raise _not_found(f"No cluster found for name: {name}.")
    return cluster


def _entry(request: Request, parameters: Mapping[str, Any]) -> tuple[Cluster, AccessEntry]:
    cluster, principal = _cluster(request, parameters["clusterName"]), parameters["principalArn"]
    entry = cluster.entries.get(principal)
    if entry is None:
        raise _not_found(
            "The specified principalArn could not be found. You can view your available access entries."
        )
    return cluster, entry


def _entry_shown(request: Request, cluster: Cluster, entry: AccessEntry) -> dict[str, Any]:
    unique = uuid.uuid5(uuid.NAMESPACE_URL, entry.principal)
    return {
        "clusterName": cluster.name,
        "principalArn": entry.principal,
        "kubernetesGroups": entry.groups,
        "accessEntryArn": request.world.eks.arn(f"access-entry/{cluster.name}/role/{unique}"),
        "createdAt": entry.created_at,
        "modifiedAt": entry.created_at,
        "tags": entry.tags,
        "username": entry.username,
        "type": entry.type,
    }


def _identity(request: Request, parameters: Mapping[str, Any]) -> tuple[Cluster, PodIdentity]:
    cluster, id_ = _cluster(request, parameters["clusterName"]), parameters["associationId"]
    if id_ not in cluster.identities:
        raise _not_found(f"The association ID is invalid: {id_}")
    return cluster, cluster.identities[id_]


def _identity_shown(request: Request, cluster: Cluster, found: PodIdentity) -> dict[str, Any]:
    return {
        "clusterName": cluster.name,
        "namespace": found.namespace,
        "serviceAccount": found.service_account,
        "roleArn": found.role_arn,
        "associationArn": request.world.eks.arn(f"podidentityassociation/{cluster.name}/{found.id}"),
        "associationId": found.id,
        "tags": found.tags,
        "createdAt": found.created_at,
        "modifiedAt": found.created_at,
    }


def _names(field_name: str, names: Mapping[str, Any], parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    shown, token = page(
        names,
        str,
        parameters.get("maxResults", _PAGE),
        parameters.get("nextToken"),
        refused="InvalidParameterException",
    )
    return {field_name: shown, "nextToken": token}


def _not_found(message: str) -> ModelError:
    return ModelError("ResourceNotFoundException", message, status=404)
