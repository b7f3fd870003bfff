# SPDX-License-Identifier: Apache-2.0
"""What Kubernetes puts right instead of refusing it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sandbox.kube.api import Api

_VOLUMES = "/api/v1/persistentvolumes"
_SERVICES = "/api/v1/namespaces/default/services"


@pytest.fixture
def api() -> Api:
    return Api()


def _volume(**metadata: Any) -> dict[str, Any]:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": "h"},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v", **metadata},
        "spec": spec,
    }


def _service(kind: str = "ClusterIP", **spec: Any) -> dict[str, Any]:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"type": kind, "ports": ports, **spec},
    }


def test_an_object_without_a_namespace_loses_the_one_that_it_was_sent_with(api: Api) -> None:
    made = api.post(_VOLUMES, _volume(namespace="default"))
    status, changed = api.send("PUT", f"{_VOLUMES}/v", _volume(namespace="default", labels={"a": "b"}))
    patched, again = api.patch(f"{_VOLUMES}/v", {"metadata": {"namespace": "default", "labels": {"a": "c"}}})

    assert (status, patched) == (200, 200)
    assert [each["metadata"].get("namespace") for each in (made, changed, again)] == [None] * 3
    assert again["metadata"]["labels"] == {"a": "c"}


def test_a_service_keeps_its_address_where_a_change_leaves_it_out(api: Api) -> None:
    made = api.post(_SERVICES, _service())["spec"]

    replaced, one = api.send("PUT", f"{_SERVICES}/s", _service())
    patched, two = api.patch(f"{_SERVICES}/s", {"spec": {"clusterIP": None, "clusterIPs": None}})
    refused, why = api.patch(f"{_SERVICES}/s", {"spec": {"clusterIP": "10.96.1.1"}})

    assert (replaced, patched) == (200, 200)
    assert one["spec"]["clusterIP"] == two["spec"]["clusterIP"] == made["clusterIP"]
    assert two["spec"]["clusterIPs"] == made["clusterIPs"]
    assert (refused, "field is immutable" in why["message"]) == (422, True)


def test_a_service_keeps_the_ports_of_nodes_where_a_change_leaves_them_out(api: Api) -> None:
    made = api.post(_SERVICES, _service("NodePort"))["spec"]["ports"]

    _, changed = api.send("PUT", f"{_SERVICES}/s", _service("NodePort"))

    assert [each["nodePort"] for each in changed["spec"]["ports"]] == [each["nodePort"] for each in made]
