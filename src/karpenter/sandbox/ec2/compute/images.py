# SPDX-License-Identifier: Apache-2.0
"""Machine images: what is listed to whom, and the way new ones appear and old ones are deprecated.

DescribeImages hides images whose deprecation date has passed unless ``IncludeDeprecated`` is set or the caller owns
them, as EC2 does. ``Owners`` takes account ids and the words self, amazon and aws-marketplace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from karpenter import facts
from karpenter.sandbox.ec2.compute.filters import Field
from karpenter.sandbox.ec2.compute.listing import by_ids, describe, spec_tags, tag_list, unknown_id
from karpenter.sandbox.ec2.compute.records import Image
from karpenter.sandbox.ec2.compute.seam import Params, invalid, missing, stop_if_dry_run
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError

__all__ = [
    "add_image",
    "copy_image",
    "deregister_image",
    "describe_images",
    "disable_image_deprecation",
    "enable_image_deprecation",
    "is_deprecated",
    "iso",
    "register_image",
]

_NAME: Final = re.compile(r"[A-Za-z0-9()\[\] ./\-'@_]{3,128}")
_ARCHITECTURES: Final = ("x86_64", "arm64", "i386", "x86_64_mac", "arm64_mac")
_FIELDS: Final[Mapping[str, Field]] = {
    "image-id": lambda image: image.id,
    "name": lambda image: image.name,
    "architecture": lambda image: image.architecture,
    "description": lambda image: image.description,
    "state": lambda image: image.state,
    "owner-id": lambda image: image.owner,
    "owner-alias": lambda image: image.owner_alias,
    "is-public": lambda image: image.public,
    "platform": lambda image: image.platform,
    "creation-date": lambda image: iso(image.created),
    "root-device-name": lambda image: image.root_device,
    "root-device-type": lambda _: "ebs",
    "virtualization-type": lambda _: "hvm",
    "hypervisor": lambda _: "xen",
    "image-type": lambda _: "machine",
    "ena-support": lambda _: True,
}


def describe_images(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeImages."""
    now = ec2.now()
    owners = set(params.get("Owners") or ())
    if "self" in owners:
        owners.add(ec2.account.id)
    named = params.get("ImageIds")
    shown: Mapping[str, Image] = ec2.images
    if not named or owners:
        shown = {
            key: image
            for key, image in ec2.images.items()
            if (not owners or owners & {image.owner, image.owner_alias})
            and (
                named
                or params.get("IncludeDeprecated")
                or image.owner == ec2.account.id
                or not is_deprecated(image, now)
            )
        }
    page, token = describe(shown, params, ids="ImageIds", fields=_FIELDS)
    return {"Images": [_view(image) for image in page], **token}


def add_image(  # noqa: PLR0913 - the fields of an image, all by name
    ec2: Store,
    *,
    name: str,
    architecture: str,
    owner: str = "",
    owner_alias: str = "",
    created: datetime | None = None,
    deprecated_at: datetime | None = None,
    description: str = "",
    platform: str = "",
    root_device: str = "/dev/xvda",
    disks: Iterable[Mapping[str, Any]] = (),
    tags: Mapping[str, str] | None = None,
    public: bool = True,
    image_id: str = "",
) -> Image:
    """Publishes an image, the account's own if no owner is named, and gives it."""
    image = Image(
        image_id or ec2.ids.next("ami"),
        ec2.next_seq(),
        dict(tags or {}),
        name,
        owner or ec2.account.id,
        architecture,
        created or ec2.now(),
        deprecated_at,
        owner_alias,
        description,
        platform=platform,
        public=public,
        root_device=root_device,
        disks=tuple(disks),
    )
    return ec2.add(image)


def is_deprecated(image: Image, now: datetime) -> bool:
    """Says whether the image's deprecation date has passed."""
    return image.deprecated_at is not None and image.deprecated_at <= now


def register_image(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers RegisterImage; the name must be new among the account's own images."""
    name = _new_name(ec2, params)
    architecture = params.get("Architecture") or "i386"
    if architecture not in _ARCHITECTURES:
        raise invalid(architecture, "architecture")
    tags = spec_tags(params.get("TagSpecifications"), "image")
    stop_if_dry_run(params)
    image = add_image(
        ec2,
        name=name,
        architecture=architecture,
        description=params.get("Description") or "",
        root_device=params.get("RootDeviceName") or "/dev/xvda",
        disks=params.get("BlockDeviceMappings") or (),
        tags=tags,
        public=False,
    )
    return {"ImageId": image.id}


def copy_image(ec2: Store, params: Params) -> dict[str, Any]:
    """Answer CopyImage: the account's own private image, pending until the copy is done."""
    name = _new_name(ec2, params)
    region = params["SourceRegion"]
    if region not in facts.regions():
        raise invalid(region, "sourceRegion")
    if region != ec2.account.region:
        # The model has one region, so that there is no image anywhere else.
        raise unknown_id(params["SourceImageId"])
    (source,) = by_ids(ec2.images, [params["SourceImageId"]])
    if source.state != "available":
        raise ModelError("InvalidRequest", f"The image {source.id} is {source.state} and cannot be copied.")
    for each in params.get("TagSpecifications") or ():
        if each.get("ResourceType") not in {"image", "snapshot"}:
            raise invalid(
                each.get("ResourceType"), "resourceType", "An image and its snapshots can be tagged."
            )
    if params.get("KmsKeyId") and not params.get("Encrypted"):
        raise ModelError(
            "InvalidParameterCombination", "A KMS key is for copies whose parameter encrypted is set."
        )
    tags = dict(source.tags) if params.get("CopyImageTags") and source.owner == ec2.account.id else {}
    tags |= spec_tags(params.get("TagSpecifications"), "image")
    stop_if_dry_run(params)
    image = add_image(
        ec2,
        name=name,
        architecture=source.architecture,
        description=params.get("Description")
        or f"[Copied {source.id} from {region}] {source.description}".strip(),
        platform=source.platform,
        root_device=source.root_device,
        disks=[_copied_disk(ec2, disk, params) for disk in source.disks],
        tags=tags,
        public=False,
    )
    image.state, image.source_id, image.source_region = "pending", source.id, region

    def finish(_: datetime) -> None:
        image.state = "available"

    done = ec2.now() + ec2.drawn(ec2.settings.image_copy_s, "copy", image.id)
    ec2.timers.at(done, f"{image.id} is copied", finish)
    return {"ImageId": image.id}


def deregister_image(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DeregisterImage; instances that run it go on."""
    image = _own(ec2, params)
    stop_if_dry_run(params)
    ec2.drop(image)
    return {"Return": True, "DeleteSnapshotResults": []}


def enable_image_deprecation(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers EnableImageDeprecation."""
    image = _own(ec2, params)
    stop_if_dry_run(params)
    image.deprecated_at = params["DeprecateAt"]
    return {"Return": True}


def disable_image_deprecation(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DisableImageDeprecation."""
    image = _own(ec2, params)
    stop_if_dry_run(params)
    image.deprecated_at = None
    return {"Return": True}


def iso(moment: datetime) -> str:
    """Gives a moment as EC2 writes it into text fields."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _new_name(ec2: Store, params: Params) -> str:
    """Return the name of an image to be, which is well-formed and new among the account's own images."""
    name: str = params.get("Name") or ""
    if not name:
        raise missing("Name")
    if not _NAME.fullmatch(name):
        raise ModelError(
            "InvalidAMIName.Malformed",
            f"The AMI name {name!r} is not 3 to 128 letters, digits and the characters ()[] ./-'@_",
        )
    taken = (each.id for each in ec2.images.values() if each.name == name and each.owner == ec2.account.id)
    if other := next(taken, None):
        raise ModelError("InvalidAMIName.Duplicate", f"AMI name {name} is already in use by AMI {other}")
    return name


def _copied_disk(ec2: Store, disk: Mapping[str, Any], params: Params) -> dict[str, Any]:
    """Return a copy's disk: a snapshot of its own, encrypted if the copy is."""
    ebs = disk.get("Ebs")
    if not ebs:
        return dict(disk)
    copied = {**ebs, "SnapshotId": ec2.ids.next("snap")}
    if params.get("Encrypted"):
        copied["Encrypted"] = True
        if params.get("KmsKeyId"):
            copied["KmsKeyId"] = params["KmsKeyId"]
    return {**disk, "Ebs": copied}


def _own(ec2: Store, params: Params) -> Image:
    (image,) = by_ids(ec2.images, [params["ImageId"]])
    if image.owner != ec2.account.id:
        raise ModelError("AuthFailure", f"Not authorized for image:{image.id}", status=403)
    return image


def _view(image: Image) -> dict[str, Any]:
    view: dict[str, Any] = {
        "ImageId": image.id,
        "ImageLocation": f"{image.owner_alias or image.owner}/{image.name}",
        "Name": image.name,
        "Description": image.description,
        "Architecture": image.architecture,
        "CreationDate": iso(image.created),
        "State": image.state,
        "OwnerId": image.owner,
        "Public": image.public,
        "ImageType": "machine",
        "Hypervisor": "xen",
        "VirtualizationType": "hvm",
        "RootDeviceType": "ebs",
        "RootDeviceName": image.root_device,
        "BlockDeviceMappings": [dict(disk) for disk in image.disks],
        "EnaSupport": True,
        "SriovNetSupport": "simple",
        "PlatformDetails": "Windows" if image.platform else "Linux/UNIX",
        "UsageOperation": "RunInstances:0002" if image.platform else "RunInstances",
        "Tags": tag_list(image.tags),
    }
    if image.owner_alias:
        view["ImageOwnerAlias"] = image.owner_alias
    if image.platform:
        view["Platform"] = "Windows"
    if image.deprecated_at:
        view["DeprecationTime"] = iso(image.deprecated_at)
    if image.source_id:
        view |= {"SourceImageId": image.source_id, "SourceImageRegion": image.source_region}
    return view
