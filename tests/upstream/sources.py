# SPDX-License-Identifier: Apache-2.0
"""Builds the suites, once for each release and each set of shorter waiting times, into a cache of the user.

A suite is built in a copy of its public module. The copy differs in two ways only: it names the release of the core
module that its own release was made with, and its longest waiting times are shorter, because the sandbox's machines
boot in seconds where real ones take minutes. What is asserted, and how long something must stay so, is unchanged.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from karpenter.errors import KarpenterError
from tests.e2e.controlplane.toolchain import find_go
from tests.upstream.suites import CORE, PROVIDER, Suite

__all__ = ["RELEASE", "BuiltSuite", "build"]

RELEASE: Final = "v1.14.1"
_BUILD_TIMEOUT_S: Final = 1800.0
_SHOWN_LINES: Final = 15

# The suites wait up to 16 minutes for a machine; here one boots in seconds, and a failed spec should end soon.
_DEFAULT_WAIT: Final = "90 * time.Second"
_EDITS: Final[tuple[tuple[str, str, str], ...]] = (
    ("test/pkg/environment/common/environment.go", r"16 \* time\.Minute", _DEFAULT_WAIT),
    ("test/pkg/environment/common/expectations.go", r"12\*time\.Minute", _DEFAULT_WAIT),
    ("test/pkg/environment/common/expectations.go", r"time\.Minute\*15", _DEFAULT_WAIT),
    ("test/suites/*/*.go", r"WithTimeout\((15|30) ?\* ?time\.Minute\)", f"WithTimeout({_DEFAULT_WAIT})"),
    ("test/suites/*/*.go", r"WithTimeout\(time\.Minute\*15, ", f"WithTimeout({_DEFAULT_WAIT}, "),
)


class BuiltSuite:
    """A program of specs, and the directory that it expects to run in."""

    def __init__(self, suite: Suite, module: Path) -> None:
        self.suite = suite
        self.directory = module / suite.package
        self.program = module / "programs" / suite.name


def build(suite: Suite, environ: Mapping[str, str], say: Callable[[str], None]) -> BuiltSuite:
    """Return a suite's program, built first if it is not in the cache.

    Raises:
        KarpenterError: Go is not installed, the module cannot be had, or it does not compile.
    """
    go = find_go(environ)
    if go is None:
        raise KarpenterError(
            "Go is not installed, so upstream's suites cannot be built",
            hint="install Go (https://go.dev/dl) and run this again",
        )
    built = BuiltSuite(suite, _copy(suite.module, go, environ, say))
    if os.access(built.program, os.X_OK):
        return built
    say(f"building the suite {suite.name} (once; some minutes) ...")
    built.program.parent.mkdir(exist_ok=True)
    partial = built.program.with_name(f"{suite.name}.partial")
    module = built.program.parents[1]
    _go(go, ["test", "-c", "-trimpath", "-o", str(partial), f"./{suite.package}"], module, environ)
    partial.replace(built.program)
    return built


def _copy(module: str, go: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """Return our copy of a module, made first if it is not in the cache."""
    digest = hashlib.sha256(repr((RELEASE, _EDITS)).encode()).hexdigest()[:12]
    copy = _cache(environ) / f"{module.rpartition('/')[2]}-{RELEASE}-{digest}"
    if copy.is_dir():
        return copy
    say(f"copying {module} {RELEASE} ...")
    copy.parent.mkdir(parents=True, exist_ok=True)
    answer = _go(go, ["mod", "download", "-json", f"{module}@{RELEASE}"], copy.parent, environ)
    source = Path(json.loads(answer)["Dir"])
    with tempfile.TemporaryDirectory(prefix="partial-", dir=copy.parent) as directory:
        partial = Path(directory) / "module"
        shutil.copytree(source, partial, copy_function=shutil.copyfile)
        if module == PROVIDER:
            with (partial / "go.mod").open("a", encoding="utf-8") as file:
                file.write(f"\nreplace {CORE} => {CORE} {RELEASE}\n")
        _shorten(partial)
        partial.rename(copy)
    return copy


def _shorten(module: Path) -> None:
    for pattern, old, new in _EDITS:
        for path in module.glob(pattern):
            text = path.read_text(encoding="utf-8")
            path.write_text(re.sub(old, new, text), encoding="utf-8")


def _cache(environ: Mapping[str, str]) -> Path:
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "karpenter-upstream"


def _go(go: Path, arguments: list[str], directory: Path, environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            # Builds take all cores for minutes; the rest of the machine goes first.
            ["nice", "-n", "10", str(go), *arguments],
            cwd=directory,
            env={**environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-buildvcs=false -mod=mod"},
            capture_output=True,
            text=True,
            timeout=_BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise KarpenterError(f"`go {arguments[0]}` did not end within {_BUILD_TIMEOUT_S:g} s") from error
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).splitlines()[-_SHOWN_LINES:])
        raise KarpenterError(
            f"`go {' '.join(arguments)}` failed:\n{tail}", hint="it needs Go and a Go module proxy"
        )
    return done.stdout
