# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from typing import Any

import click
import pytest

from karpenter import __version__
from karpenter.cli import main
from karpenter.cli.main import karpenter
from karpenter.errors import KarpenterError


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes every command line fail with the given exception."""

    def fail_with(error: BaseException) -> None:
        def run(*_args: Any, **_options: Any) -> None:
            raise error

        monkeypatch.setattr(karpenter, "main", run)

    return fail_with


def test_the_version_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"karpenter {__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0

    shown = capsys.readouterr().out
    assert "convert     Rewrite manifests of old Karpenter versions as v1." in shown
    assert "demo        Show the product at work" in shown


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["convert"], "error: Missing option '-f' / '--filename'"),
        (["convert", "-f", "-", "-o", "xml"], "error: Invalid value for '-o' / '--output'"),
    ],
)
def test_a_command_line_that_cannot_be_read_ends_with_two_and_a_hint(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2

    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(said)
    assert "hint:  see 'karpenter" in shown.err


def test_an_error_of_ours_is_printed_with_its_hint(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    failing(KarpenterError("it broke", hint="mend it"))

    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "error: it broke\nhint:  mend it\n"


def test_an_interruption_ends_with_130(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    failing(click.Abort())

    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_a_mistake_of_ours_is_a_sentence_and_not_a_traceback(
    failing: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KARPENTER_DEBUG", raising=False)
    failing(ZeroDivisionError("division by zero"))

    assert main(["demo"]) == 70

    said = capsys.readouterr().err
    assert said.startswith(
        "error: this is a mistake in karpenter itself: ZeroDivisionError: division by zero\n"
    )
    assert "KARPENTER_DEBUG=1" in said


def test_a_mistake_of_ours_can_be_looked_into(failing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARPENTER_DEBUG", "1")
    failing(ZeroDivisionError())

    with pytest.raises(ZeroDivisionError):
        main(["demo"])


def test_a_usage_error_without_context_still_names_the_program(
    failing: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(click.UsageError("odd"))

    assert main(["demo"]) == 2
    assert capsys.readouterr().err == "error: odd\nhint:  see 'karpenter --help'\n"


def test_the_arguments_of_the_process_are_the_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["karpenter", "--version"])

    assert main() == 0
    assert __version__ in capsys.readouterr().out


def test_completion_in_a_shell_knows_the_commands() -> None:
    assert {"convert", "demo"} <= set(karpenter.list_commands(click.Context(karpenter)))


def test_help_does_not_wait_for_the_commands() -> None:
    script = "import sys; from karpenter.cli import main; main(['--help']); sys.exit('yaml' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0
