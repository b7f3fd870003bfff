# SPDX-License-Identifier: Apache-2.0
"""What a call touches: each action on each resource that IAM would weigh for it, with the keys it would know.

A launch touches the fleet, the launch template, image, subnets and groups that it uses, and instances, volumes and
interfaces that it makes; it writes tags on these, and passes the node role on. What does not exist is weighed by its
pattern and refused later by the operation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from karpenter.sandbox.ec2.rights.policies import Asked

if TYPE_CHECKING:
    from karpenter.sandbox.ec2.compute.records import LaunchTemplate
    from karpenter.sandbox.ec2.world import World

__all__ = ["touched"]

Parameters = Mapping[str, Any]
Context = dict[str, str | tuple[str, ...]]

_KINDS: Final = {
    "i": "instance",
    "lt": "launch-template",
    "vol": "volume",
    "eni": "network-interface",
    "subnet": "subnet",
    "sg": "security-group",
    "vpc": "vpc",
    "ami": "image",
    "cr": "capacity-reservation",
    "fleet": "fleet",
}
_ACTIONS: Final = {("sqs", "DeleteMessageBatch"): "sqs:DeleteMessage"}
# Nobody needs a right to ask who he is, or to take a role that trusts him.
_FREE: Final = frozenset({"GetCallerIdentity", "AssumeRole", "AssumeRoleWithWebIdentity"})


def touched(world: World, service: str, operation: str, parameters: Parameters) -> Iterator[Asked]:
    """Give everything that is weighed for a call."""
    if operation in _FREE:
        return
    action = _ACTIONS.get((service, operation), f"{service}:{operation}")
    special = _SPECIAL.get((service, operation))
    if special is not None:
        yield from special(world, action, parameters)
        return
    context: Context = {"aws:RequestedRegion": world.region}
    yield Asked(action, _resource(world, service, operation, parameters), context)


def _resource(world: World, service: str, operation: str, parameters: Parameters) -> str:
    if service == "sqs":
        name = parameters.get("QueueName") or parameters.get("QueueUrl", "").rpartition("/")[2]
        return f"arn:aws:sqs:{world.region}:{world.account}:{name}"
    if service == "eks":
        return world.eks.arn(f"cluster/{parameters.get('name', '*')}")
    if service == "ssm":
        name = parameters.get("Name", "")
        owner = "" if name.startswith("/aws/service/") else world.account
        return f"arn:aws:ssm:{world.region}:{owner}:parameter/{name.lstrip('/')}"
    if service == "arc-zonal-shift":
        return str(parameters.get("resourceIdentifier", "*"))
    if service == "iam" and operation == "ListInstanceProfiles":
        return world.iam.arn("instance-profile", parameters.get("PathPrefix", "/"), "")
    return "*"


def _create_fleet(world: World, action: str, parameters: Parameters) -> Iterator[Asked]:
    made = {kind: _spec_tags(parameters, kind) for kind in ("fleet", "instance", "volume")}
    yield _made(world, action, "fleet", made["fleet"])
    for config in parameters.get("LaunchTemplateConfigs", ()):
        template = _template(world, config.get("LaunchTemplateSpecification", {}))
        if template is not None:
            yield _existing(world, action, f"launch-template/{template.id}", template.tags)
        data = _data(template)
        overrides: list[Parameters] = config.get("Overrides") or [{}]
        for image in sorted({each.get("ImageId") or data.get("ImageId") or "" for each in overrides} - {""}):
            yield Asked(action, f"arn:aws:ec2:{world.region}::image/{image}")
        for subnet in sorted({each["SubnetId"] for each in overrides if each.get("SubnetId")}):
            yield _existing(world, action, f"subnet/{subnet}", _tags_of(world, subnet))
        yield from _launched(world, action, data, made)
    for kind, tags in made.items():
        if tags:
            yield _tagging(world, kind, tags, "CreateFleet")


def _run_instances(world: World, action: str, parameters: Parameters) -> Iterator[Asked]:
    template = _template(world, parameters.get("LaunchTemplate", {}))
    if template is not None:
        yield _existing(world, action, f"launch-template/{template.id}", template.tags)
    data = {**_data(template), **parameters}
    made = {kind: _spec_tags(parameters, kind) for kind in ("instance", "volume", "network-interface")}
    if data.get("ImageId"):
        yield Asked(action, f"arn:aws:ec2:{world.region}::image/{data['ImageId']}")
    interfaces = data.get("NetworkInterfaces", ())
    for subnet in sorted({each["SubnetId"] for each in (data, *interfaces) if each.get("SubnetId")}):
        yield _existing(world, action, f"subnet/{subnet}", _tags_of(world, subnet))
    yield from _launched(world, action, data, made)
    for kind, tags in made.items():
        if tags:
            yield _tagging(world, kind, tags, "RunInstances")


def _launched(
    world: World, action: str, data: Parameters, made: Mapping[str, Mapping[str, str]]
) -> Iterator[Asked]:
    """Give what every launch touches besides what its parameters name."""
    for kind in ("instance", "volume", "network-interface"):
        yield _made(world, action, kind, made.get(kind) or _spec_tags(data, kind))
    interfaces = data.get("NetworkInterfaces", ())
    groups = {
        each for one in (data, *interfaces) for each in one.get("SecurityGroupIds") or one.get("Groups") or ()
    }
    for group in sorted(groups):
        yield _existing(world, action, f"security-group/{group}", _tags_of(world, group))
    named = data.get("IamInstanceProfile") or {}
    profile = world.iam.profile_named(named.get("Arn") or named.get("Name") or "")
    for role in profile.roles if profile else ():
        yield Asked("iam:PassRole", role.arn, {"iam:PassedToService": "ec2.amazonaws.com"})


def _create_launch_template(world: World, action: str, parameters: Parameters) -> Iterator[Asked]:
    tags = _spec_tags(parameters, "launch-template")
    yield _made(world, action, "launch-template", tags)
    if tags:
        yield _tagging(world, "launch-template", tags, "CreateLaunchTemplate")


def _create_tags(world: World, action: str, parameters: Parameters) -> Iterator[Asked]:
    tags = {each["Key"]: each.get("Value", "") for each in parameters.get("Tags", ())}
    for identity in parameters.get("Resources", ()):
        kind = _KINDS.get(identity.partition("-")[0], "*")
        context = _resource_tags(_tags_of(world, identity)) | _request_tags(tags)
        yield Asked(action, world.ec2.account.arn(f"{kind}/{identity}"), context)


def _terminate_instances(world: World, action: str, parameters: Parameters) -> Iterator[Asked]:
    for identity in parameters.get("InstanceIds", ()):
        yield _existing(world, action, f"instance/{identity}", _tags_of(world, identity))


def _delete_launch_template(world: World, action: str, parameters: Parameters) -> Iterator[Asked]:
    template = _template(world, parameters)
    identity, tags = (template.id, template.tags) if template else ("*", {})
    yield _existing(world, action, f"launch-template/{identity}", tags)


def _profile(world: World, action: str, parameters: Parameters) -> Iterator[Asked]:
    name, tags = parameters.get("InstanceProfileName", ""), parameters.get("Tags", ())
    asked = _request_tags({each["Key"]: each["Value"] for each in tags}) if tags else {}
    found = world.iam.profiles.get(name)
    arn = found.arn if found else world.iam.arn("instance-profile", parameters.get("Path", "/"), name)
    yield Asked(action, arn, _resource_tags(found.tags if found else {}, "iam") | asked)
    role = world.iam.roles.get(parameters.get("RoleName", ""))
    if role is not None and action == "iam:AddRoleToInstanceProfile":
        yield Asked("iam:PassRole", role.arn, {"iam:PassedToService": "ec2.amazonaws.com"})


_SPECIAL: Final[Mapping[tuple[str, str], Callable[[World, str, Parameters], Iterator[Asked]]]] = {
    ("ec2", "CreateFleet"): _create_fleet,
    ("ec2", "RunInstances"): _run_instances,
    ("ec2", "CreateLaunchTemplate"): _create_launch_template,
    ("ec2", "CreateTags"): _create_tags,
    ("ec2", "TerminateInstances"): _terminate_instances,
    ("ec2", "DeleteLaunchTemplate"): _delete_launch_template,
    ("iam", "CreateInstanceProfile"): _profile,
    ("iam", "TagInstanceProfile"): _profile,
    ("iam", "AddRoleToInstanceProfile"): _profile,
    ("iam", "RemoveRoleFromInstanceProfile"): _profile,
    ("iam", "DeleteInstanceProfile"): _profile,
    ("iam", "GetInstanceProfile"): _profile,
}


def _made(world: World, action: str, kind: str, tags: Mapping[str, str]) -> Asked:
    return Asked(action, world.ec2.account.arn(f"{kind}/*"), _request_tags(tags))


def _tagging(world: World, kind: str, tags: Mapping[str, str], creation: str) -> Asked:
    context = _request_tags(tags) | {"ec2:CreateAction": creation}
    return Asked("ec2:CreateTags", world.ec2.account.arn(f"{kind}/*"), context)


def _existing(world: World, action: str, what: str, tags: Mapping[str, str]) -> Asked:
    return Asked(action, world.ec2.account.arn(what), _resource_tags(tags))


def _request_tags(tags: Mapping[str, str]) -> Context:
    keys: Context = {"aws:TagKeys": tuple(tags)} if tags else {}
    return keys | {f"aws:RequestTag/{key}": value for key, value in tags.items()}


def _resource_tags(tags: Mapping[str, str], service: str = "ec2") -> Context:
    """Give the tags of a resource under the key of all services and under the service's own, older one."""
    return {
        f"{prefix}:ResourceTag/{key}": value for prefix in ("aws", service) for key, value in tags.items()
    }


def _tags_of(world: World, identity: str) -> Mapping[str, str]:
    record = world.ec2.records.get(identity)
    return record.tags if record else {}


def _spec_tags(data: Parameters, kind: str) -> dict[str, str]:
    return {
        tag["Key"]: tag.get("Value", "")
        for each in data.get("TagSpecifications") or ()
        if each.get("ResourceType") == kind
        for tag in each.get("Tags", ())
    }


def _template(world: World, named: Parameters) -> LaunchTemplate | None:
    by_name = world.ec2.template_names.get(named.get("LaunchTemplateName", ""))
    return by_name or world.ec2.templates.get(named.get("LaunchTemplateId", ""))


def _data(template: LaunchTemplate | None) -> Mapping[str, Any]:
    return template.versions[template.latest_version].data if template else {}
