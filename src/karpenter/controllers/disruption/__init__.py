# SPDX-License-Identifier: Apache-2.0
"""Taking nodes away: what is decided by `karpenter.consolidation` is carried out here, and told.

================  ==========================================================================================
``marking``       what is said on claims: Drifted, Consolidatable, the last pod event
``daemons``       nodes on which a DaemonSet has no room, and what replacing them costs
``disruption``    looks, decides, begins
``execution``     carries commands out, step by step
``running``       a command under way, as data
``records``       what the API knows of it
``hands``         the writes
``conducting``    leads pods that move to where the plan has room, one destination at a time
``discouraging``  the taint that keeps pods from nodes where they are not wanted
``successors``    pods that take the place of evicted ones go where the plan has room
``remembering``   what was learnt, kept for the next process
``telling``       what is done and why others stay: log, Events, metrics, DecisionLog
================  ==========================================================================================
"""

from karpenter.controllers.disruption.daemons import DaemonPlans
from karpenter.controllers.disruption.disruption import Disruption, DisruptionSettings, Rules
from karpenter.controllers.disruption.execution import ExecutionSettings
from karpenter.controllers.disruption.marking import Marking
from karpenter.controllers.disruption.remembering import MemoryStore

__all__ = [
    "DaemonPlans",
    "Disruption",
    "DisruptionSettings",
    "ExecutionSettings",
    "Marking",
    "MemoryStore",
    "Rules",
]
