# SPDX-License-Identifier: Apache-2.0
"""Which name each node class of a shared template has, so that a newcomer does not move the others: pure.

Kubelet settings stand on the class in v1, so a template that is used with several settings becomes several classes. On
files the setting that most pools use gets the template's name. In a living cluster a class that stands keeps its name
for as long as its settings are wanted: swapped names would replace every node of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from karpenter.api.legacy.conversion import Conversion

__all__ = ["Standing", "kept_names"]

# For each template the classes that were made from it, by name, with their kubelet settings.
Standing: TypeAlias = Mapping[str, Mapping[str, Any]]


def kept_names(conversion: Conversion, standing: Standing) -> dict[str, str]:
    """Gives for the name of each class in a conversion the name that it should have in the cluster."""
    users: dict[str, str] = {}
    for manifest in conversion.objects:
        if manifest["kind"] == "NodePool":
            reference = manifest["spec"]["template"]["spec"]["nodeClassRef"]["name"]
            users.setdefault(reference, manifest["metadata"]["name"])
    chosen: dict[str, str] = {}
    for step in conversion.steps:
        wanted = {
            each["metadata"]["name"]: each["spec"].get("kubelet", {})
            for each in step.after
            if each["kind"] == "EC2NodeClass"
        }
        chosen |= _kept(step.object.name, wanted, standing.get(step.object.name, {}), users)
    # Two templates that come upon the same name fall back on the names that the conversion keeps apart.
    return chosen if len(set(chosen.values())) == len(chosen) else {}


def _kept(
    template: str, wanted: Mapping[str, Any], standing: Mapping[str, Any], users: Mapping[str, str]
) -> dict[str, str]:
    chosen = {name: name for name, kubelet in wanted.items() if standing.get(name) == kubelet}
    for name, kubelet in wanted.items():
        same = (
            each for each in sorted(standing) if standing[each] == kubelet and each not in chosen.values()
        )
        if name not in chosen and (found := next(same, "")):
            chosen[name] = found
    for name in wanted:
        if name not in chosen:
            options = (name, f"{template}-{users.get(name, '')}", *wanted)
            chosen[name] = next(each for each in options if each not in chosen.values())
    return chosen
