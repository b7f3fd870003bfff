# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.workloads.daemonsets import DaemonSets, daemon_tolerations, should_run
from karpenter.sandbox.workloads.deployments import Deployments
from karpenter.sandbox.workloads.replicasets import ReplicaSets
from karpenter.sandbox.workloads.resources import (
    CLAIM,
    DAEMON_SET,
    DEPLOYMENT,
    NODE,
    POD,
    REPLICA_SET,
    REVISION,
    STATEFUL_SET,
    Resource,
    Wire,
    condition,
)
from karpenter.sandbox.workloads.statefulsets import StatefulSets
from tests.unit.sandbox.workloads.fakeserver import Stage


def _workload(name: str, *, image: str = "a", **spec: Any) -> Wire:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


def _image(name: str) -> Wire:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": name}]}}}}


def _node(name: str, *, taints: list[Wire] | None = None, **labels: str) -> Wire:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints or []},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def _status(stage: Stage, resource: Resource, name: str) -> Wire:
    found: Wire = stage.get(resource, name)["status"]
    return found


async def test_a_deployment_makes_a_set_that_makes_pods_and_says_so() -> None:
    async with Stage() as stage:
        stage.play(Deployments(stage.world), ReplicaSets(stage.world))

        await stage.make(DEPLOYMENT, _workload("web", replicas=3))
        await stage.run_until_calm()

        status = _status(stage, DEPLOYMENT, "web")
        assert [status[each] for each in ("replicas", "updatedReplicas", "availableReplicas")] == [3, 3, 3]
        assert status["observedGeneration"] == stage.get(DEPLOYMENT, "web")["metadata"]["generation"]
        progress = condition(stage.get(DEPLOYMENT, "web"), "Progressing")
        assert progress is not None
        assert progress["reason"] == "NewReplicaSetAvailable"
        assert "ScalingReplicaSet" in stage.reasons("web")
        assert stage.reasons().count("SuccessfulCreate") == 3


async def test_a_rolling_update_never_has_too_many_pods_nor_too_few() -> None:
    async with Stage() as stage:
        stage.play(Deployments(stage.world), ReplicaSets(stage.world))
        strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        await stage.make(DEPLOYMENT, _workload("web", replicas=5, strategy=strategy))
        await stage.run_until_calm()

        await stage.change(DEPLOYMENT, "web", _image("b"))
        for _ in range(30):
            pods = [each for each in stage.all(POD) if "deletionTimestamp" not in each["metadata"]]
            assert len(pods) <= 6
            assert _status(stage, DEPLOYMENT, "web")["availableReplicas"] >= 4
            first = next((each for each in pods if "status" not in each), None)
            await stage.run_pods(only=first["metadata"]["name"] if first else "nobody")
            await stage.run_pods(only="nobody")
            for each in stage.all(POD):
                if "deletionTimestamp" in each["metadata"]:
                    await stage.run_pods(only=each["metadata"]["name"])
            await stage.pass_time(0.1)

        images = {each["spec"]["containers"][0]["image"] for each in stage.all(POD)}
        assert images == {"b"}
        assert len(stage.all(POD)) == 5


async def test_a_template_used_before_takes_its_old_set_up_again_under_a_new_revision() -> None:
    async with Stage() as stage:
        stage.play(Deployments(stage.world), ReplicaSets(stage.world))
        await stage.make(DEPLOYMENT, _workload("web", replicas=1))
        await stage.run_until_calm()
        await stage.change(DEPLOYMENT, "web", _image("b"))
        await stage.run_until_calm()

        await stage.change(DEPLOYMENT, "web", _image("a"))
        await stage.run_until_calm()

        sets = stage.all(REPLICA_SET)
        revisions = sorted(
            (each["metadata"]["annotations"]["deployment.kubernetes.io/revision"], each["spec"]["replicas"])
            for each in sets
        )
        assert revisions == [("2", 0), ("3", 1)]
        note = stage.get(DEPLOYMENT, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
        assert note == "3"


async def test_recreate_ends_all_old_pods_before_it_starts_new_ones() -> None:
    async with Stage() as stage:
        stage.play(Deployments(stage.world), ReplicaSets(stage.world))
        await stage.make(DEPLOYMENT, _workload("web", replicas=2, strategy={"type": "Recreate"}))
        await stage.run_until_calm()

        await stage.change(DEPLOYMENT, "web", _image("b"))

        assert {each["spec"]["containers"][0]["image"] for each in stage.all(POD)} == {"a"}
        await stage.run_until_calm()
        assert {each["spec"]["containers"][0]["image"] for each in stage.all(POD)} == {"b"}
        assert len(stage.all(POD)) == 2


async def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    async with Stage() as stage:
        stage.play(Deployments(stage.world), ReplicaSets(stage.world))
        await stage.make(DEPLOYMENT, _workload("web", replicas=2))
        await stage.run_until_calm()

        change = _image("b")
        change["spec"] |= {"paused": True, "replicas": 4}
        await stage.change(DEPLOYMENT, "web", change)
        await stage.run_until_calm()

        assert len(stage.all(POD)) == 4
        assert {each["spec"]["containers"][0]["image"] for each in stage.all(POD)} == {"a"}
        paused = condition(stage.get(DEPLOYMENT, "web"), "Progressing")
        assert paused is not None
        assert paused["reason"] == "DeploymentPaused"
        await stage.change(DEPLOYMENT, "web", {"spec": {"paused": False}})
        await stage.run_until_calm()
        assert {each["spec"]["containers"][0]["image"] for each in stage.all(POD)} == {"b"}


async def test_a_rollout_that_gets_nowhere_is_said_to_have_timed_out() -> None:
    async with Stage() as stage:
        stage.play(Deployments(stage.world), ReplicaSets(stage.world))

        await stage.make(DEPLOYMENT, _workload("web", replicas=1, progressDeadlineSeconds=60))
        await stage.pass_time(65)

        progress = condition(stage.get(DEPLOYMENT, "web"), "Progressing")
        assert progress is not None
        assert (progress["status"], progress["reason"]) == ("False", "ProgressDeadlineExceeded")


async def test_old_sets_beyond_the_history_limit_are_removed() -> None:
    async with Stage() as stage:
        stage.play(Deployments(stage.world), ReplicaSets(stage.world))
        await stage.make(DEPLOYMENT, _workload("web", replicas=1, revisionHistoryLimit=1))

        for image in ("b", "c", "d"):
            await stage.run_until_calm()
            await stage.change(DEPLOYMENT, "web", _image(image))
        await stage.run_until_calm()

        assert len(stage.all(REPLICA_SET)) == 2


async def test_a_deployment_adopts_a_set_without_an_owner() -> None:
    async with Stage() as stage:
        stage.play(Deployments(stage.world), ReplicaSets(stage.world))
        await stage.make(DEPLOYMENT, _workload("web", replicas=1))
        await stage.run_until_calm()
        name = stage.all(REPLICA_SET)[0]["metadata"]["name"]
        await stage.remove(DEPLOYMENT, "web")
        await stage.change(REPLICA_SET, name, {"metadata": {"ownerReferences": []}})

        await stage.make(DEPLOYMENT, _workload("web", replicas=1))
        await stage.run_until_calm()

        assert [each["metadata"]["name"] for each in stage.all(REPLICA_SET)] == [name]
        assert stage.all(REPLICA_SET)[0]["metadata"]["ownerReferences"]


async def test_a_set_deletes_pods_that_are_not_ready_first() -> None:
    async with Stage() as stage:
        stage.play(ReplicaSets(stage.world))
        await stage.make(REPLICA_SET, _workload("web", replicas=3))
        ready = stage.all(POD)[1]["metadata"]["name"]
        await stage.run_pods(only=ready)

        await stage.change(REPLICA_SET, "web", {"spec": {"replicas": 1}})

        assert [each["metadata"]["name"] for each in stage.all(POD)] == [ready]


async def test_a_set_adopts_pods_and_lets_go_those_that_no_longer_match() -> None:
    async with Stage() as stage:
        stage.play(ReplicaSets(stage.world))
        await stage.make(POD, {"metadata": {"name": "stray", "labels": {"app": "web"}}, "spec": {}})
        await stage.make(REPLICA_SET, _workload("web", replicas=1))
        assert len(stage.all(POD)) == 1

        await stage.change(POD, "stray", {"metadata": {"labels": {"app": "other"}}})

        assert len(stage.all(POD)) == 2
        assert not stage.get(POD, "stray")["metadata"]["ownerReferences"]


async def test_a_refused_pod_is_a_condition_of_its_set_and_is_tried_again() -> None:
    async with Stage() as stage:
        stage.play(ReplicaSets(stage.world))
        stage.server.refuse["/pods"] = ApiError("no more room", status=403, reason="Forbidden")

        await stage.make(REPLICA_SET, _workload("web", replicas=2))

        failure = condition(stage.get(REPLICA_SET, "web"), "ReplicaFailure")
        assert failure is not None
        assert failure["message"] == "no more room"
        stage.server.refuse.clear()
        await stage.pass_time(60)
        assert len(stage.all(POD)) == 2
        assert condition(stage.get(REPLICA_SET, "web"), "ReplicaFailure") is None


async def test_pods_count_as_available_only_after_min_ready_seconds() -> None:
    async with Stage() as stage:
        stage.play(ReplicaSets(stage.world))
        await stage.make(REPLICA_SET, _workload("web", replicas=1, minReadySeconds=10))
        await stage.run_pods()
        assert _status(stage, REPLICA_SET, "web")["availableReplicas"] == 0

        await stage.pass_time(11)

        assert _status(stage, REPLICA_SET, "web")["availableReplicas"] == 1


def _claims() -> list[Wire]:
    return [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]


async def test_a_stateful_set_makes_its_pods_one_after_the_other_with_claims_of_their_own() -> None:
    async with Stage() as stage:
        stage.play(StatefulSets(stage.world))

        await stage.make(STATEFUL_SET, _workload("db", replicas=3, volumeClaimTemplates=_claims()))

        assert [each["metadata"]["name"] for each in stage.all(POD)] == ["db-0"]
        await stage.run_until_calm()
        assert [each["metadata"]["name"] for each in stage.all(POD)] == ["db-0", "db-1", "db-2"]
        assert [each["metadata"]["name"] for each in stage.all(CLAIM)] == [
            "data-db-0",
            "data-db-1",
            "data-db-2",
        ]
        volume = stage.get(POD, "db-1")["spec"]["volumes"][0]
        assert volume["persistentVolumeClaim"]["claimName"] == "data-db-1"
        assert _status(stage, STATEFUL_SET, "db")["readyReplicas"] == 3


async def test_a_parallel_stateful_set_waits_for_nobody_and_shrinks_from_the_top() -> None:
    async with Stage() as stage:
        stage.play(StatefulSets(stage.world))
        await stage.make(STATEFUL_SET, _workload("db", replicas=3, podManagementPolicy="Parallel"))
        assert len(stage.all(POD)) == 3

        await stage.run_until_calm()
        await stage.change(STATEFUL_SET, "db", {"spec": {"replicas": 1}})
        await stage.run_until_calm()

        assert [each["metadata"]["name"] for each in stage.all(POD)] == ["db-0"]


async def test_a_stateful_set_rolls_from_the_highest_ordinal_down_to_its_partition() -> None:
    async with Stage() as stage:
        stage.play(StatefulSets(stage.world))
        strategy = {"rollingUpdate": {"partition": 1}}
        await stage.make(STATEFUL_SET, _workload("db", replicas=3, updateStrategy=strategy))
        await stage.run_until_calm()

        await stage.change(STATEFUL_SET, "db", _image("b"))
        assert [
            each["metadata"]["name"] for each in stage.all(POD) if "deletionTimestamp" in each["metadata"]
        ] == ["db-2"]
        for _ in range(6):
            await stage.run_until_calm()

        images = [each["spec"]["containers"][0]["image"] for each in stage.all(POD)]
        assert images == ["a", "b", "b"]
        assert len(stage.all(REVISION)) == 2
        await stage.change(
            STATEFUL_SET, "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
        )
        for _ in range(6):
            await stage.run_until_calm()
        status = _status(stage, STATEFUL_SET, "db")
        assert status["currentRevision"] == status["updateRevision"]
        assert status["updatedReplicas"] == 3


async def test_a_daemon_set_has_a_pod_on_each_node_that_suits_it() -> None:
    async with Stage() as stage:
        stage.play(DaemonSets(stage.world))
        await stage.make(NODE, _node("n0", disk="ssd"))
        await stage.make(NODE, _node("n1"))
        taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
        await stage.make(NODE, _node("n2", taints=[taint], disk="ssd"))
        daemons = _workload("agent")
        daemons["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}

        await stage.make(DAEMON_SET, daemons)
        await stage.pass_time(1)

        [pod] = stage.all(POD)
        side = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert side["nodeSelectorTerms"] == [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
        ]
        await stage.make(NODE, _node("n3", disk="ssd"))
        await stage.pass_time(1)
        assert len(stage.all(POD)) == 2
        await stage.run_pods()
        status = _status(stage, DAEMON_SET, "agent")
        assert status["desiredNumberScheduled"] == 2


async def test_a_daemon_set_rolls_one_node_at_a_time() -> None:
    async with Stage() as stage:
        stage.play(DaemonSets(stage.world))
        for index in range(3):
            await stage.make(NODE, _node(f"n{index}"))
        await stage.make(DAEMON_SET, _workload("agent"))
        await stage.pass_time(1)
        for pod in stage.all(POD):
            terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            name = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
            await stage.run_pods(node=name, only=pod["metadata"]["name"])

        await stage.change(DAEMON_SET, "agent", _image("b"))

        going = [each for each in stage.all(POD) if "deletionTimestamp" in each["metadata"]]
        assert len(going) == 1
        for _ in range(8):
            for pod in stage.all(POD):
                name = pod["spec"].get("nodeName", "")
                if not name:
                    side = pod["spec"]["affinity"]["nodeAffinity"]
                    terms = side["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
                    name = terms[0]["matchFields"][0]["values"][0]
                await stage.run_pods(node=name, only=pod["metadata"]["name"])
            await stage.pass_time(0.5)
        assert {each["spec"]["containers"][0]["image"] for each in stage.all(POD)} == {"b"}
        assert _status(stage, DAEMON_SET, "agent")["updatedNumberScheduled"] == 3


@pytest.mark.parametrize(
    ("taint", "start", "stay"),
    [
        ({"key": "team", "effect": "NoSchedule"}, False, True),
        ({"key": "team", "effect": "NoExecute"}, False, False),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, True, True),
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, True, True),
    ],
)
def test_taints_decide_whether_a_daemon_starts_and_stays(taint: Wire, *, start: bool, stay: bool) -> None:
    assert should_run({"containers": []}, _node("n", taints=[taint])) == (start, stay)


def test_daemons_on_the_host_network_bear_a_node_without_network() -> None:
    keys = {each["key"] for each in daemon_tolerations({"hostNetwork": True})}

    assert "node.kubernetes.io/network-unavailable" in keys
    assert "node.kubernetes.io/network-unavailable" not in {each["key"] for each in daemon_tolerations({})}
