# SPDX-License-Identifier: Apache-2.0
"""The commands about a whole sandbox, with tiny programs in place of its own."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from karpenter.cli import main
from karpenter.cli import scenarios as scenarios_command
from karpenter.cli import stack as stack_command
from karpenter.cli.program import program
from karpenter.sandbox.stack import children
from karpenter.sandbox.stack.home import Home, homes
from karpenter.sandbox.stack.lifecycle import Stack
from karpenter.sandbox.stack.record import Child
from tests.unit.sandbox.stack.programs import programs

Capture = pytest.CaptureFixture[str]
# Programs are started, which takes its time on a machine that does other things.
pytestmark = pytest.mark.timeout(120)


@contextmanager
def signalled(number: signal.Signals, when: Callable[[], bool]) -> Iterator[None]:
    """Send this process a signal as soon as something is so, and never after the block."""
    over, lock = threading.Event(), threading.Lock()

    def send() -> None:
        while not over.wait(0.05):
            with lock:
                if not over.is_set() and when():
                    over.set()
                    os.kill(os.getpid(), number)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        yield
    finally:
        with lock:
            over.set()
        sender.join()


def listens(number: signal.Signals) -> bool:
    """Tell whether somebody listens for a signal; until then it would end the test run."""
    return "hear" in getattr(signal.getsignal(number), "__name__", "")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Sandboxes of tiny programs, which do not outlive the test."""

    def stack_of(name: str, told: threading.Event | None = None) -> Stack:
        stopped: Callable[[], bool] = told.is_set if told is not None else lambda: False
        return Stack(Home(tmp_path, name), programs=programs(), stopped=stopped)

    monkeypatch.setenv("KARPENTER_SANDBOX_HOME", str(tmp_path))
    monkeypatch.setattr(stack_command, "stack_of", stack_of)
    monkeypatch.setattr(scenarios_command, "stack_of", stack_of)
    yield tmp_path
    for home in homes(tmp_path):
        Stack(home, programs=programs()).down(keep=False)


def test_up_prints_what_a_shell_can_take_and_says_what_to_type_next(root: Path, capsys: Capture) -> None:
    assert main(["sandbox", "up"]) == 0

    told = capsys.readouterr()
    assert told.out == f"export KUBECONFIG={root}/default/kubeconfig\n"
    assert "is up  (API https://127.0.0.1:" in told.err
    assert "prices are the list prices of us-east-1: those of us-west-2 are not known here" in told.err
    assert "karpenter sandbox down" in told.err

    assert main(["sandbox", "up"]) == 0
    assert "was up already, all 3 processes" in capsys.readouterr().err


def test_without_kubectl_it_says_how_else_to_ask(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _, **_more: None)

    assert main(["sandbox", "up", "--name", "bare"]) == 0

    said = capsys.readouterr().err
    assert "kubectl is not installed" in said
    assert "/bare/kube/tls.crt -H 'Authorization: Bearer " in said
    assert "karpenter sandbox down --name bare" in said


def test_status_tells_of_each_process_and_up_mends(root: Path, capsys: Capture) -> None:
    main(["sandbox", "up", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    pid = next(each["pid"] for each in document["processes"] if each["name"] == "ec2")

    assert main(["sandbox", "status"]) == 0
    assert capsys.readouterr().out.startswith("default: up   KUBECONFIG=")

    os.kill(pid, signal.SIGKILL)
    children._wait(Home(root), [("ec2", Child(pid=pid, started=datetime.now(UTC)))], 1e9)

    assert main(["sandbox", "status", "--name", "default"]) == 1
    shown = capsys.readouterr().out
    assert "default: partly up" in shown
    assert [line.split()[:2] for line in shown.splitlines()[2:]] == [
        ["kube", "running"],
        ["ec2", "dead"],
        ["kubelets", "running"],
    ]

    assert main(["sandbox", "up"]) == 0
    assert "is mended: ec2 started again" in capsys.readouterr().err
    assert main(["sandbox", "status", "-o", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["state"] == "up"
    assert all(each["running"] for each in found["processes"])


def test_down_ends_it_and_keeps_what_it_is_asked_to(capsys: Capture) -> None:
    main(["sandbox", "up", "--keep"])
    capsys.readouterr()

    assert main(["sandbox", "down", "-o", "json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["kept"] is True
    assert "3 processes ended" in told.err
    assert main(["sandbox", "status"]) == 1
    assert f"kept; '{program()} sandbox up' brings it back" in capsys.readouterr().out

    assert main(["sandbox", "down", "--no-keep"]) == 0
    assert main(["sandbox", "status"]) == 1
    assert "there is no sandbox" in capsys.readouterr().err
    assert main(["sandbox", "down"]) == 1
    assert "hint:  karpenter sandbox up" in capsys.readouterr().err


def test_reset_asks_first(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    main(["sandbox", "up"])
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))

    assert main(["sandbox", "reset"]) == 130
    assert main(["sandbox", "reset", "--yes", "-o", "json"]) == 0

    told = capsys.readouterr()
    assert json.loads(told.out)["state"] == "up"
    assert "is empty" in told.err


def test_a_port_that_is_taken_is_told_with_a_way_out(capsys: Capture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        assert main(["sandbox", "up", "--port", str(taken.getsockname()[1])]) == 1

    said = capsys.readouterr().err
    assert "is in use by another program" in said
    assert "hint:  " in said


def test_other_options_than_those_it_runs_with_are_refused(capsys: Capture) -> None:
    main(["sandbox", "up"])

    assert main(["sandbox", "up", "--replicas", "2"]) == 1

    assert "is up with replicas 1, not 2" in capsys.readouterr().err


def test_a_name_that_cannot_be_is_refused(capsys: Capture) -> None:
    assert main(["sandbox", "status", "--name", "Me & You"]) == 1
    assert "cannot be the name of a sandbox" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_a_signal_ends_all_of_it(
    root: Path, number: signal.Signals, capsys: Capture
) -> None:
    home = Home(root)

    def is_up() -> bool:
        return listens(number) and home.record.exists() and children.is_alive(home, "kubelets")

    with signalled(number, is_up):
        code = main(["sandbox", "up", "--foreground"])

    assert code in {0, 1}  # told while it started, or after
    assert not any(children.is_alive(Home(root), name) for name in ("kube", "ec2", "kubelets"))
    assert not (root / "default").exists()
    assert "stopped" in capsys.readouterr().err


def test_in_the_foreground_a_death_is_told_with_what_to_do(capsys: Capture) -> None:
    stack = stack_command.stack_of("default")
    told = threading.Event()
    main(["sandbox", "up"])
    children.kill(stack.home, "ec2", stack.status().record.children["ec2"])
    threading.Timer(1.2, told.set).start()

    stack_command._watch(stack, told)

    said = capsys.readouterr().err
    assert said.count("ec2 has ended") == 1
    assert f"'{program()} sandbox up' starts it again" in said


def test_ages_are_short() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ages = [
        timedelta(seconds=5),
        timedelta(minutes=3),
        timedelta(hours=5),
        timedelta(days=3),
        timedelta(seconds=-1),
    ]

    assert [stack_command._age(now - each, lambda: now) for each in ages] == ["5s", "3m", "5h", "3d", "0s"]


def test_the_command_finds_its_sandbox_by_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("KARPENTER_SANDBOX_HOME", str(root))

    assert stack_command.stack_of("mine").home.directory == root / "mine"


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "faults.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_scenario_is_played_step_by_step(tmp_path: Path, capsys: Capture) -> None:
    file = written(
        tmp_path,
        "steps:\n  - say: {text: here we go}\n  - {at: 200ms, kill: {process: kubelets}}\n"
        "  - {at: 300ms, kill: {process: kubelets}}\n",
    )
    main(["sandbox", "up"])
    capsys.readouterr()

    assert main(["sandbox", "scenario", file]) == 1

    told = capsys.readouterr()
    assert told.out.splitlines()[0] == "  0:00  say          here we go"
    assert "process kubelets  (pid " in told.out
    assert "warning: line 4: kubelets does not run" in told.err
    assert "2 of 3 steps done" in told.err


def test_a_scenario_as_json(tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, "steps:\n  - say: {text: here we go}\n")
    main(["sandbox", "up"])
    capsys.readouterr()

    assert main(["sandbox", "scenario", file, "-o", "json"]) == 0

    [step] = json.loads(capsys.readouterr().out)
    assert (step["action"], step["line"], step["done"]) == ("say", 2, True)


def test_a_scenario_may_be_interrupted(tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, "steps:\n  - say: {text: one}\n  - {at: 1h, say: {text: two}}\n")
    main(["sandbox", "up"])
    with signalled(signal.SIGINT, lambda: listens(signal.SIGINT)):
        assert main(["sandbox", "scenario", file]) == 130

    assert "what was done stays done" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("steps:\n  - say: {txt: one}\n", 2, "faults.yaml:2: say:"),
        ("steps:\n  - say: {text: one}\n", 0, "1 steps, nothing is wrong"),
    ],
)
def test_a_scenario_is_checked_without_a_sandbox(
    tmp_path: Path, text: str, code: int, words: str, capsys: Capture
) -> None:
    assert main(["sandbox", "scenario", written(tmp_path, text), "--check"]) == code
    assert words in capsys.readouterr().err


def test_a_scenario_needs_a_sandbox_that_runs(tmp_path: Path, capsys: Capture) -> None:
    assert main(["sandbox", "scenario", written(tmp_path, "steps: []\n"), "--name", "nobody"]) == 1
    assert "there is no sandbox 'nobody'" in capsys.readouterr().err


def test_one_that_was_killed_comes_back_with_what_was_in_it_and_says_what_is_lost(
    root: Path, capsys: Capture
) -> None:
    main(["sandbox", "up", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    home = Home(root, "default")
    for each in document["processes"]:
        children.kill(home, each["name"], Child(pid=each["pid"], started=datetime.now(UTC)))

    assert main(["sandbox", "up"]) == 0

    said = capsys.readouterr().err
    assert "is up again, with what was in it: 0 nodes, 0 pods, 0 instances  (API https://" in said
    # The tiny model writes nothing down.
    assert f"warning: what was in the account is lost: there is no trace of it in {home.directory}" in said


def test_what_is_in_it_is_counted_without_the_system_node_and_its_pods(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cluster:
        def items(self, path: str) -> list[dict[str, Any]]:
            if path.endswith("nodes"):
                own = {"name": "own", "labels": {"eks.amazonaws.com/nodegroup": "system"}}
                return [{"metadata": own}, *({"metadata": {"name": each}} for each in ("a", "b"))]
            return [{"spec": {"nodeName": each}} for each in ("own", "a", "a", "b", "b")] + [{"spec": {}}]

        def state(self) -> object:
            return {"ec2": {"instances": [{"state": each} for each in ("running", "terminated", "pending")]}}

        def close(self) -> None:
            """Nothing is open."""

    stack = Stack(Home(root, "default"))
    monkeypatch.setattr(Stack, "kube", lambda _: Cluster())
    monkeypatch.setattr(Stack, "model", lambda _: Cluster())

    assert stack_command._contents(stack) == "2 nodes, 5 pods, 2 instances"


@pytest.mark.usefixtures("root")
def test_a_cluster_of_any_name_and_version_with_settings_of_the_controller(capsys: Capture) -> None:
    arguments = ("--cluster-name", "prod", "--kubernetes-version", "1.32", "--region", "ap-northeast-2")
    settings = (
        "--feature-gates",
        "NodeRepair=true",
        "--set",
        "LOG_LEVEL=debug",
        "--set",
        "--batch-max-duration=5s",
    )

    assert main(["sandbox", "up", *arguments, *settings, "-o", "json"]) == 0

    told = capsys.readouterr()
    document = json.loads(told.out)
    assert (document["clusterName"], document["kubernetesVersion"]) == ("prod", "1.32")
    assert document["prices"] == "us-east-1"
    assert document["settings"] == {
        "feature-gates": "NodeRepair=true",
        "log-level": "debug",
        "batch-max-duration": "5s",
    }
    assert "those of ap-northeast-2 are not known here" in told.err

    assert main(["sandbox", "up", "--cluster-name", "other"]) == 1
    assert "is up with cluster name prod, not other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "log-levle=debug"), ("no setting of that name", "did you mean log-level?")),
        (("--set", "qqqqq=1"), ("no setting of that name", "karpenter controller --help")),
        (("--set", "log-level"), ("there is no value", "--set log-level=VALUE")),
        (("--set", "log-level=loud"), ("--log-level=loud", "")),
        (("--set", "cluster-name=x"), ("the sandbox decides this itself", "use --cluster-name")),
        (
            ("--feature-gates", "NodeRepair=true", "--set", "feature-gates=NodeRepair=false"),
            ("--feature-gates is given twice", "give it once"),
        ),
        (("--cluster-name", "a b"), ("is not a name that EKS takes", "")),
        (("--kubernetes-version", "v1.32"), ("'v1.32' is not a Kubernetes version such as 1.33", "")),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_started(
    root: Path, capsys: Capture, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert main(["sandbox", "up", *arguments]) == 2

    said = capsys.readouterr().err
    assert all(each in said for each in words)
    assert homes(root) == []
