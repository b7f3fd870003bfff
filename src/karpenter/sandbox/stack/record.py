# SPDX-License-Identifier: Apache-2.0
"""What is written down of a sandbox: its options, its ports, its token and its processes.

The file is replaced as a whole, never written over, and only its owner can read it. A process is known by its pid;
whether it still is that process tells a lock, see ``children``.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import msgspec

from karpenter.sandbox.stack.errors import UnreadableError

__all__ = ["Child", "Options", "Record", "load", "save"]


class Options(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a sandbox is to be."""

    speed: float = 1.0
    """Model seconds per second, of boots and time-outs."""

    replicas: int = 1
    region: str = "us-west-2"
    cluster_name: str = "sandbox"
    """Of the cluster in EKS; roles, queue and discovery tags are named after it."""

    kubernetes_version: str = "1.34"
    """Of the API and of the cluster in EKS, and what images are for."""

    ip_family: str = "ipv4"
    """Of pods and services: ipv4 or ipv6."""

    bare: bool = False
    """Whether the account lacks all that an installation of Karpenter adds: roles, queue, tags, access."""

    settings: dict[str, str] = {}
    """Settings of the controller besides those that a sandbox gives it, by flag."""

    controller_namespace: str = "karpenter"
    """Where the Deployment of the controller is, and its lease."""

    controller_program: str = ""
    """A program that is run in place of our own controller; empty for ours."""

    eks_addons: bool = False
    """Whether there is what every cluster on EKS has: DaemonSets on all nodes, which take room there, and CoreDNS."""

    keep: bool = False
    """Whether what is in the cluster and in the account outlives ``down``."""

    life_s: float | None = None
    """After so long the processes end by themselves."""

    @property
    def instance_profiles(self) -> tuple[str, ...]:
        """Return the instance profiles that the account begins with: the one that notes make, and the default one."""
        if self.bare:
            return ()
        named = (
            f"KarpenterNodeInstanceProfile-{self.cluster_name}",
            self.settings.get("default-instance-profile"),
        )
        return tuple(dict.fromkeys(filter(None, named)))


class Child(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One process that was started."""

    pid: int
    started: datetime


class Record(msgspec.Struct, kw_only=True, rename="camel"):
    """All that is known of one sandbox."""

    name: str
    options: Options
    token: str
    ports: dict[str, int]
    children: dict[str, Child] = {}
    owned: bool = False
    """Whether its processes end with the command that started it."""

    @property
    def server(self) -> str:
        """Gives the address of the API."""
        return f"https://127.0.0.1:{self.ports['kube']}"

    @property
    def ec2(self) -> str:
        """Gives the address of the EC2 model."""
        return f"http://127.0.0.1:{self.ports['ec2']}"


def load(path: Path) -> Record | None:
    """Reads a record; None where there is none.

    Raises:
        UnreadableError: It is damaged.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as broken:
        raise UnreadableError(
            f"the record {path} of a sandbox cannot be read: {broken}",
            hint=f"end its processes by hand and remove {path.parent}",
        ) from broken


def save(path: Path, record: Record) -> None:
    """Writes a record down."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=2))
    fresh.replace(path)
