# SPDX-License-Identifier: Apache-2.0
"""``karpenter sandbox kube`` as a process: what it prints, what it keeps, how it ends."""

from __future__ import annotations

import base64
import json
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

_MAIN = "from karpenter.cli import main; raise SystemExit(main())"
_COMMAND = [sys.executable, "-c", _MAIN, "sandbox", "kube"]


@contextmanager
def _running(*options: str | Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [*_COMMAND, *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)


def _send(first_line: str, path: str, body: object = None) -> dict[str, object]:
    kubeconfig = Path(first_line.removeprefix("KUBECONFIG=")).read_text(encoding="utf-8")
    cluster = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode("ascii")
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
    request = urllib.request.Request(cluster["server"] + path, data=data, headers=headers)  # noqa: S310
    trusting = ssl.create_default_context(cadata=authority)
    with urllib.request.urlopen(request, timeout=5, context=trusting) as answer:  # noqa: S310
        told: dict[str, object] = json.load(answer)
    return told


def test_the_first_line_is_the_setting_and_ctrl_c_ends_it_soon(tmp_path: Path) -> None:
    target = tmp_path / "kubeconfig"

    with _running("--token", "secret", "--kubeconfig-out", target) as (line, process):
        version = _send(line, "/version")
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=10)
        took_s = time.monotonic() - begun

    assert line == f"KUBECONFIG={target}"
    assert str(version["gitVersion"]).startswith("v1.34")
    assert code == 0
    assert took_s < 2


def test_the_cluster_is_kept_across_restarts_on_request(tmp_path: Path) -> None:
    options = ("--token", "secret", "--state", tmp_path / "state")
    maps = "/api/v1/namespaces/default/configmaps"

    with _running(*options) as (line, _):
        _send(line, maps, {"metadata": {"name": "kept"}})
    with _running(*options) as (line, _):
        found = _send(line, f"{maps}/kept")

    assert found["kind"] == "ConfigMap"


def test_a_state_that_is_in_use_is_refused(tmp_path: Path) -> None:
    with _running("--state", tmp_path):
        second = subprocess.run(
            [*_COMMAND, "--state", tmp_path], capture_output=True, text=True, timeout=15, check=False
        )

    assert second.returncode != 0
    assert "in use by another sandbox" in second.stderr
