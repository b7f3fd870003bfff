# SPDX-License-Identifier: Apache-2.0
"""The Go side, built once for each state of its sources into a cache of the user.

The key is a hash of the module files and sources (tests left out) and of the platform, so a changed source
is another program and nothing stale is ever run. A build takes its final name only when it is complete; two
runs at once may build twice, and both end with a whole program.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from karpenter.errors import KarpenterError

__all__ = ["GO_SOURCES", "PeerUnavailableError", "Say", "build_peer", "cached_peer", "karpenter_version"]

Say = Callable[[str], None]

GO_SOURCES: Final = Path(__file__).parent / "go"
_BUILD_TIMEOUT_S: Final = 1800.0
_PROGRESS_S: Final = 20.0
_SHOWN_LINES: Final = 15
_NICENESS: Final = 10


class PeerUnavailableError(KarpenterError):
    """The Go side cannot be run here; ours still can."""


def build_peer(
    environ: Mapping[str, str],
    say: Say,
    sources: Path = GO_SOURCES,
    *,
    package: str = ".",
    what: str = "the Go scheduler",
    timeout_s: float = _BUILD_TIMEOUT_S,
) -> Path:
    """Return the program of the Go side, built first if it is not in the cache.

    Args:
        environ: The environment, for the cache and for Go.
        say: Is told of the progress.
        sources: The module to build in.
        package: The package to build.
        what: What people call it.
        timeout_s: How long a build may take.

    Raises:
        PeerUnavailableError: Go is not installed, or could not build in time.
    """
    program = cached_peer(environ, sources)
    if os.access(program, os.X_OK):
        return program
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise PeerUnavailableError(
            f"Go is not installed, so {what} cannot be measured",
            hint=f"install {_go_release(sources)} or newer (https://go.dev/dl) and run this again",
        )
    program.parent.mkdir(parents=True, exist_ok=True)
    say(f"building {what} {karpenter_version(sources)} into {program} (once; some minutes) ...")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="partial-", dir=program.parent) as partial:
        built = Path(partial) / program.name
        command = [go, "build", "-trimpath", "-buildvcs=false", "-o", str(built), package]
        # The command is Go's own, with nothing in it from outside.
        process = subprocess.Popen(  # noqa: S603
            command,
            cwd=sources,
            env={**environ, "CGO_ENABLED": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        # Builds take all cores for minutes; whatever else the person does goes first.
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        outcome, log = _wait(process, say, what, timeout_s)
        if outcome:
            tail = "\n".join(log.splitlines()[-_SHOWN_LINES:])
            raise PeerUnavailableError(
                f"`go build` of {what} {outcome}" + (f":\n{tail}" if tail else ""),
                hint=f"it needs {_go_release(sources)} and a Go module proxy; try `go vet {package}` in {sources}",
            )
        built.replace(program)
    say(f"built {what} in {time.monotonic() - started:.0f} s")
    return program


def cached_peer(environ: Mapping[str, str], sources: Path = GO_SOURCES) -> Path:
    """Return where the program of these sources is kept, built or not."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        # As the XDG convention has it: a relative path counts as unset.
        base = Path(environ.get("HOME") or Path.home()) / ".cache"
    digest = hashlib.sha256(f"{platform.system()}/{platform.machine()}".encode())
    for source in sorted(sources.iterdir()):
        if source.name in ("go.mod", "go.sum") or (source.suffix == ".go" and "_test" not in source.stem):
            content = source.read_bytes()
            digest.update(f"\0{source.name}\0{len(content)}\0".encode())
            digest.update(content)
    return base / "karpenter-peers" / digest.hexdigest()[:16] / "peer"


def karpenter_version(sources: Path = GO_SOURCES) -> str:
    """Return the release of Go Karpenter that is measured, as its module file names it."""
    return _word_after("sigs.k8s.io/karpenter", sources)


def _go_release(sources: Path) -> str:
    return f"Go {_word_after('go', sources)}"


def _word_after(first: str, sources: Path) -> str:
    lines = (line.split() for line in (sources / "go.mod").read_text(encoding="utf-8").splitlines())
    return next(
        (words[1] for words in lines if len(words) > 1 and words[0] == first), "of an unknown release"
    )


def _wait(process: subprocess.Popen[str], say: Say, what: str, timeout_s: float) -> tuple[str, str]:
    """Wait for a build, with a word now and then; return how it failed (or nothing) and what it printed."""
    started = time.monotonic()
    try:
        while True:
            left_s = timeout_s - (time.monotonic() - started)
            try:
                log, _ = process.communicate(timeout=max(0.0, min(_PROGRESS_S, left_s)))
            except subprocess.TimeoutExpired:
                if left_s <= _PROGRESS_S:
                    return f"did not finish within {timeout_s:g} s", ""
                say(f"still building {what} ({time.monotonic() - started:.0f} s) ...")
            else:
                return (f"failed with code {process.returncode}" if process.returncode else ""), log
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
