# SPDX-License-Identifier: Apache-2.0
"""Schemas that several kinds share: taints, requirements, conditions, and who may name which label.

Types that are not ours to annotate (taints, conditions) are described here from outside, because their
schemas differ between kinds: an old kind is laxer about the same taint. Every list, map and text that a rule
walks is bounded, since the API server refuses rules whose worst case it cannot bound.
"""

from __future__ import annotations

from collections.abc import Iterable

from karpenter.api import labels
from karpenter.api.crds.vocabulary import Rule, Schema

__all__ = [
    "CONDITION",
    "CONDITION_REASON_OPTIONAL",
    "DURATION",
    "DURATION_OR_NEVER",
    "LABEL_VALUE",
    "QUALIFIED_NAME",
    "QUANTITY",
    "REQUIREMENT",
    "TAINT",
    "aws_domain_rule",
    "conditions",
    "domain_rule",
    "not_label_rule",
    "numeric_rule",
    "requirement",
    "taints",
    "values_rule",
]

LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_DNS_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
QUALIFIED_NAME = rf"^({_DNS_NAME}(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
_CONDITION_TYPE = rf"^({_DNS_NAME}/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
_DECIMAL = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY = rf"^(\+|-)?{_DECIMAL}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_DECIMAL}))?$"
DURATION = r"^([0-9]+(s|m|h))+$"
DURATION_OR_NEVER = r"^(([0-9]+(s|m|h))+|Never)$"

TAINT = Schema(
    fields={
        "key": Schema("Name of the taint.", min_length=1, pattern=QUALIFIED_NAME),
        "value": Schema("Value that a toleration may ask for.", pattern=QUALIFIED_NAME),
        "effect": Schema(
            "What happens to pods that do not tolerate the taint.",
            enum=("NoSchedule", "PreferNoSchedule", "NoExecute"),
        ),
        "timeAdded": Schema("When the taint was set."),
    }
)

CONDITION = Schema(
    fields={
        "type": Schema("What the condition is about.", max_length=316, pattern=_CONDITION_TYPE),
        "status": Schema("Whether it holds.", required=True, enum=("True", "False", "Unknown")),
        "reason": Schema(
            "One word for why.",
            required=True,
            min_length=1,
            max_length=1024,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
        "message": Schema("One sentence for a person.", required=True, max_length=32768),
        "lastTransitionTime": Schema("When the status last changed.", required=True),
        "observedGeneration": Schema(
            "The generation of the object that this was seen on.", minimum=0, format="int64"
        ),
    }
)

# NodeClaims were first to have conditions, and theirs may lack a reason.
CONDITION_REASON_OPTIONAL = Schema(
    fields={
        **CONDITION.fields,
        "reason": Schema(
            "One word for why; may be empty.",
            max_length=1024,
            pattern=r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$",
        ),
        "message": Schema("One sentence for a person.", max_length=32768),
    }
)

REQUIREMENT = Schema(
    fields={
        "key": Schema("The label that the requirement is about."),
        "operator": Schema("How the label relates to the values."),
        "values": Schema("The values to compare with."),
    }
)


def conditions(item: Schema = CONDITION) -> Schema:
    """Describe the conditions of a status."""
    return Schema(
        "What is true of the object, and since when.", list_type="map", list_keys=("type",), items=item
    )


def taints(description: str) -> Schema:
    """Describe a list of taints."""
    return Schema(description, list_type="atomic", items=TAINT)


def requirement(key_rules: tuple[Rule, ...], *, operators: tuple[str, ...]) -> Schema:
    """Describe one requirement: who may be named, and by which operators."""
    value = Schema(max_length=63, pattern=LABEL_VALUE)
    return Schema(
        fields={
            "key": Schema(
                "The label that the requirement is about.",
                max_length=316,
                pattern=QUALIFIED_NAME,
                rules=key_rules,
            ),
            "operator": Schema("How the label relates to the values.", enum=operators),
            "values": Schema("The values to compare with.", list_type="atomic", items=value),
        }
    )


def domain_rule(domain: str, exceptions: Iterable[str], *, each: bool = False) -> Rule:
    """Refuse label keys of a domain and its subdomains, with exceptions; ``each`` for the keys of a map."""
    listed = ", ".join(f'"{key}"' for key in sorted(exceptions))
    pattern = domain.replace(".", r"\\.")
    test = f'KEY in [{listed}] || !KEY.matches("^([^/]*\\\\.)?{pattern}/")'
    return Rule(_over_keys(test, each=each), f'label domain "{domain}" is restricted')


def aws_domain_rule(exceptions: Iterable[str], *, each: bool = False) -> Rule:
    """Refuse label keys of the AWS provider's domain other than the node class and the given ones."""
    return domain_rule(labels.AWS_GROUP, {labels.EC2NODECLASS, *exceptions}, each=each)


def not_label_rule(key: str, *, each: bool = False) -> Rule:
    """Refuse one label key."""
    return Rule(_over_keys(f'KEY != "{key}"', each=each), f'label "{key}" is restricted')


def values_rule(operator: str) -> Rule:
    """Demand values where the operator says nothing without them."""
    return Rule(
        f"self.all(x, x.operator == '{operator}' ? has(x.values) && x.values.size() != 0 : true)",
        f"requirements with operator '{operator}' must have a value defined",
    )


def numeric_rule(operators: tuple[str, ...]) -> Rule:
    """Demand exactly one whole number, not negative, of the comparing operators."""
    # 18 digits always fit an int64. A pattern and not int(): what is no number is refused with this message,
    # while a failed conversion would be reported as a fault of the rule.
    asked = ", ".join(f"'{operator}'" for operator in operators)
    named = ", ".join(f"'{operator}'" for operator in operators[:-1])
    comma = "," if len(operators) > 2 else ""
    return Rule(
        f"self.all(x, x.operator in [{asked}] ? has(x.values) && x.values.size() == 1"
        " && x.values[0].matches('^[0-9]{1,18}$') : true)",
        f"requirements operator {named}{comma} or '{operators[-1]}'"
        " must have a single positive integer value",
    )


def _over_keys(test: str, *, each: bool) -> str:
    return f"self.all(x, {test.replace('KEY', 'x')})" if each else test.replace("KEY", "self")
