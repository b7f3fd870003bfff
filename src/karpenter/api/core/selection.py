# SPDX-License-Identifier: Apache-2.0
"""Expressions over node labels, as pods and volumes use them."""

from __future__ import annotations

from karpenter.api.base import Frozen

__all__ = ["NodeSelector", "NodeSelectorRequirement", "NodeSelectorTerm"]


class NodeSelectorRequirement(Frozen):
    """One expression over node labels (or, in matchFields, over metadata.name)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Frozen):
    """Expressions that must all hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Frozen):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()
