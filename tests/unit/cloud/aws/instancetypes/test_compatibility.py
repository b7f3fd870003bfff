# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from karpenter.api.ec2nodeclass import ConnectionTracking, CPUOptions, NetworkInterface
from karpenter.cloud.aws.amis.families import family_of
from karpenter.cloud.aws.instancetypes.compatibility import (
    Incompatibility,
    PlacementGroup,
    incompatibility,
    is_launchable,
)
from tests.unit.cloud.aws.instancetypes.described import Group, fact, node_class


def obstacle(name: str, group: PlacementGroup | None = None, **spec: Any) -> Incompatibility | None:
    chosen = node_class(**spec)
    return incompatibility(fact(name), chosen.spec, family_of(chosen), group)


def interface(card: int, device: int, kind: str = "interface") -> NetworkInterface:
    return NetworkInterface(network_card_index=card, device_index=device, interface_type=kind)


def test_an_ordinary_type_goes_with_an_ordinary_class() -> None:
    assert obstacle("m5.large") is None


def test_the_first_graviton_does_not_run_amazon_linux_2023() -> None:
    assert obstacle("a1.large") is Incompatibility.IMAGE_FAMILY
    assert obstacle("a1.large", ami_family="Bottlerocket") is None


def test_windows_needs_an_amd64_machine() -> None:
    assert obstacle("c6g.large", ami_family="Windows2022") is Incompatibility.IMAGE_FAMILY
    assert obstacle("c6i.large", ami_family="Windows2022") is None


@pytest.mark.parametrize(
    ("name", "interfaces", "expected"),
    [
        ("p4d.24xlarge", [interface(0, 0), interface(0, 1, "efa-only"), interface(1, 1, "efa-only")], None),
        ("m4.16xlarge", [interface(0, 0)], None),
        ("m1.small", [interface(0, 0)], Incompatibility.NO_ENA),
        ("m5.large", [interface(0, 0), interface(1, 0)], Incompatibility.NETWORK_CARD),
        ("m5.large", [interface(0, 3)], Incompatibility.DEVICE_INDEX),
        ("m5.large", [interface(0, 0), interface(0, 1, "efa-only")], Incompatibility.EFA),
    ],
)
def test_configured_interfaces_must_exist(
    name: str, interfaces: list[NetworkInterface], expected: Incompatibility | None
) -> None:
    assert obstacle(name, network_interfaces=tuple(interfaces)) is expected


def test_nested_virtualization_needs_a_processor_that_can() -> None:
    wanted = CPUOptions(nested_virtualization="enabled")

    assert obstacle("m5.large", cpu_options=wanted) is Incompatibility.NESTED_VIRTUALIZATION
    assert obstacle("c7i.2xlarge", cpu_options=wanted) is None
    assert obstacle("m5.large", cpu_options=CPUOptions(nested_virtualization="disabled")) is None


def test_a_placement_group_needs_a_type_that_supports_its_strategy() -> None:
    assert obstacle("t3.medium", Group(strategy="cluster")) is Incompatibility.PLACEMENT_STRATEGY
    assert obstacle("t3.medium", Group(strategy="spread")) is None


def test_connection_tracking_needs_nitro() -> None:
    wanted = ConnectionTracking(udp_timeout=60)

    assert obstacle("m4.large", connection_tracking=wanted) is Incompatibility.CONNECTION_TRACKING
    assert obstacle("m5.large", connection_tracking=wanted) is None


def test_machines_that_kubernetes_has_no_nodes_of_are_not_launchable() -> None:
    assert is_launchable(fact("m5.large"))
    assert not is_launchable(fact("mac2.metal"))
