# SPDX-License-Identifier: Apache-2.0
r"""Go's regular expressions on Python's engine: the same pattern accepts the same texts.

Decides by translation. Go's ``$`` means the end of the text alone, ``\d \w \s \b`` know ASCII only,
``{,3}`` is literal text, and POSIX classes exist; look-around, back-references and possessive repeats do
not, so a pattern with them is a mistake in a definition and is refused, as are the few things we do not
translate (``\p``, ``\C``, flags in the middle).

Go's engine takes linear time; Python's may take years over a text made to hurt it. So a long text is
matched by the linear engine inside the CEL library, which is slower on short texts but never hangs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NoReturn

import cel

from karpenter.errors import KarpenterError

__all__ = ["GoPattern", "PatternError", "compile_pattern"]

# Below this length a backtracking match of the patterns in our definitions ends within milliseconds at worst.
_LONGEST_FOR_BACKTRACKING: Final = 64

_LARGEST_REPEAT: Final = 1000

_ASCII_CLASSES: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}

_POSIX_CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}

_REPEAT: Final = re.compile(r"[*+?]|\{(\d+)(,(\d*))?\}")
_GROUP: Final = re.compile(r"\((?:\?(?:P?<([A-Za-z_]\w*)>|([ims]*)(?:-([ims]+))?([:)])))?", re.ASCII)
_CODE_POINT: Final = re.compile(r"x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\}|([0-7]{3}|0[0-7]{0,2})")

# What the two engines write differently: the end of the text, and an ASCII word boundary.
_PYTHON: Final = {"end": r"\Z", "boundary": r"\b", "no boundary": r"\B"}
_LINEAR: Final = {"end": r"\z", "boundary": r"(?-u:\b)", "no boundary": r"(?-u:\B)"}

_LINEAR_MATCH: Final = cel.compile("text.matches(pattern)")


class PatternError(KarpenterError):
    """A pattern that Go would refuse, or that we cannot translate."""


@dataclass(frozen=True, slots=True)
class GoPattern:
    """A compiled pattern; like Go's, it may match anywhere in the text unless anchored."""

    source: str
    _python: re.Pattern[str]
    _linear: str

    def matches(self, text: str) -> bool:
        """Return whether the pattern occurs in the text; takes linear time on long texts."""
        if len(text) <= _LONGEST_FOR_BACKTRACKING:
            return self._python.search(text) is not None
        return _LINEAR_MATCH.execute({"text": text, "pattern": self._linear}) is True

    def find(self, text: str) -> str:
        """Return the first match, or an empty text."""
        found = self._python.search(text)
        return found.group() if found else ""

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """Return the matches from the left, at most ``limit`` of them unless it is negative."""
        matches = [found.group() for found in self._python.finditer(text)]
        return matches if limit < 0 else matches[:limit]


@lru_cache(maxsize=1024)
def compile_pattern(source: str) -> GoPattern:
    """Return the pattern, compiled once; what Go refuses is refused with its position."""
    pieces = _Translation(source).pieces()
    python = "".join(piece if isinstance(piece, str) else _PYTHON[piece[0]] for piece in pieces)
    linear = "".join(piece if isinstance(piece, str) else _LINEAR[piece[0]] for piece in pieces)
    try:
        return GoPattern(source, re.compile(python, re.ASCII), linear)
    except re.error as error:
        raise PatternError(f"pattern {source!r} is not a regular expression: {error}") from error


class _Translation:
    """One walk over a pattern, from left to right."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._multiline = False
        self._pieces: list[str | tuple[str]] = []

    def pieces(self) -> list[str | tuple[str]]:
        """Return the pattern in pieces: texts both engines share, and names of what they write differently."""
        while self._at < len(self._source):
            character = self._source[self._at]
            if character == "\\":
                self._escape()
            elif character == "[":
                self._class()
            elif character == "(":
                self._group()
            elif character == "$" and not self._multiline:
                self._emit(("end",), 1)
            elif repeat := _REPEAT.match(self._source, self._at):
                self._repeat(repeat)
            else:
                # A brace that starts no repeat is itself, in Go; Python would read {,3} as a repeat.
                self._emit("\\" + character if character in "{}" else character, 1)
        return self._pieces

    def _emit(self, piece: str | tuple[str], length: int) -> None:
        self._pieces.append(piece)
        self._at += length

    def _escape(self) -> None:
        letter = self._source[self._at + 1 : self._at + 2]
        if letter in {"z", "b", "B"}:
            self._emit(({"z": "end", "b": "boundary", "B": "no boundary"}[letter],), 2)
        elif letter == "A":
            self._emit(r"\A", 2)
        elif letter.lower() in _ASCII_CLASSES and letter:
            inside = _ASCII_CLASSES[letter.lower()]
            self._emit(f"[{inside}]" if letter.islower() else f"[^{inside}]", 2)
        elif letter == "Q":
            end = self._source.find(r"\E", self._at)
            quoted = self._source[self._at + 2 : end if end >= 0 else None]
            self._emit(_literal(quoted), len(quoted) + (4 if end >= 0 else 2))
        else:
            self._emit(*self._character())

    def _character(self) -> tuple[str, int]:
        """Return an escaped single character, in and outside a class, and how long it is in the source."""
        if code := _CODE_POINT.match(self._source, self._at + 1):
            short, long, octal = code.groups()
            point = int(octal, 8) if octal else int(short or long, 16)
            if point > 0x10FFFF:
                self._refuse("a code point beyond Unicode")
            return _literal(chr(point)), 1 + len(code.group())
        letter = self._source[self._at + 1 : self._at + 2]
        if letter and letter in "afnrtv":
            return "\\" + letter, 2
        if not letter or letter.isalnum():
            self._refuse(f"\\{letter} is not an escape that Go and we know")
        return _literal(letter), 2

    def _class(self) -> None:
        start = self._at
        text = "["
        self._at += 1
        if self._source.startswith("^", self._at):
            text += "^"
            self._at += 1
        first = True
        while first or not self._source.startswith("]", self._at):
            if self._at >= len(self._source):
                self._at = start
                self._refuse("the class is not closed")
            text += self._class_item()
            first = False
        self._at += 1
        self._pieces.append(text + "]")

    def _class_item(self) -> str:
        character = self._source[self._at]
        if posix := re.compile(r"\[:(\^?)(\w+):\]").match(self._source, self._at):
            inside = _POSIX_CLASSES.get(posix.group(2))
            if inside is None or posix.group(1):
                self._refuse(f"{posix.group()} is not a class that Go and we know")
            self._at = posix.end()
            return inside
        if character == "\\":
            letter = self._source[self._at + 1 : self._at + 2]
            if letter and letter in _ASCII_CLASSES:
                self._at += 2
                return _ASCII_CLASSES[letter]
            text, length = self._character()
            self._at += length
            return text
        self._at += 1
        # Python warns of characters that may once mean set operations, and a range needs its dash bare.
        return "\\" + character if character in "[]&|~" else character

    def _group(self) -> None:
        group = _GROUP.match(self._source, self._at)
        if group is None or (self._source.startswith("(?", self._at) and group.end() == self._at + 1):
            self._refuse("a group that Go does not know")
        name, on, off, end = group.groups()
        if end is None:
            self._emit(f"(?P<{name}>" if name else "(", group.end() - self._at)
            return
        if end == ")" and (self._at > 0 or off):
            self._refuse("flags may stand at the start only")
        self._multiline = self._multiline or "m" in on
        self._emit(group.group(), group.end() - self._at)

    def _repeat(self, repeat: re.Match[str]) -> None:
        if any(int(count) > _LARGEST_REPEAT for count in (repeat.group(1), repeat.group(3)) if count):
            self._refuse(f"a repeat of more than {_LARGEST_REPEAT}")
        lazy = "?" if self._source.startswith("?", repeat.end()) else ""
        self._emit(repeat.group() + lazy, len(repeat.group()) + len(lazy))
        if _REPEAT.match(self._source, self._at):
            self._refuse("a repeat of a repeat")

    def _refuse(self, why: str) -> NoReturn:
        raise PatternError(
            f"pattern {self._source!r}, at position {self._at}: {why}",
            hint="patterns follow Go's RE2 syntax: no look-around, back-references or possessive repeats",
        )


def _literal(text: str) -> str:
    return re.sub(r"[^0-9A-Za-z_ ]", _escaped, text, flags=re.ASCII)


def _escaped(found: re.Match[Any]) -> str:
    character = found.group()
    return f"\\{character}" if character.isascii() and character.isprintable() else character
