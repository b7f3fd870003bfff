# SPDX-License-Identifier: Apache-2.0
"""IAM's operations on roles and on the policies in and at them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from karpenter.sandbox.ec2.contract import Handler, ModelError, Request
from karpenter.sandbox.ec2.services.iam.store import Role, as_tags, from_tags
from karpenter.sandbox.ec2.services.paging import page

__all__ = ["HANDLERS", "checked_document", "listed", "role_shown"]

_T = TypeVar("_T")
_SERVICE_LINKED = {
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
    "spotfleet.amazonaws.com": "AWSServiceRoleForEC2SpotFleet",
    "eks.amazonaws.com": "AWSServiceRoleForAmazonEKS",
    "eks-nodegroup.amazonaws.com": "AWSServiceRoleForAmazonEKSNodegroup",
}


def create_role(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Makes a role."""
    trust = checked_document(parameters["AssumeRolePolicyDocument"])
    role = request.world.iam.add_role(parameters["RoleName"], trust, request.now, parameters.get("Path", "/"))
    role.description = parameters.get("Description", "")
    role.session_s = parameters.get("MaxSessionDuration", 3600)
    role.tags.update(from_tags(parameters.get("Tags")))
    return {"Role": role_shown(role)}


def create_service_linked_role(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Makes the role that a service of AWS takes in this account."""
    service = parameters["AWSServiceName"]
    name = _SERVICE_LINKED.get(service)
    if name is None:
        raise ModelError("InvalidInput", f"Service name {service} is not valid.")
    if name in request.world.iam.roles:
        text = f"Service role name {name} has been taken in this account, please try a different suffix."
        raise ModelError("InvalidInput", text)
    trust = json.dumps({"Version": "2012-10-17", "Statement": [{"Principal": {"Service": service}}]})
    role = request.world.iam.add_role(name, trust, request.now, f"/aws-service-role/{service}/")
    return {"Role": role_shown(role)}


def get_role(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives a role."""
    return {"Role": role_shown(request.world.iam.role(parameters["RoleName"])) | {"RoleLastUsed": {}}}


def list_roles(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the roles under a path."""
    prefix = parameters.get("PathPrefix", "/")
    found = [role for role in request.world.iam.roles.values() if role.path.startswith(prefix)]
    return listed("Roles", found, lambda role: role.name, role_shown, parameters)


def delete_role(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Forgets a role that nothing holds on to any more."""
    iam, role = request.world.iam, request.world.iam.role(parameters["RoleName"])
    if any(role in profile.roles for profile in iam.profiles.values()):
        raise _conflict("must remove roles from instance profile first.")
    if role.attached:
        raise _conflict("must detach all policies first.")
    if role.inline:
        raise _conflict("must delete policies first.")
    del iam.roles[role.name]
    return {}


def update_assume_role_policy(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Changes who may take a role."""
    request.world.iam.role(parameters["RoleName"]).trust = checked_document(parameters["PolicyDocument"])
    return {}


def tag_role(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sets tags of a role."""
    request.world.iam.role(parameters["RoleName"]).tags.update(from_tags(parameters["Tags"]))
    return {}


def untag_role(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Takes tags of a role back."""
    tags = request.world.iam.role(parameters["RoleName"]).tags
    for key in parameters["TagKeys"]:
        tags.pop(key, None)
    return {}


def attach_role_policy(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives a role the rights of a managed policy."""
    role, arn = request.world.iam.role(parameters["RoleName"]), parameters["PolicyArn"]
    role.attached[arn] = request.world.iam.policy_name(arn)
    return {}


def detach_role_policy(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Takes the rights of a managed policy from a role."""
    role, arn = request.world.iam.role(parameters["RoleName"]), parameters["PolicyArn"]
    if role.attached.pop(arn, None) is None:
        raise _nothing(f"Policy {arn} was not found.")
    return {}


def list_attached_role_policies(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the managed policies at a role."""
    role = request.world.iam.role(parameters["RoleName"])
    shown = [{"PolicyName": name, "PolicyArn": arn} for arn, name in role.attached.items()]
    return listed("AttachedPolicies", shown, lambda each: each["PolicyArn"], dict, parameters)


def put_role_policy(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Writes a policy into a role."""
    role = request.world.iam.role(parameters["RoleName"])
    role.inline[parameters["PolicyName"]] = checked_document(parameters["PolicyDocument"])
    return {}


def get_role_policy(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives a policy in a role."""
    role, name = request.world.iam.role(parameters["RoleName"]), parameters["PolicyName"]
    if name not in role.inline:
        raise _nothing(f"The role policy with name {name} cannot be found.")
    return {"RoleName": role.name, "PolicyName": name, "PolicyDocument": quote(role.inline[name])}


def delete_role_policy(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Takes a policy out of a role."""
    role, name = request.world.iam.role(parameters["RoleName"]), parameters["PolicyName"]
    if role.inline.pop(name, None) is None:
        raise _nothing(f"The role policy with name {name} cannot be found.")
    return {}


def list_role_policies(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the names of the policies in a role."""
    role = request.world.iam.role(parameters["RoleName"])
    return listed("PolicyNames", role.inline, str, str, parameters)


HANDLERS: Mapping[str, Handler] = {
    "CreateRole": create_role,
    "CreateServiceLinkedRole": create_service_linked_role,
    "GetRole": get_role,
    "ListRoles": list_roles,
    "DeleteRole": delete_role,
    "UpdateAssumeRolePolicy": update_assume_role_policy,
    "TagRole": tag_role,
    "UntagRole": untag_role,
    "AttachRolePolicy": attach_role_policy,
    "DetachRolePolicy": detach_role_policy,
    "ListAttachedRolePolicies": list_attached_role_policies,
    "PutRolePolicy": put_role_policy,
    "GetRolePolicy": get_role_policy,
    "DeleteRolePolicy": delete_role_policy,
    "ListRolePolicies": list_role_policies,
}


def listed(
    name: str,
    items: Iterable[_T],
    key: Callable[[_T], str],
    show: Callable[[_T], Any],
    parameters: Mapping[str, Any],
) -> dict[str, Any]:
    """Gives a page of a list in IAM's way."""
    shown, marker = page(
        items, key, parameters.get("MaxItems", 100), parameters.get("Marker"), refused="ValidationError"
    )
    return {name: [show(each) for each in shown], "IsTruncated": marker is not None, "Marker": marker}


def role_shown(role: Role) -> dict[str, Any]:
    """Gives a role as IAM shows it; documents are percent-encoded there."""
    return {
        "Path": role.path,
        "RoleName": role.name,
        "RoleId": role.id,
        "Arn": role.arn,
        "CreateDate": role.created_at,
        "AssumeRolePolicyDocument": quote(role.trust),
        "Description": role.description,
        "MaxSessionDuration": role.session_s,
        "Tags": as_tags(role.tags),
    }


def checked_document(text: str) -> str:
    """Takes a policy document that is JSON with statements.

    Raises:
        ModelError: It is something else.
    """
    try:
        document = json.loads(text)
    except ValueError as broken:
        raise ModelError("MalformedPolicyDocument", "This policy contains invalid Json") from broken
    if not isinstance(document, dict) or "Statement" not in document:
        raise ModelError("MalformedPolicyDocument", "Syntax errors in policy.")
    return text


def _conflict(what: str) -> ModelError:
    return ModelError("DeleteConflict", f"Cannot delete entity, {what}", status=409)


def _nothing(message: str) -> ModelError:
    return ModelError("NoSuchEntity", message, status=404)
