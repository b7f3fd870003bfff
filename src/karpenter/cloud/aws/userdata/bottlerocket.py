# SPDX-License-Identifier: Apache-2.0
"""User data of Bottlerocket: TOML settings, the user's with ours over them.

Ours win for what identifies the cluster, for taints and for every kubelet setting of the node class; labels
are merged, ours over the user's; all other settings of the user's are kept. A setting of ``settings.kubernetes``
that Bottlerocket does not know would make it refuse all user data, and the node would never join: it is left
out and told in a warning, as is a table other than ``settings``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.userdata.errors import CUSTOM_FIELD, BrokenTextError, UserDataWarning
from karpenter.cloud.aws.userdata.node import Node
from karpenter.cloud.aws.userdata.toml import write_toml

__all__ = ["binds_by_itself", "bottlerocket_settings"]

# From this version on, `ephemeral-storage bind` knows the directories itself.
_BINDS_FROM: Final = (1, 46)
_BIND_DIRECTORIES: Final = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_RAID_COMMAND: Final = "000-mount-instance-storage"

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.\d+\S*")
_VERSION_IN_NAME: Final = re.compile(r"(?:^|-)v(\d+)\.(\d+)\.\d+")
_LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")

_KNOWN: Final = """
allowed-unsafe-sysctls api-server authentication-mode bootstrap-token cloud-provider cluster-certificate
cluster-dns-ip cluster-domain cluster-name container-log-max-files container-log-max-size container-log-
max-workers container-log-monitor-interval cpu-cfs-quota-enforced cpu-manager-policy cpu-manager-policy-
options cpu-manager-reconcile-period credential-providers device-ownership-from-security-context event-
burst event-qps eviction-hard eviction-max-pod-grace-period eviction-soft eviction-soft-grace-period
hostname-override hostname-override-source ids-per-pod image-gc-high-threshold-percent image-gc-low-
threshold-percent kube-api-burst kube-api-qps kube-reserved log-level max-pods memory-manager-policy
memory-manager-reserved-memory node-ip node-labels node-taints pod-infra-container-image pod-pids-limit
provider-id registry-burst registry-qps reserved-cpus seccomp-default server-certificate server-key
server-tls-bootstrap shutdown-grace-period shutdown-grace-period-for-critical-pods single-process-oom-kill
standalone-mode static-pods system-reserved topology-manager-policy topology-manager-policy-options
topology-manager-scope
"""
_KUBERNETES_SETTINGS: Final = frozenset(_KNOWN.split())


def bottlerocket_settings(node: Node, *, binds_itself: bool) -> tuple[str, tuple[UserDataWarning, ...]]:
    """Give the settings as TOML, and tell what of the user's was left out.

    Args:
        node: What the node is told.
        binds_itself: Whether the image knows which directories belong on the disks of the instance.

    Raises:
        BrokenTextError: The user's own text is not TOML, or not such settings.
    """
    settings, warnings = _custom_settings(node.custom)
    kubernetes = settings.setdefault("kubernetes", {})
    user_labels = _table(kubernetes, "node-labels", "settings.kubernetes")
    kubernetes |= _identity(node) | _kubelet(node)
    if not node.cluster.ca_bundle:
        kubernetes.pop("cluster-certificate", None)
    kubernetes["node-labels"] = user_labels | dict(node.labels)
    taints: dict[str, list[str]] = {}
    for taint in node.taints:
        taints.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    kubernetes["node-taints"] = taints
    if node.raid0:
        commands = _table(settings, "bootstrap-commands", "settings")
        settings["bootstrap-commands"] = commands | {_RAID_COMMAND: _raid_command(binds_itself=binds_itself)}
    return write_toml({"settings": settings}), warnings


def binds_by_itself(node_class: EC2NodeClass) -> bool:
    """Tell whether every image of the class is known to be of Bottlerocket 1.46 or newer.

    The alias says so, or the name that the selector asks for, or else the names of the images that were found.
    """
    for term in node_class.spec.ami_selector_terms:
        if term.alias:
            release = term.alias.partition("@")[2]
            version = _VERSION.fullmatch(release)
            return release == "latest" or (version is not None and _numbers(version) >= _BINDS_FROM)
    asked = [_VERSION_IN_NAME.search(term.name) for term in node_class.spec.ami_selector_terms if term.name]
    found = [_VERSION_IN_NAME.search(ami.name) for ami in node_class.status.amis]
    versions = asked if any(asked) else found
    return bool(versions) and all(
        version is not None and _numbers(version) >= _BINDS_FROM for version in versions
    )


def _identity(node: Node) -> dict[str, Any]:
    cluster = node.cluster
    identity = {"api-server": cluster.endpoint, "cluster-name": cluster.name}
    if cluster.ca_bundle:
        identity["cluster-certificate"] = cluster.ca_bundle
    if node.dns_ip:
        identity["cluster-dns-ip"] = node.dns_ip
    return identity


def _kubelet(node: Node) -> dict[str, Any]:
    kubelet = node.kubelet
    high, low = kubelet.image_gc_high_threshold_percent, kubelet.image_gc_low_threshold_percent
    wanted: dict[str, Any] = {
        "max-pods": kubelet.max_pods,
        "system-reserved": dict(kubelet.system_reserved) or None,
        "kube-reserved": dict(kubelet.kube_reserved) or None,
        "eviction-hard": dict(kubelet.eviction_hard) or None,
        "eviction-soft": dict(kubelet.eviction_soft) or None,
        "eviction-soft-grace-period": dict(kubelet.eviction_soft_grace_period) or None,
        "eviction-max-pod-grace-period": kubelet.eviction_max_pod_grace_period,
        # Bottlerocket wants these two percentages as texts.
        "image-gc-high-threshold-percent": None if high is None else str(high),
        "image-gc-low-threshold-percent": None if low is None else str(low),
        "cpu-cfs-quota-enforced": kubelet.cpu_cfs_quota,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _raid_command(*, binds_itself: bool) -> dict[str, Any]:
    bind = ["apiclient", "ephemeral-storage", "bind"]
    if not binds_itself:
        bind += ["--dirs", *_BIND_DIRECTORIES]
    return {
        "commands": [["apiclient", "ephemeral-storage", "init"], bind],
        "essential": True,
        "mode": "always",
    }


def _custom_settings(text: str) -> tuple[dict[str, Any], tuple[UserDataWarning, ...]]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _LINE.search(str(error))
        # Where the text just ends, the error names no number but the end of the document.
        line = int(at[1]) if at else text.count("\n") + 1
        raise BrokenTextError(
            f"not TOML: {error}",
            line=line,
            hint="Bottlerocket takes settings such as [settings.ntp], not scripts",
        ) from error
    settings = _table(document, "settings", "")
    kubernetes = _table(settings, "kubernetes", "settings")
    unknown = sorted(kubernetes.keys() - _KUBERNETES_SETTINGS)
    strange = sorted(document.keys() - {"settings"})
    warnings = [_left_out(name) for name in strange]
    warnings += [_left_out(f"settings.kubernetes.{name}") for name in unknown]
    known = {name: value for name, value in kubernetes.items() if name in _KUBERNETES_SETTINGS}
    return settings | {"kubernetes": known}, tuple(warnings)


def _table(parent: Mapping[str, Any], name: str, path: str) -> dict[str, Any]:
    table = parent.get(name, {})
    if not isinstance(table, dict):
        full = f"{path}.{name}" if path else name
        raise BrokenTextError(f"{full} is not a table", line=1, hint=f"write [{full}] and its settings below")
    return table


def _left_out(name: str) -> UserDataWarning:
    return UserDataWarning(
        CUSTOM_FIELD,
        f"{name} is left out: Bottlerocket has no such setting and would refuse all of the user data",
        "remove it, or check its spelling in Bottlerocket's list of settings",
    )


def _numbers(version: re.Match[str]) -> tuple[int, int]:
    return int(version[1]), int(version[2])
