# SPDX-License-Identifier: Apache-2.0
"""NodePools that cover managed node groups: what ran there can run here, with the same labels, taints and disks.

One NodePool a node group, and one EC2NodeClass for all groups that boot alike. The pool allows what the group could
have been: its types, its capacity type, its zones, up to its largest size. What has no counterpart is said in a note
and left out, never guessed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from karpenter.api import labels as names
from karpenter.cloud.aws.install.site import Site
from karpenter.cloud.aws.install.tagging import DISCOVERY
from karpenter.cloud.aws.install.wanted import node_role_name
from karpenter.facts import TypeFacts

__all__ = ["cover"]

# How the name of a node group's image begins, and the alias that boots the same.
_ALIASES: Final[Mapping[str, str]] = {
    "AL2023_": "al2023@latest",
    "AL2_": "al2@latest",
    "BOTTLEROCKET_": "bottlerocket@latest",
    "WINDOWS_CORE_2019": "windows2019@latest",
    "WINDOWS_FULL_2019": "windows2019@latest",
    "WINDOWS_CORE_2022": "windows2022@latest",
    "WINDOWS_FULL_2022": "windows2022@latest",
}
_DEVICES: Final[Mapping[str, str]] = {"bottlerocket": "/dev/xvdb", "windows": "/dev/sda1"}
_EFFECTS: Final[Mapping[str, str]] = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}
# What EKS itself writes on nodes of its groups, and what no NodePool may set.
_OWN_LABELS: Final = (
    "eks.amazonaws.com/",
    "kubernetes.io/",
    "k8s.io/",
    "karpenter.sh/",
    "karpenter.k8s.aws/",
)


def cover(
    site: Site,
    groups: Sequence[Mapping[str, Any]],
    zones: Mapping[str, str],
    types: Mapping[str, TypeFacts],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Give the manifests that cover node groups, and notes on what they do not cover.

    Args:
        site: The cluster.
        groups: Its node groups, as EKS describes them.
        zones: The zone of each subnet.
        types: What is known of instance types.
    """
    classes: dict[str, dict[str, Any]] = {}
    pools, notes = [], []
    for group in groups:
        name = str(group["nodegroupName"])
        spec, said = _class_spec(site, group)
        class_name = classes.setdefault(
            json.dumps(spec, sort_keys=True), {"name": _class_name(site, spec), "spec": spec}
        )["name"]
        pools.append(_pool(name, group, class_name, zones, types))
        notes += [f"{name}: {each}" for each in said]
        if not group.get("instanceTypes"):
            notes.append(f"{name}: its types stand in its launch template; the NodePool allows c, m and r")
    found = [
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": each["name"]},
            "spec": each["spec"],
        }
        for each in classes.values()
    ]
    return [*found, *pools], notes


def _class_spec(site: Site, group: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    image, notes = str(group.get("amiType", "")), []
    alias = next((each for prefix, each in _ALIASES.items() if image.startswith(prefix)), "")
    if not alias:
        alias = "al2023@latest"
        notes.append(f"its image is {image or 'not known'}; the EC2NodeClass uses {alias}, check it")
    if group.get("launchTemplate"):
        notes.append(
            "it has a launch template of its own: carry over user data, disks and metadata options by hand"
        )
    spec: dict[str, Any] = {
        "amiSelectorTerms": [{"alias": alias}],
        "role": node_role_name(site.choices.cluster),
        "subnetSelectorTerms": [{"tags": {DISCOVERY: site.choices.cluster}}],
        "securityGroupSelectorTerms": [{"tags": {DISCOVERY: site.choices.cluster}}],
    }
    if group.get("diskSize"):
        # Bottlerocket keeps what pods write on its second disk.
        device = next((each for family, each in _DEVICES.items() if alias.startswith(family)), "/dev/xvda")
        disk = {"volumeSize": f"{group['diskSize']}Gi", "volumeType": "gp3", "deleteOnTermination": True}
        spec["blockDeviceMappings"] = [{"deviceName": device, "ebs": disk}]
    return spec, notes


def _class_name(site: Site, spec: Mapping[str, Any]) -> str:
    family = spec["amiSelectorTerms"][0]["alias"].partition("@")[0]
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:5]
    return f"{site.choices.cluster}-{family}-{digest}".lower()


def _pool(
    name: str,
    group: Mapping[str, Any],
    class_name: str,
    zones: Mapping[str, str],
    types: Mapping[str, TypeFacts],
) -> dict[str, Any]:
    listed = sorted(group.get("instanceTypes") or ())
    capacity = "spot" if group.get("capacityType") == "SPOT" else "on-demand"
    requirements = [_in(names.CAPACITY_TYPE, [capacity])]
    if listed:
        requirements.append(_in(names.INSTANCE_TYPE, listed))
    else:
        requirements.append(_in(names.INSTANCE_CATEGORY, ["c", "m", "r"]))
        arch = "arm64" if "ARM" in str(group.get("amiType", "")).upper() else "amd64"
        requirements.append(_in(names.ARCH, [arch]))
    where = sorted({zones[each] for each in group.get("subnets", ()) if each in zones})
    if where:
        requirements.append(_in(names.ZONE, where))
    reference = {"group": names.AWS_GROUP, "kind": "EC2NodeClass", "name": class_name}
    template: dict[str, Any] = {"spec": {"nodeClassRef": reference, "requirements": requirements}}
    kept = {
        key: value for key, value in (group.get("labels") or {}).items() if not key.startswith(_OWN_LABELS)
    }
    if kept:
        template["metadata"] = {"labels": kept}
    taints = [
        {"key": each["key"], "effect": _EFFECTS[each["effect"]]}
        | ({"value": each["value"]} if each.get("value") else {})
        for each in group.get("taints") or ()
    ]
    if taints:
        template["spec"]["taints"] = taints
    limits = _limits(group, listed, types)
    disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name.lower()},
        "spec": {"template": template, "disruption": disruption, **({"limits": limits} if limits else {})},
    }


def _limits(
    group: Mapping[str, Any], listed: Sequence[str], types: Mapping[str, TypeFacts]
) -> dict[str, str]:
    """Give as much as the group could have been at its largest, of its largest type."""
    most = (group.get("scalingConfig") or {}).get("maxSize", 0)
    known = [types[each] for each in listed if each in types]
    if not most or not known:
        return {}
    cpu, memory = max(each.vcpus for each in known), max(each.memory_mib for each in known)
    return {"cpu": str(most * cpu), "memory": f"{most * memory}Mi"}


def _in(key: str, values: Sequence[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}
