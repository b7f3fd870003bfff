# SPDX-License-Identifier: Apache-2.0
"""Releases of machine images for nodes: every family, architecture and variant, with the parameters that name them.

A release puts images into EC2 and points SSM's public parameters at them: the pinned ones of this release, and those
that mean the newest (``recommended``, ``latest``), which is how machines drift. Older images stay, as with AWS, until
their deprecation date.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karpenter.sandbox.ec2.world import World

__all__ = ["neighbours", "release"]

# The accounts of AWS that publish each family.
_EKS, _BOTTLEROCKET, _WINDOWS = "602401143452", "651937483462", "801119661308"
_DEPRECATED_AFTER = timedelta(days=730)
_LAST_WITH_AL2 = 32
_FIRST_WITH_WINDOWS_2025 = 35


@dataclass(frozen=True, slots=True)
class _Build:
    """One image of a release: what it is called, what it is, and the parameters that name it."""

    name: str
    architecture: str
    owner: str
    parameters: tuple[str, ...]
    platform: str = ""
    disks: tuple[tuple[str, int], ...] = (("/dev/xvda", 20),)


def neighbours(version: str, below: int = 2, above: int = 1) -> tuple[str, ...]:
    """Gives the Kubernetes versions around one, for which images are released too."""
    major, _, minor = version.partition(".")
    return tuple(f"{major}.{int(minor) + step}" for step in range(-below, above + 1))


def release(world: World, moment: datetime, versions: Sequence[str] = (), name: str = "") -> list[str]:
    """Publishes images of all families and gives their ids.

    Args:
        world: Where to.
        moment: When they were made.
        versions: Kubernetes versions; none means the cluster's and those around it.
        name: The release's name, such as ``v20261101``; by default the day of the moment.
    """
    ids: list[str] = []
    day = (name or f"{moment:%Y%m%d}").removeprefix("v")
    for version in versions or neighbours(world.options.cluster_version):
        for build in _builds(version, day):
            image = world.ec2.add_image(
                name=build.name,
                owner=build.owner,
                owner_alias="amazon",
                architecture=build.architecture,
                created=moment,
                deprecated_at=moment + _DEPRECATED_AFTER,
                platform=build.platform,
                root_device=build.disks[0][0],
                disks=tuple(_disk(build, device, size_gib) for device, size_gib in build.disks),
            )
            ids.append(image.id)
            for parameter in build.parameters:
                world.ssm.put(parameter, image.id, moment, data_type="aws:ec2:image")
    return ids


def _builds(version: str, day: str) -> Iterator[_Build]:
    minor = int(version.partition(".")[2])
    if minor <= _LAST_WITH_AL2:
        yield from _al2(version, day)
    yield from _al2023(version, day)
    yield from _bottlerocket(version, day)
    for year in ("2019", "2022", *(["2025"] if minor >= _FIRST_WITH_WINDOWS_2025 else [])):
        yield _windows(version, year, day)


def _al2(version: str, day: str) -> Iterator[_Build]:
    for suffix, architecture in (("", "x86_64"), ("-arm64", "arm64"), ("-gpu", "x86_64")):
        name = f"amazon-eks{suffix}-node-{version}-v{day}"
        stem = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2{suffix}"
        yield _Build(name, architecture, _EKS, _parameters(stem, "recommended", name))


def _al2023(version: str, day: str) -> Iterator[_Build]:
    for architecture, variants in (
        ("x86_64", ("standard", "nvidia", "neuron")),
        ("arm64", ("standard", "nvidia")),
    ):
        for variant in variants:
            name = f"amazon-eks-node-al2023-{architecture}-{variant}-{version}-v{day}"
            stem = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}"
            yield _Build(name, architecture, _EKS, _parameters(stem, "recommended", name))


def _bottlerocket(version: str, day: str) -> Iterator[_Build]:
    # Bottlerocket numbers its releases; the number is made from the day, so that releases of the model stay apart.
    number = f"1.{day[2:6]}.{int(day[6:8])}"
    for variant in ("", "-nvidia"):
        for architecture in ("x86_64", "arm64"):
            stem = f"/aws/service/bottlerocket/aws-k8s-{version}{variant}/{architecture}"
            yield _Build(
                f"bottlerocket-aws-k8s-{version}{variant}-{architecture}-v{number}-5ab1e5ed",
                architecture,
                _BOTTLEROCKET,
                _parameters(stem, "latest", number),
                disks=(("/dev/xvda", 2), ("/dev/xvdb", 20)),
            )


def _windows(version: str, year: str, day: str) -> _Build:
    stem = f"Windows_Server-{year}-English-Core-EKS_Optimized-{version}"
    return _Build(
        f"{stem}-{day[:4]}.{day[4:6]}.{day[6:8]}",
        "x86_64",
        _WINDOWS,
        (f"/aws/service/ami-windows-latest/{stem}/image_id",),
        platform="windows",
        disks=(("/dev/sda1", 50),),
    )


def _parameters(stem: str, newest: str, pinned: str) -> tuple[str, str]:
    return f"{stem}/{newest}/image_id", f"{stem}/{pinned}/image_id"


def _disk(build: _Build, device: str, size_gib: int) -> dict[str, Any]:
    digits = zlib.crc32(f"{build.name}{device}".encode())
    return {
        "DeviceName": device,
        "Ebs": {
            "DeleteOnTermination": True,
            "Encrypted": False,
            "SnapshotId": f"snap-0{digits:016x}",
            "VolumeSize": size_gib,
            "VolumeType": "gp3",
        },
    }
