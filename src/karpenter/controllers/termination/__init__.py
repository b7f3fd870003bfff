# SPDX-License-Identifier: Apache-2.0
"""The end of nodes and claims: taint, drain, volumes, instance, finalizer, in that order.

================  ==========================================================================================
``draining``      which pods must leave, in which order, and which are past waiting
``podlists``      the pods of a node by the API server's own list
``evicting``      asks pods to leave, at their own pace
``nodes``         the end of a Node
``claims``        the end of a NodeClaim
``instances``     the end of an instance, and what is told where the cloud refuses it
================  ==========================================================================================
"""

from karpenter.controllers.termination.claims import ClaimTermination, termination_time
from karpenter.controllers.termination.draining import Draining, draining, must_leave
from karpenter.controllers.termination.evicting import Evictions
from karpenter.controllers.termination.nodes import NodeTermination

__all__ = [
    "ClaimTermination",
    "Draining",
    "Evictions",
    "NodeTermination",
    "draining",
    "must_leave",
    "termination_time",
]
