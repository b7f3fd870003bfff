# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from karpenter.sandbox.kube.engine.calls import Call
from karpenter.sandbox.kube.kubeconfig import kubeconfig
from karpenter.sandbox.kube.serving.cells import CELLS, human_duration
from karpenter.sandbox.kube.serving.podcells import pod_word
from karpenter.sandbox.kube.serving.server import ADMIN, Server
from tests.e2e.conformance.cases.manifests import MANIFESTS
from tests.unit.sandbox.kube.api import PODS, Api, pod

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (3600, "60m"),
        (4 * 3600 + 60, "4h1m"),
        (9 * 3600, "9h"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (4000 * 86400, "10y"),
    ],
)
def test_spans_read_as_kubectl_writes_them(seconds: int, shown: str) -> None:
    assert human_duration(seconds) == shown


def _containers(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "c", "ready": False, "restartCount": 2, "state": state}]}


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Running", **_containers(waiting={"reason": "CrashLoopBackOff"})}, "CrashLoopBackOff"),
        ({"phase": "Failed", **_containers(terminated={"exitCode": 3})}, "ExitCode:3"),
        ({"phase": "Failed", **_containers(terminated={"signal": 9})}, "Signal:9"),
        ({"phase": "Succeeded", **_containers(terminated={"reason": "Completed"})}, "Completed"),
        (
            {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]},
            "Init:0/1",
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [
                    {"name": "i", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
                ],
            },
            "Init:ImagePullBackOff",
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1}}}],
            },
            "Init:ExitCode:1",
        ),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            "SchedulingGated",
        ),
    ],
)
def test_a_pod_is_described_in_one_word(status: dict[str, Any], word: str) -> None:
    spec = {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}

    assert pod_word({"metadata": {"name": "p"}, "spec": spec, "status": status})[0] == word


def test_a_pod_that_is_deleted_is_terminating() -> None:
    gone = {
        "metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"phase": "Running"},
    }

    assert pod_word(gone)[0] == "Terminating"


def test_every_kind_has_as_many_cells_as_columns(api: Api) -> None:
    for (group, version, plural, kind), (namespaced, rest) in MANIFESTS.items():
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        base = f"{root}/namespaces/default/{plural}" if namespaced else f"{root}/{plural}"
        head = {"apiVersion": f"{group}/{version}" if group else version, "kind": kind}
        api.post(base, {**head, "metadata": {"name": "x"}, **rest})

        shown = api.get(f"{base}/x", _TABLE)

        assert len(shown["rows"][0]["cells"]) == len(shown["columnDefinitions"]), plural
    assert len(CELLS) > 30


def test_a_service_with_an_address_shows_it() -> None:
    service = {
        "metadata": {"name": "s", "creationTimestamp": "2025-12-31T23:59:00Z"},
        "spec": {
            "type": "LoadBalancer",
            "clusterIP": "10.0.0.1",
            "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}],
        },
        "status": {"loadBalancer": {"ingress": [{"hostname": "lb"}]}},
    }

    assert CELLS["/services"](service, _NOW)[1:6] == ["LoadBalancer", "10.0.0.1", "lb", "80:30000/TCP", "60s"]


def test_a_job_shows_how_far_it_is() -> None:
    job = {
        "metadata": {"name": "j", "creationTimestamp": "2025-12-31T23:59:00Z"},
        "spec": {"completions": 3, "template": {}},
        "status": {"succeeded": 1, "startTime": "2025-12-31T23:59:30Z"},
    }

    assert CELLS["batch/jobs"](job, _NOW)[1:4] == ["Running", "1/3", "30s"]


def test_printer_columns_of_a_definition_are_followed(api: Api) -> None:
    columns = [
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Cpu", "type": "string", "jsonPath": ".spec.free.a\\.b"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
    }
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "x.example", "scope": "Cluster", "names": names, "versions": [version]}
    api.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {"metadata": {"name": "things.x.example"}, "spec": spec},
    )
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    thing = {
        "apiVersion": "x.example/v1",
        "kind": "Thing",
        "metadata": {"name": "t"},
        "spec": {"size": 3, "free": {"a.b": True}},
        "status": status,
    }
    api.post("/apis/x.example/v1/things", thing)

    shown = api.get("/apis/x.example/v1/things", _TABLE)

    assert shown["rows"][0]["cells"] == ["t", "True", 3, "true", "0s"]


def test_discovery_tells_the_same_in_both_forms(api: Api) -> None:
    plain = {each["name"] for each in api.get("/apis")["groups"]}
    aggregated = {each["metadata"]["name"] for each in api.get("/apis", _AGGREGATED)["items"]}
    core = api.get("/api", _AGGREGATED)["items"][0]["versions"][0]["resources"]

    assert plain == aggregated
    assert {each["resource"] for each in core} >= {"pods", "nodes", "namespaces"}
    assert api.get("/api")["versions"] == ["v1"]
    assert api.get("/version")["gitVersion"].startswith("v1.34")


def test_openapi_has_a_document_for_every_version_and_no_secrets_of_ours(api: Api) -> None:
    for name in api.get("/openapi/v3")["paths"]:
        answer = api.raw("GET", f"/openapi/v3/{name}")
        document = json.loads(answer.body)

        assert document["paths"], name
        assert b"x-go" not in answer.body
    swagger = api.get("/openapi/v2")
    assert "io.k8s.api.core.v1.Pod" in swagger["definitions"]
    assert api.raw("GET", "/openapi/v3/apis/no/v1").status == 404


def test_kubectl_gets_openapi_2_in_the_form_that_it_asks_for_before_it_applies_a_list(api: Api) -> None:
    answer = api.raw(
        "GET", "/openapi/v2", accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    )

    assert answer.status == 200
    # Go's parser of media types knows no @.
    assert answer.content_type == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert answer.body.startswith(b"\n\x032.0\x12\x15\n\nKubernetes\x12\x07v1.")


def test_paths_that_lead_nowhere_say_so(api: Api) -> None:
    assert api.raw("GET", "/nothing").status == 404
    assert api.raw("GET", "/apis/no.example/v1/things").status == 404
    assert api.send("GET", "/api/v1/things")[0] == 404
    assert api.send("PUT", PODS, pod("p"))[0] == 405
    assert api.raw("GET", "/readyz").body == b"ok"
    assert "/version" in api.get("/")["paths"]


def test_the_token_is_that_of_the_kubeconfigs_user_and_not_in_the_address() -> None:
    written = yaml.safe_load(kubeconfig("https://127.0.0.1:8080", "a/b", b"certificate"))

    assert written["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:8080",
        "certificate-authority-data": "Y2VydGlmaWNhdGU=",
    }
    assert written["users"][0]["user"] == {"token": "a/b"}
    assert "certificate-authority-data" not in kubeconfig("http://127.0.0.1:8080", "a/b")


def test_the_version_that_is_announced_can_be_another() -> None:
    def announced(version: str) -> tuple[str, str]:
        answer = Server(version=version)._dispatcher.answer(Call("GET", "/version", {}, {}, b"", ADMIN))
        told = json.loads(answer.body)
        return told["minor"], told["gitVersion"]

    assert announced("1.32") == ("32", "v1.32.0")
    assert announced("") == announced("1.34")
    assert announced("")[1].startswith("v1.34.")


def test_ages_are_told_at_the_clock_of_the_api(api: Api) -> None:
    api.post(PODS, pod("p"))
    api.clock.tick(timedelta(minutes=3).total_seconds())

    assert api.get(f"{PODS}/p", _TABLE)["rows"][0]["cells"][4] == "3m"
