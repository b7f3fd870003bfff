# SPDX-License-Identifier: Apache-2.0
"""The dials of the controllers and the scheduler, with Kubernetes' defaults; all times in seconds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How the control plane behaves."""

    controllers: bool = True
    scheduler: bool = True
    provisioner: bool = True
    """Whether volumes are made for claims, as the EBS driver does."""

    keda: bool = True
    """Whether ScaledObjects with a cron trigger are served, and their definition is installed."""

    node_monitor_s: float = 5.0
    node_grace_s: float = 40.0
    """How old a node's lease may be before the node counts as unreachable."""

    event_ttl_s: float = 3600.0
    provision_s: float = 0.5
    """How long it takes to make a volume."""

    attach_s: float = 0.5
    """How long it takes to attach a volume."""

    pod_gc_s: float = 20.0
    gone_node_s: float = 40.0
    """How long pods of a node that is gone are left before they are removed."""

    discovery_s: float = 10.0
    pod_burst: int = 500
    """How many pods a controller makes or deletes in one go."""

    bind_timeout_s: float = 600.0
    """How long a pod waits for its volumes after it was given a node."""

    queue_first_backoff_s: float = 1.0
    queue_longest_backoff_s: float = 10.0
    unschedulable_flush_s: float = 300.0
