# SPDX-License-Identifier: Apache-2.0
"""Go builds of the programs that the modules in e2e/controlplane name.

Decides the steps (one for each Go module) and their flags from the version in go.mod, and runs them with
the user's Go. Module downloads are checked against go.sum as always; modules are never changed by a build.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.controlplane.errors import BuildFailedError
from tests.e2e.controlplane.processes import ChildProcess, ProcessGroup
from tests.e2e.controlplane.progress import Progress

__all__ = ["MODULE_DIRECTORY", "BuildStep", "build_steps", "find_go", "kubernetes_version", "run_steps"]

MODULE_DIRECTORY = Path(__file__).resolve().parents[3] / "e2e" / "controlplane"

_KUBERNETES_COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_VERSION = re.compile(r"^(?:require|\s)\s*k8s\.io/kubernetes\s+(v(\d+)\.(\d+)\.\d+\S*)", re.MULTILINE)
# Where Go's own installation guide puts it; shells that are no login shells often lack it in PATH.
_USUAL_GO = Path("/usr/local/go/bin/go")


@dataclass(frozen=True)
class BuildStep:
    """One call of ``go build``."""

    title: str
    directory: Path
    arguments: tuple[str, ...]
    products: tuple[str, ...]


def kubernetes_version(modules: Path) -> str:
    """Return the Kubernetes release that go.mod asks for, like ``v1.34.4``."""
    return _version(modules)[1]


def build_steps(modules: Path) -> tuple[BuildStep, ...]:
    """Return the builds to make, the quick one first."""
    match = _version(modules)
    # Without these, kubectl reports a version that it cannot parse itself.
    stamps = {"gitVersion": match[1], "gitMajor": match[2], "gitMinor": match[3]}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamp_flags = [f"-X {package}.{name}={value}" for package in packages for name, value in stamps.items()]
    etcd = BuildStep("etcd", modules / "etcd", _arguments(["."]), ("etcd",))
    kubernetes = BuildStep(
        f"Kubernetes {match[1]}",
        modules,
        _arguments([f"k8s.io/kubernetes/cmd/{each}" for each in _KUBERNETES_COMMANDS], stamp_flags),
        _KUBERNETES_COMMANDS,
    )
    return etcd, kubernetes


def find_go(environ: Mapping[str, str], usual: Path = _USUAL_GO) -> Path | None:
    """Return the go command of the PATH, of GOROOT, or of the usual place; None if there is none."""
    found = shutil.which("go", path=environ.get("PATH", ""))
    if found:
        return Path(found)
    candidates = [Path(environ["GOROOT"], "bin", "go")] if environ.get("GOROOT") else []
    candidates.append(usual)
    return next((each for each in candidates if os.access(each, os.X_OK)), None)


def run_steps(
    go: Path, steps: Sequence[BuildStep], output: Path, environ: Mapping[str, str], progress: Progress
) -> None:
    """Run the builds one after another, with their programs going to ``output``.

    Raises:
        BuildFailedError: names the step and ends with what Go said.
    """
    # A workspace file in a parent directory must not change what is built; cgo would need a C compiler.
    environ = {**environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    logs = output / "logs"
    logs.mkdir()
    with ProcessGroup(logs) as group:
        for number, step in enumerate(steps, start=1):
            label = f"{number}/{len(steps)} {step.title}"
            argv = [str(go), "build", "-v", "-o", f"{output}{os.sep}", *step.arguments]
            build = group.start(
                step.title.split()[0].lower(), argv, environ=environ, directory=step.directory
            )
            # Builds take all cores for minutes; whatever else the person does goes first.
            os.setpriority(os.PRIO_PROCESS, build.pid, 10)
            _follow(build, label, progress)
            missing = [each for each in step.products if not (output / each).exists()]
            if build.exit_code != 0 or missing:
                raise BuildFailedError(
                    f"go build of {step.title} ended with exit code {build.exit_code}:\n{build.log_tail()}",
                    hint=f"try it by hand: cd {step.directory} && {go} build -o /tmp/ {step.arguments[-1]}",
                )


def _follow(build: ChildProcess, label: str, progress: Progress) -> None:
    """Wait for a build and say now and again what it is at: with -v, Go names each package it has done."""
    while build.is_running:
        progress.tick(f"{label}: {build.log_tail(1) or 'under way'}")
        time.sleep(0.05)
    progress.line(f"{label}: {'done' if build.exit_code == 0 else 'failed'}")


def _arguments(packages: Sequence[str], stamps: Sequence[str] = ()) -> tuple[str, ...]:
    linker = " ".join(["-s -w", *stamps])
    return ("-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags={linker}", *packages)


def _version(modules: Path) -> re.Match[str]:
    match = _VERSION.search((modules / "go.mod").read_text(encoding="utf-8"))
    if match is None:
        raise BuildFailedError(
            f"{modules / 'go.mod'} does not require k8s.io/kubernetes at a release",
            hint="it needs a line such as: require k8s.io/kubernetes v1.34.4",
        )
    return match
