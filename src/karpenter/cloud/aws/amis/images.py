# SPDX-License-Identifier: Apache-2.0
"""Images that were found, which of them are kept, and which instance type takes which.

Of images for the same instance types one is kept: one that is not deprecated, then the newest, then the one of
the larger name, as Karpenter does. The list runs from the newest to the oldest, and an instance type takes the
first that it can boot. What was found but cannot or should not be used is a note, a value for a condition or event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from karpenter.api import labels
from karpenter.api.core.selection import NodeSelectorRequirement
from karpenter.api.ec2nodeclass import AMI
from karpenter.model.requirements import Requirement, Requirements

__all__ = [
    "ARCHITECTURES",
    "Image",
    "Images",
    "NoImage",
    "Note",
    "NoteKind",
    "ami_for",
    "keep_best",
    "map_amis",
    "read_image",
    "why_no_ami",
]

# What EC2 calls the architectures that Kubernetes nodes can have.
ARCHITECTURES: Final[Mapping[str, str]] = {"x86_64": labels.AMD64, "arm64": labels.ARM64}

_BEFORE_ALL: Final = datetime.min.replace(tzinfo=UTC)
_AFTER_ALL: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Image:
    """A machine image, for one kind of instance type.

    Attributes:
        id: Its id.
        name: Its name.
        created: When it was made.
        deprecated: Whether its owner advises against it by now.
        requirements: Which instance types it is for.
        ssm_parameter: The SSM parameter that named it, for logs; empty if none did.
    """

    id: str
    name: str
    created: datetime
    deprecated: bool
    requirements: Requirements
    ssm_parameter: str = ""

    def status(self) -> AMI:
        """Give the image as the status of a node class shows it: short keys of requirements first."""
        entries = sorted(self.requirements.entries(), key=lambda entry: (len(entry.key), entry.key))
        return AMI(
            id=self.id,
            name=self.name,
            deprecated=self.deprecated,
            requirements=tuple(
                NodeSelectorRequirement(key=entry.key, operator=entry.operator, values=entry.values)
                for entry in entries
            ),
        )


class NoteKind(Enum):
    """What can be odd about images or where they were looked for."""

    FOREIGN_OWNER = "foreign-owner"
    UNSUPPORTED_ARCHITECTURE = "unsupported-architecture"
    PARAMETER_NOT_FOUND = "parameter-not-found"
    PARAMETER_NOT_AN_IMAGE = "parameter-not-an-image"


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a person should know about the selection.

    Attributes:
        kind: What it is.
        subject: The image or the parameter.
        message: What was found, in a sentence.
        hint: What to do next.
    """

    kind: NoteKind
    subject: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Images:
    """What the selectors of a node class found: at least one image, the newest first, and notes."""

    images: tuple[Image, ...]
    notes: tuple[Note, ...] = ()

    def status(self) -> tuple[AMI, ...]:
        """Give the images as the status of a node class shows them."""
        return tuple(image.status() for image in self.images)


@dataclass(frozen=True, slots=True)
class NoImage:
    """An instance type that none of the images can boot on.

    Attributes:
        instance_type: The type.
        obstacles: For each image its id and what keeps it from the type.
    """

    instance_type: str
    obstacles: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        each = "; ".join(f"{ami}: {obstacle}" for ami, obstacle in self.obstacles)
        return f"no image for {self.instance_type}: {each}" if each else f"no image for {self.instance_type}"


def read_image(
    described: Mapping[str, Any], serves: Requirements, now: datetime, ssm_parameter: str = ""
) -> Image:
    """Read an image as DescribeImages tells it; its architecture must be one of ``ARCHITECTURES``."""
    architecture = ARCHITECTURES[described["Architecture"]]
    return Image(
        id=described["ImageId"],
        name=described.get("Name", ""),
        created=_moment(described.get("CreationDate"), _BEFORE_ALL),
        deprecated=_moment(described.get("DeprecationTime"), _AFTER_ALL) <= now,
        requirements=serves.plus(Requirement.of(labels.ARCH, "In", (architecture,))),
        ssm_parameter=ssm_parameter,
    )


def keep_best(images: Iterable[Image]) -> tuple[Image, ...]:
    """Give one image for each kind of instance type, the newest first; of equal age by id."""
    best: dict[Requirements, Image] = {}
    for image in images:
        present = best.get(image.requirements)
        if present is None or _rank(image) > _rank(present):
            best[image.requirements] = image
    by_id = sorted(best.values(), key=lambda image: image.id)
    return tuple(sorted(by_id, key=lambda image: image.created, reverse=True))


def ami_for(amis: Sequence[AMI], type_labels: Mapping[str, str]) -> AMI | None:
    """Give the first image that an instance type with these labels can boot, or None."""
    return next((ami for ami in amis if _requirements(ami.requirements).allows(type_labels)), None)


def map_amis(
    amis: Sequence[AMI], types: Mapping[str, Mapping[str, str]]
) -> tuple[dict[str, tuple[str, ...]], tuple[NoImage, ...]]:
    """Give the instance types of each image id, and the types that none can boot on.

    Args:
        amis: The images of a node class's status, in their order.
        types: The labels of each instance type, by its name.
    """
    taken: dict[str, list[str]] = {}
    left = []
    for name, type_labels in types.items():
        ami = ami_for(amis, type_labels)
        if ami is None:
            left.append(why_no_ami(amis, name, type_labels))
        else:
            taken.setdefault(ami.id, []).append(name)
    return {ami_id: tuple(names) for ami_id, names in taken.items()}, tuple(left)


def why_no_ami(amis: Sequence[AMI], instance_type: str, type_labels: Mapping[str, str]) -> NoImage:
    """Tell for each image what keeps it from an instance type."""
    obstacles = []
    for ami in amis:
        unmet = (
            f"{requirement} is wanted, the type has {type_labels.get(requirement.key, 'no such label')}"
            for requirement in _requirements(ami.requirements)
            if not requirement.allows(type_labels.get(requirement.key))
        )
        obstacles.append((ami.id, ", ".join(unmet)))
    return NoImage(instance_type, tuple(obstacles))


@lru_cache(maxsize=1024)
def _requirements(expressions: tuple[NodeSelectorRequirement, ...]) -> Requirements:
    return Requirements.from_expressions(expressions)


def _rank(image: Image) -> tuple[bool, datetime, str]:
    return not image.deprecated, image.created, image.name


def _moment(text: str | None, missing: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        # One odd date must not cost a node class all its images.
        return missing
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
