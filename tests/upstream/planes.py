# SPDX-License-Identifier: Apache-2.0
"""Clusters with their AWS account for specs, as environment variables that a suite's program reads.

The plane is the sandbox, or Kubernetes' own API server, controller manager and scheduler with the sandbox's kubelets
and EC2 model; the controller is ours, or the original. Every spec demands a cluster without NodePools, nodes and pods.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from karpenter.errors import KarpenterError
from tests.e2e.controlplane.binaries import find_binaries
from tests.e2e.goprovider import WithoutController, go_controller
from tests.e2e.product import Product
from tests.e2e.scenarios.planes import plane_named
from tests.upstream.account import prepare_account

__all__ = ["CLUSTER", "CONTROLLERS", "PLANES", "PlaneOptions", "started"]

PLANES: Final = ("sandbox", "real")
CONTROLLERS: Final = ("ours", "go")
CLUSTER: Final = "sandbox"

_MANIFEST: Final = Path(__file__).with_name("eks.yaml")
_REGION: Final = "us-west-2"
_GATES: Final = (
    "NodeRepair=true,NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true,SpotToSpotConsolidation=true"
)
_START_S: Final = 180.0
# Longer than any run of specs; the sandbox ends by itself should this process be killed.
_LIFE: Final = "5h"


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    """What kind of plane specs run on.

    Attributes:
        kind: One of ``PLANES``.
        controller: One of ``CONTROLLERS``.
        speed: How many times as fast machines boot.
        go_program: The original's program, where the controller is the original.
    """

    kind: str = "sandbox"
    controller: str = "ours"
    speed: float = 10.0
    go_program: Path | None = None


@contextlib.contextmanager
def started(
    name: str, options: PlaneOptions, environ: Mapping[str, str], directory: Path
) -> Iterator[dict[str, str]]:
    """Run a plane and yield the environment of a suite; the plane's logs go into a directory.

    Raises:
        KarpenterError: It did not come up.
    """
    directory.mkdir(parents=True, exist_ok=True)
    whole = options.kind == "sandbox" and options.go_program is None
    plane = _sandbox(name, options, environ, directory) if whole else _parts(options, directory)
    with plane as found:
        given = {**environ, **_account(), **found}
        _apply(_MANIFEST, given)
        prepare_account(given)
        yield given


@contextlib.contextmanager
def _sandbox(
    name: str, options: PlaneOptions, environ: Mapping[str, str], directory: Path
) -> Iterator[dict[str, str]]:
    settings = {**environ, "FEATURE_GATES": _GATES}
    pace = ("--speed", f"{options.speed:g}", "--region", _REGION, "--life", _LIFE)
    logs: set[Path] = set()
    try:
        where = json.loads(_karpenter("up", "--name", name, *pace, "-o", "json", environ=settings))
        logs = {Path(each["log"]).parent for each in where["processes"]}
        yield {
            "KUBECONFIG": where["kubeconfig"],
            "AWS_ENDPOINT_URL": where["ec2"],
            "CLUSTER_ENDPOINT": where["server"],
        }
    finally:
        for each in logs:
            shutil.copytree(each, directory, dirs_exist_ok=True)
        _karpenter("down", "--name", name, "-o", "json", environ=settings)


@contextlib.contextmanager
def _parts(options: PlaneOptions, directory: Path) -> Iterator[dict[str, str]]:
    """Run the parts of a plane that is not the sandbox with our controller."""
    kind = WithoutController if options.go_program else Product
    with plane_named(options.kind, directory / "plane") as plane:
        product = kind(plane, directory, model=("--speed", f"{options.speed:g}"), **{"feature-gates": _GATES})
        with product, contextlib.ExitStack() as stack:
            if options.go_program:
                gates = {"FEATURE_GATES": _GATES}
                stack.enter_context(go_controller(product, options.go_program, directory, gates))
            yield {
                "KUBECONFIG": str(plane.kubeconfig),
                "AWS_ENDPOINT_URL": product.endpoint,
                "CLUSTER_ENDPOINT": plane.url,
            }


def _account() -> dict[str, str]:
    return {
        "AWS_REGION": _REGION,
        "AWS_ACCESS_KEY_ID": "sandbox",
        "AWS_SECRET_ACCESS_KEY": "sandbox",
        "AWS_EC2_METADATA_DISABLED": "true",
        "CLUSTER_NAME": CLUSTER,
        "INTERRUPTION_QUEUE": CLUSTER,
    }


def _apply(manifest: Path, environ: Mapping[str, str]) -> None:
    """Apply what an EKS cluster has and the plane lacks."""
    kubectl = find_binaries(environ).path("kubectl")
    _run([str(kubectl), "apply", "-f", str(manifest)], environ)


def _karpenter(*arguments: str, environ: Mapping[str, str]) -> str:
    return _run([sys.executable, "-m", "karpenter", "sandbox", *arguments], environ)


def _run(command: list[str], environ: Mapping[str, str]) -> str:
    try:
        done: subprocess.CompletedProcess[Any] = subprocess.run(
            command, env=dict(environ), capture_output=True, text=True, timeout=_START_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise KarpenterError(f"`{' '.join(command[-6:])}` did not end within {_START_S:g} s") from error
    if done.returncode:
        raise KarpenterError(f"`{' '.join(command[-6:])}` failed: {done.stderr.strip()[-1500:]}")
    return str(done.stdout)
