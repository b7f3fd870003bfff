# SPDX-License-Identifier: Apache-2.0
"""User data of Amazon Linux: a MIME archive, the user's parts first, ours last.

AL2 gets a script that calls ``/etc/eks/bootstrap.sh``; AL2023 gets a NodeConfig for nodeadm, which wins over
one of the user's by coming last. A text of the user's that is no archive becomes a part of its own: a script,
cloud-config or, on AL2023, a NodeConfig if it is YAML. Refused, with the line: an archive that cannot be
taken apart, a NodeConfig that is not one, a text that somebody has packed or encoded before.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

from karpenter.api.base import to_wire
from karpenter.api.core import Taint
from karpenter.api.manifests import ManifestError, read_manifests, write_yaml
from karpenter.cloud.aws.userdata.errors import (
    CUSTOM_FIELD,
    BrokenTextError,
    UnquotableError,
    UserDataWarning,
)
from karpenter.cloud.aws.userdata.mime import (
    CLOUD_CONFIG,
    NODE_CONFIG,
    SHELL_SCRIPT,
    Part,
    is_archive,
    part_of,
    read_archive,
)
from karpenter.cloud.aws.userdata.node import Node, kubelet_flags, labels_flag
from karpenter.cloud.aws.userdata.quoting import shell_quote

__all__ = ["bootstrap_script", "custom_parts", "node_config"]

_NODE_CONFIG_API: Final = "node.eks.aws/v1alpha1"
_LOOKS_LIKE_NODE_CONFIG: Final = re.compile(r"^(?:apiVersion|kind)[ \t]*:", re.MULTILINE)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_PACKED_STARTS: Final = (
    b"\x1f\x8b",
    b"#!",
    b"#cloud-config",
    b"MIME-Version:",
    b"Content-Type:",
    b"apiVersion:",
)


def bootstrap_script(node: Node) -> str:
    """Give AL2's script: one call of the image's own bootstrap program.

    Raises:
        UnquotableError: A value cannot be written into it.
    """
    cluster = node.cluster
    joining = (
        f"/etc/eks/bootstrap.sh {shell_quote(cluster.name, 'cluster name')}"
        f" --apiserver-endpoint {shell_quote(cluster.endpoint, 'cluster endpoint')}"
    )
    if cluster.ca_bundle:
        joining += f" --b64-cluster-ca {shell_quote(cluster.ca_bundle, 'cluster CA bundle')}"
    call = [joining]
    if node.is_ipv6:
        call.append("--ip-family ipv6")
    if node.dns_ip:
        call.append(f"--dns-cluster-ip {shell_quote(node.dns_ip, 'spec.kubelet.clusterDNS[0]')}")
    if node.kubelet.max_pods is not None:
        call.append("--use-max-pods false")
    call.append(f"--kubelet-extra-args {shell_quote(' '.join(kubelet_flags(node)), 'kubelet arguments')}")
    if node.raid0:
        call.append("--local-disks raid0")
    lines = (
        "#!/bin/bash -xe",
        "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1",
        " \\\n".join(call),
    )
    return "\n".join(lines) + "\n"


def node_config(node: Node) -> str:
    """Give AL2023's NodeConfig as YAML.

    Raises:
        UnquotableError: A label cannot stand on the kubelet's command line, or the CA bundle is not base64.
    """
    cluster: dict[str, Any] = {"name": node.cluster.name, "apiServerEndpoint": node.cluster.endpoint}
    if node.cluster.ca_bundle:
        _refuse_bad_ca(node.cluster.ca_bundle)
        cluster["certificateAuthority"] = node.cluster.ca_bundle
    cluster["cidr"] = node.cluster.service_cidr
    spec: dict[str, Any] = {"cluster": cluster}
    if node.raid0:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    config = _sorted(to_wire(node.kubelet)) | {"registerWithTaints": [_taint(taint) for taint in node.taints]}
    spec["kubelet"] = {"config": config, "flags": [labels_flag(node)]}
    return write_yaml([{"apiVersion": _NODE_CONFIG_API, "kind": "NodeConfig", "spec": spec}])


def custom_parts(text: str, *, nodeadm: bool) -> tuple[tuple[Part, ...], tuple[UserDataWarning, ...]]:
    """Make parts of the user's own text, and tell what is odd about it.

    Args:
        text: What the user wrote, perhaps nothing.
        nodeadm: Whether the image reads NodeConfigs, so that YAML is meant as one.

    Raises:
        BrokenTextError: It cannot be what it looks like.
    """
    if not text:
        return (), ()
    if is_archive(text):
        parts = read_archive(text)
        for part in parts:
            if nodeadm and part.content_type == NODE_CONFIG:
                _check_node_config(part.text, first_line=part.line)
        return parts, ()
    _refuse_packed(text)
    # Both marks count only at the very start of a file.
    stripped = text.lstrip()
    if stripped.startswith("#!"):
        return (part_of(stripped, SHELL_SCRIPT),), ()
    if stripped.startswith("#cloud-config"):
        return (part_of(stripped, CLOUD_CONFIG),), ()
    if nodeadm and _is_node_config(text):
        return (part_of(text, NODE_CONFIG),), ()
    odd = UserDataWarning(
        CUSTOM_FIELD,
        "the script does not begin with #!, so cloud-init cannot run it",
        "begin with #!/bin/bash",
    )
    return (part_of(text, SHELL_SCRIPT),), (odd,)


def _is_node_config(text: str) -> bool:
    """Tell whether the text is YAML of some object, and refuse it if that object is no NodeConfig."""
    if _LOOKS_LIKE_NODE_CONFIG.search(text) is None:
        try:
            if not read_manifests(text, "text"):
                return False
        except ManifestError:
            return False
    _check_node_config(text, first_line=1)
    return True


def _check_node_config(text: str, *, first_line: int) -> None:
    try:
        found = read_manifests(text, "text")
    except ManifestError as error:
        _, line, _, problem = error.message.split(":", 3)
        # Where something is missing at the end, YAML points behind the last line.
        at = min(int(line), text.count("\n") + 1)
        raise BrokenTextError(
            f"the NodeConfig cannot be read:{problem}", line=first_line + at - 1, hint=error.hint
        ) from error
    hint = f"write one object with apiVersion: {_NODE_CONFIG_API} and kind: NodeConfig"
    if len(found) != 1:
        raise BrokenTextError(f"one NodeConfig is expected, {len(found)} found", line=first_line, hint=hint)
    api_version, kind = found[0].object.get("apiVersion"), found[0].object.get("kind")
    if kind != "NodeConfig" or not str(api_version).startswith("node.eks.aws/"):
        raise BrokenTextError(
            f"apiVersion {api_version}, kind {kind} is not a NodeConfig",
            line=first_line + found[0].line - 1,
            hint=hint + "; begin a script with #!/bin/bash",
        )


def _refuse_packed(text: str) -> None:
    if _BASE64.fullmatch(text) is None:
        return
    try:
        start = base64.b64decode("".join(text.split()), validate=True)[:16]
    except binascii.Error:
        return
    if start.startswith(_PACKED_STARTS):
        what = "gzip" if start.startswith(_PACKED_STARTS[0]) else "text"
        raise BrokenTextError(
            f"this is {what} encoded in base64",
            line=1,
            hint="write the text itself; it is encoded when the launch template is made",
        )


def _refuse_bad_ca(bundle: str) -> None:
    try:
        base64.b64decode(bundle, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UnquotableError(
            f"the bundle is not base64: {error}",
            what="cluster CA bundle",
            hint="set the bundle as EKS gives it in certificateAuthority.data, or leave it out",
        ) from error


def _taint(taint: Taint) -> dict[str, str]:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect}


def _sorted(config: Any) -> dict[str, Any]:
    return {
        key: dict(sorted(value.items())) if isinstance(value, dict) else value
        for key, value in sorted(config.items())
    }
