# SPDX-License-Identifier: Apache-2.0
"""The NodeOverlays that apply now, and instance types as they correct them.

Both planning and launching read it: a plan that relies on a resource which an overlay adds must find the same resource
when its node is launched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from karpenter.api.labels import NODEPOOL
from karpenter.api.nodepool import NodePool
from karpenter.controllers.overlays.applying import Overlay, applied
from karpenter.model.instancetypes import InstanceType

__all__ = ["OverlayStore", "overlay_labels"]


class OverlayStore:
    """Corrects instance types by the overlays that passed validation; none of them to begin with."""

    def __init__(self) -> None:
        self._overlays: tuple[Overlay, ...] = ()
        self._cached: dict[str, tuple[object, Sequence[InstanceType], Sequence[InstanceType]]] = {}

    def update(self, overlays: tuple[Overlay, ...]) -> bool:
        """Apply these overlays from now on, in this order; return whether they differ from those before."""
        if overlays == self._overlays:
            return False
        self._overlays = overlays
        return True

    def adjust(self, pool: NodePool | None, types: Sequence[InstanceType]) -> Sequence[InstanceType]:
        """Return instance types as the overlays correct them for a pool; unchanged if there is no pool."""
        if pool is None or not self._overlays:
            return types
        return applied(types, self._overlays, overlay_labels(pool))

    def adjust_cached(self, pool: NodePool, types: Sequence[InstanceType]) -> Sequence[InstanceType]:
        """Return the same as ``adjust``; the same object for a pool while its types and the overlays are the same."""
        if not self._overlays:
            return types
        inputs = (self._overlays, overlay_labels(pool))
        cached = self._cached.get(pool.metadata.name)
        if cached is None or cached[0] != inputs or cached[1] is not types:
            cached = (inputs, types, self.adjust(pool, types))
            self._cached[pool.metadata.name] = cached
        return cached[2]


def overlay_labels(pool: NodePool) -> Mapping[str, str]:
    """Return the labels of a pool's nodes that overlays can select by."""
    return {**pool.spec.template.metadata.labels, NODEPOOL: pool.metadata.name}
