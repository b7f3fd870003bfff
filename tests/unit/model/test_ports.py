# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.core import Container, ContainerPort, Pod, PodSpec
from karpenter.model.ports import NO_PORTS, HostPort, HostPorts, PortConflict, host_ports


def pod(*ports: ContainerPort, init: tuple[Container, ...] = (), host_network: bool = False) -> Pod:
    spec = PodSpec(containers=(Container(ports=ports),), init_containers=init, host_network=host_network)
    return Pod(spec=spec)


def at(number: int, protocol: str = "TCP", ip: str = "") -> ContainerPort:
    return ContainerPort(container_port=number, host_port=number, protocol=protocol, host_ip=ip)


def test_a_pod_without_host_ports_takes_none() -> None:
    assert host_ports(pod(ContainerPort(container_port=80))) is NO_PORTS
    assert not NO_PORTS


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("", ""),
        ("0.0.0.0", ""),  # noqa: S104 - an address to read, not to bind
        ("::", ""),
        ("0:0::0", ""),
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("FE80::1", "fe80::1"),
        ("nonsense", "nonsense"),
    ],
)
def test_addresses_are_compared_by_what_they_mean(written: str, address: str) -> None:
    assert host_ports(pod(at(80, ip=written))) == HostPorts(frozenset({HostPort(80, "TCP", address)}))


def test_on_the_hosts_network_every_named_port_is_taken() -> None:
    ports = host_ports(pod(ContainerPort(container_port=80), at(53, "UDP"), host_network=True))

    assert ports == HostPorts(frozenset({HostPort(80), HostPort(53, "UDP")}))


def test_sidecars_keep_their_ports_and_other_init_containers_do_not() -> None:
    sidecar = Container(ports=(at(90),), restart_policy="Always")
    starting = Container(ports=(at(91),))

    assert host_ports(pod(init=(sidecar, starting))) == HostPorts(frozenset({HostPort(90)}))


def test_a_missing_protocol_is_tcp() -> None:
    assert host_ports(pod(at(80, protocol=""))) == HostPorts(frozenset({HostPort(80)}))


@pytest.mark.parametrize(
    ("taken", "wanted", "expected"),
    [
        (at(80), at(80), True),
        (at(80), at(81), False),
        (at(80), at(80, "UDP"), False),
        (at(80, ip="10.0.0.1"), at(80, ip="10.0.0.2"), False),
        (at(80, ip="10.0.0.1"), at(80, ip="10.0.0.1"), True),
        (at(80, ip="10.0.0.1"), at(80), True),
        (at(80, ip="::"), at(80, ip="10.0.0.1"), True),
    ],
)
def test_ports_meet_where_number_protocol_and_address_do(
    taken: ContainerPort, wanted: ContainerPort, *, expected: bool
) -> None:
    one, other = host_ports(pod(taken)), host_ports(pod(wanted))

    assert (one.conflict(other) is not None) is expected
    assert [port.meets(rival) for port in one.taken for rival in other.taken] == [expected]


def test_the_first_conflict_in_order_is_named_with_both_sides() -> None:
    taken = host_ports(pod(at(90), at(80, ip="10.0.0.2"), at(80, ip="10.0.0.1")))

    conflict = taken.conflict(host_ports(pod(at(90, ip="fe80::1"), at(80))))

    assert conflict == PortConflict(HostPort(80), HostPort(80, "TCP", "10.0.0.1"))
    assert str(conflict) == "host port *:80/TCP is taken (10.0.0.1:80/TCP)"
    assert str(HostPort(90, "UDP", "fe80::1")) == "[fe80::1]:90/UDP"


def test_union_takes_the_ports_of_both() -> None:
    one, other = host_ports(pod(at(80))), host_ports(pod(at(81)))

    assert one.union(other) == HostPorts(frozenset({HostPort(80), HostPort(81)}))
    assert one.union(NO_PORTS) is one
    assert NO_PORTS.union(one) is one
    assert one.conflict(NO_PORTS) is None
    assert NO_PORTS.conflict(one) is None
    assert hash(one.union(other)) == hash(other.union(one))
