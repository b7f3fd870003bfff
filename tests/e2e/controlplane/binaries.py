# SPDX-License-Identifier: Apache-2.0
"""Where the programs of the control plane are, and how they get there.

Looks in the directory that KUBEBUILDER_ASSETS names, or else in a cache of the user, under a key made of
everything that decides what is built: the Go modules, their checksums, the flags, the platform. A change to
any of them is a new key, so nothing stale is ever found. Building happens under a lock (two runs at once
build once), into a directory beside the cached one that takes its name only when it is complete. What
KUBEBUILDER_ASSETS names is never built into, and a missing program in it is an error, not a reason to look
elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.controlplane.errors import BinariesMissingError
from tests.e2e.controlplane.progress import Progress, Say, elapsed_text
from tests.e2e.controlplane.toolchain import (
    MODULE_DIRECTORY,
    BuildStep,
    build_steps,
    find_go,
    kubernetes_version,
    run_steps,
)

__all__ = [
    "ASSETS_VARIABLE",
    "COMMANDS",
    "OPTIONAL_VARIABLE",
    "Binaries",
    "build_binaries",
    "cache_directory",
    "find_binaries",
]

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
# Set to 1, it makes a run without the programs succeed, with the tests left out and named.
OPTIONAL_VARIABLE = "KARPENTER_E2E_OPTIONAL"
COMMANDS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
BUILD_COMMAND = "python -m tests.e2e.controlplane build"
BUILD_TIME = "7 to 12 minutes on two cores"

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Binaries:
    """A directory that holds all programs."""

    directory: Path

    def path(self, command: str) -> Path:
        """Return the path of one program."""
        return self.directory / command


def find_binaries(environ: Mapping[str, str], modules: Path = MODULE_DIRECTORY) -> Binaries:
    """Return the programs that are there already; never builds.

    Raises:
        BinariesMissingError: names what is missing where, and says how to get it.
    """
    assets = environ.get(ASSETS_VARIABLE, "")
    if assets:
        return _require_assets(Path(assets))
    directory = cache_directory(environ, modules)
    missing = _missing(directory)
    if missing:
        raise BinariesMissingError(
            f"the control plane is not built: {directory} has no {', '.join(missing)}", hint=_hint(environ)
        )
    return Binaries(directory)


def build_binaries(environ: Mapping[str, str], say: Say, modules: Path = MODULE_DIRECTORY) -> Binaries:
    """Return the programs, built first if they are not there.

    Raises:
        BinariesMissingError: KUBEBUILDER_ASSETS lacks a program, or Go is not installed.
        BuildFailedError: Go could not build.
    """
    assets = environ.get(ASSETS_VARIABLE, "")
    if assets:
        return _require_assets(Path(assets))
    directory = cache_directory(environ, modules)
    if not _missing(directory):
        return Binaries(directory)
    go = find_go(environ)
    if go is None:
        missing = ", ".join(_missing(directory))
        raise BinariesMissingError(
            f"the control plane cannot be built ({missing}): Go is not installed", hint=_hint(environ)
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _lock(directory.with_name(f"{directory.name}.lock"), say):
        # Somebody else may have built while we waited for the lock.
        if _missing(directory):
            _build(go, directory, environ, say, modules)
    return Binaries(directory)


def cache_directory(environ: Mapping[str, str], modules: Path = MODULE_DIRECTORY) -> Path:
    """Return where the programs of these modules, flags and platform are cached, built or not."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        # As the XDG convention has it: a relative path counts as unset.
        base = Path(environ.get("HOME") or Path.home()) / ".cache"
    system, machine = _platform()
    version = kubernetes_version(modules)
    digest = _digest(modules, build_steps(modules), system, machine)
    return base / "karpenter-controlplane" / f"{version}-{system}-{machine}-{digest}"


def _digest(modules: Path, steps: tuple[BuildStep, ...], system: str, machine: str) -> str:
    """Hash all that decides the result but the Go release: a newer compiler is no reason to build again."""
    digest = hashlib.sha256(f"{system}/{machine}".encode())
    sources = sorted({*modules.rglob("go.mod"), *modules.rglob("go.sum"), *modules.rglob("*.go")})
    for source in sources:
        content = source.read_bytes()
        digest.update(f"\0{source.relative_to(modules).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    for step in steps:
        digest.update("\0".join(("", step.title, *step.arguments)).encode())
    return digest.hexdigest()[:12]


def _platform() -> tuple[str, str]:
    machine = platform.machine().lower()
    return platform.system().lower(), _MACHINES.get(machine, machine)


def _require_assets(directory: Path) -> Binaries:
    missing = _missing(directory)
    if missing:
        raise BinariesMissingError(
            f"{ASSETS_VARIABLE}={directory} has no {', '.join(missing)}",
            hint="put what is missing there (envtest packs lack the controller manager and the scheduler), "
            f"or unset {ASSETS_VARIABLE} and run `{BUILD_COMMAND}`",
        )
    return Binaries(directory)


def _missing(directory: Path) -> list[str]:
    return [each for each in COMMANDS if not os.access(directory / each, os.X_OK)]


def _hint(environ: Mapping[str, str]) -> str:
    if find_go(environ) is None:
        return (
            f"install Go 1.24 or newer (https://go.dev/dl) and run `{BUILD_COMMAND}`, "
            f"or set {ASSETS_VARIABLE} to a directory with {', '.join(COMMANDS)}"
        )
    return f"run `{BUILD_COMMAND}` (once; {BUILD_TIME})"


def _build(go: Path, directory: Path, environ: Mapping[str, str], say: Say, modules: Path) -> None:
    """Build all programs and move them into place; the caller holds the lock."""
    for left_over in directory.parent.glob(f"{directory.name}.partial-*"):
        # We hold the lock, so whoever began this one is dead.
        shutil.rmtree(left_over, ignore_errors=True)
    system, machine = _platform()
    partial = Path(tempfile.mkdtemp(prefix=f"{directory.name}.partial-", dir=directory.parent))
    progress = Progress(say)
    try:
        say(f"building the control plane into {directory} (once; {BUILD_TIME})")
        run_steps(
            go,
            build_steps(modules),
            partial,
            {**environ, "GOOS": system, "GOARCH": machine},
            progress,
        )
        shutil.rmtree(directory, ignore_errors=True)
        partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    say(f"built the control plane in {elapsed_text(progress.elapsed_s)}")


@contextmanager
def _lock(path: Path, say: Say) -> Iterator[None]:
    """Hold an exclusive lock on a file; the kernel lets go of it if we die."""
    progress = Progress(say)
    with path.open("wb") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress.tick(f"waiting for another build, which holds {path}")
                time.sleep(0.1)
        yield
