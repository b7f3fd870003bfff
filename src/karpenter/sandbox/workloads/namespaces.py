# SPDX-License-Identifier: Apache-2.0
"""Namespaces that are being deleted: everything in them goes first, then they do.

What the server serves is asked anew for each namespace, so that nothing of a kind that came late stays behind.
"""

from __future__ import annotations

from typing import Final

import msgspec

from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.workloads.client import Client
from karpenter.sandbox.workloads.discovery import discover
from karpenter.sandbox.workloads.resources import NAMESPACE, POD, Resource, Wire, is_deleted
from karpenter.sandbox.workloads.world import Controller, World

__all__ = ["Namespaces"]

_AGAIN_S: Final = 0.5
_KUBERNETES: Final = "kubernetes"


class Namespaces(Controller):
    """Empties namespaces and lets them go."""

    name = "namespace"
    source = "namespace-controller"
    resource = NAMESPACE

    def __init__(self, world: World, client: Client) -> None:
        self._client = client
        super().__init__(world)

    async def reconcile(self, wire: Wire) -> float | None:
        """Deletes what is left in a namespace, and the namespace when nothing is."""
        finalizers = (wire.get("spec") or {}).get("finalizers") or []
        if not is_deleted(wire) or _KUBERNETES not in finalizers:
            return None
        name = wire["metadata"]["name"]
        served = [each for each in await discover(self.world.api) if each.namespaced]
        left = 0
        # Pods last: what makes pods must not make new ones.
        for resource in sorted(served, key=lambda each: each == POD):
            left += await self._empty(resource, name)
        if left:
            return _AGAIN_S
        kept = [each for each in finalizers if each != _KUBERNETES]
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "resourceVersion": wire["metadata"]["resourceVersion"]},
            "spec": {"finalizers": kept},
        }
        await self._client.put(NAMESPACE.path(name=name, part="finalize"), body)
        return None

    async def _empty(self, resource: Resource, namespace: str) -> int:
        """Deletes what is there and tells how much that was."""
        path = resource.path(namespace)
        try:
            found = msgspec.json.decode(await self.world.api.get(path)).get("items") or ()
        except ApiError as refused:
            if refused.status in (404, 405):
                return 0
            raise
        for each in found:
            if not is_deleted(each):
                await self.world.delete(resource, each, propagation="Background")
        return len(found)
