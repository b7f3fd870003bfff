# SPDX-License-Identifier: Apache-2.0
"""The node role's entry in the aws-auth ConfigMap, for clusters that still let nodes in by it.

The entry is added to the text as it stands, below what others wrote; nothing of theirs is rewritten, their comments
included. Text that cannot be read as a list of roles is refused: whoever cannot read it must not write it, because a
broken aws-auth locks everybody out.
"""

from __future__ import annotations

from typing import Any

import yaml

from karpenter.cloud.aws.install.account import InstallError

__all__ = ["entry", "with_role", "without_role"]

_BEGIN = "# karpenter install: begin"
_END = "# karpenter install: end"


def entry(role_arn: str) -> str:
    """Give the entry of a node role."""
    return (
        f"{_BEGIN}\n"
        f"- rolearn: {role_arn}\n"
        "  username: system:node:{{EC2PrivateDNSName}}\n"
        "  groups:\n"
        "    - system:bootstrappers\n"
        "    - system:nodes\n"
        f"{_END}\n"
    )


def with_role(text: str, role_arn: str) -> str:
    """Give the text of mapRoles with the role in it; the same text if it is there already.

    Raises:
        InstallError: The text is not a list of roles, or has the role with other groups.
    """
    for each in _read(text):
        if each.get("rolearn") == role_arn:
            if "system:nodes" not in (each.get("groups") or ()):
                raise InstallError(
                    f"aws-auth maps {role_arn} to groups {each.get('groups')}, not to system:nodes",
                    hint="kubectl -n kube-system edit configmap aws-auth",
                )
            return text
    before = text if not text or text.endswith("\n") else f"{text}\n"
    indent = next(
        (line[: len(line) - len(line.lstrip())] for line in text.splitlines() if line.lstrip()[:1] == "-"), ""
    )
    added = "".join(f"{indent}{line}\n" for line in entry(role_arn).splitlines())
    result = ("" if before.strip() in {"", "[]"} else before) + added
    # What we would write must be read back as what was there, and the role.
    if len(_read(result)) != len(_read(text)) + 1:
        raise InstallError(
            "aws-auth is written in a way that an entry cannot be added to safely",
            hint=f"add this to mapRoles by hand:\n{entry(role_arn)}",
        )
    return result


def without_role(text: str) -> str:
    """Give the text of mapRoles without the entry that was added; other entries stay as they are."""
    lines, kept, inside = text.splitlines(keepends=True), [], False
    for line in lines:
        if line.strip() == _BEGIN:
            inside = True
        if not inside:
            kept.append(line)
        if line.strip() == _END:
            inside = False
    return "".join(kept) if not inside else text


def _read(text: str) -> list[dict[str, Any]]:
    try:
        read = yaml.safe_load(text) if text.strip() else []
    except yaml.YAMLError as broken:
        raise _unreadable(str(broken)) from broken
    if not isinstance(read, list) or not all(isinstance(each, dict) for each in read):
        raise _unreadable("it is not a list of roles")
    return read


def _unreadable(why: str) -> InstallError:
    return InstallError(
        f"mapRoles of the ConfigMap kube-system/aws-auth cannot be read, so it is left as it is: {why}",
        hint="mend it with `kubectl -n kube-system edit configmap aws-auth`, and run this again",
    )
