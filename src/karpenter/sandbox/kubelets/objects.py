# SPDX-License-Identifier: Apache-2.0
"""The objects that kubelets read, trimmed to what they act on."""

from __future__ import annotations

from karpenter.api.base import Frozen
from karpenter.api.core import Container, ContainerStatus, Node, Pod, PodSpec, PodStatus

__all__ = ["Node", "PodView"]


class _Probe(Frozen):
    initial_delay_seconds: int = 0


class _Container(Container):
    image: str = ""
    readiness_probe: _Probe | None = None


class _PodSpec(PodSpec):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


class _ContainerStatus(ContainerStatus):
    restart_count: int = 0


class _PodStatus(PodStatus):
    pod_ip: str = ""
    container_statuses: tuple[_ContainerStatus, ...] = ()


class PodView(Pod):
    """A pod with what it takes to write its status."""

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def key(self) -> str:
        """Gives namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_of_a_job(self) -> bool:
        """Says whether a Job made it, which waits for its end."""
        return any(each.kind == "Job" for each in self.metadata.owner_references)

    @property
    def is_over(self) -> bool:
        """Says whether all its containers have ended for good."""
        return self.status.phase in {"Succeeded", "Failed"}
