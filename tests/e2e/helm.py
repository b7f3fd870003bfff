# SPDX-License-Identifier: Apache-2.0
"""The helm command, built once from its Go module into a cache of the user, and a caller for it.

The cache's key is a hash of the module files, so another release is another program. ``HELM`` names a program to use
instead. Nothing is downloaded but Go modules, which go.sum checks.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.controlplane.toolchain import find_go

__all__ = ["CHARTS", "Helm", "find_helm"]

_ROOT = Path(__file__).resolve().parents[2]
CHARTS = _ROOT / "charts"
_MODULE = _ROOT / "e2e" / "helm"
_BUILD_TIMEOUT_S = 1200
# As helm's own releases are stamped: without them it takes an unknown cluster for a very old one.
_STAMPS = "-s -w " + " ".join(
    f"-X helm.sh/helm/v3/pkg/{package}.{name}={value}"
    for package in ("lint/rules", "chartutil")
    for name, value in (("k8sVersionMajor", 1), ("k8sVersionMinor", 34))
)


def find_helm(environ: Mapping[str, str]) -> Path:
    """Give the program, built first if it is not in the cache."""
    if environ.get("HELM"):
        return Path(environ["HELM"])
    files = b"".join((_MODULE / each).read_bytes() for each in ("go.mod", "go.sum"))
    digest = hashlib.sha256(files + _STAMPS.encode())
    base = Path(environ.get("XDG_CACHE_HOME") or Path(environ["HOME"]) / ".cache")
    program = base / "karpenter-helm" / digest.hexdigest()[:12] / "helm"
    if os.access(program, os.X_OK):
        return program
    go = find_go(environ)
    if go is None:
        pytest.fail("helm cannot be built: Go is not installed; set HELM to a helm of release 3")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="partial-", dir=program.parent) as partial:
        built = Path(partial) / "helm"
        subprocess.run(
            [
                go,
                "build",
                "-mod=readonly",
                "-trimpath",
                f"-ldflags={_STAMPS}",
                "-o",
                built,
                "helm.sh/helm/v3/cmd/helm",
            ],
            cwd=_MODULE,
            env={**environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            check=True,
            timeout=_BUILD_TIMEOUT_S,
        )
        # Complete or not there at all: another run may be building beside this one.
        built.rename(program)
    return program


class Helm:
    """Calls helm with a kubeconfig and a home of its own."""

    def __init__(self, program: Path, home: Path, kubeconfig: Path | None = None) -> None:
        self._program = program
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "HELM_CACHE_HOME": str(home / "cache"),
            "HELM_CONFIG_HOME": str(home / "config"),
            "HELM_DATA_HOME": str(home / "data"),
            "KUBECONFIG": str(kubeconfig or home / "none"),
        }

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Call helm and give what it said, whatever its exit code."""
        return subprocess.run(
            [self._program, *arguments],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def __call__(self, *arguments: str | Path) -> str:
        """Call helm and give what it printed; it must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout
