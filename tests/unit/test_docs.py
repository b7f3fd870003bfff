# SPDX-License-Identifier: Apache-2.0
"""Every command of ours in the documents is one that the program takes, and every manifest can be read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from karpenter.api.manifests import read_manifests
from karpenter.cli.main import karpenter

_ROOT = Path(__file__).resolve().parents[2]
_PAGES = sorted([_ROOT / "README.md", *(_ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _commands() -> Iterator[tuple[str, str]]:
    for page in _PAGES:
        for language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "console":
                for line in text.splitlines():
                    if line.startswith("$ "):
                        yield page.name, line[2:]


def _ours(line: str) -> Iterator[list[str]]:
    """Give the calls of our program in a line of shell."""
    bare = line.partition(" #")[0]
    for part in re.split(r"\||&&|;|\$\(|\"\$\(", bare):
        words = re.split(r"[<>&)]", part)[0].strip().strip('"')
        if words.startswith("karpenter "):
            yield shlex.split(words)[1:]


_LINES = sorted({(page, " ".join(call)) for page, line in _commands() for call in _ours(line)})


@pytest.mark.parametrize(("page", "line"), _LINES, ids=[f"{page}: {line}" for page, line in _LINES])
def test_a_command_of_the_documents_is_one_that_the_program_takes(page: str, line: str) -> None:
    assert page
    arguments = shlex.split(line)
    command: click.Command = karpenter
    while isinstance(command, click.Group) and arguments:
        found = command.get_command(click.Context(command), arguments[0])
        assert found is not None, f"there is no command {arguments[0]!r}"
        command, arguments = found, arguments[1:]
    # Files that a reader would have need not be here; everything else about the line must be right.
    options = [each for each in arguments if each.startswith("-") and each != "-"]
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {
        "--help",
        "-h",
    }
    unknown = [each for each in options if each.partition("=")[0] not in known]

    assert not unknown, f"{command.name} has no {', '.join(unknown)}"


def test_there_are_commands_to_look_at() -> None:
    assert len(_LINES) > 20


def test_whole_manifests_in_the_documents_can_be_read() -> None:
    read = 0
    for page in _PAGES:
        for language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "yaml" and text.startswith("apiVersion:"):
                read += len(read_manifests(text, page.name))

    assert read >= 2
