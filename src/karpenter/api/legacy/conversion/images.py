# SPDX-License-Identifier: Apache-2.0
"""Which images a node class boots: the old family and selector as v1's alias, family and terms.

v1 asks for image terms always. A family without terms therefore becomes the alias ``family@latest``, which
means the same, and the family field goes, because the alias names it. Ubuntu is no family in v1: with terms
it becomes AL2, whose user data is the same, with Ubuntu's root disk written out and an annotation that
remembers it; without terms nothing in v1 finds its images, so it is refused. Custom without terms never found
an image and is refused too.
"""

from __future__ import annotations

from copy import deepcopy

from karpenter.api.labels import V1BETA1_UBUNTU
from karpenter.api.legacy.conversion.findings import Journal, RawObject

__all__ = ["ALIASES", "UBUNTU_DISKS", "put_images"]

ALIASES = {
    "AL2": "al2",
    "AL2023": "al2023",
    "Bottlerocket": "bottlerocket",
    "Windows2019": "windows2019",
    "Windows2022": "windows2022",
}
UBUNTU_DISKS = [
    {
        "deviceName": "/dev/sda1",
        "rootVolume": True,
        "ebs": {"encrypted": True, "volumeSize": "20Gi", "volumeType": "gp3"},
    }
]


def put_images(node_class: RawObject, family: str, terms: list[RawObject], journal: Journal) -> None:
    """Writes the image fields of a v1 node class; its disks must be in place already, as Ubuntu fills them in."""
    spec = node_class["spec"]
    if not terms and family not in ALIASES:
        journal.refuse(
            "spec.amiFamily",
            f"{family} without an image selector: v1 knows no default images for it",
            "add terms that select the images you want to boot",
        )
        return
    if not terms:
        spec["amiSelectorTerms"] = [{"alias": f"{ALIASES[family]}@latest"}]
        return
    spec["amiSelectorTerms"] = terms
    spec["amiFamily"] = "AL2" if family == "Ubuntu" else family
    if family != "Ubuntu":
        return
    remembered = "amiFamily"
    if not spec.get("blockDeviceMappings"):
        spec["blockDeviceMappings"] = deepcopy(UBUNTU_DISKS)
        remembered += ",blockDeviceMappings"
    node_class["metadata"].setdefault("annotations", {})[V1BETA1_UBUNTU] = remembered
    journal.warn(
        "spec.amiFamily", "Ubuntu is no family in v1: became AL2, whose user data boots Ubuntu images as well"
    )
