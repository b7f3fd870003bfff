# SPDX-License-Identifier: Apache-2.0
"""Image families: one value for each, with all that differs between them.

Where AWS publishes their image ids, which Kubernetes versions they serve, what disks they have by default, and how
they count pods and memory. ``family_of`` decides which family a node class means: the one it names, else the one
of its alias, else Custom. What its images are is decided by the alias alone, so a class may say ``Custom`` and
still follow an alias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EBS, BlockDeviceMapping, EC2NodeClass
from karpenter.errors import KarpenterError
from karpenter.model.requirements import Requirement, Requirements

__all__ = [
    "AL2",
    "AL2023",
    "BOTTLEROCKET",
    "CUSTOM",
    "FAMILIES",
    "LATEST",
    "WINDOWS2019",
    "WINDOWS2022",
    "WINDOWS2025",
    "Alias",
    "Family",
    "FamilyError",
    "PublishedImage",
    "Variant",
    "alias_of",
    "family_named",
    "family_of",
]

LATEST: Final = "latest"
_WINDOWS_PODS: Final = 110


class FamilyError(KarpenterError):
    """A family or an alias that does not exist."""


class Variant(Enum):
    """What hardware an image has drivers for."""

    STANDARD = "standard"
    NVIDIA = "nvidia"
    NEURON = "neuron"

    @property
    def requirements(self) -> Requirements:
        """Which instance types the variant is for."""
        return _VARIANT_REQUIREMENTS[self]


_VARIANT_REQUIREMENTS: Final = {
    Variant.STANDARD: Requirements(
        (
            Requirement.of(labels.INSTANCE_ACCELERATOR_COUNT, "DoesNotExist"),
            Requirement.of(labels.INSTANCE_GPU_COUNT, "DoesNotExist"),
        )
    ),
    Variant.NVIDIA: Requirements((Requirement.of(labels.INSTANCE_GPU_COUNT, "Exists"),)),
    Variant.NEURON: Requirements((Requirement.of(labels.INSTANCE_ACCELERATOR_COUNT, "Exists"),)),
}


@dataclass(frozen=True, slots=True)
class PublishedImage:
    """An SSM parameter under which AWS publishes the id of an image.

    Attributes:
        path: The parameter, with {kubernetes} for the version of Kubernetes and {release} for the release.
        latest: What {release} is for the newest release.
        pinned: What {release} is for a named one, with {kubernetes} and {version}.
        serves: Which instance types it is for; several if it has drivers for several kinds of hardware.
    """

    path: str
    latest: str
    pinned: str
    serves: tuple[Requirements, ...]

    def parameter(self, kubernetes: str, version: str) -> str:
        """Give the name of the parameter for a version of Kubernetes ("1.33") and a release of the image."""
        # Releases of Bottlerocket are called v1.46.0 everywhere but here.
        plain = version.lstrip("v") if self.pinned == "{version}" else version
        pinned = self.pinned.format(kubernetes=kubernetes, version=plain)
        return self.path.format(kubernetes=kubernetes, release=self.latest if version == LATEST else pinned)


@dataclass(frozen=True, slots=True)
class Family:
    """An image family.

    Attributes:
        name: As in ``amiFamily``; its alias is the same in lower case.
        os: The operating system as Kubernetes calls it.
        images: Where AWS publishes its images; none for Custom.
        disks: The disks that instances get unless the node class says otherwise; none leaves them to the image.
        storage_device: The device on which pods' storage lies; empty where only the user knows.
        kubernetes_from: The first minor version of Kubernetes it serves, if there is a first.
        kubernetes_before: The first minor version it no longer serves, if there is one.
        eni_limited_memory_overhead: Whether the kubelet reserves memory for as many pods as network interfaces
            hold, rather than for as many as it may really run.
        pods_per_core: Whether the kubelet can be told how many pods run on each core.
        fixed_pods: How many pods every node runs, whatever its network interfaces; None where those limit it.
        windows_build: The build of Windows, which containers must match.
    """

    name: str
    os: str = labels.LINUX
    images: tuple[PublishedImage, ...] = ()
    disks: tuple[BlockDeviceMapping, ...] = ()
    storage_device: str = ""
    kubernetes_from: int | None = None
    kubernetes_before: int | None = None
    eni_limited_memory_overhead: bool = True
    pods_per_core: bool = True
    fixed_pods: int | None = None
    windows_build: str = ""

    @property
    def is_windows(self) -> bool:
        """Whether nodes run Windows."""
        return self.os == labels.WINDOWS


def _disk(device: str, size: str) -> BlockDeviceMapping:
    return BlockDeviceMapping(
        device_name=device, ebs=EBS(encrypted=True, volume_type="gp3", volume_size=size)
    )


def _eks_image(path: str, pinned: str, *variants: Variant) -> PublishedImage:
    return PublishedImage(
        f"/aws/service/eks/optimized-ami/{{kubernetes}}/{path}/{{release}}/image_id",
        latest="recommended",
        pinned=f"{pinned}-{{kubernetes}}-{{version}}",
        serves=tuple(variant.requirements for variant in variants),
    )


def _al2023_image(architecture: str, variant: Variant) -> PublishedImage:
    name = f"{architecture}/{variant.value}"
    pinned = f"amazon-eks-node-al2023-{architecture}-{variant.value}"
    return _eks_image(f"amazon-linux-2023/{name}", pinned, variant)


def _bottlerocket_image(flavour: str, architecture: str, *variants: Variant) -> PublishedImage:
    return PublishedImage(
        f"/aws/service/bottlerocket/aws-k8s-{{kubernetes}}{flavour}/{architecture}/{{release}}/image_id",
        latest=LATEST,
        pinned="{version}",
        serves=tuple(variant.requirements for variant in variants),
    )


def _windows(year: int, build: str, *, kubernetes_from: int | None = None) -> Family:
    serves = Requirements(
        (
            Requirement.of(labels.OS, "In", (labels.WINDOWS,)),
            Requirement.of(labels.WINDOWS_BUILD, "In", (build,)),
        )
    )
    name = f"Windows_Server-{year}-English-Core-EKS_Optimized-{{kubernetes}}"
    # There is only the latest release, so nothing in the path depends on one.
    image = PublishedImage(f"/aws/service/ami-windows-latest/{name}/image_id", "", "", (serves,))
    return Family(
        f"Windows{year}",
        os=labels.WINDOWS,
        images=(image,),
        disks=(_disk("/dev/sda1", "50Gi"),),
        storage_device="/dev/sda1",
        kubernetes_from=kubernetes_from,
        eni_limited_memory_overhead=False,
        fixed_pods=_WINDOWS_PODS,
        windows_build=build,
    )


AL2: Final = Family(
    "AL2",
    images=(
        _eks_image("amazon-linux-2", "amazon-eks-node", Variant.STANDARD),
        _eks_image("amazon-linux-2-arm64", "amazon-eks-arm64-node", Variant.STANDARD),
        _eks_image("amazon-linux-2-gpu", "amazon-eks-gpu-node", Variant.NEURON, Variant.NVIDIA),
    ),
    disks=(_disk("/dev/xvda", "20Gi"),),
    storage_device="/dev/xvda",
    kubernetes_before=33,
)
AL2023: Final = Family(
    "AL2023",
    images=(
        _al2023_image("x86_64", Variant.STANDARD),
        _al2023_image("x86_64", Variant.NVIDIA),
        _al2023_image("x86_64", Variant.NEURON),
        _al2023_image("arm64", Variant.STANDARD),
        _al2023_image("arm64", Variant.NVIDIA),
    ),
    disks=(_disk("/dev/xvda", "20Gi"),),
    storage_device="/dev/xvda",
)
BOTTLEROCKET: Final = Family(
    "Bottlerocket",
    images=(
        _bottlerocket_image("", "x86_64", Variant.STANDARD, Variant.NEURON),
        _bottlerocket_image("", "arm64", Variant.STANDARD),
        _bottlerocket_image("-nvidia", "x86_64", Variant.NVIDIA),
        _bottlerocket_image("-nvidia", "arm64", Variant.NVIDIA),
    ),
    # The first disk is the operating system's own, the second is for images and pods.
    disks=(_disk("/dev/xvda", "4Gi"), _disk("/dev/xvdb", "20Gi")),
    storage_device="/dev/xvdb",
    eni_limited_memory_overhead=False,
    pods_per_core=False,
)
WINDOWS2019: Final = _windows(2019, "10.0.17763")
WINDOWS2022: Final = _windows(2022, "10.0.20348")
WINDOWS2025: Final = _windows(2025, "10.0.26100", kubernetes_from=35)
CUSTOM: Final = Family("Custom")

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        family.name: family
        for family in (AL2, AL2023, BOTTLEROCKET, WINDOWS2019, WINDOWS2022, WINDOWS2025, CUSTOM)
    }
)


@dataclass(frozen=True, slots=True)
class Alias:
    """A family and one of its releases, as ``al2023@v20250101`` or ``al2023@latest``."""

    family: Family
    version: str

    @classmethod
    def parse(cls, text: str, *, where: str = "") -> Alias:
        """Read an alias; an error begins with ``where`` it stands.

        Raises:
            FamilyError: It has no version, or there is no such family.
        """
        known = {name.lower(): family for name, family in FAMILIES.items() if family is not CUSTOM}
        name, _, version = text.partition("@")
        family = known.get(name)
        if family is None or not version:
            raise FamilyError(
                f'{where}spec.amiSelectorTerms: alias "{text}" is not family@version',
                hint=f"use one of {', '.join(known)}, such as al2023@latest",
            )
        return cls(family, version)

    @property
    def is_mutable(self) -> bool:
        """Whether it follows new releases."""
        return self.version == LATEST

    def __str__(self) -> str:
        return f"{self.family.name.lower()}@{self.version}"


def family_named(name: str, *, where: str = "") -> Family:
    """Give the family of that name; an error begins with ``where`` it is asked for.

    Raises:
        FamilyError: There is none.
    """
    family = FAMILIES.get(name)
    if family is None:
        raise FamilyError(
            f'{where}spec.amiFamily: there is no image family "{name}"',
            hint=f"use one of {', '.join(FAMILIES)}",
        )
    return family


def alias_of(node_class: EC2NodeClass) -> Alias | None:
    """Give the alias that the node class's images follow, if they follow one.

    Raises:
        FamilyError: It is none.
    """
    text = next((term.alias for term in node_class.spec.ami_selector_terms if term.alias), "")
    return Alias.parse(text, where=_where(node_class)) if text else None


def family_of(node_class: EC2NodeClass) -> Family:
    """Decide which family the node class means: how user data is written and disks are laid out.

    Raises:
        FamilyError: It names one that does not exist.
    """
    if node_class.spec.ami_family:
        return family_named(node_class.spec.ami_family, where=_where(node_class))
    alias = alias_of(node_class)
    return CUSTOM if alias is None else alias.family


def _where(node_class: EC2NodeClass) -> str:
    return f"EC2NodeClass {node_class.metadata.name}: "
