# SPDX-License-Identifier: Apache-2.0
"""Conditions on labels in short, as people write them: ``amd64 or arm64``, ``app=db``."""

from __future__ import annotations

from karpenter.model.requirements import Requirement
from karpenter.model.selectors import Selector
from karpenter.scheduling.explanation.lists import either

__all__ = ["selected", "short"]


def short(requirement: Requirement) -> str:
    """Return what is allowed, without the key: the values alone where some are named."""
    if requirement.values and not requirement.complement:
        return either(sorted(requirement.values))
    return requirement.describe()


def selected(selector: Selector) -> str:
    """Return whom a selector selects: ``app=db``."""
    if not selector.terms:
        return str(selector)
    return ", ".join(
        f"{term.key}={short(term)}" if not term.complement and len(term.values) == 1 else str(term)
        for term in selector.terms
    )
