# SPDX-License-Identifier: Apache-2.0
"""The cluster picture: informers, what a member looks like, promises to pods, Snapshots.

================  ==========================================================================================
``informers``     what of the cluster we follow
``effective``     NodePools and node classes as they are meant, whichever version wrote them
``views``         one member from its claim and its node
``nominations``   which pending pod is promised to which member
``cluster``       all of it together, ready to be frozen
``candidates``    what is known of each member that could be taken away
``loads``         what the pods on a node add up to
``podevents``     when a pod last came to a node or left it
``reservations``  what was decided and cannot be seen yet: nodes that are to go, nodes that are being ordered
``changes``       whether anything has changed that a decision could depend on
================  ==========================================================================================
"""

from karpenter.state.candidates import candidates
from karpenter.state.changes import ChangeStamp
from karpenter.state.cluster import Cluster, price_of
from karpenter.state.effective import Effective, Misread, effective
from karpenter.state.informers import STORED_NODE_CLASSES, STORED_NODE_POOLS, Informers, Stored
from karpenter.state.loads import Load
from karpenter.state.nominations import Nomination, Nominations
from karpenter.state.podevents import PodEvents
from karpenter.state.views import Member, capacity_of, node_view

__all__ = [
    "STORED_NODE_CLASSES",
    "STORED_NODE_POOLS",
    "ChangeStamp",
    "Cluster",
    "Effective",
    "Informers",
    "Load",
    "Member",
    "Misread",
    "Nomination",
    "Nominations",
    "PodEvents",
    "Stored",
    "candidates",
    "capacity_of",
    "effective",
    "node_view",
    "price_of",
]
