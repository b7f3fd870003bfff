# SPDX-License-Identifier: Apache-2.0
"""Which NodePools have no instance type to offer for any pod, and why: pure.

Karpenter tells it on the pool, in one of two sentences, and so do we: alerts look for them.
"""

from __future__ import annotations

from typing import Final

from karpenter.model.pools import Pool
from karpenter.model.requirements import Requirement

__all__ = ["REASON", "why_empty"]

REASON: Final = "NoCompatibleInstanceTypes"
_FILTERED: Final = "NodePool requirements filtered out all compatible available instance types"
_TOO_FEW_VALUES: Final = f"{_FILTERED} due to minValues incompatibility"


def why_empty(pool: Pool, *, is_strict: bool) -> str:
    """Return why no instance type that can be had now is left by the pool's requirements; empty if some is.

    Args:
        pool: The pool.
        is_strict: Whether minValues must be met (MIN_VALUES_POLICY=Strict).
    """
    catalogue = pool.catalogue
    left = catalogue.available
    for requirement in pool.requirements:
        if catalogue.knows(requirement.key):
            left &= catalogue.where(requirement)
    if not left:
        return _FILTERED

    def keeps_enough(requirement: Requirement) -> bool:
        values = catalogue.values(requirement.key).values()
        return sum(1 for each in values if each & left) >= (requirement.min_values or 0)

    return "" if not is_strict or all(map(keeps_enough, pool.requirements)) else _TOO_FEW_VALUES
