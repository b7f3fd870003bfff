# SPDX-License-Identifier: Apache-2.0
"""Our client against a real kube-apiserver: identities, patches, watches, evictions, events, leases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from karpenter.api.core import Node
from karpenter.kube import (
    AlreadyExistsError,
    Change,
    Client,
    ConflictError,
    Elector,
    ForbiddenError,
    Informer,
    InvalidError,
    LeaseTimes,
    NotFoundError,
    Recorder,
    Subject,
    TooManyRequestsError,
    UnauthorizedError,
    read_kubeconfig,
)
from karpenter.kube.client import JSON_PATCH
from karpenter.kube.config import ClusterConfig, Identity
from karpenter.kube.kinds import EVENTS, LEASES, NODE_POOLS, NODES, POD_DISRUPTION_BUDGETS, PODS
from tests.e2e.controlplane import ControlPlane
from tests.patience import patient


@asynccontextmanager
async def client_of(plane: ControlPlane, **options: Any) -> AsyncIterator[Client]:
    """The admin's client, by certificate."""
    async with Client(read_kubeconfig([plane.kubeconfig]), **options) as client:
        yield client


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait for what an informer hears."""
    async with asyncio.timeout(patient(seconds)):
        while not condition():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.02)


def pod(name: str, node: str = "") -> dict[str, Any]:
    """A pod, bound if a node is named."""
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "labels": {"app": name.rsplit("-", 1)[0]}}, "spec": spec}


async def test_certificate_and_token_are_both_known_to_the_server(control_plane: ControlPlane) -> None:
    async with client_of(control_plane) as client:
        assert b"v1.3" in await client.raw("GET", "/version")
    by_token = ClusterConfig(
        server=control_plane.url,
        ca=control_plane.ca_file.read_bytes(),
        identity=Identity(token=control_plane.token),
    )
    async with Client(by_token) as client:
        assert (await client.list(NODES)).resource_version


async def test_a_wrong_token_and_a_wrong_authority_are_told_apart(control_plane: ControlPlane) -> None:
    ca = control_plane.ca_file.read_bytes()
    async with Client(ClusterConfig(control_plane.url, ca=ca, identity=Identity(token="no"))) as client:
        with pytest.raises(UnauthorizedError) as caught:
            await client.list(NODES)
        assert "whoami" in caught.value.hint
    async with Client(ClusterConfig(control_plane.url, ca=ca)) as client:
        with pytest.raises(ForbiddenError, match="anonymous"):
            await client.list(NODES)


async def test_an_object_lives_from_create_to_delete(control_plane: ControlPlane, namespace: str) -> None:
    async with client_of(control_plane) as client:
        made = await client.create(PODS, pod("web-1"), namespace)
        with pytest.raises(AlreadyExistsError):
            await client.create(PODS, pod("web-1"), namespace)

        labelled = await client.patch(PODS, "web-1", {"metadata": {"labels": {"x": "y"}}}, namespace)
        replaced = await client.patch(
            PODS, "web-1", [{"op": "remove", "path": "/metadata/labels/x"}], namespace, how=JSON_PATCH
        )
        nominated = await client.patch(
            PODS, "web-1", {"status": {"nominatedNodeName": "n1"}}, namespace, subresource="status"
        )

        assert labelled.metadata.labels["x"] == "y"
        assert "x" not in replaced.metadata.labels
        assert nominated.status.nominated_node_name == "n1"
        with pytest.raises(ConflictError):
            await client.delete(PODS, "web-1", namespace, uid="00000000-0000-0000-0000-000000000000")
        await client.delete(PODS, "web-1", namespace, uid=made.metadata.uid, grace_period_s=0)
        with pytest.raises(NotFoundError):
            await client.get(PODS, "web-1", namespace)


async def test_an_invalid_object_names_its_field(control_plane: ControlPlane, namespace: str) -> None:
    async with client_of(control_plane) as client:
        with pytest.raises(InvalidError, match=r"spec\.containers") as caught:
            await client.create(PODS, {"metadata": {"name": "empty"}, "spec": {"containers": []}}, namespace)

    assert any(cause.get("field") == "spec.containers" for cause in caught.value.causes)


async def test_a_kind_that_is_not_installed_is_not_found(control_plane: ControlPlane) -> None:
    async with client_of(control_plane) as client:
        kind = type(NODE_POOLS)(NODE_POOLS.struct, "NodePool", "nodepools", "v9", "karpenter.sh")
        with pytest.raises(NotFoundError):
            await client.list(kind)


async def test_a_long_list_comes_in_pages(control_plane: ControlPlane, namespace: str) -> None:
    async with client_of(control_plane) as client:
        for number in range(7):
            await client.create(PODS, pod(f"page-{number}"), namespace)

        listing = await client.list(PODS, namespace, page=3)

        assert len(listing.items) == 7
        assert client.sent["GET pods"] == 3


async def test_an_informer_follows_and_hears_each_change_once(
    control_plane: ControlPlane, namespace: str
) -> None:
    heard: list[str] = []

    def hear(change: Change[Any]) -> None:
        sign = "+" if change.old is None else "-" if change.new is None else "~"
        heard.append(f"{sign}{change.object.metadata.name}")

    async with client_of(control_plane) as client:
        await client.create(PODS, pod("early-1"), namespace)
        informer = Informer(
            client, PODS, namespace=namespace, indexes={"node": lambda each: [each.spec.node_name or ""]}
        )
        informer.on_change(hear)
        task = asyncio.ensure_future(informer.run())
        await asyncio.wait_for(informer.wait_synced(), 20)
        made = await client.create(PODS, pod("bound-1", node="n7"), namespace)
        informer.observe(made)
        await client.delete(PODS, "early-1", namespace, grace_period_s=0)
        await until(lambda: informer.get("early-1", namespace) is None)
        await asyncio.sleep(0.2)

        assert [each.metadata.name for each in informer.by("node", "n7")] == ["bound-1"]
        assert heard.count("+early-1") == heard.count("+bound-1") == heard.count("-early-1") == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_eviction_is_refused_by_a_budget_and_allowed_without(
    control_plane: ControlPlane, namespace: str
) -> None:
    ready = {
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        }
    }
    async with client_of(control_plane) as client:
        made = await client.create(PODS, pod("kept-1", node="n1"), namespace)
        await client.patch(PODS, "kept-1", ready, namespace, subresource="status")
        budget = {
            "metadata": {"name": "kept"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
        }
        await client.create(POD_DISRUPTION_BUDGETS, budget, namespace)

        with pytest.raises(TooManyRequestsError) as caught:
            await client.evict(made)
        assert caught.value.is_budget

        await client.delete(POD_DISRUPTION_BUDGETS, "kept", namespace)
        await client.evict(made, grace_period_s=0)
        with pytest.raises(NotFoundError):
            await client.evict(made)


async def test_events_are_stored_and_counted(control_plane: ControlPlane, namespace: str) -> None:
    async with client_of(control_plane) as client:
        made = await client.create(PODS, pod("told-1"), namespace)
        recorder = Recorder(client)
        subject = Subject.of(PODS, made)
        for _ in range(2):
            assert recorder.tell(subject, "Nominated", "to node n1", quiet_s=0)
            await recorder.drain()

        listing = await client.list(EVENTS, namespace, fields="reason=Nominated")

    [event] = listing.items
    assert (event.count, event.message, event.involved_object.uid) == (2, "to node n1", made.metadata.uid)


async def test_two_replicas_hand_the_lease_over(control_plane: ControlPlane) -> None:
    times = LeaseTimes(duration_s=2, renew_deadline_s=1.5, retry_s=0.2)
    async with client_of(control_plane) as client:
        one, two = (
            Elector(client, name="e2e", namespace="kube-system", identity=name, times=times)
            for name in ("one", "two")
        )
        first = asyncio.ensure_future(one.run())
        await asyncio.wait_for(one.wait_leading(), 10)
        second = asyncio.ensure_future(two.run())
        await asyncio.sleep(1)
        assert (one.is_leader, two.is_leader) == (True, False)

        first.cancel()
        await asyncio.wait_for(two.wait_leading(), 10)
        assert not one.is_leader

        await two.release()
        second.cancel()
        lease = await client.get(LEASES, "e2e", "kube-system")
        assert lease.spec.holder_identity == ""
        await asyncio.gather(first, second, return_exceptions=True)


async def test_a_status_patch_of_a_node_keeps_what_we_do_not_read(control_plane: ControlPlane) -> None:
    manifest = {
        "metadata": {"name": "kept-fields"},
        "spec": {"podCIDR": "10.1.2.0/24", "podCIDRs": ["10.1.2.0/24"]},
    }
    async with client_of(control_plane) as client:
        await client.create(NODES, manifest)
        changed: Node = await client.patch(
            NODES, "kept-fields", {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
        )

        raw = await client.raw("GET", "/api/v1/nodes/kept-fields")
        await client.delete(NODES, "kept-fields")

    assert changed.metadata.annotations["karpenter.sh/do-not-disrupt"] == "true"
    assert b"10.1.2.0/24" in raw
