# SPDX-License-Identifier: Apache-2.0
"""Launch templates: named, versioned launch parameters, by id or by name.

User data must be base64 and at most 16 KiB when decoded. A template is kept as it was written; whether what it
names exists is only found out at launch, as in EC2.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

from karpenter.sandbox.ec2.compute.filters import Field, cut, matching
from karpenter.sandbox.ec2.compute.listing import describe, spec_tags, tag_list
from karpenter.sandbox.ec2.compute.records import LaunchTemplate, TemplateVersion
from karpenter.sandbox.ec2.compute.seam import Params, invalid, missing, stop_if_dry_run
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError

__all__ = [
    "USER_DATA_LIMIT_BYTES",
    "check_user_data",
    "create_launch_template",
    "create_launch_template_version",
    "delete_launch_template",
    "describe_launch_template_versions",
    "describe_launch_templates",
    "find_template",
    "find_version",
]

USER_DATA_LIMIT_BYTES: Final = 16384
_NAME: Final = re.compile(r"[A-Za-z0-9().\-/_]{3,128}")
_FIELDS: Final[Mapping[str, Field]] = {
    "create-time": lambda template: f"{template.created:%Y-%m-%dT%H:%M:%S}.000Z",
    "launch-template-name": lambda template: template.name,
    "launch-template-id": lambda template: template.id,
}


def create_launch_template(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers CreateLaunchTemplate."""
    name = params.get("LaunchTemplateName") or ""
    if not _NAME.fullmatch(name):
        raise ModelError(
            "InvalidLaunchTemplateName.MalformedException",
            f"Launch template names must match the expression {_NAME.pattern}: '{name}'",
        )
    data = params.get("LaunchTemplateData")
    if not data:
        raise missing("LaunchTemplateData")
    check_user_data(data.get("UserData"))
    if name in ec2.template_names:
        raise ModelError(
            "InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use."
        )
    tags = spec_tags(params.get("TagSpecifications"), "launch-template")
    stop_if_dry_run(params)
    now = ec2.now()
    version = TemplateVersion(1, data, now, params.get("VersionDescription") or "")
    template = LaunchTemplate(ec2.ids.next("lt"), ec2.next_seq(), tags, name, now, {1: version})
    ec2.add(template)
    ec2.template_names[name] = template
    return {"LaunchTemplate": _view(ec2, template)}


def create_launch_template_version(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers CreateLaunchTemplateVersion; with ``SourceVersion`` the new data lies over the old."""
    template = find_template(ec2, params)
    data = dict(params.get("LaunchTemplateData") or {})
    if params.get("SourceVersion"):
        data = {**find_version(template, params["SourceVersion"]).data, **data}
    check_user_data(data.get("UserData"))
    stop_if_dry_run(params)
    number = template.latest_version + 1
    version = TemplateVersion(number, data, ec2.now(), params.get("VersionDescription") or "")
    template.versions[number] = version
    return {"LaunchTemplateVersion": _version_view(ec2, template, version)}


def delete_launch_template(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DeleteLaunchTemplate."""
    template = find_template(ec2, params)
    stop_if_dry_run(params)
    ec2.drop(template)
    del ec2.template_names[template.name]
    return {"LaunchTemplate": _view(ec2, template)}


def describe_launch_templates(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeLaunchTemplates; a name or id that is not there refuses the call."""
    chosen: Mapping[str, LaunchTemplate] = ec2.templates
    ids, names = params.get("LaunchTemplateIds"), params.get("LaunchTemplateNames")
    if ids or names:
        found = [find_template(ec2, {"LaunchTemplateId": each}) for each in ids or ()]
        found += [find_template(ec2, {"LaunchTemplateName": each}) for each in names or ()]
        chosen = {template.id: template for template in sorted(found, key=lambda template: template.seq)}
    rest = {key: value for key, value in params.items() if key != "LaunchTemplateIds"}
    page, token = describe(chosen, rest, ids="LaunchTemplateIds", fields=_FIELDS, at_most=200)
    return {"LaunchTemplates": [_view(ec2, template) for template in page], **token}


def describe_launch_template_versions(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeLaunchTemplateVersions of one template, or of all for ``$Latest`` and ``$Default``."""
    wanted = params.get("Versions") or ()
    if params.get("LaunchTemplateId") or params.get("LaunchTemplateName"):
        templates = [find_template(ec2, params)]
    elif wanted:
        templates = list(ec2.templates.values())
    else:
        raise missing("LaunchTemplateId or LaunchTemplateName")
    least, most = _bound(params, "MinVersion", 0), _bound(params, "MaxVersion", 10**9)
    pairs = [
        (template, version)
        for template in templates
        for version in (
            [find_version(template, each) for each in wanted] if wanted else template.versions.values()
        )
        if least <= version.number <= most
    ]
    fields: dict[str, Field] = {
        "image-id": lambda pair: pair[1].data.get("ImageId"),
        "instance-type": lambda pair: pair[1].data.get("InstanceType"),
        "is-default-version": lambda pair: pair[1].number == pair[0].default_version,
    }
    passed = matching(pairs, params.get("Filters") or (), fields)
    ordered = sorted(passed, key=lambda pair: (pair[0].seq, pair[1].number))
    page, token = cut(
        ordered, params, lambda pair: f"{pair[0].seq:012d}.{pair[1].number:06d}", at_least=1, at_most=200
    )
    return {"LaunchTemplateVersions": [_version_view(ec2, *pair) for pair in page], **token}


def find_template(ec2: Store, params: Params) -> LaunchTemplate:
    """Finds a template by ``LaunchTemplateId`` or ``LaunchTemplateName``.

    Raises:
        ModelError: Neither or both are given, or there is none such.
    """
    template_id, name = params.get("LaunchTemplateId"), params.get("LaunchTemplateName")
    if bool(template_id) == bool(name):
        raise ModelError(
            "InvalidParameterCombination" if name else "MissingParameter",
            "Specify either the launch template ID or the launch template name, and not both.",
        )
    if template_id:
        if template_id not in ec2.templates:
            raise ModelError(
                "InvalidLaunchTemplateId.NotFound",
                f"The specified launch template, with template ID {template_id}, does not exist.",
            )
        return ec2.templates[template_id]
    if name not in ec2.template_names:
        raise ModelError(
            "InvalidLaunchTemplateName.NotFoundException",
            f"The specified launch template, with template name {name}, does not exist.",
        )
    return ec2.template_names[str(name)]


def find_version(template: LaunchTemplate, version: str | None) -> TemplateVersion:
    """Finds a version by number, ``$Latest`` or ``$Default``; none given means the default.

    Raises:
        ModelError: There is none such.
    """
    if version in {None, "", "$Default"}:
        return template.versions[template.default_version]
    if version == "$Latest":
        return template.versions[template.latest_version]
    number = int(version) if str(version).isdecimal() else 0
    if number not in template.versions:
        raise ModelError(
            "InvalidLaunchTemplateId.VersionNotFound",
            f"Could not find the specified version {version} for the launch template with ID {template.id}.",
        )
    return template.versions[number]


def check_user_data(text: str | None) -> None:
    """Refuses user data that is not base64 or larger than EC2 takes."""
    if not text:
        return
    try:
        decoded = base64.b64decode(text, validate=True)
    except binascii.Error as broken:
        raise ModelError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from broken
    if len(decoded) > USER_DATA_LIMIT_BYTES:
        raise ModelError(
            "InvalidUserData.Malformed", f"User data is limited to {USER_DATA_LIMIT_BYTES} bytes"
        )


def _bound(params: Params, name: str, default: int) -> int:
    text = str(params.get(name) or default)
    if not text.isdecimal():
        raise invalid(text, name)
    return int(text)


def _view(ec2: Store, template: LaunchTemplate) -> dict[str, Any]:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "CreateTime": template.created,
        "CreatedBy": f"arn:aws:iam::{ec2.account.id}:root",
        "DefaultVersionNumber": template.default_version,
        "LatestVersionNumber": template.latest_version,
        "Tags": tag_list(template.tags),
    }


def _version_view(ec2: Store, template: LaunchTemplate, version: TemplateVersion) -> dict[str, Any]:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "VersionNumber": version.number,
        "VersionDescription": version.description,
        "CreateTime": version.created,
        "CreatedBy": f"arn:aws:iam::{ec2.account.id}:root",
        "DefaultVersion": version.number == template.default_version,
        "LaunchTemplateData": dict(version.data),
    }
