# SPDX-License-Identifier: Apache-2.0
"""The Go Karpenter for comparison: its own kwok build, made once into the user's cache from the public module.

The program is the original's `kwok` command, unchanged. Its nodes would need KWOK to become ready; nothing that is
measured here happens after the node has been ordered, so KWOK is not run.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.toolchain import PeerUnavailableError, Say, build_peer, karpenter_version

__all__ = ["GO_SOURCES", "GoPeer", "build_go_peer", "go_environment", "node_class", "version"]

GO_SOURCES: Final = Path(__file__).parent / "go"
_PACKAGE: Final = "sigs.k8s.io/karpenter/kwok"
_MODULE: Final = "sigs.k8s.io/karpenter"
_GROUP: Final = "karpenter.kwok.sh"


@dataclass(frozen=True)
class GoPeer:
    """The program, and the CRDs that it needs."""

    program: Path
    crds: Path


def version() -> str:
    """Gives the release that is compared."""
    return karpenter_version(GO_SOURCES)


def build_go_peer(environ: Mapping[str, str], say: Say) -> GoPeer:
    """Gives the Go Karpenter, built first if it is not in the cache.

    Raises:
        PeerUnavailableError: Go is not installed, or could not build.
    """
    program = build_peer(environ, say, GO_SOURCES, package=_PACKAGE, what="the Go Karpenter (kwok)")
    crds = program.parent / "crds"
    if not crds.is_dir():
        _copy_crds(environ, crds)
    return GoPeer(program, crds)


def go_environment(
    environ: Mapping[str, str], kubeconfig: Path, *, metrics_port: int, health_port: int
) -> dict[str, str]:
    """Gives the environment in which the program leads a control plane, with its own defaults."""
    return {
        **environ,
        "KUBECONFIG": str(kubeconfig),
        "LEADER_ELECTION_NAMESPACE": "kube-system",
        "SYSTEM_NAMESPACE": "kube-system",
        "METRICS_PORT": str(metrics_port),
        "HEALTH_PROBE_PORT": str(health_port),
    }


def node_class(name: str = "default") -> dict[str, Any]:
    """Gives a node class of the kwok provider, whose nodes appear at once."""
    return {
        "apiVersion": f"{_GROUP}/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": name},
        "spec": {},
    }


def _copy_crds(environ: Mapping[str, str], target: Path) -> None:
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise PeerUnavailableError(
            "Go is not installed, so the CRDs of the Go Karpenter cannot be found",
            hint="install Go (https://go.dev/dl) and run this again",
        )
    command = [go, "list", "-m", "-f", "{{.Dir}}", _MODULE]
    found = subprocess.run(  # noqa: S603 - Go's own command, with nothing in it from outside
        command, cwd=GO_SOURCES, env=dict(environ), capture_output=True, text=True, check=False, timeout=120
    )
    module = Path(found.stdout.strip())
    if found.returncode or not module.is_dir():
        raise PeerUnavailableError(
            f"`go list` does not find the sources of {_MODULE}: {found.stderr.strip()}",
            hint="it needs a Go module proxy; try `go mod download` in benchmarks/live/go",
        )
    partial = target.with_name("crds.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for folder in (module / "pkg" / "apis" / "crds", module / "kwok" / "apis" / "crds"):
        for each in folder.glob("*.yaml"):
            (partial / each.name).write_bytes(each.read_bytes())
    partial.replace(target)
