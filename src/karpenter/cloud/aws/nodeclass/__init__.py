# SPDX-License-Identifier: Apache-2.0
"""Node classes: what their selectors find, whether they can be launched from, and what to tell about it.

===============  ===========================================================================================
``status``       ``NodeClassStatus.resolve``: the whole status of a class, conditions and notices included
``checks``       tags and kubelet settings, judged by themselves
``dryruns``      asks EC2 whether it would launch: template, fleet, instances
``problems``     an error as a condition's reason and sentence; which permission is missing
``fingerprint``  what a class says of its instances, as one number
===============  ===========================================================================================

Nothing here writes to Kubernetes: what is found goes back as values.
"""

from karpenter.cloud.aws.nodeclass.dryruns import DryRuns
from karpenter.cloud.aws.nodeclass.fingerprint import (
    NODE_CLASS_HASH_VERSION,
    claim_annotations,
    hash_annotations,
    node_class_hash,
)
from karpenter.cloud.aws.nodeclass.problems import Denied, Problem, denied, problem_of
from karpenter.cloud.aws.nodeclass.status import CleanedUp, NodeClassStatus, Resolved, StatusParts

__all__ = [
    "NODE_CLASS_HASH_VERSION",
    "CleanedUp",
    "Denied",
    "DryRuns",
    "NodeClassStatus",
    "Problem",
    "Resolved",
    "StatusParts",
    "claim_annotations",
    "denied",
    "hash_annotations",
    "node_class_hash",
    "problem_of",
]
