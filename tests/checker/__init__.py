# SPDX-License-Identifier: Apache-2.0
"""An independent judge of plans: slow, obvious, and made of nothing that makes plans.

``check`` builds the world as it would be with the plan carried out and holds it against the rules of Kubernetes'
scheduler, restated here from the API objects alone; of the model only the containers are used, as data.
``recheck_rejection`` looks for pods that were turned away and would obviously have fitted. Both answer in words; no
words means nothing was found. ``carried_out`` gives the cluster after the plan.

Not judged: whether the plan is cheap, the order of pools, wishes that gave way, and what nobody can know beforehand
(volume limits of new nodes, pods of DaemonSets as targets of rules).
"""

from tests.checker.checking import check
from tests.checker.foreign import ForeignOptions, ForeignPlan, Offer, Purchase, Refusal
from tests.checker.plans import AlternativeLike, NewNodeLike, OptionsLike, PlanLike, RejectionLike
from tests.checker.rejections import recheck_rejection
from tests.checker.world import carried_out

__all__ = [
    "AlternativeLike",
    "ForeignOptions",
    "ForeignPlan",
    "NewNodeLike",
    "Offer",
    "OptionsLike",
    "PlanLike",
    "Purchase",
    "Refusal",
    "RejectionLike",
    "carried_out",
    "check",
    "recheck_rejection",
]
