# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from karpenter.cli.demo import story
from karpenter.cli.demo.deciding import Meter
from karpenter.cli.demo.screen import Screen
from karpenter.cli.demo.story import DemoError, Stage, Story
from karpenter.sandbox.stack.errors import StoppedError
from tests.unit.cli.demo.objects import PaperCluster


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "_LOOK_S", 0.001)
    monkeypatch.setattr(story, "_SHRINK_S", 0.2)
    monkeypatch.setattr(story, "_GROW_S", 0.5)
    monkeypatch.setattr(shutil, "which", lambda _: None)


def staged(cluster: Any, tmp_path: Path, told: threading.Event | None = None) -> tuple[Stage, io.StringIO]:
    out = io.StringIO()
    stage = Stage(
        cluster,
        cluster,
        Meter([]),
        screen=Screen(out),
        told=told or threading.Event(),
        kubeconfig=tmp_path / "kubeconfig",
    )
    return stage, out


def test_it_grows_to_two_nodes_and_shrinks_to_none(tmp_path: Path) -> None:
    cluster = PaperCluster()
    stage, out = staged(cluster, tmp_path)

    Story(stage, "us-west-2", tmp_path).play()

    shown = out.getvalue()
    assert cluster.applied == ["NodePool", "EC2NodeClass", "Namespace", "Deployment"]
    assert [line for line in shown.splitlines() if line.startswith("▸")] == [
        "▸ kubectl apply -f inflate.yaml",
        *(f"▸ kubectl scale -n other deployment/inflate --replicas {count}" for count in (5, 12, 5, 1, 0)),
    ]
    assert "12/12 pods running" in shown
    assert "c5.large is cheaper ($0.085/h) but holds 3 of 6 pods" in shown
    assert "what it costs   $0.192/h  $140.16/month" in shown
    assert "the bill follows        $0.192/h to $0.096/h" in shown
    assert "the bill follows        $0.096/h to $0.085/h" in shown
    assert "from $0.192/h at the peak to $0.000/h; kept at its peak it would cost $140.16/month" in shown
    assert (tmp_path / "inflate.yaml").exists()


def test_where_nothing_removes_nodes_it_says_so_and_deletes_them(tmp_path: Path) -> None:
    stage, out = staged(PaperCluster(removes=False), tmp_path)

    Story(stage, "us-west-2", tmp_path).play()

    shown = out.getvalue()
    assert "no node was removed     within 0.2 s; $0.192/h" in shown
    assert "▸ kubectl delete nodeclaims --all" in shown
    assert "gone" in shown


def test_pods_that_never_run_end_it_with_a_hint(tmp_path: Path) -> None:
    stage, _ = staged(PaperCluster(works=False), tmp_path)

    with pytest.raises(DemoError, match="0 of 5 pods ran") as refused:
        Story(stage, "us-west-2", tmp_path).play()

    assert "status" in refused.value.hint


def test_the_user_may_want_no_more(tmp_path: Path) -> None:
    told = threading.Event()
    told.set()
    stage, _ = staged(PaperCluster(works=False), tmp_path, told)

    with pytest.raises(StoppedError):
        Story(stage, "us-west-2", tmp_path).play()
    with pytest.raises(StoppedError):
        stage.pause(10)


def test_kubectl_is_used_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []

    def run(words: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        called.append((words, how["env"]["KUBECONFIG"]))
        return subprocess.CompletedProcess(words, 0 if "get" in words else 1, "", "no such thing\n")

    monkeypatch.setattr(shutil, "which", lambda _: "/bin/kubectl")
    monkeypatch.setattr(subprocess, "run", run)
    stage, out = staged(PaperCluster(), tmp_path)

    stage.kubectl("get", "nodes", otherwise=lambda: pytest.fail("kubectl is there"))
    with pytest.raises(DemoError, match="kubectl dance: no such thing"):
        stage.kubectl("dance", otherwise=lambda: None)

    assert called[0] == (["/bin/kubectl", "get", "nodes"], str(tmp_path / "kubeconfig"))
    assert "▸ kubectl get nodes" in out.getvalue()
