# SPDX-License-Identifier: Apache-2.0
"""Whether a Node can be the node of an instance, judged by what EC2 says of the instance: pure.

A kubelet of EKS is called what EC2 calls its instance: by its address (``ip-10-0-1-2.us-west-2.compute.internal``) or
by its id (``i-0123.us-west-2.compute.internal``), whichever the subnet says; the domain may be the user's own. Its
credentials are for a Node of that name alone. Some AMIs call their node by the id or the address without a domain.

User data can choose another name: that of a Custom AMI, or a setting ``hostname-override`` (of Bottlerocket, or a flag
of the kubelet). No name can be foretold then, so that the Node must report an address of the instance instead. That is
weaker, because a node writes its own status.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.instances import Instance

__all__ = ["chooses_names", "is_known", "node_mismatch"]

_OVERRIDE: Final = "hostname-override"
_CUSTOM: Final = "Custom"
_ADDRESS_TYPES: Final = ("InternalIP", "ExternalIP")


def is_known(instance: Instance) -> bool:
    """Return whether EC2 says enough of an instance to tell its node; it does not at once after the launch."""
    return bool(instance.private_dns_name or instance.addresses)


def chooses_names(node_class: EC2NodeClass | None) -> bool:
    """Return whether nodes of a class may be called otherwise than EC2 calls their instances."""
    if node_class is None:
        return False
    return node_class.spec.ami_family == _CUSTOM or _OVERRIDE in node_class.spec.user_data


def node_mismatch(node: Node, instance: Instance, node_class: EC2NodeClass | None) -> str:
    """Return why a Node cannot be the one of an instance; empty if it can."""
    name = node.metadata.name.lower()
    if name in instance.addresses or name.partition(".")[0] in set(_host_names(instance)):
        return ""
    called = instance.private_dns_name or instance.id
    if not chooses_names(node_class):
        return f"EC2 calls the instance {instance.id} {called}, not {node.metadata.name}"
    reported = {each.address for each in node.status.addresses if each.type in _ADDRESS_TYPES}
    if reported & instance.addresses:
        return ""
    return (
        f"neither its name is that of the instance {instance.id} ({called}) nor does it report one of its addresses"
        f" ({', '.join(sorted(instance.addresses))})"
    )


def _host_names(instance: Instance) -> Iterator[str]:
    yield instance.id
    if instance.private_dns_name:
        yield instance.private_dns_name.lower().partition(".")[0]
    for address in instance.addresses:
        if ":" not in address:
            yield f"ip-{address.replace('.', '-')}"
