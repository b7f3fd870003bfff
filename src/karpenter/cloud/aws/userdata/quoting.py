# SPDX-License-Identifier: Apache-2.0
"""The only ways in which a value enters the text of a shell, of PowerShell or of the kubelet's command line.

Whatever the value, the language reads back that value and nothing else: no further word, no further command.
A value that a language cannot carry at all is refused rather than changed.

The kubelet's flags travel inside one argument, through the bootstrap script, to the program that splits them
into words again (systemd, or the service manager of Windows). Those disagree about escapes, so a flag is put
between double quotes and no value in it may contain what any of them treats specially. Kubernetes allows none
of that in labels, taints and quantities anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from karpenter.cloud.aws.userdata.errors import UnquotableError

__all__ = ["kubelet_flag", "powershell_quote", "shell_quote"]

# PowerShell takes the typographic quotes for the plain one.
_POWERSHELL_QUOTES: Final = re.compile("(['\u2018\u2019\u201a\u201b])")

# EC2's agent looks for tags anywhere in the text, also inside strings. A digit after < is a threshold.
_TAG: Final = re.compile(r"<\s*/?\s*[A-Za-z]")

_SPECIAL_IN_FLAGS: Final = re.compile(r"""[\s"'\\\x00-\x1f\x7f-\x9f]""")


def shell_quote(text: str, what: str) -> str:
    """Give the text as one word of a POSIX shell.

    Raises:
        UnquotableError: It contains a NUL, which no argument can, or a carriage return, which archives lose.
    """
    _refuse_any_of("\x00\r", text, what)
    # Within single quotes only the single quote is special: end them, add one in double quotes, begin again.
    inner = text.replace("'", "'\"'\"'")
    return f"'{inner}'"


def powershell_quote(text: str, what: str) -> str:
    """Give the text as a single-quoted string of PowerShell.

    Raises:
        UnquotableError: It contains a NUL, or a tag that EC2's agent would act on.
    """
    _refuse_any_of("\x00", text, what)
    tag = _TAG.search(text)
    if tag is not None:
        raise UnquotableError(
            f"{tag[0]!r} would read as the start of a tag to the agent that runs user data",
            what=what,
            hint="remove the < from this value",
        )
    inner = _POWERSHELL_QUOTES.sub(r"\1\1", text)
    return f"'{inner}'"


def kubelet_flag(name: str, items: Iterable[str], what: str) -> str:
    """Give a flag of the kubelet whose value is a list, as one word between double quotes.

    Raises:
        UnquotableError: An item contains a comma, a space, a quote, a backslash or a control character.
    """
    listed = tuple(items)
    for item in listed:
        special = _SPECIAL_IN_FLAGS.search(item) or re.search(",", item)
        if special is not None:
            raise UnquotableError(
                f"{item!r} contains {special[0]!r}, which the kubelet's command line cannot carry",
                what=what,
                hint="use letters, digits, '-', '_' and '.'",
            )
    return f'--{name}="{",".join(listed)}"'


def _refuse_any_of(characters: str, text: str, what: str) -> None:
    for character in characters:
        if character in text:
            raise UnquotableError(f"{text!r} contains {character!r}", what=what, hint="remove it")
