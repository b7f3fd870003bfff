# SPDX-License-Identifier: Apache-2.0
"""The command as a process: first line, exit codes, speed of start and end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from karpenter.cli import main

_PATIENCE_S = 15
_MAIN = "import sys; from karpenter.cli import main; sys.exit(main())"


@contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Starts the command and gives it with its first line."""
    command = [sys.executable, "-c", _MAIN, "sandbox", "ec2", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_ends_it_at_once(number: signal.Signals) -> None:
    with started() as (process, line):
        name, _, url = line.strip().partition("=")
        with urllib.request.urlopen(f"{url}/_model/clock", timeout=_PATIENCE_S) as answer:  # noqa: S310
            assert answer.status == 200
        begun = time.monotonic()
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=_PATIENCE_S)

    assert name == "AWS_ENDPOINT_URL"
    assert url.startswith("http://127.0.0.1:")
    assert process.returncode == 0
    assert time.monotonic() - begun < 2
    assert f"export AWS_ENDPOINT_URL={url}" in said


def test_a_scenario_is_played(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("speed: 100\nsteps:\n  - at: 10s\n    fault: {code: InternalError}\n", encoding="utf-8")

    with started("--scenario", str(path)) as (_, line):
        url = line.strip().partition("=")[2]
        deadline = time.monotonic() + _PATIENCE_S
        faults = "[]"
        while faults == "[]" and time.monotonic() < deadline:
            with urllib.request.urlopen(f"{url}/_model/faults", timeout=_PATIENCE_S) as answer:  # noqa: S310
                faults = answer.read().decode().strip()
            time.sleep(0.02)

    assert "InternalError" in faults


def test_what_was_told_survives_a_kill(tmp_path: Path) -> None:
    options = ("--journal", str(tmp_path / "journal"))

    with started(*options) as (process, line):
        url = line.strip().partition("=")[2]
        asked = urllib.request.Request(f"{url}/_model/fault", b'{"code": "InternalError"}', method="POST")  # noqa: S310
        with urllib.request.urlopen(asked, timeout=_PATIENCE_S):  # noqa: S310
            process.kill()
    with started(*options, "--speed", "0") as (_, line):
        url = line.strip().partition("=")[2]
        with urllib.request.urlopen(f"{url}/_model/faults", timeout=_PATIENCE_S) as answer:  # noqa: S310
            faults = answer.read().decode()
        with urllib.request.urlopen(f"{url}/_model/clock", timeout=_PATIENCE_S) as answer:  # noqa: S310
            clock = answer.read().decode()

    assert "InternalError" in faults
    assert '"speed":0.0' in clock


def test_a_port_in_use_is_told_with_a_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert main(["sandbox", "ec2", "--port", str(port)]) == 1

    said = capsys.readouterr()
    assert said.out == ""
    assert f"error: port {port} of 127.0.0.1 is in use" in said.err
    assert "--port" in said.err


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--region", "mars-1"], 1, "the region 'mars-1' is not known"),
        (["--cluster-version", "latest"], 2, "'latest' is not a Kubernetes version"),
        (["--speed", "-1"], 1, "speed"),
        (["--scenario", "/no/such.yaml"], 2, "/no/such.yaml"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    options: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sandbox", "ec2", *options]) == code
    assert text in capsys.readouterr().err
