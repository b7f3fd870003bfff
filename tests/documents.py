# SPDX-License-Identifier: Apache-2.0
"""The documents as tests read them: pages, blocks of commands with the output that is shown, files that they name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ACTIVATE",
    "FILES",
    "PAGES",
    "ROOT",
    "Block",
    "Command",
    "blocks",
    "files_of",
    "manifest_of",
    "our_calls",
    "page_name",
    "spans",
]

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
# What puts our program on the PATH of a shell; `make` sets that directory up.
ACTIVATE = ". .venv/bin/activate"
# Files that a reader has, and what of the repository stands for them; where that is empty, the page shows it.
FILES = {
    "problem.json": "examples/problem.json",
    "catalogue.json": "examples/catalogue.json",
    "provisioner.yaml": "examples/default-provisioner.yaml",
    "old.yaml": "examples/default-provisioner.yaml",
    "your-manifests.yaml": "examples/default-provisioner.yaml",
    "manifests/": "examples/default-provisioner.yaml",
    "mine.yaml": "",
    "nodepool.yaml": "",
}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`(karpenter [^`]+)`")
_SUFFIXES = (".yaml", ".yml", ".json", "/")
_REDIRECT = re.compile(r"[^-\d]>\s*(\S+)")


@dataclass(frozen=True)
class Command:
    """One command line without its comment, and the lines of output that the page shows below it."""

    line: str
    output: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """The commands of one block, to be typed one after the other."""

    page: str
    commands: tuple[Command, ...]


def page_name(page: Path) -> str:
    """The page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of commands of a page: ``console`` with prompts, ``sh`` without."""
    for language, text in _FENCE.findall(page.read_text(encoding="utf-8")):
        if language not in {"console", "sh"}:
            continue
        commands: list[Command] = []
        for line in text.replace("\\\n", "").splitlines():
            if language == "sh" or line.startswith("$ "):
                bare = line.removeprefix("$ ").partition(" #")[0].strip()
                if bare and not bare.startswith("#"):
                    commands.append(Command(bare))
            elif commands:
                last = commands.pop()
                commands.append(Command(last.line, (*last.output, line)))
        yield Block(page_name(page), tuple(commands))


def spans(page: Path) -> Iterator[str]:
    """The commands of ours that a page names in its sentences."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for found in _SPAN.findall(text):
        if found != "karpenter ...":
            yield found.replace("\\|", "|")


def our_calls(line: str) -> Iterator[list[str]]:
    """The calls of our program in a line of shell, without its name."""
    for part in re.split(r"\||&&|;|\$\(", line):
        words = re.split(r"[<>&)]", part)[0].strip().strip('"')
        if words == "karpenter" or words.startswith("karpenter "):
            yield shlex.split(words)[1:]


def files_of(line: str) -> tuple[frozenset[str], frozenset[str]]:
    """The files that a line of shell reads, and those that it writes."""
    written = frozenset(_REDIRECT.findall(line))
    words = {each.strip("'\"") for each in re.split(r"[\s=]", _REDIRECT.sub(" ", line))}
    named = frozenset(
        each for each in words if each.endswith(_SUFFIXES) and "$" not in each and "//" not in each
    )
    return named - written, written


def manifest_of(page: Path) -> str:
    """The first whole file that a page shows: manifests, or the steps of a scenario."""
    found = (
        text
        for language, text in _FENCE.findall(page.read_text(encoding="utf-8"))
        if language == "yaml" and text.startswith(("apiVersion:", "steps:"))
    )
    return next(found, "")
