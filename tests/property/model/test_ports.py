# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.core import Container, ContainerPort, Pod, PodSpec
from karpenter.model.ports import host_ports

ANY = ("", "0.0.0.0", "::")  # noqa: S104 - addresses to read, not to bind

ports = st.builds(
    ContainerPort,
    host_port=st.integers(0, 2),
    protocol=st.sampled_from(["TCP", "UDP"]),
    host_ip=st.sampled_from([*ANY, "10.0.0.1", "10.0.0.2", "fe80::1"]),
)
port_lists = st.lists(ports, max_size=4)


def pod(given_ports: list[ContainerPort]) -> Pod:
    return Pod(spec=PodSpec(containers=(Container(ports=tuple(given_ports)),)))


def naive(one: ContainerPort, other: ContainerPort) -> bool:
    if 0 in (one.host_port, other.host_port):
        return False
    same = (one.host_port, one.protocol) == (other.host_port, other.protocol)
    return same and (one.host_ip in ANY or other.host_ip in ANY or one.host_ip == other.host_ip)


@given(port_lists, port_lists)
def test_two_pods_conflict_where_any_pair_of_their_ports_does(
    one: list[ContainerPort], two: list[ContainerPort]
) -> None:
    expected = any(naive(left, right) for left in one for right in two)

    conflict = host_ports(pod(one)).conflict(host_ports(pod(two)))

    assert (conflict is not None) is expected
    assert conflict is None or conflict.wanted.meets(conflict.taken)
    assert (host_ports(pod(two)).conflict(host_ports(pod(one))) is not None) is expected


@given(port_lists, port_lists, port_lists)
def test_a_node_conflicts_where_one_of_its_pods_does(
    one: list[ContainerPort], two: list[ContainerPort], wanted: list[ContainerPort]
) -> None:
    want = host_ports(pod(wanted))

    together = host_ports(pod(one)).union(host_ports(pod(two)))

    apart = [host_ports(pod(each)).conflict(want) for each in (one, two)]
    assert (together.conflict(want) is not None) is any(conflict is not None for conflict in apart)
