# SPDX-License-Identifier: Apache-2.0
"""The account as one readable document: what exists, what is set and what happens next.

Names and numbers for who debugs, and for tests; not every field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from karpenter.sandbox.ec2.compute.fields import camel
from karpenter.sandbox.ec2.compute.records import Instance
from karpenter.sandbox.ec2.compute.reservations import state_at
from karpenter.sandbox.ec2.compute.store import Store

__all__ = ["overview"]


def overview(ec2: Store) -> dict[str, Any]:
    """Gives the account as a document that JSON can hold, apart from its times."""
    now = ec2.now()
    rules = ec2.capacity
    return {
        "settings": _spelled(asdict(ec2.settings)),
        "rules": {
            "capacity": [_spelled(asdict(rule)) for rule in rules.pools],
            "errors": [_spelled(asdict(error)) for error in rules.errors],
            "quotas": [_spelled(asdict(quota)) for quota in rules.quotas],
            "kmsKeys": [_spelled(asdict(key)) for key in rules.keys],
            "failures": [_spelled(asdict(failure)) for failure in rules.failures],
            "prices": [_spelled(asdict(rule)) for rule in ec2.prices.rules],
        },
        "subnets": {
            each.id: {"zone": each.zone, "cidr": str(each.network), "freeAddresses": each.free_addresses}
            for each in ec2.subnets.values()
        },
        "securityGroups": {each.id: each.name for each in ec2.groups.values()},
        "images": {each.id: each.name for each in ec2.images.values()},
        "launchTemplates": sorted(ec2.template_names),
        "reservations": {
            each.id: {
                "type": each.instance_type,
                "zone": each.zone,
                "state": state_at(each, now),
                "used": len(each.used_by),
                "total": each.total,
            }
            for each in ec2.reservations.values()
        },
        "placementGroups": {each.name: len(each.members) for each in ec2.placement_groups.values()},
        "fleets": len(ec2.fleets),
        "tokens": len(ec2.tokens),
        "states": dict(Counter(each.state for each in ec2.instances.values())),
        "instances": [_instance(each) for each in ec2.instances.values()],
        "next": [{"at": due, "what": what} for due, what in ec2.timers.upcoming()],
    }


def _instance(each: Instance) -> dict[str, Any]:
    return {
        "id": each.id,
        "type": each.instance_type,
        "zone": each.zone,
        "capacityType": each.capacity_type,
        "state": each.state,
        "seen": each.seen.state if each.seen else None,
        "image": each.image_id,
        "address": each.address,
        "launched": each.launched,
        "boot": each.boot,
        "reason": each.reason.code if each.reason else "",
        "fleet": each.fleet_id,
        "token": each.client_token,
        "tags": dict(each.tags),
    }


def _spelled(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        camel(key): _spelled(inner) if isinstance(inner, Mapping) else inner for key, inner in value.items()
    }
