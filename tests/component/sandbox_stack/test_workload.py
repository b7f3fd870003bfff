# SPDX-License-Identifier: Apache-2.0
"""Karpenter as a workload of the sandbox: its pods are processes, and what people do to a Deployment works on it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from karpenter.cli import main
from karpenter.sandbox.stack.calls import KubeApi, _Http
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.record import load
from karpenter.sandbox.stack.replicas import is_system_node, replicas
from tests.component.sandbox_stack.test_whole import closing, is_running, root, wait_for

__all__ = ["closing", "root"]

_DEPLOYMENT = "/apis/apps/v1/namespaces/karpenter/deployments/karpenter"
_PODS = "/api/v1/namespaces/karpenter/pods"
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/karpenter/leases/karpenter-leader-election"
_STRATEGIC = "application/strategic-merge-patch+json"


def pods(api: KubeApi) -> list[dict[str, Any]]:
    """Give the controller's pods that are ready and stay."""
    found = api.items(_PODS, {"labelSelector": "app.kubernetes.io/name=karpenter"})
    return [
        each
        for each in found
        if "deletionTimestamp" not in each["metadata"]
        and any(c["type"] == "Ready" and c["status"] == "True" for c in each["status"].get("conditions", ()))
    ]


def names(api: KubeApi) -> set[str]:
    return {each["metadata"]["name"] for each in pods(api)}


def leader(api: KubeApi) -> str:
    return str(api.get(_LEASE)["spec"].get("holderIdentity") or "").partition("_")[0]


def set_env(api: KubeApi, **variables: str) -> None:
    """Change the Deployment as ``kubectl set env`` does."""
    env = [{"name": name, "value": value} for name, value in variables.items()]
    template = {"spec": {"containers": [{"name": "controller", "env": env}]}}
    api._call("PATCH", _DEPLOYMENT, {"spec": {"template": template}}, _STRATEGIC)


@pytest.mark.timeout(300)
def test_the_controller_is_a_deployment_whose_pods_are_processes(
    root: Path, closing: Callable[[KubeApi], KubeApi], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sandbox", "up", "--speed", "10", "--life", "10m"]) == 0
    capsys.readouterr()
    home = Home(root)
    record = load(home.record)
    assert record is not None
    api = closing(KubeApi(record.server, record.token, home.authority))

    def text(path: str) -> str:
        caller = _Http(record.server, record.token, authority=home.authority)
        with contextlib.closing(caller):
            status, content = caller.send("GET", path)
            assert status == 200, content
            return content.decode()

    [node] = api.items("/api/v1/nodes")
    assert is_system_node(node)
    assert {"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
    [first] = names(api)
    wait_for(lambda: leader(api) == first, "the lease is named after the pod")
    assert '"message": "starting"' in text(f"{_PODS}/{first}/log?container=controller")
    assert "karpenter_build_info" in text(f"{_PODS}/{first}:8080/proxy/metrics")

    # A change of its environment starts it anew with that setting.
    set_env(api, LOG_LEVEL="debug")
    [second] = wait_for(lambda: len(names(api)) == 1 and names(api) - {first}, "the new pod is ready", 120)
    wait_for(lambda: leader(api) == second, "the new pod leads", 120)
    [process] = [each.record for each in replicas(home) if each.record.pod == second]
    assert b"LOG_LEVEL=debug" in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")

    # One that is killed is started again, and the log of the run before is kept.
    os.kill(replicas(home)[-1].record.pid, signal.SIGKILL)

    def restarted() -> bool:
        found = pods(api)
        return bool(found) and found[0]["status"]["containerStatuses"][0]["restartCount"] == 1

    wait_for(restarted, "it runs again", 120)
    assert names(api) == {second}
    assert '"message": "starting"' in text(f"{_PODS}/{second}/log?previous=true")

    # Two replicas listen side by side; one leads.
    api.merge(_DEPLOYMENT, {"spec": {"replicas": 2}})
    wait_for(lambda: len(names(api)) == 2, "both are ready", 120)
    assert main(["sandbox", "status"]) == 0
    told = capsys.readouterr().out
    assert {line.split()[0] for line in told.splitlines()[2:]} >= {
        "system-node",
        "controller",
        "controller-2",
    }

    # What the node's own process leaves behind ends by itself, and 'up' brings it back.
    pids = [each.record.pid for each in replicas(home)]
    os.kill(record.children["system-node"].pid, signal.SIGKILL)
    wait_for(lambda: not any(map(is_running, pids)), "the controllers end with their node")
    assert main(["sandbox", "up"]) == 0
    assert "is mended: system-node started again" in capsys.readouterr().err
    assert sum(each.running for each in replicas(home)) == 2
    # What was changed of it is still so.
    env = api.get(_DEPLOYMENT)["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "LOG_LEVEL", "value": "debug"} in env

    pids = [each.record.pid for each in replicas(home)]
    assert main(["sandbox", "down"]) == 0
    assert not any(map(is_running, pids))
