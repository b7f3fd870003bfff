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
from karpenter.sandbox.stack.installation import IMAGE, installation
from karpenter.sandbox.stack.manifests import eks_addons
from karpenter.sandbox.stack.record import Options as InstallationOptions
from tests.e2e.controlplane.binaries import find_binaries
from tests.e2e.goprovider import WithoutController
from tests.e2e.scenarios.planes import plane_named
from tests.upstream.account import prepare_account

__all__ = ["CLUSTER", "CONTROLLERS", "PLANES", "PlaneOptions", "started"]

PLANES: Final = ("sandbox", "real")
CONTROLLERS: Final = ("ours", "go")
CLUSTER: Final = "sandbox"

_REGION: Final = "us-west-2"
# Where the suites look for the controller.
_NAMESPACE: Final = "kube-system"
_GATES: Final = (
    "NodeRepair=true,NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true,SpotToSpotConsolidation=true"
)
_START_S: Final = 180.0
# Longer than any run of specs; the sandbox ends by itself should this process be killed.
_LIFE: Final = "3h"


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    """What kind of plane specs run on.

    Attributes:
        kind: One of ``PLANES``.
        controller: One of ``CONTROLLERS``.
        speed: How many times as fast machines boot.
        go_program: The original's program, where the controller is the original.
        min_values_policy: Setting of the controller.
        ip_family: Of the cluster.
        local_zone: Whether there is a subnet in a Local Zone.
    """

    kind: str = "sandbox"
    controller: str = "ours"
    speed: float = 10.0
    go_program: Path | None = None
    min_values_policy: str = "Strict"
    ip_family: str = "ipv4"
    local_zone: bool = False

    @property
    def settings(self) -> dict[str, str]:
        """Settings of the controller by flag."""
        return {
            "feature-gates": _GATES,
            "min-values-policy": self.min_values_policy,
            # The original always shows a series for each instance type and zone; ours does on request.
            "detailed-metrics": "all",
        }


@contextlib.contextmanager
def started(
    name: str, options: PlaneOptions, environ: Mapping[str, str], directory: Path
) -> Iterator[dict[str, str]]:
    """Run a plane and yield the environment of a suite; the plane's logs go into a directory.

    Raises:
        KarpenterError: It did not come up.
    """
    directory.mkdir(parents=True, exist_ok=True)
    plane = (
        _sandbox(name, options, environ, directory)
        if options.kind == "sandbox"
        else _real(options, directory)
    )
    with plane as found:
        given = {**environ, **_account(), **found}
        prepare_account(given, local_zone=options.local_zone)
        if options.local_zone:
            _restart_controller(given)
        yield given


@contextlib.contextmanager
def _sandbox(
    name: str, options: PlaneOptions, environ: Mapping[str, str], directory: Path
) -> Iterator[dict[str, str]]:
    wishes = {
        "--speed": f"{options.speed:g}",
        "--region": _REGION,
        "--ip-family": options.ip_family,
        "--life": _LIFE,
        "--controller-namespace": _NAMESPACE,
        **({"--controller-program": str(options.go_program)} if options.go_program else {}),
    }
    flags = ["--eks-addons", *(word for pair in wishes.items() for word in pair)]
    flags += [word for flag, value in options.settings.items() for word in ("--set", f"{flag}={value}")]
    home: Path | None = None
    try:
        where = json.loads(_karpenter("up", "--name", name, *flags, "-o", "json", environ=environ))
        home = Path(where["kubeconfig"]).parent
        yield {
            "KUBECONFIG": where["kubeconfig"],
            "AWS_ENDPOINT_URL": where["ec2"],
            "CLUSTER_ENDPOINT": where["server"],
        }
    finally:
        if home is not None:
            shutil.copytree(home / "logs", directory, dirs_exist_ok=True)
        _karpenter("down", "--name", name, "-o", "json", environ=environ)


@contextlib.contextmanager
def _real(options: PlaneOptions, directory: Path) -> Iterator[dict[str, str]]:
    """Run Kubernetes' own control plane with the sandbox's machines, one of which runs the controller's pods."""
    with plane_named("real", directory / "plane") as plane:
        programs = _Programs(
            plane,
            directory,
            model=("--speed", f"{options.speed:g}", "--ip-family", options.ip_family),
            # As the sandbox does at this speed: a busy machine must not lose healthy nodes.
            kubelets=("--job-time", "20s"),
        )
        with programs:
            image = f"{IMAGE}={options.go_program or 'karpenter'}"
            where = ("--kubeconfig", str(plane.kubeconfig), "--state", str(directory), "--program", image)
            programs.start("system-node", "sandbox", "system-node", *where)
            wishes = InstallationOptions(
                speed=options.speed,
                controller_namespace=_NAMESPACE,
                controller_program=str(options.go_program or ""),
                settings=options.settings,
            )
            items = {"apiVersion": "v1", "kind": "List", "items": [*installation(wishes), *eks_addons()]}
            plane.kubectl("apply", "-f", "-", input=json.dumps(items))
            plane.kubectl(
                *("rollout", "status", "deployment/karpenter", "-n", _NAMESPACE, f"--timeout={_START_S:g}s"),
                timeout_s=_START_S + 10,
            )
            yield {
                "KUBECONFIG": str(plane.kubeconfig),
                "AWS_ENDPOINT_URL": programs.endpoint,
                "CLUSTER_ENDPOINT": plane.url,
            }


class _Programs(WithoutController):
    """The programs beside a control plane; the controller's own is a pod of the system node."""

    @property
    def environ(self) -> Mapping[str, str]:
        """What the programs need to find the control plane and the model, with all rights in the account."""
        return {**super().environ, **_account()}


def _account() -> dict[str, str]:
    return {
        "AWS_REGION": _REGION,
        "AWS_ACCESS_KEY_ID": "sandbox",
        "AWS_SECRET_ACCESS_KEY": "sandbox",
        "AWS_EC2_METADATA_DISABLED": "true",
        "CLUSTER_NAME": CLUSTER,
        "INTERRUPTION_QUEUE": CLUSTER,
    }


def _restart_controller(environ: Mapping[str, str]) -> None:
    """Start the controller anew: it asks once in hours where instance types are sold."""
    kubectl = str(find_binaries(environ).path("kubectl"))
    for words in (("restart",), ("status", f"--timeout={_START_S:g}s")):
        _run([kubectl, "rollout", *words, "deployment/karpenter", "-n", _NAMESPACE], environ)


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
