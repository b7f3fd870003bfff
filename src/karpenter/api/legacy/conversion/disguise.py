# SPDX-License-Identifier: Apache-2.0
"""Objects that say v1 but were written through v1beta1.

An API server that serves both versions hands out every object as v1 without rewriting it, so what ``kubectl
get -o yaml`` prints may be v1beta1 in all but name. Whoever wrote a pool or claim through v1beta1 could not
name the group of its class, which v1 demands; a class written so may have a family without image terms, or
the family Ubuntu.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from karpenter.api.legacy.conversion import documents as docs
from karpenter.api.legacy.conversion.findings import RawObject

__all__ = ["written_through_v1beta1"]


def written_through_v1beta1(manifest: RawObject) -> RawObject | None:
    """Returns the object as v1beta1, without what v1 filled in when it was read; None if it is none."""
    version = manifest.get("apiVersion"), manifest.get("kind")
    if version == docs.V1_CLASS:
        spec = _mapping(manifest, "spec")
        is_beta = spec.get("amiFamily") == "Ubuntu" or (
            spec.get("amiFamily") and not spec.get("amiSelectorTerms")
        )
        return {**manifest, "apiVersion": docs.BETA_CLASS[0]} if is_beta else None
    if version not in (docs.V1_POOL, docs.V1_CLAIM):
        return None
    path = ("spec", "template", "spec") if version == docs.V1_POOL else ("spec",)
    reference = _mapping(manifest, *path, "nodeClassRef")
    if not reference.get("name") or reference.get("group"):
        return None
    written = {**deepcopy(manifest), "apiVersion": docs.BETA_POOL[0]}
    _mapping(written, *path).pop("expireAfter", None)
    return written


def _mapping(value: Any, *path: str) -> dict[str, Any]:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
