# SPDX-License-Identifier: Apache-2.0
"""The machines as JSON, for who plays their kubelets: a short row each, and all of one on request.

The rows are cheap enough to be asked for several times a second. A machine's own document has what it finds when it
boots: its user data, the disks under it, the image that it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from karpenter.sandbox.ec2.compute.nodeside import machine_of
from karpenter.sandbox.ec2.compute.records import Instance
from karpenter.sandbox.ec2.world import World

__all__ = ["BEHAVIOUR_TAG", "machines_of"]

# Says how the kubelet of a machine behaves; read while it runs.
BEHAVIOUR_TAG = "sandbox.karpenter.sh/kubelet"


def machines_of(world: World, ids: Sequence[str] = ()) -> dict[str, Any]:
    """Gives a row of every machine, those that have ended lately included, or the documents of those named."""
    world.settle()
    known = world.ec2.instances
    return {
        "now": world.clock.now(),
        "speed": world.clock.speed,
        "clusters": sorted(world.eks.by_name),
        "machines": [_document(world, known[each]) for each in ids if each in known]
        if ids
        else [_row(each) for each in known.values()],
    }


def _row(instance: Instance) -> dict[str, Any]:
    return {
        "id": instance.id,
        "state": instance.state,
        "behaviour": instance.tags.get(BEHAVIOUR_TAG) or instance.boot,
    }


def _document(world: World, instance: Instance) -> dict[str, Any]:
    image = world.ec2.images.get(instance.image_id)
    document: dict[str, Any] = msgspec.to_builtins(machine_of(world.ec2, instance))
    return document | {
        "image_name": image.name if image else "",
        "root_device": instance.root_device,
        "disks": {disk.device: int(disk.spec.get("VolumeSize") or 0) for disk in instance.disks},
    }
