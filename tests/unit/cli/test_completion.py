# SPDX-License-Identifier: Apache-2.0
"""Completion in shells: the script of bash is run by bash, those of zsh and fish by what they ask of the program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from karpenter.cli import main


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with our program on the PATH."""
    directory = tmp_path_factory.mktemp("bin")
    program = directory / "karpenter"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m karpenter "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}


def in_bash(environ: dict[str, str], *words: str) -> list[str]:
    """What bash offers for the last of some words, by the script that we print for it."""
    listed = " ".join(f"'{word}'" for word in words)
    script = f"""
        source <(karpenter completion bash)
        complete -p karpenter >/dev/null || exit 9
        COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}
        _karpenter_completion karpenter
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_options_and_values_at_every_level(environ: dict[str, str]) -> None:
    assert in_bash(environ, "karpenter", "c") == ["controller", "crds", "convert", "completion"]
    assert in_bash(environ, "karpenter", "sandbox", "sc") == ["scenario"]
    assert in_bash(environ, "karpenter", "controller", "--cluster-n") == ["--cluster-name"]
    assert in_bash(environ, "karpenter", "completion", "") == ["bash", "zsh", "fish"]
    assert in_bash(environ, "karpenter", "solve", "-o", "j") == ["json"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_are_answered_what_they_ask(shell: str, environ: dict[str, str]) -> None:
    words = {"zsh": ("karpenter sandb", "1"), "fish": ("karpenter sandb", "sandb")}[shell]
    asked = {**environ, "_KARPENTER_COMPLETE": f"{shell}_complete"}

    done = subprocess.run(
        [shutil.which("karpenter", path=environ["PATH"]) or ""],
        env={**asked, "COMP_WORDS": words[0], "COMP_CWORD": words[1]},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "sandbox" in done.stdout
    assert "A cluster with its AWS account on this machine" in done.stdout
    assert "convert" not in done.stdout


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", "complete -o nosort -F _karpenter_completion karpenter"),
        ("zsh", "#compdef karpenter"),
        ("fish", "complete --no-files --command karpenter"),
    ],
)
def test_the_script_registers_itself_for_the_program(
    shell: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0

    script = capsys.readouterr().out
    assert words in script
    assert f"_KARPENTER_COMPLETE={shell}_complete" in script


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_shell_that_is_installed_reads_its_script(shell: str, tmp_path: Path) -> None:
    """Where the shell is not installed the script's text is all there is to look at, above."""
    program = shutil.which(shell)
    script = tmp_path / "script"
    done = subprocess.run(
        [sys.executable, "-m", "karpenter", "completion", shell], capture_output=True, check=True, timeout=60
    )
    script.write_bytes(done.stdout)

    if program is not None:
        subprocess.run([program, "-n", str(script)], check=True, timeout=60)
    assert script.read_text(encoding="utf-8").count("karpenter") > 3


def test_completing_the_first_word_imports_no_command(environ: dict[str, str]) -> None:
    """A TAB must be quick: what a command needs is imported when the command is there."""
    asked = (
        "import sys; from karpenter.cli import main; import click; from karpenter.cli.main import karpenter\n"
    )
    asked += "karpenter.shell_complete(click.Context(karpenter), '')\n"
    asked += "print([name for name in sys.modules if name in ('boto3', 'aiohttp', 'yaml')])"

    done = subprocess.run(
        [sys.executable, "-c", asked], env=environ, capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "[]\n"
