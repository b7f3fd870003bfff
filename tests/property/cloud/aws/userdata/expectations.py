# SPDX-License-Identifier: Apache-2.0
"""What a node must be told, computed apart from the code under test, and one case of everything that goes in."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from karpenter.api.core import Taint
from karpenter.api.ec2nodeclass import AMISelectorTerm, EC2NodeClass, EC2NodeClassSpec, KubeletConfiguration
from karpenter.api.meta import ObjectMeta
from karpenter.cloud.aws.userdata import Cluster, UserData, user_data
from tests.property.cloud.aws.userdata.texts import anything, kubelets, labels, taints

UNREGISTERED = ("karpenter.sh/unregistered", "", "NoExecute")


def _is_restricted(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    return bool(slash) and f".{domain}".endswith((".kubernetes.io", ".k8s.io"))


@dataclass(frozen=True)
class Case:
    """Arguments of ``user_data``, and what follows from them by the rules of Karpenter."""

    cluster: Cluster
    kubelet: KubeletConfiguration | None
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    max_pods: int
    raid0: bool
    custom: str

    def render(self, alias: str) -> UserData:
        of = EC2NodeClass(
            metadata=ObjectMeta(name="any"),
            spec=EC2NodeClassSpec(
                ami_selector_terms=(AMISelectorTerm(alias=alias),),
                kubelet=self.kubelet,
                user_data=self.custom,
                instance_store_policy="RAID0" if self.raid0 else "",
            ),
        )
        return user_data(self.cluster, of, labels=self.labels, taints=self.taints, max_pods=self.max_pods)

    @property
    def told_labels(self) -> dict[str, str]:
        told = {key: value for key, value in self.labels.items() if not _is_restricted(key)}
        return told | {"karpenter.sh/do-not-sync-taints": "true"}

    @property
    def told_taints(self) -> list[tuple[str, str, str]]:
        own = [(taint.key, taint.value, taint.effect) for taint in self.taints]
        return [*own, UNREGISTERED]

    @property
    def told_pods(self) -> int:
        said = None if self.kubelet is None else self.kubelet.max_pods
        return self.max_pods if said is None else said

    @property
    def told_dns(self) -> str:
        said = () if self.kubelet is None else self.kubelet.cluster_dns
        return said[0] if said else self.cluster.dns_ip

    @property
    def settings(self) -> KubeletConfiguration:
        return self.kubelet or KubeletConfiguration()


arguments = anything.filter(lambda text: "\x00" not in text and "\r" not in text)
clusters = st.builds(
    Cluster,
    name=arguments,
    endpoint=arguments,
    ca_bundle=st.binary(max_size=20).map(lambda data: base64.b64encode(data).decode()),
    service_cidr=st.just("10.100.0.0/16"),
    dns_ip=st.just("") | st.ip_addresses().map(str),
)
cases = st.builds(
    Case,
    cluster=clusters,
    kubelet=kubelets,
    labels=labels,
    taints=taints,
    max_pods=st.integers(0, 1000),
    raid0=st.booleans(),
    custom=st.just(""),
)
