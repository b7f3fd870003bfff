# SPDX-License-Identifier: Apache-2.0
"""The parts of a sandbox one by one: they run until they are asked to stop, and say what they are."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from karpenter.cli import main
from karpenter.sandbox.kube.kubeconfig import write_kubeconfig
from tests.unit.sandbox.stack.serving import TOKEN, api

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.timeout(60)


@contextmanager
def stopped_once_it_listens() -> Iterator[None]:
    """Send this process SIGTERM when it has begun to listen for it, and never after the block."""
    before, over, lock = signal.getsignal(signal.SIGTERM), threading.Event(), threading.Lock()

    def send() -> None:
        while not over.wait(0.3):
            with lock:
                if not over.is_set() and signal.getsignal(signal.SIGTERM) is not before:
                    over.set()
                    os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        yield
    finally:
        with lock:
            over.set()
        sender.join()


def test_the_model_serves_until_it_is_asked_to_stop(capsys: Capture) -> None:
    with stopped_once_it_listens():
        code = main(["sandbox", "ec2", "--region", "eu-west-1"])

    told = capsys.readouterr()
    assert code == 0
    assert told.out.startswith("AWS_ENDPOINT_URL=http://127.0.0.1:")
    assert "AWS_REGION=eu-west-1" in told.err
    assert told.err.endswith("stopped\n")


def test_the_controllers_work_until_they_are_asked_to_stop(tmp_path: Path, capsys: Capture) -> None:
    with api() as (url, _), stopped_once_it_listens():
        write_kubeconfig(tmp_path / "kubeconfig", url, TOKEN)

        code = main(["sandbox", "workloads", "--kubeconfig", str(tmp_path / "kubeconfig")])

    told = capsys.readouterr()
    assert code == 0
    assert told.out == ""
    assert TOKEN not in told.err
    assert told.err.endswith("stopped\n")


def test_the_system_node_runs_until_it_is_asked_to_stop(tmp_path: Path, capsys: Capture) -> None:
    with api() as (url, _), stopped_once_it_listens():
        write_kubeconfig(tmp_path / "kubeconfig", url, TOKEN)
        where = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--state", str(tmp_path / "state"))

        code = main(["sandbox", "system-node", *where, "--program", "karpenter=karpenter"])

    told = capsys.readouterr()
    assert code == 0
    assert told.out == ""
    assert told.err.startswith("the system node of sandbox; Ctrl-C ends it\n")
    assert told.err.endswith("stopped\n")


@pytest.mark.parametrize("pair", ["karpenter", "=x", "karpenter="])
def test_a_program_without_an_image_or_the_other_way_round_is_refused(pair: str, capsys: Capture) -> None:
    assert main(["sandbox", "system-node", "--kubeconfig", "k", "--program", pair]) == 2
    assert "is not of the form IMAGE=PROGRAM" in capsys.readouterr().err


def test_a_system_node_without_its_kubeconfig_is_refused_with_a_hint(tmp_path: Path, capsys: Capture) -> None:
    assert main(["sandbox", "system-node", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "give another with --kubeconfig" in capsys.readouterr().err
