# SPDX-License-Identifier: Apache-2.0
"""Defaulting: a missing field, or a null where null is not allowed, takes its schema's default.

Follows apiextensions-apiserver: defaults reach into list items and mapping values, and into defaults
themselves, but never make an object that is absent and has no default of its own. The input is never
changed.
"""

from __future__ import annotations

from typing import Any

from karpenter.api.schema.structural import MISSING, Node

__all__ = ["apply_defaults"]


def apply_defaults(value: Any, node: Node | None) -> Any:
    """Return a deep copy of the value with its defaults filled in."""
    if isinstance(value, list):
        items = node.items if node else None
        return [apply_defaults(_unless_null(item, items), items) for item in value]
    if not isinstance(value, dict):
        return value
    filled = {}
    for key, inner in value.items():
        below = node.below(key) if node else None
        filled[key] = apply_defaults(_unless_null(inner, below), below)
    for key, property_ in node.properties.items() if node else ():
        if key not in filled and property_.default is not MISSING:
            filled[key] = apply_defaults(property_.default, property_)
    return filled


def _unless_null(value: Any, node: Node | None) -> Any:
    if value is None and node and not node.nullable and node.default is not MISSING:
        return node.default
    return value
