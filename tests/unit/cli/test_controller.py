# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import yaml

from karpenter.cli import main


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "CLUSTER_NAME", "LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    structlog.reset_defaults()


def test_help_shows_every_setting_in_its_group_with_variable_and_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["controller", "--help"]) == 0

    shown = " ".join(capsys.readouterr().out.split())
    for group in ("Cluster and AWS:", "Deciding:", "Running:", "Logs, metrics, probes:", "Options:"):
        assert group in shown
    assert "--batch-idle-duration VALUE A batch of pods ends after so long without a new one." in shown
    assert "[BATCH_IDLE_DURATION; default 1s]" in shown
    assert "[CLUSTER_NAME]" in shown
    assert "Exit codes:" in shown


@pytest.mark.parametrize(
    ("args", "said", "hint"),
    [
        ([], "the name of the cluster is not set", "--cluster-name NAME"),
        (["--cluster-name", "x", "--log-level", "loud"], "--log-level=loud: must be one of", ""),
        (["--cluster-name", "x", "--batch-max-duration", "soon"], "--batch-max-duration=soon", "e.g."),
        (["--cluster-name", "x", "--metrics-port", "99999"], "must be from 0 to 65535", ""),
        (["--cluster-name", "x", "--log-output-paths", "/no/such/place"], "No such file", "stdout"),
    ],
)
def test_a_setting_that_makes_no_sense_ends_with_two(
    args: list[str], said: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["controller", *args]) == 2

    shown = capsys.readouterr().err
    assert said in shown
    assert hint in shown


def test_without_a_kubeconfig_it_says_what_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["controller", "--cluster-name", "x"]) == 1

    shown = capsys.readouterr().err
    assert "no kubeconfig was found" in shown
    assert "KUBECONFIG" in shown


def unreachable(directory: Path) -> Path:
    """A kubeconfig of a server that is not there."""
    path = directory / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "a",
                "contexts": [{"name": "a", "context": {"cluster": "c"}}],
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
            }
        )
    )
    return path


@pytest.mark.timeout(60)
def test_a_server_that_is_not_there_is_told_within_seconds_and_ends_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The first example of the help text, where there is no cluster."""
    log = tmp_path / "log"
    path = str(unreachable(tmp_path))
    args = ["--kubeconfig", path, "--log-output-paths", str(log), "--interruption-queue", "prod"]
    ports = ["--metrics-port", "0", "--health-probe-port", "0"]

    assert main(["controller", "--cluster-name", "prod", *args, *ports]) == 1

    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    [waiting] = [line for line in lines if line["message"].startswith("waiting for the API server")]
    assert waiting["server"] == "http://127.0.0.1:9"
    assert "--kubeconfig" in waiting["hint"]
    shown = capsys.readouterr().err
    assert "error: http://127.0.0.1:9 gave no answer" in shown
    assert f"hint:  the address comes from {path}, context a" in shown


def test_a_port_that_is_taken_ends_with_one_and_logs_go_where_they_are_sent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, log = unreachable(tmp_path), tmp_path / "log"
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))  # noqa: S104 - where the controller listens
        taken.listen()
        port = str(taken.getsockname()[1])
        args = ["--kubeconfig", str(path), "--metrics-port", port, "--log-output-paths", str(log)]

        assert main(["controller", "--cluster-name", "x", *args]) == 1

    assert f"port {port} cannot be used" in capsys.readouterr().err
    assert "starting" in log.read_text()


def test_crds_are_printed_for_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds"]) == 0

    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert len(found) == 8
    assert {each["kind"] for each in found} == {"CustomResourceDefinition"}
