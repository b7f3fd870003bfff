# SPDX-License-Identifier: Apache-2.0
"""All requests of the comparison, in the order in which they are sent."""

from __future__ import annotations

from tests.e2e.conformance.cases import (
    custom,
    deleting,
    kinds,
    lists,
    pods,
    refusals,
    shapes,
    workloads,
    writing,
)
from tests.e2e.conformance.requests import Request

__all__ = ["all_requests"]


def all_requests() -> list[Request]:
    """Gives every request; the first ones make what the others need."""
    modules = (kinds, writing, workloads, pods, refusals, lists, deleting, custom, shapes)
    return [request for module in modules for request in module.requests()]
