# SPDX-License-Identifier: Apache-2.0
"""What is told of a claim that is held up: by a cloud that does not answer, or by an API server that refuses writes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from karpenter.api import labels as names
from karpenter.api.conditions import LAUNCHED, is_true
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.protocol import Machine
from karpenter.controllers.poolproblems import PoolProblems, Topic, sentence
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.kube import ConflictError, FencedError, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.observe import get_log
from karpenter.state import Cluster

__all__ = ["LaunchReports"]

# Launches take seconds; what takes longer is retried by the cloud's client, for minutes.
_SLOW_S: Final = 15.0


class LaunchReports:
    """Tells on claims, and while they wait for their machine on their pools and pods too."""

    def __init__(self, cluster: Cluster, recorder: Recorder, clock: Clock, problems: PoolProblems) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._clock = clock
        self._problems = problems
        self._log = get_log("nodeclaim.lifecycle")

    async def watched(self, claim: NodeClaim, launching: Coroutine[Any, Any, Machine]) -> Machine:
        """Return what a launch brings, and tell if it takes long: the cloud may be out of order."""
        telling = asyncio.ensure_future(self._tell_slow(claim))
        try:
            return await launching
        finally:
            telling.cancel()

    def failed(self, name: str, error: Exception) -> None:
        """Tell why a step of a claim failed, unless that passes by itself or is a defect of ours."""
        claim = self._cluster.informers.claims.get(name)
        passing = isinstance(error, ConflictError | NotFoundError | FencedError)
        if claim is None or passing or not isinstance(error, KarpenterError):
            return
        if is_true(claim.status.conditions, LAUNCHED):
            subject = Subject.of(NODE_CLAIMS, claim)
            self._recorder.tell(subject, "ReconcileFailed", sentence(error), type="Warning")
        else:
            self._report(claim, sentence(error))

    async def _tell_slow(self, claim: NodeClaim) -> None:
        await self._clock.sleep(_SLOW_S)
        words = (
            f"the cloud has not launched its machine for {_SLOW_S:g} s, and is asked on;"
            " see the health of its services, and the log"
        )
        self._log.warning("launching takes long", NodeClaim={"name": claim.metadata.name}, detail=words)
        self._report(claim, words)

    def _report(self, claim: NodeClaim, why: str) -> None:
        words = f"NodeClaim {claim.metadata.name} is not launched: {why}"
        pool = claim.metadata.labels.get(names.NODEPOOL, "")
        self._problems.report(pool, Topic.LAUNCH, "LaunchFailed", words, claim=claim)
