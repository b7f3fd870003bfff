# SPDX-License-Identifier: Apache-2.0
"""Discovery of every group, whose answers hold no objects."""

from __future__ import annotations

from collections.abc import Iterator

from tests.e2e.conformance.requests import Request

__all__ = ["requests"]

_GROUPS = (
    "apiextensions.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
)


def requests() -> Iterator[Request]:
    """Gives the requests."""
    for group in _GROUPS:
        yield Request(f"discovery/{group}", "GET", f"/apis/{group}")
        yield Request(f"discovery/{group}/v1", "GET", f"/apis/{group}/v1")
