# SPDX-License-Identifier: Apache-2.0
"""Builds the suites, once for each release and each set of edits, into a cache of the user.

A suite is built in a copy of its public module. The copy differs in three ways only. It names the release of the core
module that its own release was made with. How long it waits for something by default is read from the environment,
because the sandbox's machines boot in seconds where real ones take minutes. And one check of the scheduling suites is
left out that counts over all specs of one process, because here each spec has a process of its own. What is asserted
about the cluster, and how long something must stay so, is unchanged.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from karpenter.errors import KarpenterError
from tests.e2e.controlplane.toolchain import find_go
from tests.upstream.suites import CORE, PROVIDER, Suite

__all__ = ["RELEASE", "WAIT_VARIABLE", "BuiltSuite", "build"]

RELEASE: Final = "v1.14.1"
WAIT_VARIABLE: Final = "KARPENTER_SUITES_WAIT"
_BUILD_TIMEOUT_S: Final = 1800.0
_SHOWN_LINES: Final = 15

_COMMON: Final = "test/pkg/environment/common"
_WAITING: Final = f"""package common

import (
	"os"
	"time"
)

func waiting() time.Duration {{
	wait, err := time.ParseDuration(os.Getenv("{WAIT_VARIABLE}"))
	if err != nil {{
		return 16 * time.Minute
	}}
	return wait
}}
"""
_EDITS: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    PROVIDER: (
        (f"{_COMMON}/environment.go", r"16 \* time\.Minute", "waiting()"),
        (f"{_COMMON}/expectations.go", r"12\*time\.Minute", "waiting()"),
        (f"{_COMMON}/expectations.go", r"time\.Minute\*15", "waiting()"),
        (
            "test/suites/scheduling/scheduling.go",
            r"Expect\(lo\.Keys\(selectors\)\)\.To\(ContainElements\(.*\)\)",
            "_ = selectors",
        ),
    ),
    CORE: (
        (f"{_COMMON}/environment.go", r"15 \* time\.Minute", "waiting()"),
        (f"{_COMMON}/expectations.go", r"10\*time\.Minute", "waiting()"),
        (f"{_COMMON}/expectations.go", r"time\.Minute\*15", "waiting()"),
    ),
}


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
    with _alone(environ, say):
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


@contextlib.contextmanager
def _alone(environ: Mapping[str, str], say: Callable[[str], None]) -> Iterator[None]:
    """Hold the cache for the length of a block: a second build of the same would take as long as the first."""
    cache = _cache(environ)
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build of the suites ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _copy(module: str, go: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """Return our copy of a module, made first if it is not in the cache."""
    digest = hashlib.sha256(repr((RELEASE, _WAITING, _EDITS[module])).encode()).hexdigest()[:12]
    copy = _cache(environ) / f"{module.rpartition('/')[2]}-{RELEASE}-{digest}"
    if copy.is_dir():
        return copy
    say(f"copying {module} {RELEASE} ...")
    answer = _go(go, ["mod", "download", "-json", f"{module}@{RELEASE}"], copy.parent, environ)
    source = Path(json.loads(answer)["Dir"])
    with tempfile.TemporaryDirectory(prefix="partial-", dir=copy.parent) as directory:
        partial = Path(directory) / "module"
        shutil.copytree(source, partial, copy_function=shutil.copyfile)
        # The module cache is read-only, and so would be the copy.
        for each in (partial, *(path for path in partial.rglob("*") if path.is_dir())):
            each.chmod(0o755)
        if module == PROVIDER:
            with (partial / "go.mod").open("a", encoding="utf-8") as file:
                file.write(f"\nreplace {CORE} => {CORE} {RELEASE}\n")
        _edit(partial, _EDITS[module])
        partial.rename(copy)
    return copy


def _edit(module: Path, edits: tuple[tuple[str, str, str], ...]) -> None:
    """Make a copy differ as its edits say.

    Raises:
        KarpenterError: The release has no such place.
    """
    (module / _COMMON / "waiting.go").write_text(_WAITING, encoding="utf-8")
    for name, old, new in edits:
        path = module / name
        text, found = re.subn(old, new, path.read_text(encoding="utf-8"))
        if not found:
            raise KarpenterError(f"{name} of {RELEASE} has nothing that matches {old}")
        path.write_text(text, encoding="utf-8")


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
