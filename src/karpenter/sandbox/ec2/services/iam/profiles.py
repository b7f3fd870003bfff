# SPDX-License-Identifier: Apache-2.0
"""IAM's operations on instance profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from karpenter.sandbox.ec2.contract import Handler, ModelError, Request
from karpenter.sandbox.ec2.services.iam.roles import listed, role_shown
from karpenter.sandbox.ec2.services.iam.store import InstanceProfile, as_tags, from_tags

__all__ = ["HANDLERS"]


def create_instance_profile(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Makes an instance profile."""
    profile = request.world.iam.add_profile(
        parameters["InstanceProfileName"], request.now, parameters.get("Path", "/")
    )
    profile.tags.update(from_tags(parameters.get("Tags")))
    return {"InstanceProfile": _shown(profile)}


def get_instance_profile(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives an instance profile with its role."""
    return {"InstanceProfile": _shown(_profile(request, parameters))}


def add_role_to_instance_profile(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Puts a role into an instance profile, which holds one at most."""
    profile = _profile(request, parameters)
    role = request.world.iam.role(parameters["RoleName"])
    if profile.roles:
        raise ModelError(
            "LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1", status=409
        )
    profile.roles.append(role)
    return {}


def remove_role_from_instance_profile(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Takes a role out of an instance profile."""
    profile, name = _profile(request, parameters), parameters["RoleName"]
    if name not in [role.name for role in profile.roles]:
        raise ModelError("NoSuchEntity", f"The role with name {name} cannot be found.", status=404)
    profile.roles.clear()
    return {}


def delete_instance_profile(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Forgets an instance profile that holds no role."""
    profile = _profile(request, parameters)
    if profile.roles:
        text = "Cannot delete entity, must remove roles from instance profile first."
        raise ModelError("DeleteConflict", text, status=409)
    del request.world.iam.profiles[profile.name]
    return {}


def list_instance_profiles(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the instance profiles under a path."""
    prefix = parameters.get("PathPrefix", "/")
    found = [each for each in request.world.iam.profiles.values() if each.path.startswith(prefix)]
    return listed("InstanceProfiles", found, lambda each: each.name, _summary, parameters)


def list_instance_profiles_for_role(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the instance profiles that hold a role."""
    role = request.world.iam.role(parameters["RoleName"])
    found = [each for each in request.world.iam.profiles.values() if role in each.roles]
    return listed("InstanceProfiles", found, lambda each: each.name, _summary, parameters)


def tag_instance_profile(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sets tags of an instance profile."""
    _profile(request, parameters).tags.update(from_tags(parameters["Tags"]))
    return {}


def untag_instance_profile(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Takes tags of an instance profile back."""
    tags = _profile(request, parameters).tags
    for key in parameters["TagKeys"]:
        tags.pop(key, None)
    return {}


def list_instance_profile_tags(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the tags of an instance profile."""
    return {"Tags": as_tags(_profile(request, parameters).tags), "IsTruncated": False}


HANDLERS: Mapping[str, Handler] = {
    "CreateInstanceProfile": create_instance_profile,
    "GetInstanceProfile": get_instance_profile,
    "AddRoleToInstanceProfile": add_role_to_instance_profile,
    "RemoveRoleFromInstanceProfile": remove_role_from_instance_profile,
    "DeleteInstanceProfile": delete_instance_profile,
    "ListInstanceProfiles": list_instance_profiles,
    "ListInstanceProfilesForRole": list_instance_profiles_for_role,
    "TagInstanceProfile": tag_instance_profile,
    "UntagInstanceProfile": untag_instance_profile,
    "ListInstanceProfileTags": list_instance_profile_tags,
}


def _profile(request: Request, parameters: Mapping[str, Any]) -> InstanceProfile:
    return request.world.iam.profile(parameters["InstanceProfileName"])


def _summary(profile: InstanceProfile) -> dict[str, Any]:
    return {
        "Path": profile.path,
        "InstanceProfileName": profile.name,
        "InstanceProfileId": profile.id,
        "Arn": profile.arn,
        "CreateDate": profile.created_at,
        "Roles": [role_shown(role) for role in profile.roles],
    }


def _shown(profile: InstanceProfile) -> dict[str, Any]:
    return _summary(profile) | {"Tags": as_tags(profile.tags)}
