# SPDX-License-Identifier: Apache-2.0
"""The objects that kubelets read, trimmed to what they act on."""

from __future__ import annotations

import re
from typing import Final

from msgspec import field

from karpenter.api.base import Frozen
from karpenter.api.core import Container, ContainerPort, ContainerStatus, Node, Pod, PodSpec, PodStatus

__all__ = ["ContainerView", "EnvVar", "Node", "PodView"]

_SLEEP: Final = re.compile(r"\bsleep (\d+)")
_PAUSE: Final = re.compile(r"(?:^|/)pause(?:[:@]|$)")


class _HttpGet(Frozen):
    path: str = "/"
    port: int | str = 0


class _TcpSocket(Frozen):
    port: int | str = 0


class _Probe(Frozen):
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    http_get: _HttpGet | None = None
    tcp_socket: _TcpSocket | None = None

    @property
    def needs_a_port(self) -> bool:
        """Says whether it asks a port of the container."""
        return self.http_get is not None or self.tcp_socket is not None


class _Exec(Frozen):
    command: tuple[str, ...] = ()


class _Sleep(Frozen):
    seconds: int = 0


class _Handler(Frozen):
    exec: _Exec | None = None
    sleep: _Sleep | None = None

    @property
    def seconds(self) -> float:
        """Gives how long it takes; of commands only ``sleep`` takes time."""
        if self.sleep is not None:
            return float(self.sleep.seconds)
        slept = _SLEEP.search(" ".join(self.exec.command)) if self.exec is not None else None
        return float(slept[1]) if slept else 0.0


class _Lifecycle(Frozen):
    pre_stop: _Handler | None = None


class _FieldRef(Frozen):
    field_path: str = ""


class _ResourceFieldRef(Frozen):
    resource: str = ""
    divisor: str = "1"


class _EnvVarSource(Frozen):
    field_ref: _FieldRef | None = None
    resource_field_ref: _ResourceFieldRef | None = None


class EnvVar(Frozen):
    """A variable of a container's environment; of sources, those that the pod itself answers are read."""

    name: str = ""
    value: str = ""
    value_from: _EnvVarSource | None = None


class _ContainerPort(ContainerPort):
    name: str = ""


class ContainerView(Container):
    """A container with what it takes to run it."""

    image: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    ports: tuple[_ContainerPort, ...] = ()
    readiness_probe: _Probe | None = None
    lifecycle: _Lifecycle | None = None

    @property
    def pre_stop_s(self) -> float:
        """Gives how long its hook before the end takes."""
        hook = self.lifecycle.pre_stop if self.lifecycle is not None else None
        return hook.seconds if hook is not None else 0.0

    @property
    def is_never_ready(self) -> bool:
        """Says whether its readiness probe asks a port, and its image is the one that does nothing but wait."""
        probe = self.readiness_probe
        return probe is not None and probe.needs_a_port and bool(_PAUSE.search(self.image))


class _PodSpec(PodSpec):
    containers: tuple[ContainerView, ...] = ()
    init_containers: tuple[ContainerView, ...] = ()
    service_account_name: str = ""


class _ContainerStatus(ContainerStatus):
    restart_count: int = 0


class _PodStatus(PodStatus):
    pod_ip: str = field(name="podIP", default="")
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
    def pre_stop_s(self) -> float:
        """Gives how long the hooks before its end take; they run side by side."""
        return max((each.pre_stop_s for each in self.spec.containers), default=0.0)

    @property
    def is_over(self) -> bool:
        """Says whether all its containers have ended for good."""
        return self.status.phase in {"Succeeded", "Failed"}
