# SPDX-License-Identifier: Apache-2.0
"""Why pods got no place: the smallest set of constraints that excludes everything, the nearest miss, what would help.

``Explainer(board, trial).explain(stance)`` gives an ``Explanation``, a value; ``sentence``, ``tree`` and ``as_data``
render it; ``apply`` carries a fix out on the model. Every reason is true on its own, every fix was tried. Work for one
class of pods is bounded, whatever it asks for: 16 alternatives of node affinity, 16 labels in each, 16 resources and
16 rules about other pods are told apart, more count as one; pairs of constraints are searched among 24; 500 standing
nodes are looked at; at most 12 fixes are tried in 64 pools, and for 100 classes of a solve.
"""

from karpenter.scheduling.explanation.changes import apply
from karpenter.scheduling.explanation.explainer import Explainer, unreadable
from karpenter.scheduling.explanation.fixes import Trial
from karpenter.scheduling.explanation.phrases import describe_fix
from karpenter.scheduling.explanation.wording import LONGEST_SENTENCE, as_data, sentence, tree

__all__ = [
    "LONGEST_SENTENCE",
    "Explainer",
    "Trial",
    "apply",
    "as_data",
    "describe_fix",
    "sentence",
    "tree",
    "unreadable",
]
