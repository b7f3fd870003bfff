# SPDX-License-Identifier: Apache-2.0
"""MIME archives of several parts, as cloud-init and nodeadm read user data.

Reading keeps each part's headers and text as they were written, line ends made plain. Refused, with the line:
an archive that is not multipart, has no boundary or no part, a header that is none, a part that never ends.

Writing joins parts by a boundary that follows from their content alone, so that equal parts give equal text,
and that stands in none of them, so that no part can end early or begin another. A text that is not pure
ASCII is written in base64, because cloud-init garbles it otherwise.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from itertools import count, zip_longest
from typing import Final

from karpenter.cloud.aws.userdata.errors import BrokenTextError

__all__ = [
    "CLOUD_CONFIG",
    "NODE_CONFIG",
    "SHELL_SCRIPT",
    "Part",
    "is_archive",
    "part_of",
    "read_archive",
    "write_archive",
]

SHELL_SCRIPT: Final = "text/x-shellscript"
CLOUD_CONFIG: Final = "text/cloud-config"
NODE_CONFIG: Final = "application/node.eks.aws"

_START: Final = re.compile(r"(?:MIME-Version|Content-Type):", re.IGNORECASE)
_HEADER: Final = re.compile(r"[!-9;-~]+:")
_MULTIPART_HINT: Final = 'begin with Content-Type: multipart/mixed; boundary="BOUNDARY"'


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an archive.

    Attributes:
        headers: Its header lines, each without its line end.
        text: What follows the empty line after the headers.
        line: The line of the archive on which the text begins, from 1; 1 for a part that we made.
    """

    headers: tuple[str, ...]
    text: str
    line: int = 1

    @property
    def content_type(self) -> str:
        """The type of the content without its parameters, in lower case; as in MIME, text/plain if unsaid."""
        return _header(self.headers).get_content_type()


def is_archive(text: str) -> bool:
    """Tell whether the text begins as a MIME archive does."""
    return _START.match(text.lstrip()) is not None


def part_of(text: str, content_type: str) -> Part:
    """Make a part of a text of that type."""
    text = _plain_line_ends(text)
    if text.isascii() or content_type == NODE_CONFIG:
        # nodeadm takes the bytes as they are and knows no transfer encoding.
        charset = '; charset="us-ascii"' if content_type != NODE_CONFIG else ""
        return Part((f"Content-Type: {content_type}{charset}",), text)
    encoded = base64.encodebytes(text.encode()).decode("ascii").rstrip("\n")
    headers = (f'Content-Type: {content_type}; charset="utf-8"', "Content-Transfer-Encoding: base64")
    return Part(headers, encoded)


def read_archive(text: str) -> tuple[Part, ...]:
    """Take an archive apart.

    Raises:
        BrokenTextError: It is not a MIME archive of several parts.
    """
    lines = _plain_line_ends(text).split("\n")
    first = next(index for index, line in enumerate(lines) if line.strip())
    headers, body = _headers(lines, first)
    message = _header(headers)
    boundary = message.get_boundary()
    if message.get_content_maintype() != "multipart" or not boundary:
        raise BrokenTextError(
            f"the MIME archive is of type {message.get_content_type()}"
            + ("" if message.get_content_maintype() != "multipart" else " and names no boundary"),
            line=first + 1,
            hint=_MULTIPART_HINT,
        )
    parts = _parts(lines, body, boundary)
    if not parts:
        raise BrokenTextError(
            "the MIME archive has no part", line=first + 1, hint=f"begin each part with a line --{boundary}"
        )
    return parts


def write_archive(parts: Sequence[Part]) -> str:
    """Join parts to an archive; the same parts always give the same text."""
    written = ["\n".join((*part.headers, "", part.text)) for part in parts]
    boundary = _boundary(written)
    opening = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{boundary}"\n\n'
    return opening + "".join(f"--{boundary}\n{part}\n" for part in written) + f"--{boundary}--\n"


def _boundary(written: Sequence[str]) -> str:
    digest = hashlib.sha256("\x00".join(written).encode()).hexdigest()
    # The first is as good as certain to be free; the proof costs little, a wrong guess a node.
    candidates = (f"karpenter-{digest[:32]}-{attempt}" for attempt in count())
    return next(free for free in candidates if not any(free in text for text in written))


def _parts(lines: Sequence[str], start: int, boundary: str) -> tuple[Part, ...]:
    delimiter, end = f"--{boundary}", f"--{boundary}--"
    # Spaces after the boundary are padding that MIME allows.
    marks = [index for index in range(start, len(lines)) if lines[index].rstrip(" \t") in (delimiter, end)]
    parts = []
    for mark, following in zip_longest(marks, marks[1:]):
        if lines[mark].rstrip(" \t") == end:
            break
        if following is None:
            # Some leave the last boundary open; with nothing after it nothing is lost.
            if any(line.strip() for line in lines[mark + 1 :]):
                raise BrokenTextError(
                    "the part that begins here never ends", line=mark + 1, hint=f"end it with a line {end}"
                )
            break
        headers, body = _headers(lines[:following], mark + 1)
        parts.append(Part(headers, "\n".join(lines[body:following]), body + 1))
    return tuple(parts)


def _headers(lines: Sequence[str], start: int) -> tuple[tuple[str, ...], int]:
    """Give the header lines from there on, and the index of the line after the empty one that ends them."""
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.strip():
            return tuple(lines[start:index]), index + 1
        continued = line[0] in " \t" and index > start
        if not continued and _HEADER.match(line) is None:
            raise BrokenTextError(
                f"{line[:40]!r} is not a MIME header",
                line=index + 1,
                hint="write Name: value, and an empty line between the headers and the text",
            )
    return tuple(lines[start:]), len(lines)


def _header(lines: Sequence[str]) -> Message:
    return HeaderParser().parsestr("\n".join(lines) + "\n\n", headersonly=True)


def _plain_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n")
