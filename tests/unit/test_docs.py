# SPDX-License-Identifier: Apache-2.0
"""Every command of ours in the documents is one that the program takes, and every file and manifest can be read.

That the commands work is for ``tests/e2e/test_docs.py`` to see.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from karpenter.api.manifests import read_manifests
from karpenter.cli.main import karpenter
from tests.documents import (
    ACTIVATE,
    FILES,
    PAGES,
    ROOT,
    blocks,
    files_of,
    manifest_of,
    our_calls,
    page_name,
    spans,
)

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINES = sorted(
    {
        (block.page, shlex.join(call))
        for page in PAGES
        for block in blocks(page)
        for command in block.commands
        for call in our_calls(command.line)
    }
)
_NAMED = sorted(
    {
        (page_name(page), shlex.join(call))
        for page in PAGES
        for span in spans(page)
        for call in our_calls(span)
    }
)


def _parse(arguments: Sequence[str]) -> None:
    """Read a command line as the program does, up to where the command would begin."""
    context = karpenter.make_context("karpenter", list(arguments))
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files that a reader has."""
    for name in FILES:
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_text("", encoding="utf-8")
    for name in ("examples", "charts"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "kubeconfig").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    return tmp_path


@pytest.mark.parametrize(("page", "line"), _LINES, ids=[f"{page}: {line}" for page, line in _LINES])
def test_a_command_of_the_documents_is_one_that_the_program_takes(page: str, line: str, desk: Path) -> None:
    assert page
    assert desk.is_dir()

    _parse(shlex.split(line))


@pytest.mark.parametrize(("page", "line"), _NAMED, ids=[f"{page}: {line}" for page, line in _NAMED])
def test_a_command_that_a_sentence_names_is_one_that_the_program_has(
    page: str, line: str, desk: Path
) -> None:
    assert page
    assert desk.is_dir()

    try:
        _parse(shlex.split(line))
    except (
        click.MissingParameter,
        click.BadOptionUsage,
        click.exceptions.NoArgsIsHelpError,
        click.exceptions.Exit,
    ):
        # A sentence need not say everything.
        return


def test_a_command_that_is_wrong_would_be_found(desk: Path) -> None:
    assert desk.is_dir()

    for wrong in (
        "slove problem.json",
        "solve problem.json --cheap",
        "sandbox upp",
        "solve problem.json -o pdf",
    ):
        with pytest.raises(click.UsageError):
            _parse(shlex.split(wrong))


def test_there_are_commands_to_look_at() -> None:
    assert len(_LINES) > 20
    assert len(_NAMED) > 10


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_file_that_a_command_reads_is_in_the_repository_or_made_before_or_a_readers_own(
    page: Path,
) -> None:
    made: set[str] = set()
    for block in blocks(page):
        for command in block.commands:
            read, written = files_of(command.line)
            for name in sorted(read - made):
                assert name in FILES or (ROOT / name).exists(), f"{command.line}: where is {name}?"
                assert FILES.get(name) != "" or manifest_of(page), f"{page} does not show {name}"
            made |= written


def test_the_files_that_readers_have_are_named_somewhere_and_stand_for_files_that_there_are() -> None:
    named = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)

    for name, stands_for in FILES.items():
        assert name in named
        assert not stands_for or (ROOT / stands_for).exists()


def test_whole_manifests_in_the_documents_can_be_read() -> None:
    read = 0
    for page in PAGES:
        for language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "yaml" and text.startswith("apiVersion:"):
                read += len(read_manifests(text, page.name))

    assert read >= 2


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_page_puts_our_program_on_the_path_before_it_calls_it(page: Path) -> None:
    """After ``make demo`` a reader has .venv and nothing else; every page must work from there, as typed."""
    is_there = False
    for block in blocks(page):
        for command in block.commands:
            is_there = is_there or command.line == ACTIVATE
            calls = [*our_calls(command.line), *re.findall(r"^python -m", command.line)]
            assert is_there or not calls, f"{command.line}: begin with '{ACTIVATE}'"


def test_what_pages_activate_is_what_make_sets_up() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert "VENV := .venv\n" in makefile
    assert "demo: $(READY)" in makefile


# Commands that run until they are interrupted.
_STAY = {"controller", "sandbox ec2", "sandbox kube", "sandbox kubelets", "sandbox workloads"}


def _examples() -> list[tuple[str, str]]:
    """Every line of the examples in every help text, with the command that shows it."""
    found: list[tuple[str, str]] = []

    def look(path: str, command: click.Command) -> None:
        lines = (command.epilog or "").splitlines()
        found.extend(
            (path, line.strip()) for line in lines if line.startswith("  ") and line.strip()[0] != "#"
        )
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                below = command.get_command(click.Context(command), name)
                assert below is not None
                look(f"{path} {name}".strip(), below)

    look("", karpenter)
    return found


_EXAMPLES = _examples()


@pytest.mark.parametrize(("command", "line"), _EXAMPLES, ids=[f"{path}: {line}" for path, line in _EXAMPLES])
def test_an_example_of_a_help_text_is_one_that_the_program_takes_and_does_not_hang(
    command: str, line: str, desk: Path
) -> None:
    for name in ("templates.yaml", "stack.yaml", "sandbox.yaml"):
        (desk / name).write_text("", encoding="utf-8")
    assert command is not None

    for call in our_calls(line.partition(" #")[0]):
        _parse(call)
    # A shell waits for what it substitutes: of a command that stays, it would wait for ever.
    for inside in re.findall(r"\$\(karpenter ([^)]*)\)", line):
        assert not any(inside.startswith(each) for each in _STAY), line


def test_there_are_examples_to_look_at() -> None:
    assert len(_EXAMPLES) > 25
    assert {"controller", "sandbox up", "completion"} <= {path for path, _ in _EXAMPLES}
