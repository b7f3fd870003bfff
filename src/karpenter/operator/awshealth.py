# SPDX-License-Identifier: Apache-2.0
"""Tells when AWS fails or answers late, while calls are still being retried.

A call is retried for two minutes before it fails, so its caller has nothing to say until then. Each request that AWS
fails (its own failure, or no answer at all) or takes long for is logged here, at once and then every minute, and from
the second on told as an event on the node classes, because they are what is launched from. A call that works again is
logged too. Refusals are not told here: the caller knows what they mean. How often each call fails and
how long it takes are metrics of the calls themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final

from karpenter.cloud.aws.api import CallRecord
from karpenter.cloud.aws.codes import Kind, classify
from karpenter.kit.clock import Clock
from karpenter.kube import Recorder, Subject
from karpenter.kube.kinds import EC2_NODE_CLASSES
from karpenter.observe import Log
from karpenter.state import Cluster

__all__ = ["AwsHealth"]

FAILING: Final = "AWSCallFailing"
SLOW: Final = "AWSCallSlow"

_SLOW_S: Final = 10.0
_LOG_EVERY_S: Final = 60.0
_QUIET_S: Final = 600.0
_MOST_CLASSES: Final = 20
# Waits for messages on purpose.
_PATIENT: Final = frozenset({"ReceiveMessage"})
_HINT: Final = (
    "calls are retried by themselves and launches go on where they can; see https://health.aws.amazon.com"
)


@dataclass(slots=True)
class _Trouble:
    since: float
    requests: int = 0
    logged_at: float = float("-inf")


class AwsHealth:
    """Hears of each request to AWS; see ``api.BotoAws``."""

    def __init__(self, cluster: Cluster, recorder: Recorder, clock: Clock, log: Log) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._clock = clock
        self._log = log
        self._troubles: dict[tuple[str, str], _Trouble] = {}

    def __call__(self, record: CallRecord) -> None:
        """Take in how a request went."""
        call = (record.service, record.operation)
        if _is_failure(record):
            self._tell(call, FAILING, f"fails: {record.code}")
        elif record.seconds >= _SLOW_S and record.operation not in _PATIENT:
            self._tell(call, SLOW, f"is answered after {record.seconds:.0f} s")
        elif (trouble := self._troubles.pop(call, None)) is not None:
            lasted_s = self._clock.monotonic() - trouble.since
            self._log.info("AWS call works again", call=" ".join(call), after_s=round(lasted_s))

    def _tell(self, call: tuple[str, str], reason: str, words: str) -> None:
        now = self._clock.monotonic()
        trouble = self._troubles.setdefault(call, _Trouble(now))
        trouble.requests += 1
        name = " ".join(call)
        if now - trouble.logged_at >= _LOG_EVERY_S:
            trouble.logged_at = now
            self._log.warning(
                "AWS is in trouble",
                call=name,
                problem=words,
                requests=trouble.requests,
                for_s=round(now - trouble.since),
                hint=_HINT,
            )
        if trouble.requests > 1:
            for node_class in islice(self._cluster.informers.classes, _MOST_CLASSES):
                self._recorder.tell(
                    Subject.of(EC2_NODE_CLASSES, node_class),
                    reason,
                    f"{name} {words}; {_HINT}",
                    type="Warning",
                    quiet_s=_QUIET_S,
                    about=name,
                )


def _is_failure(record: CallRecord) -> bool:
    """Tell whether AWS itself failed, as opposed to refusing or asking us to be slower."""
    return record.code == "Unreachable" or classify(record.code).kind is Kind.INTERNAL
