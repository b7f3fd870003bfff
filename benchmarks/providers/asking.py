# SPDX-License-Identifier: Apache-2.0
"""Asks the Go program, which is the Go Karpenter's packages and a few lines around them, built once into the cache."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.toolchain import PeerUnavailableError, Say, build_peer

__all__ = ["GO_SOURCES", "ask_go", "build_go"]

GO_SOURCES: Final = Path(__file__).parent / "go"
_TIMEOUT_S: Final = 600.0
_SHOWN: Final = 2000


def build_go(environ: Mapping[str, str], say: Say) -> Path:
    """Return the Go program, built first if it is not in the cache.

    Raises:
        PeerUnavailableError: Go is not installed, or could not build.
    """
    return build_peer(environ, say, GO_SOURCES, what="the Go provider's packages")


def ask_go(program: Path, environ: Mapping[str, str], question: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the Go program answers.

    Raises:
        PeerUnavailableError: It failed; the end of what it said is in the message.
    """
    done = subprocess.run(  # noqa: S603 - our own program
        [str(program)],
        input=json.dumps(question),
        env=dict(environ),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise PeerUnavailableError(
            f"the Go program ended with code {done.returncode}: {done.stderr.strip()[-_SHOWN:]}",
            hint=f"look at {GO_SOURCES}: the question may have a field that this release does not know",
        )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
