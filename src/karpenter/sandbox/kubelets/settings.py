# SPDX-License-Identifier: Apache-2.0
"""The dials of the kubelets, with their defaults.

Delays are seconds of the EC2 model's clock: where the model runs ten times as fast, so do they. What a control plane
counts in its own time (leases, heartbeats, the removal of dead Nodes) is in real seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How the kubelets behave."""

    join_s: float = 2.0
    """From a running machine to its Node."""

    ready_s: float = 0.5
    """From the Node to its being Ready."""

    devices_s: float = 1.0
    """From Ready until device plugins have reported."""

    image_pull_s: float = 0.0
    """For each pod, before its first container starts."""

    pod_start_s: float = 0.2
    """For the containers of a pod, and for each init container."""

    pod_stop_s: float = 0.1
    """From the wish to delete a pod to its end, unless its grace period is shorter or an annotation says so."""

    job_s: float | None = None
    """How long containers of a Job's pods run, unless an annotation says so; None for ever."""

    speed: float | None = None
    """Model seconds per second; None follows the model, and takes 1 where its clock stands still."""

    memory_loss: float = 0.06
    """The share of the memory that is sold which nodes do not have."""

    cluster: str = ""
    """The cluster that machines must name to join; empty takes those that the model knows."""

    kubelet_version: str = ""
    """Such as v1.33.1; empty takes the version in the image's name."""

    kubelet_port: int = 10250
    """Where kubelets say that they serve logs and ports of their pods."""

    # Shared address space (RFC 6598): EKS' own choice for pods that do not take the VPC's addresses.
    first_pod_address: str = "100.64.0.2"
    """Where the addresses of pods begin; programs that play nodes of one cluster begin at different ones."""

    rejoins: bool = False
    """Whether a Node that is deleted comes back while its machine runs."""

    devices: bool = True
    csi: bool = True
    cloud_node_lifecycle: bool = True
    """Whether Nodes of machines that are gone are deleted, as AWS's cloud controller does."""

    cloud_delete_s: float = 15.0
    lease_s: float = 10.0
    heartbeat_s: float = 300.0
    poll_s: float = 0.25
    writes_at_once: int = 32
