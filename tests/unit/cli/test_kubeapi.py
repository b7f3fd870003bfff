# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path

import pytest
import yaml

from karpenter.cli import main

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.timeout(60)


def test_it_serves_with_the_token_of_the_environment_until_it_is_asked_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("KARPENTER_SANDBOX_TOKEN", "from-outside")
    target = tmp_path / "kubeconfig"

    over = threading.Event()

    def when_it_serves() -> None:
        while not over.wait(0.05):
            # The file is written after the program has begun to listen for the signal.
            if target.exists() and target.read_text(encoding="utf-8"):
                over.set()
                os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=when_it_serves, daemon=True)
    sender.start()
    try:
        code = main(["sandbox", "kube", "--kubeconfig-out", str(target), "--state", str(tmp_path / "state")])
    finally:
        over.set()
        sender.join()

    told = capsys.readouterr()
    written = yaml.safe_load(target.read_text(encoding="utf-8"))
    assert code == 0
    assert told.out == f"KUBECONFIG={target}\n"
    assert written["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")
    assert written["users"][0]["user"] == {"token": "from-outside"}
    assert "from-outside" not in told.err
    assert (tmp_path / "state" / "snapshot.json").exists()


def test_files_and_ports_that_cannot_be_used_are_told(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "tokens").write_text("only-a-token\n", encoding="utf-8")

    assert main(["sandbox", "kube", "--state", str(tmp_path / "file" / "below")]) == 2
    assert "cannot hold the state" in capsys.readouterr().err
    assert main(["sandbox", "kube", "--token-file", str(tmp_path / "tokens")]) == 2
    assert "tokens" in capsys.readouterr().err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["sandbox", "kube", "--port", str(taken.getsockname()[1])]) == 2
    assert "is in use" in capsys.readouterr().err
