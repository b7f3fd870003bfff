# SPDX-License-Identifier: Apache-2.0
"""Old manifests on a real control plane, with a cloud on paper: they rule through the v1 objects made from them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.protocol import Machine
from karpenter.controllers.legacy import (
    CONVERTED_FROM,
    STORED_PROVISIONERS,
    STORED_TEMPLATES,
)
from karpenter.controllers.registrationhealth import LaunchBreaker
from karpenter.kit.clock import SystemClock
from karpenter.kube import Client, NotFoundError, read_kubeconfig
from karpenter.kube.kinds import EVENTS, NODE_CLAIMS, NODES, PODS
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.resources import Resources
from karpenter.operator.runtime import CloudParts, Operator, Surroundings
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS, Stored
from tests.e2e.controlplane import ControlPlane
from tests.e2e.papercloud import PaperCloud, make_ready
from tests.e2e.test_operator import eventually, join, settings

_ZONE = "ap-northeast-2a"
_DEFAULT = "karpenter-default"


def sold(name: str, cpu: int, price: float) -> InstanceType:
    """A type that the manifests of the examples allow."""
    size = Resources.parse({"cpu": cpu, "memory": f"{4 * cpu}Gi", "pods": "29"})
    labels = {
        names.ARCH: names.AMD64,
        names.OS: names.LINUX,
        names.INSTANCE_CATEGORY: name[0],
        names.INSTANCE_FAMILY: name.partition(".")[0],
        names.INSTANCE_GENERATION: name[1],
        names.INSTANCE_HYPERVISOR: "nitro",
    }
    offerings = tuple(Offering(_ZONE, kind, price) for kind in (names.ON_DEMAND, names.SPOT))
    return InstanceType(name, labels, size, size, offerings)


class SeoulCloud(PaperCloud):
    """Sells in the zone that the manifests name."""

    def __init__(self) -> None:
        super().__init__()
        self.types = (sold("m5.large", 2, 0.118), sold("m5.xlarge", 4, 0.236))

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Machine:
        """Launch in Seoul."""
        machine = await super().create(claim, node_class)
        return dataclasses.replace(machine, labels={**machine.labels, names.ZONE: _ZONE})


@pytest.fixture
def plane() -> Any:
    """A control plane of its own: old manifests rule the whole cluster."""
    with ControlPlane() as own:
        own.kubectl("apply", "--server-side", "-f", "src/karpenter/api/crds/")
        own.kubectl("create", "namespace", "karpenter")
        yield own


@asynccontextmanager
async def operating(
    plane: ControlPlane, cloud: PaperCloud, profile: str = "", **changes: Any
) -> AsyncIterator[LaunchBreaker]:
    """One replica at work, with the controllers of the old kinds and those of health."""

    async def make(parts: Surroundings, fence: Callable[[], None]) -> CloudParts:
        del parts, fence
        return CloudParts(cloud)

    config = read_kubeconfig([plane.kubeconfig])
    operator = Operator(
        settings(default_instance_profile=profile, **changes),
        config,
        make,
        identity="one",
        clock=SystemClock(),
    )
    stop = asyncio.Event()
    task = asyncio.ensure_future(operator.run(stop))
    try:
        async with asyncio.timeout(20):
            while operator.problem() and not task.done():  # noqa: ASYNC110 - it happens in another task
                await asyncio.sleep(0.05)
        if task.done():
            await task
        yield operator.breaker
    finally:
        stop.set()
        async with asyncio.timeout(10):
            await asyncio.gather(task, return_exceptions=True)


async def applied(plane: ControlPlane, path: str) -> None:
    """Apply a manifest with kubectl, off the loop."""
    await asyncio.to_thread(plane.kubectl, "apply", "-f", path)


async def resolve(client: Client, name: str) -> None:
    """Say on a node class what its controller finds in AWS."""
    image = {
        "id": "ami-1",
        "name": "al2",
        "requirements": [{"key": names.ARCH, "operator": "In", "values": ["amd64"]}],
    }
    await make_ready(
        client,
        name,
        subnets=[{"id": "subnet-1", "zone": _ZONE, "zoneID": "apne2-az1"}],
        securityGroups=[{"id": "sg-1", "name": "nodes"}],
        amis=[image],
    )


async def found(client: Client, kind: Any, name: str) -> Any:
    """The object, or None."""
    try:
        return await client.get(kind, name)
    except NotFoundError:
        return None


def condition(item: Stored, kind: str) -> dict[str, str]:
    """A condition of an object as it is stored."""
    conditions: list[dict[str, str]] = item.status.get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


async def with_condition(client: Client, name: str, kind: str, status: str) -> Any:
    """The Provisioner once it has a condition."""
    item = await found(client, STORED_PROVISIONERS, name)
    return item if item is not None and condition(item, kind).get("status") == status else None


async def told(client: Client, name: str, reason: str) -> Any:
    """The first event of a reason about an object."""
    events = await client.list(EVENTS, "default", fields=f"reason={reason},involvedObject.name={name}")
    return events.items[0] if events.items else None


async def test_the_default_provisioner_rules_through_its_nodepool_until_it_is_deleted(
    plane: ControlPlane,
) -> None:
    cloud = SeoulCloud()
    async with Client(read_kubeconfig([plane.kubeconfig])) as client, operating(plane, cloud):
        await applied(plane, "examples/default-provisioner.yaml")

        pool = await eventually(lambda: found(client, STORED_NODE_POOLS, _DEFAULT), "a NodePool is made")
        node_class = await eventually(lambda: found(client, STORED_NODE_CLASSES, _DEFAULT), "and its class")
        provisioner = await client.get(STORED_PROVISIONERS, _DEFAULT)
        template = await client.get(STORED_TEMPLATES, _DEFAULT)
        assert pool.metadata.owner_references[0].uid == provisioner.metadata.uid
        assert pool.metadata.annotations[CONVERTED_FROM] == f"Provisioner/{_DEFAULT}"
        assert node_class.metadata.owner_references[0].uid == template.metadata.uid
        assert node_class.spec["kubelet"] == {"evictionMaxPodGracePeriod": 60}
        assert pool.spec["disruption"]["consolidateAfter"] == "60s"

        await resolve(client, _DEFAULT)
        await eventually(
            lambda: with_condition(client, _DEFAULT, "Ready", "True"), "the Provisioner says it is ready"
        )
        provisioner = await client.get(STORED_PROVISIONERS, _DEFAULT)
        assert condition(provisioner, "Converted")["reason"] == "ConvertedWithWarnings"
        assert "spec.ttlSecondsUntilExpired" in condition(provisioner, "Converted")["message"]
        template = await client.get(STORED_TEMPLATES, _DEFAULT)
        assert template.status["subnets"] == [{"id": "subnet-1", "zone": _ZONE}]
        assert template.status["securityGroups"] == [{"id": "sg-1", "name": "nodes"}]
        assert template.status["amis"][0]["id"] == "ami-1"
        warning = await eventually(lambda: told(client, _DEFAULT, "ConversionWarning"), "an event warns")
        assert warning.type == "Warning"

        container = {
            "name": "c",
            "image": "pause",
            "resources": {"requests": {"cpu": "1475m", "memory": "1686Mi"}},
        }
        manifest = {"metadata": {"name": "work"}, "spec": {"containers": [container]}}
        await eventually(lambda: _created(client, manifest), "a pod is made")
        claim = await eventually(lambda: _launched(client), "a claim is launched")
        await join(client, claim.status.provider_id, "ip-10-0-0-1")

        node = await eventually(lambda: _labelled(client, "ip-10-0-0-1"), "the node has the old labels")
        assert node.metadata.labels["karpenter.sh/machine-name"] == claim.metadata.name
        assert node.metadata.labels["karpenter.k8s.aws/instance-pods"] == "29"
        assert node.metadata.labels["karpenter.k8s.aws/instance-ami-id"] == "ami-paper"
        assert node.metadata.annotations["karpenter.sh/managed-by"] == "e2e"
        claim = await eventually(lambda: _consistent(client), "the claim is consistent with its node")
        assert claim.metadata.labels[names.EC2NODECLASS] == _DEFAULT
        await eventually(lambda: _healthy(client, "True"), "the pool is healthy")
        provisioner = await eventually(lambda: _counted(client), "the Provisioner counts its nodes")
        assert provisioner.status["lastScaleTime"]

        await client.delete(PODS, "work", "default", grace_period_s=0)
        await asyncio.to_thread(plane.kubectl, "delete", "provisioner", _DEFAULT)
        await eventually(lambda: _gone(client, STORED_NODE_POOLS, _DEFAULT), "the NodePool goes with it")
        await eventually(lambda: _nothing(client, cloud), "node, claim and machine go too")
        await asyncio.to_thread(plane.kubectl, "delete", "awsnodetemplate", _DEFAULT)
        await eventually(
            lambda: _gone(client, STORED_NODE_CLASSES, _DEFAULT), "and the class with its template"
        )


async def test_several_provisioners_share_a_template_and_follow_changes(plane: ControlPlane) -> None:
    async with Client(read_kubeconfig([plane.kubeconfig])) as client, operating(plane, SeoulCloud()):
        await applied(plane, "examples/teams.yaml")

        team1 = await eventually(lambda: found(client, STORED_NODE_POOLS, "team1"), "a NodePool for team1")
        batch = await eventually(lambda: found(client, STORED_NODE_POOLS, "batch"), "a NodePool for batch")
        assert team1.spec["template"]["metadata"]["labels"] == {"team": "team1"}
        assert batch.spec["weight"] == 50
        # Both were made in the same second, and then the first by name keeps the name of the template.
        ours, theirs = (pool.spec["template"]["spec"]["nodeClassRef"]["name"] for pool in (team1, batch))
        assert {ours, theirs} in ({"default", "default-team1"}, {"default", "default-batch"})
        node_class = await client.get(STORED_NODE_CLASSES, theirs)
        assert node_class.spec["kubelet"] == {"maxPods": 20}
        assert "kubelet" not in (await client.get(STORED_NODE_CLASSES, ours)).spec

        change = json.dumps({"spec": {"weight": None, "kubeletConfiguration": None}})
        await asyncio.to_thread(plane.kubectl, "patch", "provisioner", "batch", "--type=merge", "-p", change)
        await eventually(lambda: _without_weight(client), "what was taken out is taken out")
        await eventually(
            lambda: _gone(client, STORED_NODE_CLASSES, theirs), "the class that nobody wants goes"
        )
        batch = await client.get(STORED_NODE_POOLS, "batch")
        assert batch.spec["template"]["spec"]["nodeClassRef"]["name"] == ours
        assert "kubelet" not in (await client.get(STORED_NODE_CLASSES, ours)).spec

        await client.patch(STORED_NODE_POOLS, "team1", {"spec": {"limits": {"cpu": "1"}}})
        await eventually(lambda: _limited(client, 1000), "what was changed by hand is put back")

        # Once this is done, the garbage collector follows both kinds; before, orphans would be collected.
        await asyncio.to_thread(plane.kubectl, "delete", "provisioner", "batch")
        await eventually(lambda: _gone(client, STORED_NODE_POOLS, "batch"), "the NodePool goes", 60)
        await asyncio.to_thread(plane.kubectl, "delete", "provisioner", "team1", "--cascade=orphan")
        await asyncio.sleep(3)
        kept = await client.get(STORED_NODE_POOLS, "team1")
        assert kept.metadata.deletion_timestamp is None
        assert kept.metadata.owner_references == ()


async def test_a_nodepool_of_the_same_name_is_left_alone_and_named(plane: ControlPlane) -> None:
    async with Client(read_kubeconfig([plane.kubeconfig])) as client:
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "mine"}
        spec = {"template": {"spec": {"requirements": [], "nodeClassRef": reference}}, "weight": 7}
        await client.create(STORED_NODE_POOLS, {"metadata": {"name": "default"}, "spec": spec})
        async with operating(plane, SeoulCloud(), "KarpenterNodeInstanceProfile-example"):
            await applied(plane, "examples/consolidating-provisioner.yaml")

            clash = await eventually(
                lambda: with_condition(client, "default", "Converted", "False"), "the Provisioner names it"
            )
            assert condition(clash, "Converted")["reason"] == "NameTaken"
            assert "kubectl delete nodepools.karpenter.sh default" in condition(clash, "Converted")["message"]
            assert await eventually(lambda: told(client, "default", "NameTaken"), "an event names it")
            mine = await client.get(STORED_NODE_POOLS, "default")
            assert mine.spec["weight"] == 7
            node_class = await client.get(STORED_NODE_CLASSES, "default")
            assert node_class.spec["instanceProfile"] == "KarpenterNodeInstanceProfile-example"

            await client.delete(STORED_NODE_POOLS, "default")
            await eventually(lambda: _made(client, "default"), "once it is gone, the Provisioner's is made")
            await eventually(
                lambda: with_condition(client, "default", "Converted", "True"), "and the condition follows"
            )


async def test_families_where_types_belong_are_told_on_the_provisioner(plane: ControlPlane) -> None:
    manifest = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "families"},
        "spec": {
            "requirements": [{"key": names.INSTANCE_TYPE, "operator": "In", "values": ["c", "t", "m"]}],
            "providerRef": {"name": "default"},
        },
    }
    async with Client(read_kubeconfig([plane.kubeconfig])) as client, operating(plane, SeoulCloud(), "p"):
        await applied(plane, "examples/consolidating-provisioner.yaml")
        await asyncio.to_thread(plane.kubectl, "apply", "-f", "-", input=json.dumps(manifest))
        await eventually(lambda: found(client, STORED_NODE_CLASSES, "default"), "the class is made")
        await resolve(client, "default")

        provisioner = await eventually(
            lambda: with_condition(client, "families", "InstanceTypesFound", "False"), "a condition tells"
        )

        message = condition(provisioner, "InstanceTypesFound")["message"]
        assert "karpenter.k8s.aws/instance-category" in message
        event = await eventually(
            lambda: told(client, "families", "NoCompatibleInstanceTypes"), "an event too"
        )
        assert "called c, m, t" in event.message


async def test_nodes_that_never_join_make_the_pool_unhealthy_and_pause_it(plane: ControlPlane) -> None:
    async with (
        Client(read_kubeconfig([plane.kubeconfig])) as client,
        operating(plane, SeoulCloud(), registration_timeout=2.0) as breaker,
    ):
        await applied(plane, "examples/default-provisioner.yaml")
        await eventually(lambda: found(client, STORED_NODE_CLASSES, _DEFAULT), "the class is made")
        await resolve(client, _DEFAULT)
        await eventually(lambda: _healthy(client, "Unknown"), "nothing is known of it yet")

        manifest = {"metadata": {"name": "work"}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}
        await eventually(lambda: _created(client, manifest), "a pod is made")

        pool = await eventually(lambda: _healthy(client, "False"), "the pool is not healthy", 60)
        assert condition(pool, "NodeRegistrationHealthy")["reason"] == "RegistrationFailed"
        assert condition(pool, "Ready")["status"] == "True"
        event = await eventually(lambda: told(client, _DEFAULT, "LaunchesPaused"), "an event tells", 60)
        assert "RegistrationFailed" in event.message
        assert 0 < breaker.remaining_s(_DEFAULT) <= 300

        change = json.dumps({"spec": {"weight": 3}})
        await asyncio.to_thread(plane.kubectl, "patch", "provisioner", _DEFAULT, "--type=merge", "-p", change)
        await eventually(lambda: _healthy(client, "Unknown"), "a change begins anew")
        assert not breaker.is_backing_off(_DEFAULT)


async def _healthy(client: Client, status: str) -> Any:
    pool = await found(client, STORED_NODE_POOLS, _DEFAULT)
    said = condition(pool, "NodeRegistrationHealthy") if pool is not None else {}
    return pool if said.get("status") == status else None


async def _created(client: Client, manifest: dict[str, Any]) -> bool:
    # The service account of a new cluster takes a moment.
    try:
        await client.create(PODS, manifest, "default")
    except Exception:  # noqa: BLE001 - whatever it is, it is tried again and times out
        return False
    return True


async def _launched(client: Client) -> Any:
    claims = (await client.list(NODE_CLAIMS)).items
    return claims[0] if claims and claims[0].status.provider_id else None


async def _consistent(client: Client) -> Any:
    claim = await _launched(client)
    kinds = [each.type for each in claim.status.conditions if each.status == "True"] if claim else []
    return claim if "ConsistentStateFound" in kinds else None


async def _labelled(client: Client, name: str) -> Any:
    node = await found(client, NODES, name)
    return node if node is not None and node.metadata.labels.get(names.PROVISIONER_NAME) == _DEFAULT else None


async def _counted(client: Client) -> Any:
    item = await client.get(STORED_PROVISIONERS, _DEFAULT)
    return item if (item.status.get("resources") or {}).get("cpu") == "2" else None


async def _gone(client: Client, kind: Any, name: str) -> bool:
    return await found(client, kind, name) is None


async def _nothing(client: Client, cloud: PaperCloud) -> bool:
    claims, nodes = await client.list(NODE_CLAIMS), await client.list(NODES)
    return not claims.items and not nodes.items and not cloud.machines


async def _without_weight(client: Client) -> bool:
    return "weight" not in (await client.get(STORED_NODE_POOLS, "batch")).spec


async def _limited(client: Client, cpu: int) -> bool:
    return bool((await client.get(STORED_NODE_POOLS, "team1")).spec["limits"]["cpu"] == cpu)


async def _made(client: Client, name: str) -> bool:
    pool = await found(client, STORED_NODE_POOLS, name)
    return pool is not None and CONVERTED_FROM in pool.metadata.annotations
