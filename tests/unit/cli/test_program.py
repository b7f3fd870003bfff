# SPDX-License-Identifier: Apache-2.0
"""What people are told to type is what works in their shell."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from karpenter.cli.program import program


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment that this process runs from, with our program in it, and no other."""
    directory = tmp_path / "own env" / "bin"
    directory.mkdir(parents=True)
    script = directory / "karpenter"
    script.write_text("#!/bin/sh\necho ours\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(directory.parent))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return script


def test_a_program_that_is_not_on_the_path_is_called_by_its_whole_path(own: Path) -> None:
    assert program() == program(anew=True) == f"'{own}'"
    said = subprocess.run(
        ["/bin/sh", "-c", f"{program()} sandbox up"],
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
        capture_output=True,
        check=True,
    )
    assert said.stdout == b"ours\n"


def test_a_program_that_is_on_the_path_is_called_by_its_name(
    own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    link = tmp_path / "bin"
    link.mkdir()
    (link / "karpenter").symlink_to(own)
    monkeypatch.setenv("PATH", f"{link}:/usr/bin")

    assert program() == program(anew=True) == "karpenter"


def test_an_active_environment_is_not_active_in_a_new_terminal(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(own.parent.parent))
    monkeypatch.setenv("PATH", f"{own.parent}:/usr/bin")

    assert program() == "karpenter"
    assert program(anew=True) == f"'{own}'"


def test_another_karpenter_on_the_path_is_not_taken_for_ours(
    own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "karpenter").write_text("#!/bin/sh\necho other\n", encoding="utf-8")
    (other / "karpenter").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}:/usr/bin")

    assert program() == f"'{own}'"


def test_without_a_script_the_interpreter_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    assert program() == f"{shlex.quote(sys.executable)} -m karpenter"
