# SPDX-License-Identifier: Apache-2.0
"""What people do with the product, from the same files on a real control plane and on the sandbox.

==============  =================================================================================================
``planes``      what a scenario needs of a control plane, the sandbox as one, and a fixture over both
``manifests``   what people apply, word for word
``commands``    what people type into a shell, word for word
``acting``      what people type, and what they look at afterwards
==============  =================================================================================================
"""

from __future__ import annotations

from tests.e2e.scenarios.acting import (
    has_rows_of_describe_node,
    manifest,
    node_types,
    nodes_labelled,
    rollout,
    scale,
    wait_until_ready,
)
from tests.e2e.scenarios.planes import PLANES, Plane, SandboxPlane, plane_named

__all__ = [
    "PLANES",
    "Plane",
    "SandboxPlane",
    "has_rows_of_describe_node",
    "manifest",
    "node_types",
    "nodes_labelled",
    "plane_named",
    "rollout",
    "scale",
    "wait_until_ready",
]
