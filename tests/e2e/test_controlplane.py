# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane import Binaries, ControlPlane, ControlPlaneError, eventually, find_binaries
from tests.e2e.controlplane.processes import is_alive
from tests.e2e.controlplane.startup import free_port

ROOT = Path(__file__).parents[2]
COMPONENTS = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
NODES = "/api/v1/nodes"
MERGE_PATCH = "application/merge-patch+json"


@pytest.fixture(scope="module")
def other_plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A second plane beside the first, with an audit log."""
    with ControlPlane(audit=True) as plane:
        assert plane.url != control_plane.url
        yield plane


@pytest.fixture
def node(control_plane: ControlPlane) -> Iterator[str]:
    """A Node object without a kubelet behind it, in the state in which kubelets register."""
    name = "node-of-paper"
    starting = _status("False", "KubeletNotReady")
    made = control_plane.request(
        "POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": starting}
    )
    assert made.status == 201, made.text
    yield name
    control_plane.request("DELETE", f"{NODES}/{name}")


def test_all_components_run_and_the_api_server_is_ready(control_plane: ControlPlane) -> None:
    ready = control_plane.request("GET", "/readyz?verbose")

    assert ready.status == 200
    assert "[+]etcd ok" in ready.text
    assert {name: each.is_running for name, each in control_plane.processes.items()} == dict.fromkeys(
        COMPONENTS, True
    )


def test_kubectl_and_the_server_agree_on_the_version(control_plane: ControlPlane) -> None:
    versions = json.loads(control_plane.kubectl("version", "-o", "json").stdout)

    assert versions["serverVersion"]["gitVersion"] == "v1.34.4"
    assert (versions["serverVersion"]["major"], versions["serverVersion"]["minor"]) == ("1", "34")
    assert versions["clientVersion"]["gitVersion"] == "v1.34.4"


def test_a_deployment_without_nodes_gets_pods_that_the_scheduler_explains(
    control_plane: ControlPlane, namespace: str
) -> None:
    _deploy(control_plane, namespace, replicas=2)

    pods = eventually(
        lambda: _pods(control_plane, namespace),
        "two pods with a message of the scheduler",
        holds=lambda seen: len(seen) == 2 and all(_condition(pod, "PodScheduled") for pod in seen),
    )

    for pod in pods:
        assert pod["status"]["phase"] == "Pending"
        assert pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
        assert _condition(pod, "PodScheduled")["reason"] == "Unschedulable"
        assert "no nodes available to schedule pods" in _condition(pod, "PodScheduled")["message"]


def test_a_node_that_becomes_ready_loses_its_taint_and_gets_the_pod(
    control_plane: ControlPlane, namespace: str, node: str
) -> None:
    _deploy(control_plane, namespace, replicas=1)
    assert "node.kubernetes.io/not-ready" in _taints(control_plane, node)

    _report_ready(control_plane, node)

    eventually(lambda: not _taints(control_plane, node), f"node {node} without taints")
    eventually(
        lambda: [pod["spec"].get("nodeName") for pod in _pods(control_plane, namespace)],
        "the pod is bound to the node",
        holds=lambda names: names == [node],
    )


def test_the_static_token_is_an_admin_and_another_token_is_nobody(control_plane: ControlPlane) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    own = control_plane.request("POST", path, review)
    wrong = control_plane.request("POST", path, review, token="wrong")

    assert own.json()["status"]["userInfo"]["username"] == "token-admin"
    assert "system:masters" in own.json()["status"]["userInfo"]["groups"]
    assert wrong.status == 401
    assert wrong.json()["reason"] == "Unauthorized"


@pytest.mark.parametrize(
    ("context", "user"), [("control-plane", "admin"), ("control-plane-token", "token-admin")]
)
def test_each_context_of_the_kubeconfig_signs_in(
    control_plane: ControlPlane, context: str, user: str
) -> None:
    answer = control_plane.kubectl("--context", context, "auth", "whoami", "-o", "json")

    assert json.loads(answer.stdout)["status"]["userInfo"]["username"] == user


def test_a_service_account_signs_in_and_may_not_list_nodes(
    control_plane: ControlPlane, namespace: str
) -> None:
    token = control_plane.kubectl("create", "token", "default", "--namespace", namespace).stdout.strip()

    refusal = control_plane.request("GET", NODES, token=token)

    assert refusal.status == 403
    assert f"system:serviceaccount:{namespace}:default" in refusal.json()["message"]


def test_a_failing_kubectl_is_an_error_with_its_words(control_plane: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match=r'(?s)get pod none.*pods "none" not found'):
        control_plane.kubectl("get", "pod", "none")

    assert control_plane.kubectl("get", "pod", "none", check=False).returncode == 1


def test_kubectl_reads_its_input(control_plane: ControlPlane, namespace: str) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}

    control_plane.kubectl("apply", "--namespace", namespace, "-f", "-", input=json.dumps(manifest))

    stored = control_plane.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/c").json()
    assert stored["data"] == {"a": "b"}


def test_two_planes_side_by_side_share_nothing(
    control_plane: ControlPlane, other_plane: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}"

    assert control_plane.request("GET", path).status == 200
    assert other_plane.request("GET", path).status == 404
    assert other_plane.request("GET", path, token=control_plane.token).status == 401


def test_a_plane_is_up_within_a_minute_when_the_programs_are_there(
    other_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        sys.stderr.write(f"\ncontrol plane up after {other_plane.start_s:.1f} s\n")

    assert 0 < other_plane.start_s < 60


def test_the_audit_log_records_requests(other_plane: ControlPlane) -> None:
    other_plane.request("GET", "/api/v1/namespaces/audited")

    lines = [json.loads(line) for line in other_plane.audit_log.read_text(encoding="utf-8").splitlines()]
    assert "/api/v1/namespaces/audited" in [line["requestURI"] for line in lines]


def test_taken_ports_are_tried_around_and_stopping_twice_is_harmless(tmp_path: Path) -> None:
    with ExitStack() as stack:
        etcd, apiserver, manager, scheduler = (_taken_port(stack) for _ in range(4))
        # In the order of asking; etcd asks for two each time, and the last two components ask together.
        ports = iter(
            [etcd, free_port(), free_port(), free_port(), apiserver, free_port(), manager, scheduler]
        )
        plane = ControlPlane(directory=tmp_path, pick_port=lambda: next(ports, 0) or free_port())
        plane.start()
        try:
            ready = plane.request("GET", "/readyz")
            processes = plane.processes
        finally:
            plane.stop()
            plane.stop()

    assert ready.status == 200
    assert next(ports, None) is None
    assert list(processes) == COMPONENTS
    assert not [each.name for each in processes.values() if is_alive(each.pid)]
    assert not (tmp_path / "etcd-data").exists()
    assert (tmp_path / "logs" / "kube-apiserver.log").exists()
    with pytest.raises(ControlPlaneError, match="was started before"):
        plane.start()


def test_kill_9_of_the_parent_leaves_no_child() -> None:
    script = (
        "import sys, time\n"
        "from tests.e2e.controlplane import ControlPlane\n"
        "with ControlPlane() as plane:\n"
        "    print(plane.directory, *[each.pid for each in plane.processes.values()], flush=True)\n"
        "    time.sleep(100)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        directory, *words = parent.stdout.readline().split()
        pids = [int(word) for word in words]
        alive_before = [is_alive(pid) for pid in pids]

        parent.send_signal(signal.SIGKILL)

    assert alive_before == [True] * len(COMPONENTS)
    eventually(lambda: [pid for pid in pids if is_alive(pid)], "no component", holds=lambda left: not left)
    shutil.rmtree(directory)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_runs_a_plane_until_it_is_told_to_stop(
    control_plane: ControlPlane, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.controlplane", "up"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as up:
        assert up.stdout is not None
        kubeconfig = Path(up.stdout.readline().strip().removeprefix("export KUBECONFIG="))
        answer = control_plane.kubectl("--kubeconfig", kubeconfig, "get", "--raw", "/readyz")

        up.send_signal(number)
        _, talk = up.communicate(timeout=30)

    assert answer.stdout == "ok"
    assert up.returncode == 0
    assert "the control plane is up" in talk
    assert not kubeconfig.exists()


def test_kubebuilder_assets_is_used_instead_of_the_cache(tmp_path: Path) -> None:
    built = find_binaries(os.environ)

    found = find_binaries({"KUBEBUILDER_ASSETS": str(built.directory), "XDG_CACHE_HOME": str(tmp_path)})

    assert found == Binaries(built.directory)


def _taken_port(stack: ExitStack) -> int:
    taken = stack.enter_context(socket.socket())
    taken.bind(("127.0.0.1", 0))
    port: int = taken.getsockname()[1]
    return port


def _deploy(plane: ControlPlane, namespace: str, *, replicas: int) -> None:
    plane.kubectl(
        "create",
        "deployment",
        "web",
        "--image=registry.invalid/web",
        f"--replicas={replicas}",
        f"--namespace={namespace}",
    )


def _pods(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods").json()["items"]
    return items


def _condition(pod: dict[str, Any], kind: str) -> dict[str, Any]:
    conditions = pod["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def _taints(plane: ControlPlane, node: str) -> list[str]:
    spec = plane.request("GET", f"{NODES}/{node}").json()["spec"]
    return [taint["key"] for taint in spec.get("taints", [])]


def _report_ready(plane: ControlPlane, node: str) -> None:
    body = {"status": _status("True", "KubeletReady")}
    answer = plane.request("PATCH", f"{NODES}/{node}/status", body, content_type=MERGE_PATCH)
    assert answer.status == 200, answer.text


def _status(ready: str, reason: str) -> dict[str, Any]:
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": "on paper"}
    return {"capacity": resources, "allocatable": resources, "conditions": [condition]}
