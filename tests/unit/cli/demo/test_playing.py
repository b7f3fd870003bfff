# SPDX-License-Identifier: Apache-2.0
"""The command around the story, with tiny programs in place of the sandbox's."""

from __future__ import annotations

import functools
import io
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from karpenter.cli import main
from karpenter.cli.demo import playing as module
from karpenter.cli.demo import story
from karpenter.cli.demo.deciding import Meter
from karpenter.cli.demo.screen import Screen
from karpenter.cli.demo.story import DemoError, Stage
from karpenter.sandbox.stack import children
from karpenter.sandbox.stack.errors import CallError, StackError, StoppedError
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.lifecycle import Stack
from tests.unit.cli.demo.objects import PaperCluster
from tests.unit.sandbox.stack.programs import programs

# Programs are started, which takes its time on a machine that does other things.
pytestmark = pytest.mark.timeout(120)

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo's sandbox lives, made of tiny programs."""
    monkeypatch.setenv("KARPENTER_SANDBOX_HOME", str(tmp_path))
    monkeypatch.setattr(module, "Stack", functools.partial(Stack, programs=programs()))
    return tmp_path


def told_as(monkeypatch: pytest.MonkeyPatch, play: Callable[[], None]) -> None:
    """Put another story in place of the demo's."""

    class Told:
        def __init__(self, *_: Any) -> None:
            pass

        def play(self) -> None:
            play()

    monkeypatch.setattr(module, "Story", Told)


def test_it_starts_plays_and_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    seen: list[bool] = []
    told_as(monkeypatch, lambda: seen.append(children.is_alive(Home(root, "demo"), "kube")))
    monkeypatch.setattr(shutil, "which", lambda _, **_more: None)

    assert main(["demo", "--yes"]) == 0

    shown = capsys.readouterr().out
    assert seen == [True]
    assert "starting a tiny kube (kube)" in shown
    assert "karpenter sandbox is up after" in shown
    assert "kubectl is not installed" in shown
    assert "all processes have ended and no port is open" in shown
    assert not (root / "demo").exists()


def test_the_closing_hint_works_as_typed_in_a_new_terminal(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    told_as(monkeypatch, lambda: None)
    assert main(["demo", "--yes"]) == 0
    hint = capsys.readouterr().out.splitlines()[-1]
    assert "sandbox up --default-pool" in hint

    # All that a new terminal has; --help instead of a second sandbox.
    typed = hint.replace("    #", " --help    #")
    done = subprocess.run(
        ["/bin/sh", "-c", typed],
        env={"PATH": "/usr/bin:/bin", "HOME": str(root)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: karpenter sandbox up ")


def test_a_user_who_wants_no_more_gets_130(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        raise StoppedError("stopped")

    told_as(monkeypatch, stop)

    assert main(["demo", "--yes"]) == 130
    assert not (root / "demo").exists()


def test_what_did_not_happen_in_time_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail() -> None:
        raise DemoError("nothing happened", hint="look again")

    told_as(monkeypatch, fail)

    assert main(["demo"]) == 1
    assert "error: nothing happened\nhint:  look again\n" in capsys.readouterr().err
    assert not (root / "demo").exists()


def test_two_demos_may_run_side_by_side(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    told_as(monkeypatch, lambda: None)

    with Stack(Home(root, "demo")).owning():
        assert main(["demo", "--yes"]) == 0

    assert f"{root}/demo-2/kubeconfig" in capsys.readouterr().out


def test_there_is_an_end_to_how_many(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_DEMOS", 1)

    with (
        Stack(Home(root, "demo")).owning(),
        pytest.raises(StackError, match="1 demos run at once"),
        module._stage(threading.Event(), lambda _: None),
    ):
        pass


def test_handed_over_it_tells_what_the_user_does_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, told = io.StringIO(), threading.Event()

    class Cluster(PaperCluster):
        looks = 0

        def items(self, path: str, query: Any = None) -> list[dict[str, Any]]:
            self.looks += 1
            if self.looks == 1:
                self.replicas = 2
            if self.looks == 30:
                raise CallError("the API is gone")
            if self.looks > 40:
                told.set()
            return super().items(path, query)

    cluster = Cluster()
    stage = Stage(
        cluster,  # type: ignore[arg-type]
        cluster,  # type: ignore[arg-type]
        Meter([]),
        screen=Screen(out),
        told=told,
        kubeconfig=tmp_path / "kubeconfig",
    )
    monkeypatch.setattr(module, "_RETRY_S", 0.01)
    monkeypatch.setattr(story, "_LOOK_S", 0.01)

    module._hand_over(stage, Stack(Home(tmp_path, "demo")))

    shown = out.getvalue()
    assert "It is yours now" in shown
    assert f"export KUBECONFIG={tmp_path}/demo/kubeconfig" in shown
    assert "2 pods pending" in shown
    assert "the API does not answer" in shown
