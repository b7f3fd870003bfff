# SPDX-License-Identifier: Apache-2.0
"""A cluster, node classes and what is told to their nodes, with sensible defaults."""

from __future__ import annotations

import email
from collections.abc import Mapping, Sequence
from email.message import Message

from karpenter.api.core import Taint
from karpenter.api.ec2nodeclass import (
    AMI,
    AMISelectorTerm,
    EC2NodeClass,
    EC2NodeClassSpec,
    EC2NodeClassStatus,
    KubeletConfiguration,
)
from karpenter.api.meta import ObjectMeta
from karpenter.cloud.aws.userdata import Cluster, UserData, user_data

CLUSTER = Cluster(
    name="shop",
    endpoint="https://0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com",
    ca_bundle="Q0VSVElGSUNBVEU=",
    service_cidr="10.100.0.0/16",
    dns_ip="10.100.0.10",
)
LABELS = {"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot", "team": "a"}
TEAM = Taint(key="team", value="a", effect="NoSchedule")


def node_class(
    alias: str = "al2023@latest",
    *,
    family: str = "",
    custom: str = "",
    kubelet: KubeletConfiguration | None = None,
    raid0: bool = False,
    image_names: Sequence[str] = (),
    term_names: Sequence[str] = (),
) -> EC2NodeClass:
    terms = (AMISelectorTerm(alias=alias),) if alias else tuple(AMISelectorTerm(name=n) for n in term_names)
    return EC2NodeClass(
        metadata=ObjectMeta(name="default"),
        spec=EC2NodeClassSpec(
            ami_selector_terms=terms,
            ami_family=family,
            user_data=custom,
            kubelet=kubelet,
            instance_store_policy="RAID0" if raid0 else "",
        ),
        status=EC2NodeClassStatus(
            amis=tuple(AMI(id=f"ami-{n}", name=name, requirements=()) for n, name in enumerate(image_names))
        ),
    )


def render(
    of: EC2NodeClass,
    *,
    cluster: Cluster = CLUSTER,
    labels: Mapping[str, str] = LABELS,
    taints: Sequence[Taint] = (TEAM,),
    max_pods: int | None = 58,
) -> UserData:
    return user_data(cluster, of, labels=labels, taints=taints, max_pods=max_pods)


def text_of(of: EC2NodeClass, **options: object) -> str:
    return render(of, **options).data.decode()  # type: ignore[arg-type]


def parts_of(text: str) -> list[Message]:
    """Take an archive apart with the standard library, as cloud-init does."""
    parts = email.message_from_string(text).get_payload()
    assert isinstance(parts, list)
    return [part for part in parts if isinstance(part, Message)]


def content_of(part: Message) -> str:
    """What a part says once its transfer encoding is undone, as cloud-init does it."""
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode()
