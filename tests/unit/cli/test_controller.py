# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

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


def test_a_port_that_is_taken_ends_with_one_and_logs_go_where_they_are_sent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, log = tmp_path / "kubeconfig", tmp_path / "log"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "a",
                "contexts": [{"name": "a", "context": {"cluster": "c"}}],
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
            }
        )
    )
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
