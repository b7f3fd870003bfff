# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from karpenter.errors import KarpenterError
from tests.upstream import planes
from tests.upstream.planes import PlaneOptions, started


class Commands:
    """Commands that were given, and a sandbox that answers them."""

    def __init__(self, home: Path) -> None:
        self.lines: list[str] = []
        self.home = home

    def __call__(self, command: list[str], _environ: Mapping[str, str]) -> str:
        self.lines.append(" ".join(command))
        if "up" not in command:
            return ""
        logs = self.home / "logs" / "pods"
        logs.mkdir(parents=True)
        (logs / "0.log").write_text("leading\n")
        where = {"kubeconfig": str(self.home / "kubeconfig"), "ec2": "http://ec2", "server": "https://kube"}
        return json.dumps(where)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    found = Commands(tmp_path / "home")
    monkeypatch.setattr(planes, "_run", found)
    monkeypatch.setattr(planes, "prepare_account", lambda *_, **__: None)
    return found


def test_a_suite_is_told_where_cluster_and_account_are(commands: Commands, tmp_path: Path) -> None:
    with started("one", PlaneOptions(), {"HOME": "/home"}, tmp_path / "logs") as environ:
        assert environ["KUBECONFIG"] == str(commands.home / "kubeconfig")
        assert environ["AWS_ENDPOINT_URL"] == "http://ec2"
        assert environ["CLUSTER_ENDPOINT"] == "https://kube"
        assert environ["CLUSTER_NAME"] == environ["INTERRUPTION_QUEUE"] == "sandbox"
        assert environ["HOME"] == "/home"

    assert "up --name one" in commands.lines[0]
    assert "--controller-namespace kube-system" in commands.lines[0]
    assert "--set min-values-policy=Strict" in commands.lines[0]
    assert "--controller-program" not in commands.lines[0]
    assert "down --name one" in commands.lines[-1]


def test_the_original_takes_the_place_of_our_controller(commands: Commands, tmp_path: Path) -> None:
    options = PlaneOptions(controller="go", go_program=Path("/go/controller"), min_values_policy="BestEffort")

    with started("one", options, {}, tmp_path / "logs"):
        pass

    assert "--controller-program /go/controller" in commands.lines[0]
    assert "--set min-values-policy=BestEffort" in commands.lines[0]


def test_logs_are_kept_and_the_plane_is_taken_down_when_a_spec_breaks(
    commands: Commands, tmp_path: Path
) -> None:
    with pytest.raises(KarpenterError), started("one", PlaneOptions(), {}, tmp_path / "logs"):
        raise KarpenterError("broken")

    assert (tmp_path / "logs" / "pods" / "0.log").read_text() == "leading\n"
    assert "down --name one" in commands.lines[-1]


def test_a_command_that_fails_says_what_it_said(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho no room >&2\nexit 1\n")
    program.chmod(0o755)

    with pytest.raises(KarpenterError, match="failed: no room"):
        planes._run([str(program)], {})
