# SPDX-License-Identifier: Apache-2.0
"""The control planes that a row can run on: Kubernetes' own programs (``real``), or those of the sandbox.

The sandbox's API is not audited here: at a thousand nodes the log would cost more than the requests. Its nodes may be
silent for minutes before they count as lost, because everything shares one machine and a kubelet that is served late
is not what is measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.e2e.controlplane import ControlPlane
from tests.e2e.scenarios import PLANES, SandboxPlane

__all__ = ["PLANES", "SANDBOX", "AnyPlane", "make_plane"]

SANDBOX: Final = "sandbox"
_GRACE: Final = "5m"

AnyPlane = ControlPlane | SandboxPlane


def make_plane(name: str, directory: Path) -> AnyPlane:
    """Gives the control plane of a name of `PLANES`, not started; its files go into the directory and stay."""
    if name == SANDBOX:
        return SandboxPlane(directory, workloads=("--node-grace", _GRACE), audit=False)
    return ControlPlane(directory=directory, audit=True)
