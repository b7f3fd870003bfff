# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from karpenter.cli import output
from karpenter.cli.main import run

KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG, encoding="utf-8")
    return str(path)


def kubelets(*options: str) -> int:
    return run(["sandbox", "kubelets", "--ec2", "http://127.0.0.1:1", *options])


def test_the_kubelets_run_until_they_are_asked_to_stop(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def hear(text: str, _label: str = "") -> None:
        said.append(text)
        # Not before: until the program listens for the signal, it would end the test run.
        if "cannot ask the EC2 model" in text:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(output, "say", hear)

    code = kubelets("--kubeconfig", kubeconfig, "--join-delay", "5s", "--speed", "2")

    assert code == 0
    assert capsys.readouterr().out == ""
    assert said[0] == "the kubelets of http://127.0.0.1:1 at 127.0.0.1:1; Ctrl-C ends them"
    assert said[-1] == "stopped"


def test_a_kubeconfig_that_is_not_there_is_an_error_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = kubelets("--kubeconfig", str(tmp_path / "none"))

    assert code == 2
    assert "give another with --kubeconfig" in capsys.readouterr().err


def test_a_delay_needs_its_unit(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = kubelets("--kubeconfig", kubeconfig, "--join-delay", "5")

    assert code == 2
    assert "--join-delay" in capsys.readouterr().err
