# SPDX-License-Identifier: Apache-2.0
"""The view of whoever plays the kubelets: which machines run, what they were told to do, and how they boot.

Shows the truth, not what lists see: a machine knows itself without asking an API.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from karpenter.sandbox.ec2.compute.addresses import host_name
from karpenter.sandbox.ec2.compute.records import Instance
from karpenter.sandbox.ec2.compute.store import Store

__all__ = ["Machine", "machine_of", "machines"]


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine as it is from inside.

    ``boot`` says how it gets along with the cluster: joins, never-joins, joins-not-ready, or silent
    for one that hangs. ``running_since`` is None until it runs.
    """

    id: str
    state: str
    instance_type: str
    architecture: str
    capacity_type: str
    region: str
    zone: str
    zone_id: str
    image_id: str
    address: str
    ipv6_address: str
    host_name: str
    user_data: bytes
    boot: str
    launched: datetime
    running_since: datetime | None
    tags: Mapping[str, str]

    @property
    def provider_id(self) -> str:
        """Gives the id by which a Node names its instance."""
        return f"aws:///{self.zone}/{self.id}"


def machines(ec2: Store, *states: str) -> Iterator[Machine]:
    """Gives the machines in these states, running ones if none is named, oldest first."""
    wanted = states or ("running",)
    return (machine_of(ec2, each) for each in list(ec2.instances.values()) if each.state in wanted)


def machine_of(ec2: Store, instance: Instance) -> Machine:
    """Gives one instance as a machine."""
    return Machine(
        id=instance.id,
        state=instance.state,
        instance_type=instance.instance_type,
        architecture=instance.architecture,
        capacity_type=instance.capacity_type,
        region=ec2.account.region,
        zone=instance.zone,
        zone_id=instance.zone_id,
        image_id=instance.image_id,
        address=instance.address,
        ipv6_address=next((each for nic in instance.interfaces for each in nic.ipv6_addresses), ""),
        host_name=host_name(ec2.account.region, instance),
        user_data=base64.b64decode(instance.data.get("UserData") or ""),
        boot=instance.boot,
        launched=instance.launched,
        running_since=instance.changed if instance.state == "running" else None,
        tags=dict(instance.tags),
    )
