# SPDX-License-Identifier: Apache-2.0
"""NodeOverlay (karpenter.sh/v1alpha1): what the cloud does not say of instance types, such as a better price.

Prices and adjustments stay text here; whoever reckons with them reads them as decimals.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from karpenter.api import labels
from karpenter.api.base import EMPTY, Frozen, Resources
from karpenter.api.core.selection import NodeSelectorRequirement
from karpenter.api.crds.shapes import (
    aws_domain_rule,
    conditions,
    domain_rule,
    not_label_rule,
    numeric_rule,
    requirement,
    values_rule,
)
from karpenter.api.crds.vocabulary import Rule, Schema
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodeclaim import NUMERIC_OPERATORS, OPERATORS

__all__ = ["NodeOverlay", "NodeOverlaySpec", "NodeOverlayStatus"]

_KEY_RULES = (
    domain_rule(labels.GROUP, (labels.CAPACITY_TYPE, labels.NODEPOOL)),
    not_label_rule(labels.HOSTNAME),
    aws_domain_rule(labels.AWS_INSTANCE_LABELS),
)


class NodeOverlaySpec(Frozen):
    """Which instance types are meant, and what is different about them."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.price) || !has(self.priceAdjustment)", "cannot set both 'price' and 'priceAdjustment'"
        ),
    )

    requirements: Annotated[
        tuple[NodeSelectorRequirement, ...],
        Schema(
            "Which instance types and offerings the overlay is about; all must hold.",
            list_type="atomic",
            max_items=100,
            items=requirement(_KEY_RULES, operators=OPERATORS),
            rules=(values_rule("NotIn"), values_rule("In"), numeric_rule(NUMERIC_OPERATORS)),
        ),
    ]
    price: Annotated[str, Schema("Price per hour that replaces the cloud's.", pattern=r"^\d+(\.\d+)?$")] = ""
    price_adjustment: Annotated[
        str,
        Schema(
            "What to add to the cloud's price, signed, as an amount or in percent.",
            pattern=r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(-\d{1,2}(\.\d+)?%)|(-100%))$",
        ),
    ] = ""
    capacity: Annotated[
        Resources,
        Schema(
            "Extended resources that the instance types have besides.",
            rules=(
                Rule(
                    "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
                    "invalid resource restricted",
                ),
            ),
        ),
    ] = EMPTY
    weight: Annotated[
        int | None,
        Schema("The overlay of more weight wins; absent means 0.", format="int32", minimum=1, maximum=10000),
    ] = None


class NodeOverlayStatus(Frozen):
    """Whether the overlay is applied."""

    conditions: Annotated[tuple[Condition, ...], conditions()] = ()


class NodeOverlay(Frozen):
    """A correction to what is known of instance types."""

    api_version: str = "karpenter.sh/v1alpha1"
    kind: str = "NodeOverlay"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeOverlaySpec
    status: NodeOverlayStatus = NodeOverlayStatus()
