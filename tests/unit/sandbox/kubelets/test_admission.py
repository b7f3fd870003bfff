# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.core import Taint
from karpenter.model.resources import Resources, total
from karpenter.sandbox.kubelets.admission import Load, Room, admit, load_of
from tests.unit.sandbox.kubelets.builders import pod

ROOM = Room(
    Resources({"cpu": 1000, "memory": 2**30, "ephemeral-storage": 2**30, "pods": 3}), labels={"disk": "fast"}
)


def loads(*requests: dict[str, str]) -> list[Load]:
    return [load_of(pod(requests=each)) for each in requests]


def test_a_pod_that_fits_is_taken() -> None:
    assert admit(pod(requests={"cpu": "600m"}), ROOM, loads({"cpu": "400m"})) is None


def test_a_pod_that_does_not_fit_is_refused_in_the_kubelets_words() -> None:
    refusal = admit(pod(requests={"cpu": "600m"}), ROOM, loads({"cpu": "401m"}))

    assert refusal is not None
    assert refusal.reason == "OutOfcpu"
    assert refusal.message == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 600, used: 401, capacity: 1000"
    )


def test_pods_are_counted_first() -> None:
    refusal = admit(pod(requests={"cpu": "9"}), ROOM, loads({}, {}, {}))

    assert refusal is not None
    assert refusal.reason == "OutOfpods"


def test_a_device_that_the_node_does_not_know_refuses_nothing() -> None:
    unknown = pod(requests={"nvidia.com/gpu": "1"})
    known = Room(ROOM.allocatable + Resources({"nvidia.com/gpu": 1}), ROOM.labels)

    assert admit(unknown, ROOM, []) is None
    refusal = admit(unknown, known, loads({"nvidia.com/gpu": "1"}))
    assert refusal is not None
    assert refusal.reason == "OutOfnvidia.com/gpu"


def test_a_host_port_is_had_by_one_pod() -> None:
    refusal = admit(pod(host_port=80), ROOM, [load_of(pod(host_port=80))])

    assert refusal is not None
    assert refusal.reason == "NodePorts"
    assert admit(pod(host_port=81), ROOM, [load_of(pod(host_port=80))]) is None


def test_a_node_selector_must_match() -> None:
    refusal = admit(pod(selector={"disk": "slow"}), ROOM, [])

    assert refusal is not None
    assert refusal.reason == "NodeAffinity"
    assert admit(pod(selector={"disk": "fast"}), ROOM, []) is None


def test_a_taint_that_evicts_must_be_tolerated() -> None:
    room = Room(
        ROOM.allocatable,
        ROOM.labels,
        (Taint(key="a", effect="NoExecute"), Taint(key="b", effect="NoSchedule")),
    )

    refusal = admit(pod(), room, [])

    assert refusal is not None
    assert refusal.reason == "TaintToleration"
    assert admit(pod(tolerations=[{"key": "a", "operator": "Exists"}]), room, []) is None


def test_a_pod_whose_amounts_cannot_be_read_is_refused() -> None:
    refusal = admit(pod(requests={"cpu": "much"}), ROOM, [])

    assert refusal is not None
    assert refusal.reason == "UnexpectedAdmissionError"


@given(st.lists(st.integers(0, 1200), max_size=8))
def test_what_is_taken_never_exceeds_the_room(millicores: list[int]) -> None:
    taken: list[Load] = []

    for amount in millicores:
        candidate = pod(requests={"cpu": f"{amount}m"})
        if admit(candidate, ROOM, taken) is None:
            taken.append(load_of(candidate))

    used = total(each.requests for each in taken)
    assert used["cpu"] <= 1000
    assert used["pods"] <= 3
