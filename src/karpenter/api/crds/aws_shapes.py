# SPDX-License-Identifier: Apache-2.0
"""Schemas that the node class and its forerunners share: selector terms, ids, tags that only we may set.

Ids are matched whole. A rule about a term refuses every offending term, not only a list of nothing but such
terms.
"""

from __future__ import annotations

from karpenter.api.crds.vocabulary import Rule, Schema

__all__ = [
    "AMI_ID",
    "SECURITY_GROUP_ID",
    "SUBNET_ID",
    "SWITCH",
    "VOLUME_SIZE",
    "VOLUME_TYPES",
    "alone_rule",
    "not_empty",
    "one_of_rule",
    "restricted_tag_rules",
    "selector_tags",
]

AMI_ID = r"^ami-[0-9a-z]+$"
SUBNET_ID = r"^subnet-[0-9a-z]+$"
SECURITY_GROUP_ID = r"^sg-[0-9a-z]+$"
VOLUME_SIZE = (
    r"^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi"
    r"|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G"
    r"|(?:[1-9]|[1-4][0-9]|5[0-8])Ti|(?:[1-9]|[1-5][0-9]|6[0-4])T)$"
)
VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")
SWITCH = ("enabled", "disabled")


def selector_tags() -> Schema:
    """Describe the tags of a selector term."""
    return Schema(
        "Tags to match; the value * stands for any.",
        max_properties=20,
        rules=(Rule("self.all(k, k != '' && self[k] != '')", "empty tag keys or values aren't supported"),),
    )


def one_of_rule(*names: str) -> Rule:
    """Demand that each term of a list sets at least one of its selecting fields."""
    present = " || ".join(f"has(x.{name})" for name in names)
    listed = ", ".join(f"'{name}'" for name in names)
    return Rule(f"self.all(x, {present})", f"expected at least one, got none, [{listed}]")


def alone_rule(name: str, others: tuple[str, ...], where: str) -> Rule:
    """Refuse a term that sets a field beside others that it excludes."""
    present = " || ".join(f"has(x.{other})" for other in others)
    return Rule(
        f"!self.exists(x, has(x.{name}) && ({present}))",
        f"'{name}' is mutually exclusive, cannot be set {where}",
    )


def not_empty(name: str) -> Rule:
    """Refuse an empty name."""
    return Rule("self != ''", f"{name} cannot be empty")


def restricted_tag_rules(*keys: str) -> tuple[Rule, ...]:
    """Refuse tags that tell which instances are ours."""
    return (
        Rule("self.all(k, k != '')", "empty tag keys aren't supported"),
        Rule(
            "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
            "tag contains a restricted tag matching kubernetes.io/cluster/",
        ),
        *(
            Rule(f"self.all(k, k != '{key}')", f"tag contains a restricted tag matching {key}")
            for key in keys
        ),
    )
