# SPDX-License-Identifier: Apache-2.0
"""A fingerprint of what a NodePool says of its nodes: when it changes, nodes made before have drifted.

It covers the template's labels, annotations, taints, node class, expiry and termination grace; not requirements,
which are compared with each node's labels instead, nor budgets and limits, which say nothing of a node. The order
of taints does not matter, and a field left out equals a field at its default.

The version names this way of computing it. A claim that carries another version, such as the Go Karpenter's, has
not drifted: its fingerprint is written anew.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from karpenter.api.base import to_wire
from karpenter.api.nodepool import NodePool

__all__ = ["POOL_HASH_VERSION", "pool_hash"]

POOL_HASH_VERSION: Final = "py1"

_UNORDERED: Final = ("taints", "startupTaints")


def pool_hash(pool: NodePool) -> str:
    """Gives the fingerprint of a pool's template, as a decimal number like Karpenter's."""
    template: dict[str, Any] = to_wire(pool.spec.template)
    spec = template.get("spec", {})
    spec.pop("requirements", None)
    for name in _UNORDERED:
        if name in spec:
            spec[name] = sorted(spec[name], key=lambda taint: sorted(taint.items()))
    canonical = msgspec.json.encode(template, order="deterministic")
    return str(int.from_bytes(hashlib.blake2b(canonical, digest_size=8).digest(), "big"))
