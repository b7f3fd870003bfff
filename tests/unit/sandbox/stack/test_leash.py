# SPDX-License-Identifier: Apache-2.0
"""Programs that are files on a leash; modules are in ``test_children``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from karpenter.sandbox.stack import leash

pytestmark = pytest.mark.timeout(120)

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a script under a leash; none outlives the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(script: str, *words: str, host_name: str = "") -> subprocess.Popen[bytes]:
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o700)
        arguments = leash.arguments(str(program), words, host_name=host_name, is_file=True)
        started.append(subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE))
        return started[-1]

    yield run
    for each in started:
        each.kill()
        each.communicate()


def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def test_a_file_gets_its_words_and_its_exit_code_is_passed_on(start: Start) -> None:
    process = start("echo $1 $2\nexit 7", "--one", "two")

    assert line(process) == "--one two"
    assert process.wait(60) == 7


def test_a_request_to_end_reaches_the_program(start: Start) -> None:
    process = start("trap 'echo asked; exit 3' TERM\necho up\nwhile :; do sleep 0.05; done")
    assert line(process) == "up"

    process.send_signal(signal.SIGTERM)

    assert line(process) == "asked"
    assert process.wait(60) == 3


def test_a_program_that_is_killed_ends_with_the_code_of_shells(start: Start) -> None:
    process = start("kill -9 $$")

    assert process.wait(60) == 137


@pytest.mark.skipif(
    sys.platform != "linux", reason="other kernels do not tell children of their parent's end"
)
def test_a_program_does_not_outlive_its_leash(start: Start) -> None:
    process = start("echo $$\nexec sleep 60")
    child = int(line(process))

    process.kill()

    end = time.monotonic() + 60
    while time.monotonic() < end and _lives(child):
        time.sleep(0.05)
    assert not _lives(child)


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="only root may name a host")
def test_a_program_has_the_host_name_that_it_was_given_and_others_keep_theirs(start: Start) -> None:
    before = os.uname().nodename
    process = start("uname -n", host_name="pod-1")

    # A root without that right keeps the name of the host.
    assert line(process) in {"pod-1", before}
    assert os.uname().nodename == before


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
