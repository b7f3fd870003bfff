# SPDX-License-Identifier: Apache-2.0
"""Interruptions: what AWS says will happen or has happened to instances, by two sources that need not each other.

================  ============================================================================================
``messages``      one message of the queue as a value, or why it means nothing to us; pure, never raises
``verification``  whether a message fits the instances that it names, by their NodeClaims and by EC2
``acting``        the handler called once for each interruption of an instance, whichever source tells it
``queue``         the queue: receive, act, delete; failures come back, hopeless ones are parked
``health``        EC2's status checks and scheduled events, asked every minute
================  ============================================================================================

What is done about an interruption is the caller's: it gives an async handler, which raises if it is to be told again.
"""

from karpenter.cloud.aws.interruption.acting import Actor, Handler, Outcome
from karpenter.cloud.aws.interruption.health import POLL_EVERY_S, InstanceHealth
from karpenter.cloud.aws.interruption.messages import (
    Ignored,
    IgnoredReason,
    Interruption,
    InterruptionKind,
    parse_message,
)
from karpenter.cloud.aws.interruption.queue import InterruptionQueue, Parked, PollReport, Refused
from karpenter.cloud.aws.interruption.verification import Misfit, Verdict, Verifier

__all__ = [
    "POLL_EVERY_S",
    "Actor",
    "Handler",
    "Ignored",
    "IgnoredReason",
    "InstanceHealth",
    "Interruption",
    "InterruptionKind",
    "InterruptionQueue",
    "Misfit",
    "Outcome",
    "Parked",
    "PollReport",
    "Refused",
    "Verdict",
    "Verifier",
    "parse_message",
]
