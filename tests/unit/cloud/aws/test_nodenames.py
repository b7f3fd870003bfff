# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.instances import read_instance
from karpenter.cloud.aws.nodenames import chooses_names, is_known, node_mismatch
from tests.unit.state.worlds import node

ID = "i-0123456789abcdef0"
DESCRIBED: dict[str, Any] = {
    "InstanceId": ID,
    "PrivateDnsName": "ip-10-0-1-2.us-west-2.compute.internal",
    "PrivateIpAddress": "10.0.1.2",
    "NetworkInterfaces": [
        {
            "PrivateIpAddresses": [{"PrivateIpAddress": "10.0.1.2"}, {"PrivateIpAddress": "10.0.1.3"}],
            "Ipv6Addresses": [{"Ipv6Address": "2001:db8::1"}],
        }
    ],
}
INSTANCE = read_instance(DESCRIBED)


def class_of(**spec: Any) -> EC2NodeClass:
    """A node class."""
    return msgspec.convert({"metadata": {"name": "default"}, "spec": spec}, EC2NodeClass, strict=False)


def named(name: str, *addresses: str) -> Node:
    """A node that reports addresses."""
    return node(name, addresses=[{"type": "InternalIP", "address": each} for each in addresses])


@pytest.mark.parametrize(
    "name",
    [
        "ip-10-0-1-2.us-west-2.compute.internal",
        "ip-10-0-1-2.corp.example.com",
        "ip-10-0-1-2",
        "ip-10-0-1-3.us-west-2.compute.internal",
        f"{ID}.us-west-2.compute.internal",
        ID,
        "10.0.1.2",
    ],
)
def test_a_node_is_called_by_the_address_or_the_id_of_its_instance(name: str) -> None:
    assert node_mismatch(named(name), INSTANCE, class_of()) == ""


def test_a_name_that_ec2_gives_in_another_way_counts() -> None:
    other = read_instance({"InstanceId": ID, "PrivateDnsName": "WIN-ABC.us-west-2.compute.internal"})

    assert node_mismatch(named("win-abc.us-west-2.compute.internal"), other, None) == ""


@pytest.mark.parametrize("name", ["evil", "ip-10-0-1-20.us-west-2.compute.internal", "i-1", "10.0.1.20"])
def test_a_node_of_another_name_is_not_the_instances(name: str) -> None:
    for node_class in (class_of(), None):
        why = node_mismatch(named(name, "10.0.1.2"), INSTANCE, node_class)

        assert why == f"EC2 calls the instance {ID} ip-10-0-1-2.us-west-2.compute.internal, not {name}"


@pytest.mark.parametrize(
    "spec",
    [
        {"amiFamily": "Custom"},
        {"userData": "[settings.kubernetes]\nhostname-override = 'worker'\n"},
        {"userData": "/etc/eks/bootstrap.sh c --kubelet-extra-args --hostname-override=$(uuidgen)"},
    ],
)
def test_where_user_data_chooses_the_name_an_address_must_be_the_instances(spec: dict[str, Any]) -> None:
    node_class = class_of(**spec)
    assert chooses_names(node_class)

    assert node_mismatch(named("worker", "10.0.1.2"), INSTANCE, node_class) == ""
    assert node_mismatch(named("worker", "2001:db8::1"), INSTANCE, node_class) == ""
    assert "nor does it report one of its addresses" in node_mismatch(named("worker"), INSTANCE, node_class)
    assert node_mismatch(named("worker", "10.0.9.9"), INSTANCE, node_class)


def test_an_instance_that_ec2_has_just_launched_is_not_known_yet() -> None:
    assert is_known(INSTANCE)
    assert not is_known(read_instance({"InstanceId": ID}))
    assert not chooses_names(None)
