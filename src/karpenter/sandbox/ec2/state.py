# SPDX-License-Identifier: Apache-2.0
"""The world as one JSON document, for who debugs and for tests: names and numbers, not every field."""

from __future__ import annotations

import math
from typing import Any

from karpenter.sandbox.ec2.compute.records import Instance
from karpenter.sandbox.ec2.world import World

__all__ = ["state_of"]


def state_of(world: World) -> dict[str, Any]:
    """Gives what exists now."""
    world.settle()
    now = world.clock.now()
    return {
        "now": now,
        "region": world.region,
        "account": world.account,
        "speed": world.clock.speed,
        "calls": world.calls.count,
        "outcomes": {
            f"{service} {operation} {outcome}": count
            for (service, operation, outcome), count in sorted(world.calls.outcomes.items())
        },
        "throttled": world.throttle.throttled,
        "faults": world.faults.active,
        "denials": world.access.denials,
        "planned": world.planned,
        "mishaps": world.mishaps,
        "clusters": {name: cluster.shown() for name, cluster in world.eks.by_name.items()},
        "roles": sorted(world.iam.roles),
        "instanceProfiles": {
            name: [role.name for role in profile.roles] for name, profile in world.iam.profiles.items()
        },
        "queues": {name: _counts(queue.counts(now)) for name, queue in world.sqs.by_name.items()},
        "undelivered": world.sqs.undelivered,
        "rules": sorted(world.bus.rules),
        "parameters": len(world.ssm.names),
        "ec2": _ec2(world),
    }


def _counts(counts: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("visible", "inFlight", "delayed"), counts, strict=True))


def _price(world: World, each: Instance) -> float | None:
    price = world.prices.of(each.capacity_type, each.instance_type, each.zone, world.clock.now())
    return None if math.isinf(price) else price


def _ec2(world: World) -> dict[str, Any]:
    ec2 = world.ec2
    return {
        "instances": [
            {
                "id": each.id,
                "type": each.instance_type,
                "zone": each.zone,
                "capacityType": each.capacity_type,
                "state": each.state,
                "pricePerHour": _price(world, each),
                "image": each.image_id,
                "launched": each.launched,
                "tags": each.tags,
            }
            for each in ec2.instances.values()
        ],
        "subnets": {
            each.id: {"zone": each.zone, "freeAddresses": each.free_addresses}
            for each in ec2.subnets.values()
        },
        "securityGroups": {each.id: each.name for each in ec2.groups.values()},
        "launchTemplates": sorted(ec2.template_names),
        "images": {each.id: each.name for each in ec2.images.values()},
        "reservations": sorted(ec2.reservations),
    }
