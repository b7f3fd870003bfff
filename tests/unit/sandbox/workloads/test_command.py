# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from karpenter.cli.workloads import workloads
from karpenter.errors import KarpenterError
from karpenter.kit.clock import FakeClock
from karpenter.sandbox.apiclient import ApiError, Connection
from karpenter.sandbox.workloads import Manager, Settings, manager
from karpenter.sandbox.workloads.binding import ApiHands
from karpenter.sandbox.workloads.resources import CLAIM, DEPLOYMENT, NODE, POD, REPLICA_SET, condition
from tests.unit.sandbox.workloads.fakeserver import FakeServer, Stage


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(workloads, ["--kubeconfig", str(tmp_path / "nowhere")])

    assert isinstance(result.exception, KarpenterError)
    assert "nowhere" in result.exception.message


def test_a_delay_that_is_none_is_refused() -> None:
    result = CliRunner().invoke(workloads, ["--kubeconfig", "x", "--node-grace", "soon"])

    assert result.exit_code == 2
    assert "soon" in result.output


async def test_all_parts_together_bring_a_deployment_to_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    server = FakeServer(clock)
    monkeypatch.setattr(manager, "Client", lambda *_arguments, **_options: server)
    said: list[str] = []
    connection = Connection("http://user:secret@127.0.0.1:1")
    playing = Manager(connection, Settings(), tell=said.append, clock=clock)

    running = asyncio.create_task(playing.run())
    await clock.advance(1)
    assert playing.ready.is_set()
    node = {
        "metadata": {"name": "n0", "labels": {}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    await server.create(NODE.path(), node)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    await server.create(
        DEPLOYMENT.path("default"), {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    )
    await clock.advance(3)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    pods = msgspec.json.decode(await server.get(POD.path()))["items"]
    assert [each["spec"].get("nodeName") for each in pods] == ["n0", "n0"]
    assert len(msgspec.json.decode(await server.get(REPLICA_SET.path()))["items"]) == 1
    assert not any("secret" in each for each in said)


async def test_the_schedulers_hands_write_what_was_decided() -> None:
    async with Stage() as stage:
        hands = ApiHands(stage.world)
        pod = await stage.make(POD, {"metadata": {"name": "p"}, "spec": {}, "status": {}})
        claim = await stage.make(CLAIM, {"metadata": {"name": "c"}, "spec": {}})

        await hands.refuse(pod, "no room", "n1")
        hands.tell_refused(pod, "no room")
        await hands.choose_node(claim, "n1")
        await stage.settle()

        seen = stage.get(POD, "p")
        refused = condition(seen, "PodScheduled")
        assert refused is not None
        assert (refused["reason"], refused["message"]) == ("Unschedulable", "no room")
        assert seen["status"]["nominatedNodeName"] == "n1"
        chosen = stage.get(CLAIM, "c")["metadata"]["annotations"]
        assert chosen == {"volume.kubernetes.io/selected-node": "n1"}
        await hands.evict(seen, pod, "n1")
        await hands.evict(seen, pod, "n1")
        await stage.settle()
        assert stage.all(POD) == []
        assert {"FailedScheduling", "Preempted"} <= set(stage.reasons("p"))


async def test_a_refused_binding_is_the_schedulers_to_handle() -> None:
    async with Stage() as stage:
        hands = ApiHands(stage.world)
        pod = await stage.make(POD, {"metadata": {"name": "p"}, "spec": {}, "status": {}})
        stage.server.refuse["/p"] = ApiError("not now", status=409, reason="Conflict")

        for work in (hands.refuse(pod, "x", None), hands.evict(pod, pod, "n0")):
            with pytest.raises(Exception, match="not now"):
                await work
