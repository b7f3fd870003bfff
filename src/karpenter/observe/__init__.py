# SPDX-License-Identifier: Apache-2.0
"""What a person or a machine can see of us: log lines, metrics, and the log of decisions."""

from karpenter.observe.decisions import Decision, DecisionKind, DecisionLog
from karpenter.observe.declaring import Detail
from karpenter.observe.failures import reporting
from karpenter.observe.lifetimes import Lifetimes
from karpenter.observe.logs import LEVELS, Log, configure, get_log
from karpenter.observe.metrics import CONTENT_TYPE, Metrics, resource_type
from karpenter.observe.work import controller_name, measured, solving

__all__ = [
    "CONTENT_TYPE",
    "LEVELS",
    "Decision",
    "DecisionKind",
    "DecisionLog",
    "Detail",
    "Lifetimes",
    "Log",
    "Metrics",
    "configure",
    "controller_name",
    "get_log",
    "measured",
    "reporting",
    "resource_type",
    "solving",
]
