# SPDX-License-Identifier: Apache-2.0
"""Machines, pods and an API server that remembers what is written, with sensible defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.kubelets.machines import Machine
from karpenter.sandbox.kubelets.objects import PodView

START = datetime(2026, 1, 1, tzinfo=UTC)
GOLDENS = Path(__file__).parents[2] / "cloud" / "aws" / "userdata" / "goldens"
AL2023_IMAGE = "amazon-eks-node-al2023-x86_64-standard-1.33-v20260101"


def golden(name: str) -> bytes:
    """Gives user data as the provider writes it."""
    return (GOLDENS / f"{name}.txt").read_bytes()


def machine(
    machine_id: str = "i-1",
    *,
    user_data: bytes | None = None,
    image_name: str = AL2023_IMAGE,
    instance_type: str = "m5.large",
    address: str = "10.0.0.1",
    disks: Mapping[str, int] | None = None,
) -> Machine:
    return Machine(
        id=machine_id,
        state="running",
        instance_type=instance_type,
        architecture="x86_64",
        region="us-west-2",
        zone="us-west-2a",
        zone_id="usw2-az1",
        image_name=image_name,
        address=address,
        host_name=f"ip-{address.replace('.', '-')}.us-west-2.compute.internal",
        user_data=golden("al2023-own") if user_data is None else user_data,
        running_since=START,
        disks={"/dev/xvda": 20} if disks is None else disks,
    )


def pod(
    name: str = "p",
    *,
    requests: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    host_port: int = 0,
    phase: str = "Pending",
    restart_policy: str = "Always",
    grace_s: int | None = None,
    inits: Sequence[Mapping[str, Any]] = (),
    tolerations: Sequence[Mapping[str, Any]] = (),
    selector: Mapping[str, str] | None = None,
    readiness_s: int = 0,
    host_network: bool = False,
    node: str = "n",
    ready: str = "",
    owner: str = "",
    container: Mapping[str, Any] | None = None,
) -> PodView:
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": dict(requests or {})},
        **(container or {}),
    }
    if host_port:
        container["ports"] = [{"containerPort": host_port, "hostPort": host_port}]
    if readiness_s:
        container["readinessProbe"] = {"initialDelaySeconds": readiness_s}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "annotations": {f"sandbox.karpenter.sh/{key}": value for key, value in (annotations or {}).items()},
    }
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": owner, "name": "o", "uid": "u"}]
    if grace_s is not None:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace_s}
    document = {
        "metadata": metadata,
        "spec": {
            "nodeName": node,
            "containers": [container],
            "initContainers": list(inits),
            "tolerations": list(tolerations),
            "nodeSelector": dict(selector or {}),
            "restartPolicy": restart_policy,
            "hostNetwork": host_network,
        },
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}] if ready else []},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=PodView)


class Paper:
    """An API server of paper: remembers every write in order, and refuses where it is told to."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str, Any]] = []
        self.refusals: dict[tuple[str, str], list[int]] = {}
        self.found: dict[str, Any] = {}

    async def create(self, path: str, document: Mapping[str, Any]) -> bytes:
        self._write("POST", path, document)
        metadata = {**document["metadata"], "uid": "uid-of-it"}
        return msgspec.json.encode({**document, "metadata": metadata})

    async def patch(self, path: str, change: Mapping[str, Any]) -> bytes:
        self._write("PATCH", path, change)
        return b"{}"

    async def patch_once(self, path: str, change: Mapping[str, Any]) -> bytes:
        return await self.patch(path, change)

    async def delete(self, path: str, options: Mapping[str, Any]) -> bytes:
        self._write("DELETE", path, options)
        return b"{}"

    async def get(self, path: str) -> bytes:
        self._refuse("GET", path)
        return msgspec.json.encode(self.found[path])

    def statuses(self, path_end: str = "/status") -> list[dict[str, Any]]:
        return [
            body["status"] for verb, path, body in self.written if verb == "PATCH" and path.endswith(path_end)
        ]

    def verbs(self) -> list[str]:
        return [f"{verb} {path.rpartition('/v1/')[2]}" for verb, path, _ in self.written]

    def _write(self, verb: str, path: str, body: Any) -> None:
        self._refuse(verb, path)
        self.written.append((verb, path, body))

    def _refuse(self, verb: str, path: str) -> None:
        due = self.refusals.get((verb, path))
        if due:
            raise ApiError("refused", status=due.pop(0))
