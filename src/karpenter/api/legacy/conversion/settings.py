# SPDX-License-Identifier: Apache-2.0
"""What the ConfigMap karpenter-global-settings of old installations says about the objects beside it.

Two of its settings moved into the node class, the default instance profile and the tags, so they are read
here and written into each converted class. The ConfigMap itself is no object of ours and stays as it is; the
others of its settings are options of the controller now, and a warning names the new name of each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from karpenter.api.legacy.conversion.findings import Journal, RawObject

__all__ = ["GlobalSettings", "is_global_settings", "read_global_settings"]

_PROFILE = "aws.defaultInstanceProfile"
_TAGS = "aws.tags"
_NEW_NAMES = {
    "aws.clusterName": "settings.clusterName",
    "aws.clusterEndpoint": "settings.clusterEndpoint",
    "aws.clusterCABundle": "settings.clusterCABundle",
    "aws.isolatedVPC": "settings.isolatedVPC",
    "aws.vmMemoryOverheadPercent": "settings.vmMemoryOverheadPercent",
    "aws.interruptionQueueName": "settings.interruptionQueue",
    "aws.reservedENIs": "settings.reservedENIs",
    "batchMaxDuration": "settings.batchMaxDuration",
    "batchIdleDuration": "settings.batchIdleDuration",
    _PROFILE: "spec.instanceProfile of each EC2NodeClass",
    _TAGS: "spec.tags of each EC2NodeClass",
    "aws.assumeRoleARN": "nothing: give the role to the controller's service account",
    "aws.assumeRoleDuration": "nothing",
    "aws.enablePodENI": "nothing: always on",
    "aws.enableENILimitedPodDensity": "nothing: always on; set maxPods in spec.kubelet of an EC2NodeClass instead",
    "featureGates.driftEnabled": "nothing: drift is always on",
}


@dataclass(frozen=True, slots=True)
class GlobalSettings:
    """The settings that node classes take over."""

    instance_profile: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


def is_global_settings(manifest: RawObject) -> bool:
    """Tells whether this is the ConfigMap of the old settings."""
    metadata = manifest.get("metadata")
    return (
        manifest.get("apiVersion") == "v1"
        and manifest.get("kind") == "ConfigMap"
        and isinstance(metadata, dict)
        and metadata.get("name") == "karpenter-global-settings"
    )


def read_global_settings(manifest: RawObject, journal: Journal) -> GlobalSettings:
    """Returns what the settings say to node classes, and notes the new name of each setting."""
    data = manifest.get("data")
    if not isinstance(data, dict):
        return GlobalSettings()
    moved = "; ".join(f"{key} -> {_NEW_NAMES.get(key, 'unknown')}" for key in data)
    if moved:
        journal.warn("data", f"passed through, but v1 does not read it: {moved}")
    return GlobalSettings(str(data.get(_PROFILE) or ""), _tags(data.get(_TAGS), journal))


def _tags(text: object, journal: Journal) -> dict[str, str]:
    if not isinstance(text, str) or not text:
        return {}
    try:
        tags = json.loads(text)
    except (ValueError, RecursionError):
        tags = None
    if not isinstance(tags, dict):
        journal.warn(f"data[{_TAGS}]", "left out of the EC2NodeClasses: it is not a JSON object")
        return {}
    return {str(key): str(value) for key, value in tags.items()}
