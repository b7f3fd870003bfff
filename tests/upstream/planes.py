# SPDX-License-Identifier: Apache-2.0
"""A cluster with its AWS account for one suite, as environment variables that the suite's program reads.

Each suite has a sandbox of its own, because every spec demands a cluster without NodePools, nodes and pods.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karpenter.errors import KarpenterError
from tests.e2e.controlplane.binaries import find_binaries

__all__ = ["prepare", "sandbox"]

_MANIFEST: Final = Path(__file__).with_name("eks.yaml")
_CLUSTER: Final = "sandbox"
_REGION: Final = "us-west-2"
_GATES: Final = (
    "NodeRepair=true,NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true,SpotToSpotConsolidation=true"
)
_START_S: Final = 180.0
# Longer than any suite; the sandbox ends by itself should this process be killed.
_LIFE: Final = "3h"


@contextlib.contextmanager
def sandbox(name: str, environ: Mapping[str, str], *, speed: float) -> Iterator[dict[str, str]]:
    """Run a sandbox and yield the environment of a suite.

    Raises:
        KarpenterError: It did not come up.
    """
    name = f"upstream-{name}"
    settings = {**environ, "FEATURE_GATES": _GATES}
    up = ("up", "--name", name, "--speed", f"{speed:g}", "--region", _REGION, "--life", _LIFE, "-o", "json")
    try:
        where = json.loads(_karpenter(*up, environ=settings))
        yield {
            **environ,
            "KUBECONFIG": where["kubeconfig"],
            "AWS_ENDPOINT_URL": where["ec2"],
            "AWS_REGION": _REGION,
            "AWS_ACCESS_KEY_ID": "sandbox",
            "AWS_SECRET_ACCESS_KEY": "sandbox",
            "AWS_EC2_METADATA_DISABLED": "true",
            "CLUSTER_NAME": _CLUSTER,
            "CLUSTER_ENDPOINT": where["server"],
            "INTERRUPTION_QUEUE": _CLUSTER,
        }
    finally:
        _karpenter("down", "--name", name, "-o", "json", environ=settings)


def prepare(environ: Mapping[str, str]) -> None:
    """Apply what an EKS cluster has and the plane lacks."""
    kubectl = find_binaries(environ).path("kubectl")
    _run([str(kubectl), "apply", "-f", str(_MANIFEST)], environ)


def _karpenter(*arguments: str, environ: Mapping[str, str]) -> str:
    return _run([sys.executable, "-m", "karpenter", "sandbox", *arguments], environ)


def _run(command: list[str], environ: Mapping[str, str]) -> str:
    done: subprocess.CompletedProcess[Any] = subprocess.run(
        command, env=dict(environ), capture_output=True, text=True, timeout=_START_S, check=False
    )
    if done.returncode:
        raise KarpenterError(f"`{' '.join(command[-6:])}` failed: {done.stderr.strip()[-1500:]}")
    return str(done.stdout)
