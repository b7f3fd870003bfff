# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from karpenter.sandbox.kubelets.processes import ProcessRecord
from karpenter.sandbox.stack.calls import KubeApi
from karpenter.sandbox.stack.errors import CallError
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.replicas import are_ready, is_system_node, metrics_addresses, replicas


@pytest.fixture
def write(home: Home) -> Iterator[Callable[..., Path]]:
    """Write down a process of a pod; one that runs has its file locked."""
    held: list[int] = []
    home.pods.mkdir(parents=True)

    def written(pod: str, minute: int = 0, *, running: bool = True, **fields: Any) -> Path:
        record = ProcessRecord(
            **{
                "namespace": "karpenter",
                "pod": pod,
                "container": "controller",
                "pid": 1,
                "started": datetime(2026, 1, 1, 0, minute, tzinfo=UTC),
                "log": f"/logs/{pod}/controller/0.log",
                "ports": {8080: 40000 + minute, 8081: 41000 + minute},
                **fields,
            }
        )
        path = home.pods / f"{pod}_{record.container}"
        path.write_bytes(msgspec.json.encode(record))
        if running:
            held.append(os.open(path, os.O_RDWR))
            fcntl.flock(held[-1], fcntl.LOCK_EX)
        return path

    yield written
    for each in held:
        os.close(each)


class Deployment:
    """An API with one Deployment, or none."""

    def __init__(self, wanted: int | None, ready: int = 0, status: int = 404) -> None:
        self._wanted = wanted
        self._ready = ready
        self._status = status

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/apis/apps/v1/namespaces/karpenter/deployments/karpenter"
        if self._wanted is None:
            raise CallError("there is none", status=self._status)
        return {"spec": {"replicas": self._wanted}, "status": {"readyReplicas": self._ready}}


def api(*arguments: Any, **more: Any) -> KubeApi:
    return cast("KubeApi", Deployment(*arguments, **more))


def test_replicas_are_named_in_the_order_in_which_they_were_started(
    home: Home, write: Callable[..., Path]
) -> None:
    write("karpenter-b", 1)
    write("karpenter-a", 2, running=False)
    write("web", 0)
    write("karpenter-c", 0, container="sidecar")
    (home.pods / "torn").write_text("{", encoding="utf-8")

    found = replicas(home)

    assert [(each.name, each.record.pod, each.running) for each in found] == [
        ("controller", "karpenter-b", True),
        ("controller-2", "karpenter-a", False),
    ]
    assert found[0].address(8081) == "http://127.0.0.1:41001"
    assert found[0].address(99) == ""
    assert metrics_addresses(home) == [f"http://127.0.0.1:4000{each}/metrics" for each in (1, 2)]


def test_a_sandbox_without_pods_has_no_replicas(home: Home) -> None:
    assert replicas(home) == []


def test_the_log_of_the_run_that_ended_is_that_before_the_one_that_goes_on(
    home: Home, write: Callable[..., Path]
) -> None:
    write("karpenter-a", 0, log="/logs/2.log")
    write("karpenter-b", 1, log="/logs/2.log", running=False)

    assert [each.ended_log for each in replicas(home)] == [Path("/logs/1.log"), Path("/logs/2.log")]


def test_replicas_are_ready_when_the_deployment_and_their_probes_say_so(
    home: Home, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering: set[str] = set()
    monkeypatch.setattr("karpenter.sandbox.stack.replicas.answers", lambda url: url in answering)
    write("karpenter-a", 0)
    write("karpenter-b", 1, running=False)

    assert not are_ready(api(1, 0), home, "karpenter")
    # What the API says may be from before its processes were ended.
    assert not are_ready(api(1, 1), home, "karpenter")
    answering |= {"http://127.0.0.1:41000/readyz", "http://127.0.0.1:41001/readyz"}
    assert are_ready(api(1, 1), home, "karpenter")
    assert not are_ready(api(2, 2), home, "karpenter")
    assert are_ready(api(0, 0), home, "karpenter")


def test_a_deployment_that_was_taken_away_is_not_waited_for(home: Home) -> None:
    assert are_ready(api(None), home, "karpenter")
    with pytest.raises(CallError):
        are_ready(api(None, status=500), home, "karpenter")


def test_the_system_node_is_known_by_its_node_group() -> None:
    assert is_system_node({"metadata": {"labels": {"eks.amazonaws.com/nodegroup": "system"}}})
    assert not is_system_node({"metadata": {"labels": {"eks.amazonaws.com/nodegroup": "other"}}})
    assert not is_system_node({"metadata": {}})
