# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from karpenter.sandbox.ec2.clock import ModelClock
from karpenter.sandbox.ec2.seeds import seeded
from karpenter.sandbox.ec2.server import Server
from karpenter.sandbox.ec2.world import Options, World
from karpenter.sandbox.kubelets import Fleet, Settings
from tests.unit.sandbox.kubelets.builders import golden
from tests.unit.sandbox.kubelets.cluster import Cluster, running_cluster

PODS = "/api/v1/namespaces/d/pods"
QUICK = Settings(
    join_s=0, ready_s=0, devices_s=0, pod_start_s=0, pod_stop_s=0, poll_s=0.01, cloud_delete_s=0, lease_s=0.2
)


@dataclass
class Stage:
    """An EC2 model, an API server, and a fleet between them."""

    cluster: Cluster
    world: World
    fleet: Fleet
    said: list[str] = field(default_factory=list)

    def launch(self, **tags: str) -> str:
        call = self.world.ec2.call
        subnet = call("DescribeSubnets")["Subnets"][0]["SubnetId"]
        images = call(
            "DescribeImages", Filters=[{"Name": "name", "Values": ["*al2023-x86_64-standard-1.33*"]}]
        )
        made = call(
            "RunInstances",
            ImageId=images["Images"][0]["ImageId"],
            InstanceType="m5.large",
            SubnetId=subnet,
            MinCount=1,
            MaxCount=1,
            UserData=_base64(golden("al2023-own")),
            TagSpecifications=[
                {
                    "ResourceType": "instance",
                    "Tags": [
                        {"Key": f"sandbox.karpenter.sh/{key}", "Value": value} for key, value in tags.items()
                    ],
                }
            ],
        )
        found: str = made["Instances"][0]["InstanceId"]
        return found

    def terminate(self, machine_id: str) -> None:
        self.world.ec2.call("TerminateInstances", InstanceIds=[machine_id])

    def node(self, machine_id: str) -> dict[str, Any]:
        return next(
            (each for each in self.cluster.named("nodes") if each["spec"]["providerID"].endswith(machine_id)),
            {},
        )

    def condition(self, machine_id: str, kind: str = "Ready") -> str:
        conditions = self.node(machine_id).get("status", {}).get("conditions", [])
        return next((each["status"] for each in conditions if each["type"] == kind), "")

    async def ready(self, machine_id: str) -> str:
        await until(lambda: self.condition(machine_id) == "True")
        name: str = self.node(machine_id)["metadata"]["name"]
        return name

    def bind(self, name: str, node: str, **metadata: Any) -> str:
        path = f"{PODS}/{name}"
        self.cluster.put(
            path,
            {
                "metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}", **metadata},
                "spec": {
                    "nodeName": node,
                    "containers": [{"name": "c"}],
                    "tolerations": [{"operator": "Exists"}],
                },
                "status": {"phase": "Pending"},
            },
        )
        return path

    def phase(self, path: str) -> str:
        found: str = self.cluster.objects[path]["status"]["phase"]
        return found


@contextlib.asynccontextmanager
async def staged(settings: Settings = QUICK, rules: Path | None = None) -> AsyncIterator[Stage]:
    world = seeded(ModelClock(), Options(cluster="shop"))
    world.ec2.apply({"settings": {"pendingSeconds": 0, "shuttingDownSeconds": 0}})
    server = Server(world)
    await server.start()
    try:
        async with running_cluster() as cluster:
            said: list[str] = []
            fleet = Fleet(cluster.connection, server.url, settings, tell=said.append, rules=rules)
            playing = asyncio.create_task(fleet.run())
            try:
                yield Stage(cluster, world, fleet, said)
            finally:
                playing.cancel()
                await asyncio.gather(playing, return_exceptions=True)
    finally:
        await server.stop()


async def until(holds: Callable[[], object]) -> None:
    for _ in range(2400):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")


async def test_machines_become_nodes_and_their_leases_are_renewed() -> None:
    async with staged() as stage:
        machine_id = stage.launch()

        name = await stage.ready(machine_id)
        lease = f"PATCH /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
        await until(lambda: stage.cluster.calls.count(lease) >= 2)

    assert stage.fleet.joined == 1
    assert stage.node(machine_id)["metadata"]["labels"]["team"] == "a"


async def test_pods_run_wherever_they_were_bound_first() -> None:
    async with staged() as stage:
        early = stage.bind("early", "ip-10-0-0-4.us-west-2.compute.internal")
        stage.bind("nowhere", "")
        name = await stage.ready(stage.launch())
        late = stage.bind("late", name)

        await until(lambda: stage.phase(early) == stage.phase(late) == "Running")
        stage.cluster.put(late, {**stage.cluster.objects[late], "metadata": _deleted(stage.cluster, late)})
        await until(lambda: late not in stage.cluster.objects)

    assert name == "ip-10-0-0-4.us-west-2.compute.internal"
    assert stage.phase(early) == "Running"


async def test_a_terminated_machine_is_silent_and_the_cloud_deletes_its_node() -> None:
    async with staged() as stage:
        machine_id = stage.launch()
        await stage.ready(machine_id)

        stage.terminate(machine_id)

        await until(lambda: not stage.node(machine_id))
    assert stage.fleet.joined == 0


async def test_a_node_that_is_deleted_does_not_come_back() -> None:
    async with staged() as stage:
        machine_id = stage.launch()
        name = await stage.ready(machine_id)
        await until(lambda: f"GET /api/v1/nodes/{name}" in stage.cluster.calls or stage.fleet.joined)

        stage.cluster.drop(f"/api/v1/nodes/{name}")
        await until(lambda: stage.fleet.joined == 0)
        other = await stage.ready(stage.launch())

    assert [each["metadata"]["name"] for each in stage.cluster.named("nodes")] == [other]


async def test_a_behaviour_comes_from_the_tag_the_file_and_the_annotation(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    async with staged(rules=rules) as stage:
        never, tagged = stage.launch(kubelet="never-joins"), stage.launch(kubelet="disk-pressure")
        name = await stage.ready(tagged)
        await until(lambda: stage.condition(tagged, "DiskPressure") == "True")

        rules.write_text(f"- {{match: {{instance: {tagged}}}, kubelet: not-ready}}", encoding="utf-8")
        await until(lambda: stage.condition(tagged) == "False")
        rules.write_text("broken: rules", encoding="utf-8")
        os.utime(rules, (1, 1))
        path = f"/api/v1/nodes/{name}"
        node = stage.cluster.objects[path]
        annotated = {**node["metadata"], "annotations": {"sandbox.karpenter.sh/kubelet": "joins"}}
        stage.cluster.put(path, {**node, "metadata": annotated})
        await until(lambda: stage.condition(tagged) == "True")
        stage.world.ec2.call(
            "CreateTags", Resources=[never], Tags=[{"Key": "sandbox.karpenter.sh/kubelet", "Value": "sleepy"}]
        )
        await stage.ready(never)

    assert any("expected a list of rules" in each for each in stage.said)
    assert any("'sleepy' is no behaviour" in each for each in stage.said)


async def test_a_machine_of_another_cluster_is_told_and_left_out() -> None:
    async with staged(Settings(join_s=0, poll_s=0.01, cluster="mall")) as stage:
        machine_id = stage.launch()

        await until(lambda: stage.said)

    assert stage.node(machine_id) == {}
    assert "told to join the cluster 'shop', not mall" in stage.said[0]


async def test_what_happened_while_a_watch_was_broken_is_found_by_the_next_list() -> None:
    async with staged() as stage:
        name = await stage.ready(stage.launch())
        path = stage.bind("a", name)
        await until(lambda: stage.phase(path) == "Running")

        stage.cluster.end_watches(error=410)
        del stage.cluster.objects[path]
        del stage.cluster.objects[f"/api/v1/nodes/{name}"]
        await until(lambda: stage.fleet.joined == 0)


async def test_a_model_that_is_away_is_told_once_and_waited_for(tmp_path: Path) -> None:
    async with running_cluster() as cluster:
        said: list[str] = []
        fleet = Fleet(
            cluster.connection, "http://127.0.0.1:1", QUICK, tell=said.append, rules=tmp_path / "none"
        )
        playing = asyncio.create_task(fleet.run())
        await until(lambda: said)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)

    assert "cannot ask the EC2 model" in said[0]


async def test_a_server_that_is_no_model_is_named() -> None:
    async with running_cluster() as cluster:
        said: list[str] = []
        cluster.objects["/_model/machines"] = {"not": "a model"}
        fleet = Fleet(cluster.connection, cluster.connection.url, QUICK, tell=said.append)
        playing = asyncio.create_task(fleet.run())
        await until(lambda: said)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)

    assert "is not an EC2 model" in said[0]


def _deleted(cluster: Cluster, path: str) -> dict[str, Any]:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return {**cluster.objects[path]["metadata"], **deleted}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
