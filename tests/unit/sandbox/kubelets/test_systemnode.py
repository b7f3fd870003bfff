# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from karpenter.sandbox.kubelets.kubelet import told_of
from karpenter.sandbox.kubelets.nodeobjects import node_object
from karpenter.sandbox.kubelets.processes import Processes, records
from karpenter.sandbox.kubelets.settings import Settings
from karpenter.sandbox.kubelets.systemnode import SystemNode, system_machine
from tests.unit.sandbox.kubelets.builders import START
from tests.unit.sandbox.kubelets.cluster import Cluster, running_cluster
from tests.unit.sandbox.kubelets.test_containers import until

pytestmark = pytest.mark.timeout(120)

NODES = "/api/v1/nodes"
POD = "/api/v1/namespaces/karpenter/pods/p"


@contextlib.asynccontextmanager
async def playing(state: Path, cluster: Cluster) -> AsyncIterator[None]:
    program = state / "program"
    program.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    program.chmod(0o700)
    node = SystemNode(
        cluster.connection,
        system_machine("us-west-2", "shop", "1.34"),
        "shop",
        Settings(join_s=0, ready_s=0, devices_s=0, pod_start_s=0, poll_s=0.01, lease_s=0.2),
        processes=Processes(state, {"karpenter": str(program)}),
        tell=lambda _: None,
    )
    task = asyncio.create_task(node.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def node_of(cluster: Cluster) -> dict[str, Any]:
    [found] = cluster.named("nodes") or [{}]
    return found


def is_ready(cluster: Cluster) -> bool:
    conditions = node_of(cluster).get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@pytest.mark.parametrize(
    ("region", "name"),
    [
        ("us-west-2", "ip-10-0-63-250.us-west-2.compute.internal"),
        ("us-east-1", "ip-10-0-63-250.ec2.internal"),
    ],
)
def test_the_node_is_of_the_clusters_own_group_and_takes_only_what_tolerates_its_taint(
    region: str, name: str
) -> None:
    told = told_of(system_machine(region, "shop", "1.34"), Settings(), ["shop"])
    made = node_object(told, START)

    assert made["metadata"]["name"] == name
    assert made["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] == "system"
    assert "karpenter.sh/nodepool" not in made["metadata"]["labels"]
    assert {"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"} in made["spec"]["taints"]
    assert made["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.34.")


async def test_it_joins_says_where_its_kubelet_serves_and_runs_pods_that_end_with_it(tmp_path: Path) -> None:
    async with running_cluster() as cluster:
        async with playing(tmp_path, cluster):
            await until(lambda: is_ready(cluster))
            found = node_of(cluster)
            container = {"name": "controller", "image": "karpenter:sandbox"}
            spec = {"nodeName": found["metadata"]["name"], "containers": [container]}
            metadata = {"name": "p", "namespace": "karpenter", "uid": "u"}
            cluster.put(
                POD, {"metadata": metadata, "spec": {**spec, "tolerations": [{"operator": "Exists"}]}}
            )
            await until(lambda: cluster.objects[POD].get("status", {}).get("phase") == "Running")

            assert found["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] not in {0, 10250}
            assert cluster.objects[POD]["status"]["podIP"].startswith("100.127.")
            [(_, record)] = records(tmp_path / "running" / "pods")
            assert record is not None
            assert exists(record.pid)

        assert not exists(record.pid)
        assert records(tmp_path / "running" / "pods") == []


async def test_its_node_comes_back_when_it_is_deleted(tmp_path: Path) -> None:
    async with running_cluster() as cluster, playing(tmp_path, cluster):
        await until(lambda: is_ready(cluster))
        name = node_of(cluster)["metadata"]["name"]

        cluster.drop(f"{NODES}/{name}")

        await until(lambda: is_ready(cluster))
        assert cluster.calls.count(f"POST {NODES}") == 2
