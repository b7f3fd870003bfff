# SPDX-License-Identifier: Apache-2.0
"""Pods that come to a node right after it registers stay there, however late the control plane learns of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.kube import Client, read_kubeconfig
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from tests.e2e.controlplane import ControlPlane
from tests.e2e.papercloud import PaperCloud
from tests.e2e.test_operator import eventually, operating, prepared, waiting_pod

_NODES = 5
_DEAF_S = 3.0


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own, for one of its programs is stopped."""
    with ControlPlane() as own:
        own.kubectl("apply", "--server-side", "-f", "src/karpenter/api/crds/")
        yield own


@contextmanager
def deaf(plane: ControlPlane) -> Iterator[None]:
    """The controller manager neither hears nor acts."""
    manager = plane.processes["kube-controller-manager"].pid
    os.kill(manager, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(manager, signal.SIGCONT)


async def test_bare_pods_survive_a_control_plane_that_learns_of_the_registration_after_they_came(
    plane: ControlPlane,
) -> None:
    async with Client(read_kubeconfig([plane.kubeconfig])) as client:
        await prepared(client)
        async with operating(plane, PaperCloud()):
            for number in range(_NODES):
                await client.create(PODS, waiting_pod(f"bare-{number}", "3"), "default")
            claims = await eventually(lambda: _launched(client), "every pod has a claim")
            for claim in claims:
                await _join(client, claim.status.provider_id, claim.metadata.name)
            await eventually(lambda: _known(client), "the controller manager knows the nodes")

            with deaf(plane):
                # It had just enough time to declare them ready.
                for claim in claims:
                    await _say(client, claim.metadata.name, ready="True")
                    await _open(client, claim.metadata.name)
                await asyncio.sleep(_DEAF_S)
                armed = [each for each in (await client.list(NODES)).items if _evicts(each)]
            await eventually(lambda: _bound(client), "every pod is bound")
            # What it does about the pods it does at once.
            await asyncio.sleep(2)

            pods = (await client.list(PODS, "default")).items
            assert [pod.metadata.name for pod in pods] == [f"bare-{number}" for number in range(_NODES)]
            assert [pod.metadata.deletion_timestamp for pod in pods] == [None] * _NODES
            assert armed == []
            # It may take a node for not ready once more as it wakes, and sees to that by itself.
            await eventually(lambda: _untainted(client), "no node carries a taint any more")


async def _join(client: Client, provider_id: str, name: str) -> None:
    """Let a kubelet join that is not ready yet."""
    labels = {names.HOSTNAME: name, "type": "karpenter"}
    unregistered = {"key": names.UNREGISTERED_TAINT.key, "effect": "NoExecute"}
    spec = {"providerID": provider_id, "taints": [unregistered]}
    await client.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    await _say(client, name, ready="False")


async def _say(client: Client, name: str, *, ready: str) -> None:
    room = {"cpu": "4", "memory": "16Gi", "pods": "29"}
    said = {"type": "Ready", "status": ready, "reason": "Kubelet"}
    status = {"capacity": room, "allocatable": room, "conditions": [said]}
    await client.patch(NODES, name, {"status": status}, subresource="status")


async def _open(client: Client, name: str) -> None:
    """Take the control plane's own taints off a node, in its stead."""
    await client.patch(
        NODES, name, {"spec": {"taints": [{"key": names.UNREGISTERED_TAINT.key, "effect": "NoExecute"}]}}
    )


async def _untainted(client: Client) -> bool:
    return not any(node.spec.taints for node in (await client.list(NODES)).items)


async def _launched(client: Client) -> Any:
    claims = [each for each in (await client.list(NODE_CLAIMS)).items if each.status.provider_id]
    return claims if len(claims) == _NODES else None


async def _known(client: Client) -> bool:
    """Tell whether the controller manager has been at every node, and left it tainted as one that is not ready."""
    nodes = (await client.list(NODES)).items
    return len(nodes) == _NODES and all(
        "node.alpha.kubernetes.io/ttl" in each.metadata.annotations
        and any(taint.key == "node.kubernetes.io/not-ready" for taint in each.spec.taints)
        for each in nodes
    )


def _evicts(node: Any) -> bool:
    return any(taint.effect == "NoExecute" for taint in node.spec.taints)


async def _bound(client: Client) -> bool:
    pods = (await client.list(PODS, "default")).items
    # Pods that were deleted count: what they came to is looked at afterwards.
    return all(pod.spec.node_name for pod in pods)
