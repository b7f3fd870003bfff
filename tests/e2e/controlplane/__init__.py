# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes control plane for tests: built once, started in seconds, gone with the test run.

::

    with ControlPlane() as plane:
        plane.kubectl("create", "namespace", "shop")
        plane.request("GET", "/api/v1/namespaces/shop").json()

`python -m tests.e2e.controlplane build` builds the programs, ``path`` says where they are, ``up`` runs a
plane until Ctrl-C.
"""

from __future__ import annotations

from tests.e2e.controlplane.binaries import Binaries, build_binaries, find_binaries
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.controlplane.connection import Connection, Reply
from tests.e2e.controlplane.errors import (
    BinariesMissingError,
    BuildFailedError,
    ComponentFailedError,
    ControlPlaneError,
    KubectlFailedError,
)
from tests.e2e.controlplane.processes import ChildProcess, ProcessGroup
from tests.e2e.controlplane.waiting import eventually

__all__ = [
    "Binaries",
    "BinariesMissingError",
    "BuildFailedError",
    "ChildProcess",
    "ComponentFailedError",
    "Connection",
    "ControlPlane",
    "ControlPlaneError",
    "KubectlFailedError",
    "ProcessGroup",
    "Reply",
    "build_binaries",
    "eventually",
    "find_binaries",
]
