# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
from typing import Any

import msgspec
import pytest

from karpenter.sandbox.kubelets.environment import environ_of, free_ports, port_of
from karpenter.sandbox.kubelets.objects import PodView

PORTS = [{"name": "http-metrics", "containerPort": 8080}, {"name": "http", "containerPort": 8081}]


def a_pod(*env: dict[str, Any]) -> PodView:
    container = {
        "name": "c",
        "image": "i",
        "env": list(env),
        "ports": PORTS,
        "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "250m"}},
    }
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app/x": "y"}},
        "spec": {"nodeName": "n", "serviceAccountName": "sa", "containers": [container]},
        "status": {"podIP": "100.64.0.9"},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=PodView)


def environ(*env: dict[str, Any]) -> dict[str, str]:
    pod = a_pod(*env)
    return environ_of(pod, pod.spec.containers[0], "10.0.0.1", {8080: 40001, 8081: 40002})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['app/x']", "y"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "n"),
        ("spec.serviceAccountName", "sa"),
        ("status.hostIP", "10.0.0.1"),
        ("status.podIP", "100.64.0.9"),
    ],
)
def test_a_variable_can_be_a_field_of_the_pod(path: str, value: str) -> None:
    assert environ({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}})["V"] == value


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.memory", "1", "1073741824"),
        ("limits.memory", "1Mi", "1024"),
        ("requests.cpu", "1", "1"),
        ("requests.cpu", "1m", "250"),
        ("limits.cpu", "nonsense", ""),
    ],
)
def test_a_variable_can_be_an_amount_of_the_container(resource: str, divisor: str, value: str) -> None:
    source = {"resourceFieldRef": {"resource": resource, "divisor": divisor}}

    assert environ({"name": "V", "valueFrom": source})["V"] == value


def test_what_others_hold_is_not_read() -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}

    assert environ({"name": "V", "valueFrom": source})["V"] == ""


def test_a_port_of_the_container_is_told_as_the_one_that_stands_for_it() -> None:
    found = environ(
        {"name": "METRICS_PORT", "value": "8080"},
        {"name": "OTHER_PORT", "value": "9"},
        {"name": "NUMBER", "value": "8080"},
        {"name": "A_PORT", "value": "http"},
    )

    assert found["METRICS_PORT"] == "40001"
    assert (found["OTHER_PORT"], found["NUMBER"], found["A_PORT"]) == ("9", "8080", "http")


def test_the_host_name_is_that_of_the_pod() -> None:
    assert environ()["HOSTNAME"] == "p"


def test_ports_are_free_and_stay_what_they_were_if_they_can() -> None:
    first = free_ports([8080, 8081], {})

    assert len(set(first.values())) == 2
    assert free_ports([8080, 8081], first) == first
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first[8080]))
        taken.listen()
        again = free_ports([8080, 8081], first)
    assert again[8080] != first[8080]
    assert again[8081] == first[8081]


def test_a_port_is_found_by_number_and_by_name() -> None:
    container = a_pod().spec.containers[0]

    assert [port_of(container, each) for each in (8081, "8081", "http", "none")] == [8081, 8081, 8081, 0]
