# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from karpenter.kit.clock import FakeClock
from karpenter.kit.tasks import TaskFactory, supervise
from karpenter.sandbox.kubelets.behaviour import read_behaviour
from karpenter.sandbox.kubelets.kubelet import Kubelet, told_of
from karpenter.sandbox.kubelets.kubeletconfig import BootError
from karpenter.sandbox.kubelets.machines import Machine
from karpenter.sandbox.kubelets.nodeobjects import kubelet_version
from karpenter.sandbox.kubelets.objects import Node, PodView
from karpenter.sandbox.kubelets.pace import Pace
from karpenter.sandbox.kubelets.pods import Addresses, Keeper
from karpenter.sandbox.kubelets.settings import Settings
from tests.unit.sandbox.kubelets.builders import Paper, machine
from tests.unit.sandbox.kubelets.builders import pod as any_pod

NAME = "ip-10-0-0-1.us-west-2.compute.internal"
NODE = f"/api/v1/nodes/{NAME}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NAME}"


CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"


def pod(name: str = "p", **options: Any) -> PodView:
    """A pod that goes to any node."""
    return any_pod(name, **{"tolerations": [{"operator": "Exists"}], **options})


class House:
    """A kubelet in faked time at an API server of paper."""

    def __init__(self, of: Machine | None = None, **dials: Any) -> None:
        self.api = Paper()
        self.clock = FakeClock()
        self.said: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        settings = Settings(**{"join_s": 2, "ready_s": 1, "devices_s": 3, "pod_start_s": 1, **dials})
        pace = Pace(self.clock)
        self.kubelet = Kubelet(
            of or machine(),
            api=self.api,
            keeper=Keeper(self.api, pace, settings, Addresses()),
            pace=pace,
            settings=settings,
            spawn=self.spawn,
            tell=self.said.append,
        )

    def spawn(self, work: TaskFactory, name: str) -> asyncio.Task[None]:
        kept = supervise(
            name, work, clock=self.clock, on_failure=lambda each: self.said.append(str(each.error))
        )
        self.tasks.append(asyncio.create_task(kept, name=name))
        return self.tasks[-1]

    def start(self, *clusters: str) -> None:
        self.spawn(lambda: self.kubelet.run(2, clusters), "kubelet")

    def conditions(self) -> dict[str, str]:
        return {
            each["type"]: each["status"] for each in self.api.statuses(f"{NAME}/status")[-1]["conditions"]
        }

    def pod_phases(self, name: str = "p") -> list[str]:
        return [each["phase"] for each in self.api.statuses(f"/pods/{name}/status")]


@pytest.fixture
async def house() -> AsyncIterator[House]:
    made = House()
    yield made
    await end(made)


async def end(house: House) -> None:
    for task in house.tasks:
        task.cancel()
    await asyncio.gather(*house.tasks, return_exceptions=True)


async def test_a_kubelet_joins_becomes_ready_and_reports_devices_later(house: House) -> None:
    house.start("shop")

    await house.clock.advance(1.9)
    before = house.api.verbs()
    await house.clock.advance(0.1)
    joined = house.api.verbs()
    await house.clock.advance(1)
    ready = house.api.statuses()[-1]
    await house.clock.advance(3)

    assert before == []
    assert joined == ["POST nodes", "POST namespaces/kube-node-lease/leases"]
    node = house.api.written[0][2]
    assert node["metadata"]["name"] == NAME
    assert node["metadata"]["labels"]["topology.k8s.aws/zone-id"] == "usw2-az1"
    assert node["metadata"]["labels"]["team"] == "a"
    assert {each["key"] for each in node["spec"]["taints"]} == {
        "team",
        "karpenter.sh/unregistered",
        "node.kubernetes.io/not-ready",
    }
    assert [each["status"] for each in node["status"]["conditions"]] == ["False"] * 4
    assert "vpc.amazonaws.com/pod-eni" not in ready["capacity"]
    assert house.conditions()["Ready"] == "True"
    assert house.api.statuses()[-1]["allocatable"]["vpc.amazonaws.com/pod-eni"] == "9"
    assert house.api.written[1][2]["metadata"]["ownerReferences"][0]["uid"] == "uid-of-it"
    assert "POST csinodes" in house.api.verbs()
    labelled = [body for _, path, body in house.api.written if path == NODE]
    assert labelled == [{"metadata": {"labels": {"topology.ebs.csi.aws.com/zone": "us-west-2a"}}}]


async def test_the_status_is_a_heartbeat_every_five_minutes_and_conditions_keep_their_times(
    house: House,
) -> None:
    house.start()
    await house.clock.advance(6)
    count = len(house.api.statuses())

    await house.clock.advance(601)

    assert len(house.api.statuses()) == count + 2
    first, last = (house.api.statuses()[each]["conditions"][-1] for each in (0, -1))
    assert first["lastTransitionTime"] == last["lastTransitionTime"]
    assert first["lastHeartbeatTime"] < last["lastHeartbeatTime"]


async def test_another_cluster_is_not_joined(house: House) -> None:
    house.start("other")

    await house.clock.advance(100)

    assert house.api.written == []
    assert "told to join the cluster 'shop', not other" in house.said[0]


def test_a_type_that_nobody_knows_does_not_join() -> None:
    with pytest.raises(BootError, match=r"nothing is known of the type z9\.huge"):
        told_of(machine(instance_type="z9.huge"), Settings(cluster="shop"), ())


async def test_a_machine_that_never_joins_does_so_when_it_is_healed(house: House) -> None:
    house.kubelet.set_behaviour(read_behaviour("never-joins"))
    house.start()
    await house.clock.advance(100)
    before = list(house.api.written)

    house.kubelet.set_behaviour(read_behaviour("joins"))
    await house.clock.advance(3)

    assert before == []
    assert house.conditions()["Ready"] == "True"


async def test_a_node_of_the_same_machine_is_taken_up_at_once(house: House) -> None:
    house.api.refusals = {("POST", "/api/v1/nodes"): [409], ("POST", LEASE.rpartition("/")[0]): [409]}
    house.api.found[NODE] = {
        "metadata": {"name": NAME, "uid": "old"},
        "spec": {"providerID": "aws:///us-west-2a/i-1"},
    }
    house.kubelet.see_pod(pod(phase="Running"))
    house.start()

    await house.clock.advance(2.01)

    assert house.conditions()["Ready"] == "True"
    assert "vpc.amazonaws.com/pod-eni" in house.api.statuses()[0]["capacity"]
    assert house.pod_phases() == []


async def test_a_name_that_another_machine_has_is_waited_for(house: House) -> None:
    house.api.refusals = {("POST", "/api/v1/nodes"): [409, 409], ("GET", NODE): []}
    house.api.found[NODE] = {
        "metadata": {"name": NAME},
        "spec": {"providerID": "aws:///us-west-2a/i-0"},
    }
    house.start()

    await house.clock.advance(5.9)
    before = list(house.api.written)
    await house.clock.advance(1.2)

    assert before == []
    assert len(house.said) == 1
    assert house.conditions()["Ready"] == "True"


async def test_pods_run_when_the_node_is_ready_and_are_forgotten_when_they_are_gone(house: House) -> None:
    house.kubelet.see_pod(pod())
    house.start()

    await house.clock.advance(2.5)
    before = house.pod_phases()
    await house.clock.advance(2)
    house.kubelet.see_pod(pod(phase="Running"))
    house.kubelet.see_pod(pod("q"))
    await house.clock.advance(2)
    house.kubelet.lose_pod("uid-p")
    house.kubelet.lose_pod("uid-never-seen")

    assert before == []
    assert house.pod_phases() == ["Pending", "Running"]
    assert house.pod_phases("q") == ["Pending", "Running"]


async def test_a_pod_that_is_bound_early_is_taken_and_starts_once_the_node_has_a_network(
    house: House,
) -> None:
    house.kubelet.set_behaviour(read_behaviour("joins-not-ready"))
    house.start("shop")
    await house.clock.advance(3)

    house.kubelet.see_pod(pod())
    house.kubelet.see_pod(pod("host", host_network=True))
    await house.clock.advance(10)
    before = house.pod_phases(), house.pod_phases("host")[-1]
    house.kubelet.set_behaviour(read_behaviour(""))
    await house.clock.advance(2)

    assert before == ([], "Running")
    assert house.pod_phases()[-1] == "Running"


async def test_the_node_refuses_what_does_not_fit_beside_the_others(house: House) -> None:
    house.start()
    await house.clock.advance(6)

    house.kubelet.see_pod(pod("a", requests={"cpu": "1500m"}))
    house.kubelet.see_pod(pod("b", requests={"cpu": "1500m"}))
    await house.clock.advance(2)

    assert house.pod_phases("a") == ["Pending", "Running"]
    assert house.pod_phases("b") == ["Failed"]


async def test_a_deleted_pod_ends_once_even_while_it_starts(house: House) -> None:
    house.start()
    await house.clock.advance(6)
    house.kubelet.see_pod(pod())
    await house.clock.advance(0.5)

    house.kubelet.see_pod(pod(grace_s=30))
    house.kubelet.see_pod(pod(grace_s=30))
    await house.clock.advance(5)

    deletes = [each for each in house.api.verbs() if each.startswith("DELETE")]
    assert deletes == ["DELETE namespaces/default/pods/p"]
    assert "Running" not in house.pod_phases()


async def test_a_node_that_the_control_plane_gave_up_says_that_it_is_ready(house: House) -> None:
    house.start()
    await house.clock.advance(6)
    count = len(house.api.statuses())
    unknown = {"type": "Ready", "status": "Unknown"}

    house.kubelet.see_node(_node({"metadata": {"name": NAME}, "status": {"conditions": [unknown]}}))
    await house.clock.advance(1)
    house.kubelet.see_node(_node({"metadata": {"name": NAME}}))
    await house.clock.advance(1)

    assert len(house.api.statuses()) == count + 1
    assert house.conditions()["Ready"] == "True"


async def test_a_ready_pod_that_others_call_unready_is_set_right(house: House) -> None:
    house.start()
    await house.clock.advance(6)
    house.kubelet.see_pod(pod())
    await house.clock.advance(2)

    house.kubelet.see_pod(pod(phase="Running", ready="True"))
    await house.clock.advance(1)
    before = len(house.pod_phases())
    house.kubelet.see_pod(pod(phase="Running", ready="False"))
    await house.clock.advance(1)

    assert before == 2
    assert house.pod_phases() == ["Pending", "Running", "Running"]
    last = house.api.statuses("/pods/p/status")[-1]
    assert {each["type"]: each["status"] for each in last["conditions"]}["Ready"] == "True"


async def test_a_pod_that_was_called_unready_while_its_kubelet_was_away_is_set_right(house: House) -> None:
    house.kubelet.see_pod(pod(phase="Running", ready="False"))
    house.start()

    await house.clock.advance(6)

    assert house.pod_phases() == ["Running"]


async def test_a_silent_kubelet_does_nothing_and_takes_everything_up_again(house: House) -> None:
    house.start()
    await house.clock.advance(6)
    house.kubelet.see_pod(pod())
    house.kubelet.set_behaviour(read_behaviour("silent"))
    await house.clock.advance(1)
    count = len(house.api.written)

    house.kubelet.see_pod(pod("q"))
    await house.clock.advance(1000)
    silent, alive = len(house.api.written), house.kubelet.alive
    house.kubelet.set_behaviour(read_behaviour("joins"))
    await house.clock.advance(3)

    assert (silent, alive) == (count, False)
    assert house.conditions()["Ready"] == "True"
    assert house.pod_phases()[-1] == house.pod_phases("q")[-1] == "Running"


async def test_an_odd_condition_comes_in_its_time_and_is_taken_back(house: House) -> None:
    house.kubelet.set_behaviour(read_behaviour("condition/NetworkingReady=False@5s"))
    house.start()

    await house.clock.advance(7.9)
    before = house.conditions()
    await house.clock.advance(0.2)
    bad = house.conditions()
    house.kubelet.set_behaviour(read_behaviour(""))
    await house.clock.advance(0.1)

    assert "NetworkingReady" not in before
    assert bad["NetworkingReady"] == "False"
    assert house.conditions()["NetworkingReady"] == "True"


async def test_a_machine_that_is_switched_off_is_silent_for_good(house: House) -> None:
    house.start()
    await house.clock.advance(6)
    house.kubelet.see_pod(pod())

    house.tasks[0].cancel()
    house.kubelet.power_off()
    count = len(house.api.written)
    house.kubelet.see_pod(pod("q"))
    await house.clock.advance(100)

    assert len(house.api.written) == count
    assert not house.kubelet.joined


async def test_a_lease_is_renewed_and_made_again_where_it_is_gone(house: House) -> None:
    house.start()
    await house.clock.advance(6)
    house.api.written.clear()

    await house.kubelet.renew()
    house.api.refusals = {("PATCH", LEASE): [404, 500]}
    await house.kubelet.renew()
    await house.kubelet.renew()

    assert house.api.verbs() == [
        f"PATCH namespaces/kube-node-lease/leases/{NAME}",
        "POST namespaces/kube-node-lease/leases",
    ]
    assert house.api.written[0][2]["spec"]["renewTime"] == "2026-01-01T00:00:06.000000Z"


async def test_taints_of_the_node_as_it_is_now_count(house: House) -> None:
    house.start()
    await house.clock.advance(6)
    node = {"metadata": {"name": NAME}, "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}
    house.api.found[NODE] = node

    house.kubelet.see_node(_node(node))
    house.kubelet.see_pod(pod(tolerations=[]))
    await house.clock.advance(2)
    house.api.found[NODE] = {"metadata": {"name": NAME}}
    house.kubelet.see_pod(pod("q", tolerations=[]))
    await house.clock.advance(2)

    assert house.pod_phases() == ["Failed"]
    assert house.pod_phases("q") == ["Pending", "Running"]


async def test_a_server_that_refuses_is_asked_again_and_nothing_is_lost(house: House) -> None:
    house.api.refusals = {
        ("POST", LEASE.rpartition("/")[0]): [403],
        ("PATCH", f"{NODE}/status"): [422, 404],
        ("POST", "/apis/storage.k8s.io/v1/csinodes"): [403],
        ("POST", "/api/v1/nodes"): [403],
    }
    house.kubelet.see_pod(pod())
    house.start()

    await house.clock.advance(30)

    assert house.conditions()["Ready"] == "True"
    assert house.pod_phases() == ["Pending", "Running"]
    assert [each.partition(":")[0] for each in house.said] == [
        f"i-1 cannot join as {NAME} yet",
        f"{NAME} has no lease",
        "refused",
        "refused",
    ]


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("amazon-eks-node-al2023-x86_64-standard-1.34-v20260101", "v1.34.0-eks-"),
        ("bottlerocket-aws-k8s-1.32-x86_64-v1.2601.1-5ab1e5ed", "v1.32.0-eks-"),
        ("Windows_Server-2022-English-Core-EKS_Optimized-1.31-2026.01.01", "v1.31.0-eks-"),
        ("amazon-eks-node-1.30-v20260101", "v1.30.0-eks-"),
        ("mine", "v1.33.0-eks-"),
    ],
)
def test_the_image_names_the_kubelets_version(image: str, version: str) -> None:
    assert kubelet_version(image).startswith(version)


def _node(document: dict[str, Any]) -> Node:
    return msgspec.convert(document, Node)


def driver(name: str, *words: str, **options: Any) -> PodView:
    """A pod of the EBS driver with these words on its command line."""
    made = pod(name, **options)
    container = msgspec.structs.replace(made.spec.containers[0], name="ebs-plugin", args=words)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, containers=(container,)))


async def test_the_limit_that_the_driver_is_told_is_the_one_that_it_registers_with(house: House) -> None:
    house.kubelet.see_pod(driver("ebs", "node", "--volume-attach-limit=1"))
    house.start("shop")

    await house.clock.advance(4)

    [made] = [body for verb, path, body in house.api.written if (verb, path) == ("POST", CSI_NODES)]
    assert made["spec"]["drivers"][0]["allocatable"] == {"count": 1}


async def test_a_driver_with_another_limit_registers_anew(house: House) -> None:
    house.start("shop")
    await house.clock.advance(4)

    house.kubelet.see_pod(driver("ebs", "--volume-attach-limit=2"))
    house.kubelet.see_pod(driver("ebs", "--volume-attach-limit=2"))
    await house.clock.advance(1)
    house.kubelet.lose_pod("uid-ebs")
    house.kubelet.see_pod(driver("ebs-2", "node"))
    await house.clock.advance(1)

    changes = [
        body["spec"]["drivers"][0]
        for verb, path, body in house.api.written
        if verb == "PATCH" and path == f"{CSI_NODES}/{NAME}"
    ]
    assert [each.get("$patch") or each["allocatable"]["count"] for each in changes] == [
        "delete",
        2,
        "delete",
        26,
    ]
