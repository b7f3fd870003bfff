# SPDX-License-Identifier: Apache-2.0
"""IAM's operations on managed policies and on identity providers of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from karpenter.sandbox.ec2.contract import Handler, ModelError, Request
from karpenter.sandbox.ec2.services.iam.roles import checked_document, listed
from karpenter.sandbox.ec2.services.iam.store import IdentityProvider, Policy, as_tags, from_tags

__all__ = ["HANDLERS"]


def create_policy(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Makes a managed policy."""
    iam, name, path = request.world.iam, parameters["PolicyName"], parameters.get("Path", "/")
    arn = iam.arn("policy", path, name)
    if arn in iam.policies:
        raise ModelError(
            "EntityAlreadyExists",
            f"A policy called {name} already exists. Duplicate names are not allowed.",
            status=409,
        )
    document = checked_document(parameters["PolicyDocument"])
    policy = Policy(
        name, path, arn, iam.new_id("ANPA"), document, request.now, from_tags(parameters.get("Tags"))
    )
    iam.policies[arn] = policy
    return {"Policy": _shown(request, policy)}


def get_policy(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives a managed policy."""
    return {"Policy": _shown(request, request.world.iam.policy(parameters["PolicyArn"]))}


def get_policy_version(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the document of a managed policy; there is one version."""
    policy = request.world.iam.policy(parameters["PolicyArn"])
    if parameters["VersionId"] != "v1":
        raise ModelError(
            "NoSuchEntity",
            f"Policy {policy.arn} version {parameters['VersionId']} does not exist.",
            status=404,
        )
    shown = {"VersionId": "v1", "IsDefaultVersion": True, "CreateDate": policy.created_at}
    return {"PolicyVersion": shown | {"Document": quote(policy.document)}}


def list_policies(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the account's managed policies."""
    found = [] if parameters.get("Scope") == "AWS" else request.world.iam.policies.values()
    return listed("Policies", found, lambda each: each.arn, lambda each: _shown(request, each), parameters)


def delete_policy(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Forgets a managed policy that no role has."""
    policy = request.world.iam.policy(parameters["PolicyArn"])
    if _attachments(request, policy):
        raise ModelError("DeleteConflict", "Cannot delete a policy attached to entities.", status=409)
    del request.world.iam.policies[policy.arn]
    return {}


def create_open_id_connect_provider(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Takes note of who vouches for a cluster's service accounts."""
    iam, url = request.world.iam, parameters["Url"].removeprefix("https://")
    arn = iam.arn("oidc-provider", "/", url)
    if arn in iam.providers:
        text = f"Provider with url https://{url} already exists."
        raise ModelError("EntityAlreadyExists", text, status=409)
    clients, prints = parameters.get("ClientIDList", []), parameters.get("ThumbprintList", [])
    iam.providers[arn] = IdentityProvider(arn, url, list(clients), list(prints), request.now)
    return {"OpenIDConnectProviderArn": arn}


def get_open_id_connect_provider(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives an identity provider."""
    provider = request.world.iam.provider(parameters["OpenIDConnectProviderArn"])
    return {
        "Url": provider.url,
        "ClientIDList": provider.clients,
        "ThumbprintList": provider.thumbprints,
        "CreateDate": provider.created_at,
    }


def list_open_id_connect_providers(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives all identity providers."""
    del parameters
    return {"OpenIDConnectProviderList": [{"Arn": arn} for arn in request.world.iam.providers]}


def delete_open_id_connect_provider(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Forgets an identity provider."""
    provider = request.world.iam.provider(parameters["OpenIDConnectProviderArn"])
    del request.world.iam.providers[provider.arn]
    return {}


HANDLERS: Mapping[str, Handler] = {
    "CreatePolicy": create_policy,
    "GetPolicy": get_policy,
    "GetPolicyVersion": get_policy_version,
    "ListPolicies": list_policies,
    "DeletePolicy": delete_policy,
    "CreateOpenIDConnectProvider": create_open_id_connect_provider,
    "GetOpenIDConnectProvider": get_open_id_connect_provider,
    "ListOpenIDConnectProviders": list_open_id_connect_providers,
    "DeleteOpenIDConnectProvider": delete_open_id_connect_provider,
}


def _attachments(request: Request, policy: Policy) -> int:
    return sum(policy.arn in role.attached for role in request.world.iam.roles.values())


def _shown(request: Request, policy: Policy) -> dict[str, Any]:
    return {
        "PolicyName": policy.name,
        "PolicyId": policy.id,
        "Arn": policy.arn,
        "Path": policy.path,
        "DefaultVersionId": "v1",
        "AttachmentCount": _attachments(request, policy),
        "IsAttachable": True,
        "CreateDate": policy.created_at,
        "UpdateDate": policy.created_at,
        "Tags": as_tags(policy.tags),
    }
