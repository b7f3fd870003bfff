# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.sandbox.kube.kinds.catalogue import Catalogue
from karpenter.sandbox.kube.kinds.defaults import apply_defaults
from karpenter.sandbox.kube.kinds.protobuf import ProtobufError, from_protobuf
from karpenter.sandbox.kube.kinds.reading import DecodeError, Reader, empty_struct
from karpenter.sandbox.kube.kinds.shapes import builtin_facts, builtin_shape

_POD = builtin_shape("io.k8s.api.core.v1.Pod")
_DEPLOYMENT = builtin_shape("io.k8s.api.apps.v1.Deployment")


def _read(obj: dict[str, Any]) -> dict[str, Any]:
    return Reader().object(obj, _POD)


def test_the_facts_fit_into_the_package() -> None:
    facts = builtin_facts()

    assert facts["release"].startswith("v1.34")
    assert len(facts["schemas"]) > 400


def test_unknown_fields_are_left_out_and_named_by_their_paths() -> None:
    reader = Reader()

    read = reader.object({"spec": {"containers": [{"name": "a", "colour": "red"}], "x": 1}}, _POD)

    assert reader.unknown == ["spec.containers[0].colour", "spec.x"]
    assert read["spec"]["containers"][0] == {"name": "a", "resources": {}}


def test_empty_fields_are_written_as_go_writes_them() -> None:
    read = _read(
        {
            "metadata": {"labels": {}, "name": ""},
            "spec": {"containers": [], "hostNetwork": False, "priority": 0},
        }
    )

    assert read == {"metadata": {}, "spec": {"containers": [], "priority": 0}, "status": {}}
    assert empty_struct(_POD) == {"metadata": {}, "spec": {"containers": None}, "status": {}}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"containers": "x"},
            "cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            {"hostNetwork": 1},
            "cannot unmarshal number into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            {"priority": 1.5},
            "cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            {"nodeSelector": {"a": 1}},
            "cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_in_gos_words(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(DecodeError) as refused:
        _read({"spec": spec})

    assert str(refused.value).endswith(said)


def test_quantities_and_times_are_put_into_their_normal_form() -> None:
    resources = {"requests": {"cpu": "1000m", "memory": 1024}}

    read = _read(
        {
            "spec": {"containers": [{"name": "a", "resources": resources}]},
            "status": {"startTime": "2026-01-01T01:00:00+01:00"},
        }
    )

    assert read["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1024"}
    assert read["status"]["startTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("amount", "said"), [("lots", "must match"), ("1xi", "must match"), ("1Kik", "suffix")]
)
def test_a_bad_quantity_is_refused(amount: str, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        _read({"spec": {"overhead": {"cpu": amount}}})


def test_a_bad_time_is_refused() -> None:
    with pytest.raises(DecodeError, match="parsing time"):
        _read({"status": {"startTime": "noon"}})


def test_defaults_reach_the_template_of_a_workload() -> None:
    obj: dict[str, Any] = {
        "metadata": {},
        "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "app"}]}}, "strategy": {}},
    }

    apply_defaults(obj, _DEPLOYMENT)

    assert obj["spec"]["replicas"] == 1
    assert obj["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": "25%"}
    spec = obj["spec"]["template"]["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert "enableServiceLinks" not in spec


def test_protobuf_of_the_wrong_kind_or_length_is_refused() -> None:
    with pytest.raises(ProtobufError, match="prefix"):
        from_protobuf(b"{}")
    with pytest.raises(ProtobufError, match="no kind"):
        from_protobuf(b"k8s\x00\x0a\x06\x0a\x02v9\x12\x00")
    with pytest.raises(ProtobufError, match="cut short"):
        from_protobuf(b"k8s\x00\x0a\x7f")


def test_protobuf_is_read_by_the_numbers_of_the_fields() -> None:
    def field(number: int, body: bytes) -> bytes:
        return bytes([number << 3 | 2, len(body)]) + body

    metadata = field(1, b"web") + field(11, field(1, b"app") + field(2, b"web"))
    spec = bytes([8, 3]) + field(2, field(1, field(1, b"app") + field(2, b"web")))
    raw = field(1, metadata) + field(2, spec)
    body = b"k8s\x00" + field(1, field(1, b"apps/v1") + field(2, b"Deployment")) + field(2, raw)

    read = from_protobuf(body)

    assert read == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}},
    }


def test_options_of_a_deletion_are_read_though_their_numbers_are_those_of_kind_and_version() -> None:
    raw = bytes([8, 30]) + _field(2, _field(1, b"uid-1")) + _field(4, b"Foreground")

    assert from_protobuf(_message(b"apps/v1", b"DeleteOptions", raw)) == {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 30,
        "preconditions": {"uid": "uid-1"},
        "propagationPolicy": "Foreground",
    }


def test_versions_are_preferred_in_kubernetes_order() -> None:
    groups = Catalogue().groups()

    assert groups["autoscaling"] == ["v2", "v1"]
    assert "apps" in groups


def _field(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2, len(body)]) + body


def _message(api_version: bytes, kind: bytes, raw: bytes) -> bytes:
    return (
        b"k8s\x00" + _field(1, _field(1, api_version) + _field(2, kind)) + b"\x12" + bytes([len(raw)]) + raw
    )


def test_every_form_of_value_is_read_from_protobuf() -> None:
    port = _field(1, b"http") + bytes([3 << 3, 80])
    resources = _field(1, _field(1, b"cpu") + _field(2, _field(1, b"1")))
    one = _field(1, b"main") + _field(6, port) + _field(8, resources)
    volume = _field(1, b"v") + _field(2, _field(1, _field(1, b"/host")))
    spec = _field(1, volume) + _field(2, one) + bytes([4 << 3, 30]) + bytes([11 << 3, 1])

    read = from_protobuf(_message(b"v1", b"Pod", _field(2, spec)))["spec"]

    assert read["containers"] == [
        {
            "name": "main",
            "ports": [{"name": "http", "containerPort": 80}],
            "resources": {"limits": {"cpu": "1"}},
        }
    ]
    assert read["volumes"] == [{"name": "v", "hostPath": {"path": "/host"}}]
    assert read["terminationGracePeriodSeconds"] == 30
    assert read["hostNetwork"] is True


def test_numbers_texts_and_times_are_read_from_protobuf() -> None:
    negative = b"\x08" + b"\xff" * 9 + b"\x01"
    budget = from_protobuf(
        _message(b"policy/v1", b"PodDisruptionBudget", _field(2, _field(1, b"\x08\x01\x1a\x0350%")))
    )
    count = from_protobuf(_message(b"policy/v1", b"PodDisruptionBudget", _field(2, _field(1, b"\x10\x02"))))
    scaled = from_protobuf(_message(b"apps/v1", b"Deployment", _field(2, negative)))
    secret = from_protobuf(_message(b"v1", b"Secret", _field(2, _field(1, b"a") + _field(2, b"\x00\x01"))))
    started = from_protobuf(_message(b"v1", b"Pod", _field(3, _field(7, b"\x08\x80\x9c\xa7\xca\x06"))))

    assert budget["spec"]["minAvailable"] == "50%"
    assert count["spec"]["minAvailable"] == 2
    assert scaled["spec"]["replicas"] == -1
    assert secret["data"] == {"a": "AAE="}
    assert started["status"]["startTime"].startswith("2025-")
