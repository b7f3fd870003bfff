# SPDX-License-Identifier: Apache-2.0
"""What is said of work that failed and is tried again: counted and logged alike by every controller."""

from __future__ import annotations

from collections.abc import Callable

from karpenter.observe.logs import Log
from karpenter.observe.metrics import Metrics

__all__ = ["reporting"]


def reporting(
    log: Log, metrics: Metrics, controller: str, kind: str
) -> Callable[[str, Exception, float], None]:
    """Gives the listener of a work queue whose keys are names of objects of one kind."""

    def failed(name: str, error: Exception, again_s: float) -> None:
        metrics.reconcile_errors.labels(controller).inc()
        log.error("Reconciler error", error=error, retry_in_s=round(again_s, 1), **{kind: {"name": name}})

    return failed
