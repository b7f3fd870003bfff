# SPDX-License-Identifier: Apache-2.0
"""What passes between the converters of single objects and the conversion of the whole input.

A converter sees one old object and the context: what the other objects of the input say that this one depends
on. It answers with a draft, which the whole finishes once it is known which node class carries which kubelet
settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from karpenter.api.labels import AWS_GROUP
from karpenter.api.legacy.conversion.findings import RawObject

__all__ = ["Context", "Draft", "class_reference", "duration_text"]


@dataclass(frozen=True, slots=True)
class Context:
    """What a converter may know beside its object.

    Attributes:
        default_instance_profile: The profile of node templates that name none.
        tags: Tags that the old global settings put on everything launched.
        expiries: expireAfter of each pool in the input, by its kind and name.
    """

    default_instance_profile: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    expiries: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draft:
    """A converted object, but for the kubelet settings.

    Attributes:
        manifest: The object; a pool or claim refers to its class by the old name still.
        class_name: The class that a pool or claim refers to; empty for a class.
        kubelet: The settings of a pool or claim, which its class must take over.
        kubelet_path: Where the settings stood.
    """

    manifest: RawObject
    class_name: str = ""
    kubelet: RawObject = field(default_factory=dict)
    kubelet_path: str = ""


def class_reference(name: str) -> RawObject:
    """Returns the v1 reference to an EC2NodeClass."""
    return {"group": AWS_GROUP, "kind": "EC2NodeClass", "name": name}


def duration_text(seconds: int) -> str:
    """Returns seconds as v1 writes a duration: in hours if they are whole, for a month of seconds tells nobody much."""
    return f"{seconds // 3600}h" if seconds and seconds % 3600 == 0 else f"{seconds}s"
