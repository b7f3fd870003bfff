# SPDX-License-Identifier: Apache-2.0
"""The Go Karpenter for comparison: its own kwok build, made once into the user's cache from the public module.

The program is the original's `kwok` command, unchanged. Its nodes would need KWOK to become ready; our kubelet
does that where it matters, so KWOK is not run.

There is a second, *hasty* build of the same sources with one constant changed: it does not wait 15 seconds before it
validates a removal. A thousand nodes take the original many hours, most of which it waits; the hasty one shows within
one or two how far it would have come.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.toolchain import PeerUnavailableError, Say, build_peer, karpenter_version

__all__ = [
    "GO_SOURCES",
    "GoPeer",
    "build_go_peer",
    "build_hasty_go_peer",
    "go_environment",
    "node_class",
    "version",
    "without_wait",
]

GO_SOURCES: Final = Path(__file__).parent / "go"
_PACKAGE: Final = "sigs.k8s.io/karpenter/kwok"
_MODULE: Final = "sigs.k8s.io/karpenter"
_GROUP: Final = "karpenter.kwok.sh"
_WAITING: Final = Path("pkg", "controllers", "disruption", "consolidation.go")
_WAIT: Final = "const commandValidationDelay = 15 * time.Second"
_NO_WAIT: Final = "const commandValidationDelay = 0 * time.Second"


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


def build_hasty_go_peer(environ: Mapping[str, str], say: Say) -> GoPeer:
    """Gives the Go Karpenter that does not wait before it validates a removal, built first if it is not in the cache.

    Raises:
        PeerUnavailableError: Go is not installed, or could not build, or its sources are not as expected.
    """
    peer = build_go_peer(environ, say)
    sources = peer.program.parent / "hasty"
    if not sources.is_dir():
        with tempfile.TemporaryDirectory(prefix="partial-", dir=peer.program.parent) as partial:
            made = Path(partial) / "hasty"
            _copy_without_wait(_module(environ), made)
            made.rename(sources)
    program = build_peer(environ, say, sources, package=_PACKAGE, what="the hasty Go Karpenter (kwok)")
    return GoPeer(program, peer.crds)


def without_wait(source: str) -> str:
    """Gives the source file of the original that holds the wait, without the wait.

    Raises:
        PeerUnavailableError: The wait is not in it.
    """
    if source.count(_WAIT) != 1:
        raise PeerUnavailableError(
            f"{_WAITING} of {_MODULE} {version()} has no line `{_WAIT}`",
            hint="leave out the hasty sides, or name the line of this release in benchmarks/live/gopeer.py",
        )
    return source.replace(_WAIT, _NO_WAIT)


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
    module = _module(environ)
    partial = target.with_name("crds.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for folder in (module / "pkg" / "apis" / "crds", module / "kwok" / "apis" / "crds"):
        for each in folder.glob("*.yaml"):
            (partial / each.name).write_bytes(each.read_bytes())
    partial.replace(target)


def _copy_without_wait(module: Path, target: Path) -> None:
    """Makes a Go module that builds the original from a copy of its sources without the wait."""
    copied = target / "karpenter"
    # Files of Go's cache may not be written; their copies must be.
    shutil.copytree(module, copied, copy_function=shutil.copyfile)
    for each in [copied, *copied.rglob("*")]:
        each.chmod(0o755 if each.is_dir() else 0o644)
    waiting = copied / _WAITING
    waiting.write_text(without_wait(waiting.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copyfile(GO_SOURCES / "go.sum", target / "go.sum")
    required = (GO_SOURCES / "go.mod").read_text(encoding="utf-8")
    replaced = f"\n// {_NO_WAIT}\nreplace {_MODULE} => ./{copied.name}\n"
    (target / "go.mod").write_text(required + replaced, encoding="utf-8")


def _module(environ: Mapping[str, str]) -> Path:
    """Gives where Go keeps the sources of the original."""
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise PeerUnavailableError(
            "Go is not installed, so the sources of the Go Karpenter cannot be found",
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
    return module
