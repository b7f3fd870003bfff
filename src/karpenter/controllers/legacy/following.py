# SPDX-License-Identifier: Apache-2.0
"""Follows the old kinds, as they are stored, if the server serves them; looks now and then whether it does by now.

Whoever acts on them must wait until both have been heard of in this run: pools and node templates mean something
only together, and a list from before an interruption may lack what was deleted meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from karpenter.kit.clock import Clock
from karpenter.kube import Client, Informer, Kind, NotFoundError
from karpenter.state import Stored

__all__ = ["STORED_PROVISIONERS", "STORED_TEMPLATES", "OldKinds"]

STORED_PROVISIONERS: Final = Kind(Stored, "Provisioner", "provisioners", "v1alpha5", "karpenter.sh")
STORED_TEMPLATES: Final = Kind(Stored, "AWSNodeTemplate", "awsnodetemplates", "v1alpha1", "karpenter.k8s.aws")

_ASK_AGAIN_S: Final = 30.0


class OldKinds:
    """The Provisioners and AWSNodeTemplates of the cluster."""

    def __init__(
        self, client: Client, clock: Clock, on_error: Callable[[Exception], None] | None = None
    ) -> None:
        self._client = client
        self._clock = clock
        self.provisioners: Informer[Stored] = Informer(
            client, STORED_PROVISIONERS, clock=clock, on_error=on_error
        )
        self.templates: Informer[Stored] = Informer(client, STORED_TEMPLATES, clock=clock, on_error=on_error)
        self._absent: set[str] = set()
        self._since = float("inf")

    @property
    def is_ready(self) -> bool:
        """Tells whether each kind has been listed in this run, or is known not to be served."""
        return all(self._is_known(each) for each in (self.provisioners, self.templates))

    @property
    def is_empty(self) -> bool:
        """Tells whether there is nothing old to look after."""
        return not len(self.provisioners) and not len(self.templates)

    async def run(self) -> None:
        """Follows until cancelled."""
        self._since = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for informer in (self.provisioners, self.templates):
                group.create_task(self._follow(informer))

    async def _follow(self, informer: Informer[Stored]) -> None:
        kind = informer.kind
        while not await self._is_served(kind):
            self._absent.add(kind.plural)
            await self._clock.sleep(_ASK_AGAIN_S)
        self._absent.discard(kind.plural)
        await informer.run()

    async def _is_served(self, kind: Kind[Stored]) -> bool:
        try:
            await self._client.list(kind, page=1)
        except NotFoundError:
            return False
        return True

    def _is_known(self, informer: Informer[Stored]) -> bool:
        if informer.kind.plural in self._absent:
            return True
        return informer.heard_at is not None and informer.heard_at >= self._since
