# SPDX-License-Identifier: Apache-2.0
"""A scheduler as users notice it: kube-scheduler's filters, order and words, written apart from the decision core.

``Cluster`` holds what is known, ``Decider`` decides for one pod, ``Scheduler`` keeps the queue and calls the API.
"""

from karpenter.sandbox.scheduler.cluster import Cluster
from karpenter.sandbox.scheduler.deciding import Decider, Placed, Refused
from karpenter.sandbox.scheduler.pods import PodInfo, read_pod
from karpenter.sandbox.scheduler.scheduler import Hands, NotCarriedOutError, Pace, Scheduler

__all__ = [
    "Cluster",
    "Decider",
    "Hands",
    "NotCarriedOutError",
    "Pace",
    "Placed",
    "PodInfo",
    "Refused",
    "Scheduler",
    "read_pod",
]
