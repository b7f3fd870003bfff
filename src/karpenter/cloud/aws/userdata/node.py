# SPDX-License-Identifier: Apache-2.0
"""What a node is told when it first boots, settled once for every operating system.

As Karpenter: the kubelet is not told labels of domains that it may not set itself; the label
``karpenter.sh/do-not-sync-taints`` is added; the taint ``karpenter.sh/unregistered`` is always there, so that
no pod runs before the node is known; pods and the address of DNS default to what we computed and found.
Of a taint given twice the first stays, because the kubelet refuses to start with both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from karpenter.api import labels as names
from karpenter.api.core import Taint
from karpenter.api.ec2nodeclass import EC2NodeClass, KubeletConfiguration
from karpenter.cloud.aws.userdata.errors import UnquotableError
from karpenter.cloud.aws.userdata.quoting import kubelet_flag
from karpenter.model.taints import merge_taints

__all__ = ["Cluster", "Node", "kubelet_flags", "labels_flag", "settle_node"]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that nodes join.

    Attributes:
        name: Its name in EKS.
        endpoint: The address of its API server, as a URL.
        ca_bundle: Its certificate authority in base64; empty if the node is to find it itself.
        service_cidr: The range of its service addresses; AL2023 needs it.
        dns_ip: The address of its DNS service; empty leaves the choice to the node.
        ip_family: ``ipv4`` or ``ipv6``.
    """

    name: str
    endpoint: str
    ca_bundle: str = ""
    service_cidr: str = ""
    dns_ip: str = ""
    ip_family: str = "ipv4"


@dataclass(frozen=True, slots=True)
class Node:
    """What one kind of node is told.

    Attributes:
        cluster: The cluster it joins.
        kubelet: The kubelet's settings, with pods and DNS filled in.
        labels: The labels that the kubelet sets, by name.
        taints: The taints that the kubelet sets.
        custom: The user's own user data.
        raid0: Whether the disks of the instance become one volume for pods.
    """

    cluster: Cluster
    kubelet: KubeletConfiguration
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    custom: str
    raid0: bool

    @property
    def dns_ip(self) -> str:
        """The address of DNS that the node is told, or nothing; of several the first."""
        return self.kubelet.cluster_dns[0] if self.kubelet.cluster_dns else ""

    @property
    def is_ipv6(self) -> bool:
        """Whether pods get IPv6 addresses: told by the address of DNS, else by the cluster.

        Raises:
            UnquotableError: The address of DNS is none.
        """
        if not self.dns_ip:
            return self.cluster.ip_family == "ipv6"
        try:
            return ipaddress.ip_address(self.dns_ip).version == 6
        except ValueError as error:
            raise UnquotableError(
                f"{self.dns_ip!r} is not an IP address",
                what="spec.kubelet.clusterDNS[0]",
                hint="write the address of the DNS service, such as 10.100.0.10",
            ) from error


def settle_node(
    cluster: Cluster,
    node_class: EC2NodeClass,
    *,
    labels: Mapping[str, str],
    taints: Sequence[Taint],
    max_pods: int | None,
) -> Node:
    """Settle what nodes of a class are told; see ``user_data`` for the arguments."""
    kubelet = node_class.spec.kubelet or KubeletConfiguration()
    if kubelet.max_pods is None:
        kubelet = replace(kubelet, max_pods=max_pods)
    if not kubelet.cluster_dns and cluster.dns_ip:
        kubelet = replace(kubelet, cluster_dns=(cluster.dns_ip,))
    told = {key: value for key, value in labels.items() if not _is_kept_from_kubelets(key)}
    told[names.DO_NOT_SYNC_TAINTS] = "true"
    return Node(
        cluster=cluster,
        kubelet=kubelet,
        labels=dict(sorted(told.items())),
        taints=merge_taints(taints, (names.UNREGISTERED_TAINT,)),
        custom=node_class.spec.user_data if node_class.spec.user_data.strip() else "",
        raid0=node_class.spec.instance_store_policy == "RAID0",
    )


def labels_flag(node: Node) -> str:
    """Give the kubelet's flag that sets the labels.

    Raises:
        UnquotableError: A label cannot stand on the kubelet's command line.
    """
    for key in node.labels:
        _refuse_separator(key, "=", "label")
    return kubelet_flag("node-labels", (f"{key}={value}" for key, value in node.labels.items()), "labels")


def kubelet_flags(node: Node) -> tuple[str, ...]:
    """Give the kubelet's flags, each one word, in Karpenter's order.

    Raises:
        UnquotableError: A value cannot stand on the kubelet's command line.
    """
    kubelet = node.kubelet
    flags = [labels_flag(node), kubelet_flag("register-with-taints", map(_taint, node.taints), "taints")]
    flags += _number_flag("max-pods", kubelet.max_pods)
    flags += _number_flag("pods-per-core", kubelet.pods_per_core)
    flags += _map_flag("system-reserved", kubelet.system_reserved, "=", "systemReserved")
    flags += _map_flag("kube-reserved", kubelet.kube_reserved, "=", "kubeReserved")
    flags += _map_flag("eviction-hard", kubelet.eviction_hard, "<", "evictionHard")
    flags += _map_flag("eviction-soft", kubelet.eviction_soft, "<", "evictionSoft")
    flags += _map_flag(
        "eviction-soft-grace-period", kubelet.eviction_soft_grace_period, "=", "evictionSoftGracePeriod"
    )
    flags += _number_flag("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period)
    flags += _number_flag("image-gc-high-threshold", kubelet.image_gc_high_threshold_percent)
    flags += _number_flag("image-gc-low-threshold", kubelet.image_gc_low_threshold_percent)
    if kubelet.cpu_cfs_quota is not None:
        flags.append(f"--cpu-cfs-quota={'true' if kubelet.cpu_cfs_quota else 'false'}")
    return tuple(flags)


def _is_kept_from_kubelets(key: str) -> bool:
    return any(names.is_in_domain(key, domain) for domain in names.KUBELET_RESTRICTED_DOMAINS)


def _taint(taint: Taint) -> str:
    for separator in "=:":
        _refuse_separator(taint.key, separator, "taint")
        _refuse_separator(taint.value, separator, "taint")
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _number_flag(name: str, number: int | None) -> list[str]:
    return [] if number is None else [f"--{name}={number}"]


def _map_flag(name: str, entries: Mapping[str, str], separator: str, field: str) -> list[str]:
    if not entries:
        return []
    what = f"spec.kubelet.{field}"
    for key in entries:
        _refuse_separator(key, separator, what)
    return [kubelet_flag(name, (f"{key}{separator}{entries[key]}" for key in sorted(entries)), what)]


def _refuse_separator(text: str, separator: str, what: str) -> None:
    if separator in text:
        raise UnquotableError(
            f"{text!r} contains {separator!r}, which the kubelet would take for the end of the name",
            what=what,
            hint="use letters, digits, '-', '_' and '.'",
        )
