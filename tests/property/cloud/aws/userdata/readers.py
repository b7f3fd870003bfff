# SPDX-License-Identifier: Apache-2.0
"""Readers of user data that share nothing with its writers: a real shell, the email parser, a tokenizer."""

from __future__ import annotations

import email
import shlex
import subprocess
from collections.abc import Sequence
from email.message import Message
from pathlib import Path

PROLOGUE = (
    "#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n"
)

# Evaluates each script in one shell, where bootstrap.sh is a function that prints what it was given. The trap
# tells every command before it runs: an evaluation and one call are all that may happen.
_DRIVER = r"""
/etc/eks/bootstrap.sh() { printf 'call\0%s\0' "$#"; printf '%s\0' "$@"; }
for script in "$1"/*; do
    IFS= read -r -d '' body <"$script"
    trap 'printf "step\0"' DEBUG
    eval "$body"
    trap - DEBUG
    printf 'end\0'
done
"""
# The evaluation, the call, and the command that takes the trap away.
_EXPECTED_STEPS = 3


def bootstrap_arguments(scripts: Sequence[str], directory: Path) -> list[list[str]]:
    """Let one bash run all scripts, and give what each passed to bootstrap.sh in its single command."""
    for index, script in enumerate(scripts):
        assert script.startswith(PROLOGUE)
        (directory / f"{index:06}").write_bytes(script.removeprefix(PROLOGUE).encode())
    ran = subprocess.run(
        ["bash", "--norc", "-c", _DRIVER, "driver", str(directory)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=15,
        env={"PATH": "/nonexistent", "LC_ALL": "C"},
        executable="/bin/bash",
    )
    assert not ran.stderr, ran.stderr.decode()
    fields = ran.stdout.decode().split("\0")
    assert fields.pop() == ""
    return [_calls(fields) for _ in scripts]


def _calls(fields: list[str]) -> list[str]:
    steps, arguments = 0, None
    while (field := fields.pop(0)) != "end":
        if field == "step":
            steps += 1
            continue
        assert field == "call"
        assert arguments is None, "bootstrap.sh was called twice"
        count = int(fields.pop(0))
        arguments, fields[:count] = fields[:count], []
    assert steps == _EXPECTED_STEPS, f"{steps} commands ran"
    assert arguments is not None
    return arguments


def options(words: Sequence[str]) -> dict[str, str]:
    """Read ``--name value`` pairs; every word must be part of one."""
    assert len(words) % 2 == 0
    pairs = dict(zip(words[::2], words[1::2], strict=True))
    assert len(pairs) == len(words) // 2
    return pairs


def kubelet_flags(text: str) -> dict[str, str]:
    """Split the kubelet's arguments as systemd does, into flags and values; each flag once."""
    words = [word.partition("=") for word in shlex.split(text)]
    assert all(name.startswith("--") and equals for name, equals, _ in words)
    flags = {name: value for name, _, value in words}
    assert len(flags) == len(words)
    return flags


def pairs(text: str, separator: str = "=") -> dict[str, str]:
    """Read ``a=b,c=d``."""
    items = [item.split(separator, 1) for item in text.split(",")]
    return {item[0]: item[1] for item in items}


def taints(text: str) -> list[tuple[str, str, str]]:
    """Read ``key=value:effect,key:effect``."""
    found = []
    for item in text.split(","):
        head, _, effect = item.rpartition(":")
        key, _, value = head.partition("=")
        found.append((key, value, effect))
    return found


def parts(text: str) -> list[Message]:
    """Take an archive apart as cloud-init does."""
    message = email.message_from_string(text)
    assert not message.defects
    payload = message.get_payload()
    assert isinstance(payload, list)
    return [part for part in payload if isinstance(part, Message)]


def content(part: Message) -> str:
    """Undo a part's transfer encoding, as cloud-init does."""
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode()


_SINGLE_QUOTES = "'\u2018\u2019\u201a\u201b"


def powershell_arguments(text: str) -> dict[str, str]:
    """Read ``& $variable -Name 'value' ...`` by PowerShell's rules; anything else than that is an error."""
    head = "& $EKSBootstrapScriptFile"
    assert text.startswith(head)
    found: dict[str, str] = {}
    at = len(head)
    while at < len(text):
        assert text[at : at + 2] == " -", text[at:]
        space = text.index(" ", at + 2)
        name = text[at + 2 : space]
        assert name.isalnum()
        assert name not in found
        found[name], at = _single_quoted(text, space + 1)
    return found


def _single_quoted(text: str, at: int) -> tuple[str, int]:
    assert text[at] in _SINGLE_QUOTES
    at += 1
    value: list[str] = []
    while True:
        if text[at] in _SINGLE_QUOTES:
            if at + 1 == len(text) or text[at + 1] not in _SINGLE_QUOTES:
                return "".join(value), at + 1
            at += 1
        value.append(text[at])
        at += 1
