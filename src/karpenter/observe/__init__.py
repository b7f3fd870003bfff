# SPDX-License-Identifier: Apache-2.0
"""What a person or a machine can see of us: log lines, metrics, and the log of decisions."""

from karpenter.observe.decisions import Decision, DecisionKind, DecisionLog
from karpenter.observe.failures import reporting
from karpenter.observe.logs import LEVELS, Log, configure, get_log
from karpenter.observe.metrics import CONTENT_TYPE, Metrics

__all__ = [
    "CONTENT_TYPE",
    "LEVELS",
    "Decision",
    "DecisionKind",
    "DecisionLog",
    "Log",
    "Metrics",
    "configure",
    "get_log",
    "reporting",
]
