# SPDX-License-Identifier: Apache-2.0
"""A whole sandbox with its real programs: it comes up, gives pods a node, is mended, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from karpenter.cli import main
from karpenter.sandbox.stack.calls import KubeApi, Model
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.lifecycle import Stack
from karpenter.sandbox.stack.record import Record, load
from karpenter.sandbox.stack.replicas import is_system_node
from tests.patience import patient

_NODES = "/api/v1/nodes"
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}]
            },
        },
    },
}


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Wait until something is so and give it."""
    limit = patient(seconds)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            found = condition()
            if found:
                return found
        time.sleep(0.1)
    raise AssertionError(f"not within {limit:g} s: {what}")


def ready_nodes(api: KubeApi) -> list[str]:
    """Give Karpenter's nodes that are ready."""
    return [
        each["metadata"]["name"]
        for each in api.items(_NODES)
        if not is_system_node(each)
        and any(c["type"] == "Ready" and c["status"] == "True" for c in each["status"].get("conditions", ()))
    ]


def is_running(pid: int) -> bool:
    """Tell whether a process does anything any more; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def closing() -> Iterator[Callable[[KubeApi], KubeApi]]:
    """Clients that are closed however the test ends."""
    with contextlib.ExitStack() as held:

        def keep(client: KubeApi) -> KubeApi:
            held.callback(client.close)
            return client

        yield keep


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where sandboxes of a test live; none outlives it."""
    monkeypatch.setenv("KARPENTER_SANDBOX_HOME", str(tmp_path))
    yield tmp_path
    for name in ("default", "demo"):
        home = Home(tmp_path, name)
        if home.record.exists():
            Stack(home).down(keep=False)


@pytest.mark.timeout(180)
def test_pods_get_a_node_and_what_is_killed_is_mended(
    root: Path, closing: Callable[[KubeApi], KubeApi], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sandbox", "up", "--default-pool", "--speed", "10", "--life", "10m", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    pids = {each["name"]: each["pid"] for each in document["processes"]}
    record = load(Home(root).record)
    assert record is not None
    api = closing(KubeApi(record.server, record.token, Home(root).authority))

    api.apply(DEPLOYMENT)
    [name] = wait_for(lambda: ready_nodes(api), "a node is ready")
    with contextlib.closing(Model(record.ec2)) as model:
        machines = [each["id"] for each in model.state()["ec2"]["instances"]]
    for each in ("kube", "ec2", "kubelets"):
        os.kill(pids[each], signal.SIGKILL)
    wait_for(lambda: not is_open(record.ports["kube"]), "the API is gone")
    api.close()

    assert main(["sandbox", "status"]) == 1
    told = capsys.readouterr().out
    assert [line.split()[1] for line in told.splitlines()[2:]] == [
        "dead",
        "dead",
        "running",
        "dead",
        "running",
        "running",
    ]
    assert main(["sandbox", "up"]) == 0
    assert "is mended: kube, ec2, kubelets started again" in capsys.readouterr().err
    # A machine that is slow to mend it has lost the node for a moment.
    wait_for(lambda: ready_nodes(api) == [name], "the node is ready again")
    with contextlib.closing(Model(record.ec2)) as model:
        assert [each["id"] for each in model.state()["ec2"]["instances"]] == machines
    path = api.path(DEPLOYMENT)
    wait_for(lambda: api.get(path).get("status", {}).get("readyReplicas") == 2, "both pods run")
    api.close()

    mended = load(Home(root).record)
    assert mended is not None
    pids |= {name: child.pid for name, child in mended.children.items()}
    for pid in pids.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(is_open(port) for port in record.ports.values()), "all of it is gone")
    assert main(["sandbox", "up"]) == 0
    said = capsys.readouterr().err
    assert "is up again, with what was in it: 1 nodes, 2 pods, 1 instances" in said
    wait_for(lambda: ready_nodes(api) == [name], "the node is ready again")
    assert [each["metadata"]["name"] for each in api.items("/apis/storage.k8s.io/v1/storageclasses")] == [
        "gp3"
    ]
    api.close()
    again = load(Home(root).record)
    assert again is not None
    pids |= {name: child.pid for name, child in again.children.items()}

    assert main(["sandbox", "down"]) == 0
    assert not any(is_running(pid) for pid in pids.values())
    assert not any(is_open(port) for port in record.ports.values())
    assert not (root / "default").exists()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_demo_leaves_no_process_and_no_port(root: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "karpenter", "demo", "--yes"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        record = wait_for(lambda: _with_all(root), "its processes are started")
        demo.send_signal(number)
        said, _ = demo.communicate(timeout=60)
    finally:
        demo.kill()

    wait_for(lambda: not any(is_running(each.pid) for each in record.children.values()), "they end", 20)
    assert not any(is_open(port) for port in record.ports.values())
    if number != signal.SIGKILL:
        assert demo.returncode == 130
        assert "ending all processes" in said
        assert not (root / "demo").exists()


def _with_all(root: Path) -> Record | None:
    record = load(Home(root, "demo").record)
    return record if record is not None and len(record.children) == 5 else None
