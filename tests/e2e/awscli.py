# SPDX-License-Identifier: Apache-2.0
"""The aws command, installed once from requirements/awscli.txt into a cache of the user.

Its packages stand apart from ours, because it pins what others need newer. The cache's key is a hash of the locked
requirements and of the Python that runs it, so another release is another directory. ``AWS_CLI`` names a program to
use instead.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["find_aws"]

_REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements" / "awscli.txt"
_INSTALL_TIMEOUT_S = 600
# Nothing of this Python's own packages is seen (-S).
_PROGRAM = f"""\
#!/bin/sh
PYTHONPATH="$(dirname "$0")/packages" exec {sys.executable} -S -m awscli "$@"
"""


def find_aws(environ: Mapping[str, str]) -> Path:
    """Give the program, installed first if it is not in the cache."""
    if environ.get("AWS_CLI"):
        return Path(environ["AWS_CLI"])
    digest = hashlib.sha256(_REQUIREMENTS.read_bytes() + _PROGRAM.encode() + sys.version.encode())
    base = Path(environ.get("XDG_CACHE_HOME") or Path(environ["HOME"]) / ".cache") / "karpenter-awscli"
    program = base / digest.hexdigest()[:12] / "aws"
    if os.access(program, os.X_OK):
        return program
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="partial-", dir=base) as partial:
        whole = Path(partial) / "whole"
        whole.mkdir()
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--require-hashes", "--only-binary", ":all:", "--target", whole / "packages"),
                *("-r", _REQUIREMENTS),
            ],
            env=dict(environ),
            check=True,
            timeout=_INSTALL_TIMEOUT_S,
        )
        made = whole / "aws"
        made.write_text(_PROGRAM, encoding="utf-8")
        made.chmod(0o755)
        try:
            # Complete or not there at all: another run may be installing beside this one.
            whole.rename(program.parent)
        except OSError:
            assert os.access(program, os.X_OK), f"{program.parent} is there and not whole: remove it"
    return program
