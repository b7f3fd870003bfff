# SPDX-License-Identifier: Apache-2.0
"""What the composition root hands on: the parts that every controller may be made with, and the parts of a cloud."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.protocol import CloudProvider, Machine
from karpenter.controllers.garbage import owner_by_tag
from karpenter.controllers.metrics import ObjectMetrics
from karpenter.controllers.overlays import OverlayStore
from karpenter.kit.clock import Clock
from karpenter.kube import Client, Recorder
from karpenter.observe import DecisionLog, Metrics
from karpenter.operator.settings import Settings
from karpenter.state import Cluster

__all__ = ["CloudParts", "Surroundings"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every controller may be made with; the cloud's own controllers get it too."""

    client: Client
    cluster: Cluster
    recorder: Recorder
    decisions: DecisionLog
    metrics: Metrics
    objects: ObjectMetrics
    clock: Clock
    settings: Settings
    overlays: OverlayStore


@dataclass(frozen=True, slots=True)
class CloudParts:
    """A cloud: the provider that controllers ask, and what the cloud itself needs to have running on the leader.

    Attributes:
        provider: The provider.
        tasks: What runs on the leader besides the controllers, by name.
        owners: Gives the uids of the claims that a machine may belong to.
        taken_over: Is told each time that this replica begins to lead: others may have acted since it last did.
    """

    provider: CloudProvider[EC2NodeClass]
    tasks: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    owners: Callable[[Machine], Collection[str]] = owner_by_tag
    taken_over: Callable[[], None] = lambda: None
