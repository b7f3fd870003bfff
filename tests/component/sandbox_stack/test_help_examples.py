# SPDX-License-Identifier: Apache-2.0
"""The example against the EC2 model in ``karpenter controller --help``, typed as it stands into a shell."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from karpenter.sandbox.kube.serving.certificates import CERTIFICATE
from karpenter.sandbox.stack.calls import KubeApi
from karpenter.sandbox.stack.manifests import definitions
from tests.component.sandbox_stack.test_whole import wait_for

_PROGRAM = Path(sys.prefix) / "bin" / "karpenter"


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of an API server with our kinds."""
    path, port = tmp_path / "kubeconfig", free_port()
    token = "only-for-this-test"  # noqa: S105 - of a server that lives as long as the test
    state = tmp_path / "state"
    arguments = ["--kubeconfig-out", str(path), "--port", port, "--token", token, "--state", str(state)]
    server = subprocess.Popen([_PROGRAM, "sandbox", "kube", *arguments], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        server.stdout.readline()
        with contextlib.closing(KubeApi(f"https://127.0.0.1:{port}", token, state / CERTIFICATE)) as api:
            api.apply_all(definitions())
        yield path
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)


def example() -> list[str]:
    """The commands of the help text's second example."""
    shown = subprocess.run(
        [_PROGRAM, "controller", "--help"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    lines = shown.partition("# Against the EC2 model instead of AWS.\n")[2].partition("\n\n")[0]
    return [line.strip() for line in lines.splitlines()]


@pytest.mark.timeout(180)
def test_the_example_starts_a_controller_that_gets_ready_and_stops_as_asked(
    kubeconfig: Path, tmp_path: Path
) -> None:
    port = free_port()
    lines = [each.replace("4566", port) for each in example()]
    assert [each.split()[0] for each in lines] == ["karpenter", "export", "karpenter"]
    # The model is waited for, as a person waits for its first line; both end with the shell.
    up = f"for _ in $(seq 300); do curl -s -o /dev/null http://127.0.0.1:{port}/_model && break; sleep 0.1; done"
    script = "\n".join([lines[0], "model=$!", up, lines[1], f"exec {lines[2]}"])
    log = tmp_path / "log"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "KUBE"))}
    probes = free_port()
    with log.open("w", encoding="utf-8") as out:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", script],
            env={
                **kept,
                "PATH": f"{_PROGRAM.parent}:{os.environ['PATH']}",
                "KUBECONFIG": str(kubeconfig),
                # The usual ports may be taken on a machine that runs tests.
                "METRICS_PORT": "0",
                "HEALTH_PROBE_PORT": probes,
            },
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        ready = ["curl", "-s", "-f", f"http://127.0.0.1:{probes}/readyz"]

        def is_ready() -> bool:
            assert shell.poll() is None, log.read_text(encoding="utf-8")
            return subprocess.run(ready, capture_output=True, check=False).returncode == 0

        wait_for(is_ready, "the controller is ready", 90)
        began = time.monotonic()
        shell.send_signal(signal.SIGINT)
        assert shell.wait(timeout=30) == 0, log.read_text(encoding="utf-8")
        assert time.monotonic() - began < 30
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait(timeout=10)
