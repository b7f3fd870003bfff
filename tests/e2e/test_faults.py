# SPDX-License-Identifier: Apache-2.0
"""What is left when programs die at the worst moment: kill -9 of the controller, of the API server and of etcd.

The numbers are small by default. KARPENTER_E2E_KILLS=50 and KARPENTER_E2E_NODES=200 make the long run, and
KARPENTER_E2E_SEED another order of moments.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for
from tests.e2e.scenes import deployment, figure, look_at_model, running, tell_model, working

KILLS = int(os.environ.get("KARPENTER_E2E_KILLS", "8"))
NODES = int(os.environ.get("KARPENTER_E2E_NODES", "40"))
SEED = int(os.environ.get("KARPENTER_E2E_SEED", "1"))
OUTAGE_S = float(os.environ.get("KARPENTER_E2E_OUTAGE_S", "30"))


@pytest.fixture
def restless(tmp_path: Path) -> Iterator[Product]:
    """The product without a lease, so that a controller that is started again acts at once, and an EC2 that trails."""
    settings = {"disable-leader-election": "true"}
    with ControlPlane() as plane, working(plane, tmp_path / "product", **settings) as product:
        tell_model(product, "settings", {"launchLagSeconds": [0, 20], "pendingSeconds": [1, 15]})
        tell_model(
            product, "fault", {"service": "ec2", "operation": "CreateFleet", "latencySeconds": [0, 1.5]}
        )
        yield product


@pytest.mark.timeout(900 + 20 * KILLS + 3 * NODES)
def test_a_controller_killed_again_and_again_while_it_scales_up_launches_nothing_twice(
    restless: Product,
) -> None:
    product = restless
    chance = random.Random(SEED)  # noqa: S311 - moments, not secrets
    product.apply(deployment("spread", alone=True, requests="{cpu: 200m}"))

    started = time.monotonic()
    kills = _kill_while_scaling(product, chance)
    grown_s = time.monotonic() - started
    product.plane.kubectl("scale", "deploy/spread", f"--replicas={NODES}")
    wait_for(lambda: running(product, "spread") == NODES, f"{NODES} pods run", 300 + 2 * NODES)

    wait_for(lambda: _settled(product), "every launch is settled", 120)
    figure(
        f"{KILLS} kills in {grown_s:.0f} s, {NODES} pods on {len(product.get('nodeclaims'))} nodes"
        f" after {time.monotonic() - started:.0f} s: {kills}"
    )
    _each_claim_has_one_instance_and_each_instance_its_claim(product)


def _kill_while_scaling(product: Product, chance: random.Random) -> dict[str, int]:
    """Kill and restart the controller at seeded moments, while replicas are added between; count what it was at."""
    doing: Counter[str] = Counter()
    for number in range(KILLS):
        name = "controller" if number == 0 else f"controller-{number}"
        asked = NODES * (number + 1) // (KILLS + 1)
        product.plane.kubectl("scale", "deploy/spread", f"--replicas={asked}")
        if chance.random() < 0.8:
            wait_for(functools.partial(_works, product, name), "it works", 60)
            time.sleep(chance.uniform(0, 3.5))
        else:
            time.sleep(chance.uniform(0, 4))
        product.kill(name)
        doing[(product.messages(name) or ["nothing yet"])[-1]] += 1
        product.start_controller(f"controller-{number + 1}")
    return dict(doing)


def _works(product: Product, name: str) -> bool:
    return "leading" in product.messages(name)


def _settled(product: Product) -> bool:
    claims = product.get("nodeclaims")
    return len(claims) >= NODES and all(claim.get("status", {}).get("nodeName") for claim in claims)


def _each_claim_has_one_instance_and_each_instance_its_claim(product: Product) -> None:
    """Compare what EC2 ever launched with the claims and with the journal."""
    ever = {each["id"]: each for each in look_at_model(product, "state")["ec2"]["instances"]}
    owned = {_instance_of(claim): claim["metadata"]["uid"] for claim in product.get("nodeclaims")}
    # Where the machine is so busy that the scheduler takes half a minute, a few nodes too many are planned.
    assert NODES <= len(owned) <= NODES + NODES // 20
    assert {name for name in ever if name not in owned} == set(), "launched and not owned: a double or a leak"
    assert {each["state"] for each in ever.values()} == {"running"}
    written = [intent for intent in _journal(product) if intent["assigned"] is not None]
    paired = [(uid, got["instance_id"]) for intent in written for uid, got in intent["assigned"].items()]
    assert Counter(uid for uid, _ in paired) == Counter(owned.values()), "a claim was given two instances"
    assert {instance: uid for uid, instance in paired} == owned
    assert len(product.get("nodes")) == len(owned)


def _instance_of(claim: dict[str, Any]) -> str:
    return str(claim["status"]["providerID"]).rpartition("/")[2]


def _journal(product: Product) -> list[dict[str, Any]]:
    found = product.get("configmaps", "-A", "-l", "karpenter.sh/launch-intent=true")
    return [json.loads(each["data"]["intent"]) for each in found]


@pytest.mark.timeout(400 + OUTAGE_S)
def test_an_outage_of_api_server_and_etcd_is_survived_and_work_goes_on_within_seconds(tmp_path: Path) -> None:
    with ControlPlane() as plane, working(plane, tmp_path / "product") as product:
        controller = product.process()
        product.apply(deployment("spread", 6, alone=True))
        wait_for(lambda: "created nodeclaim" in product.messages(), "nodes are ordered", 60)

        plane.crash("kube-apiserver", "etcd")
        time.sleep(OUTAGE_S)
        plane.revive("etcd", "kube-apiserver")
        returned = time.monotonic()
        plane.request("POST", "/api/v1/namespaces/default/pods", _pod_that_waits("late"))
        _mark_unschedulable(plane, "late")
        wait_for(lambda: _is_planned(plane, "late"), "the pod that waits has a node ordered", 60)
        recovered_s = time.monotonic() - returned

        figure(
            f"{OUTAGE_S:g} s without an API server; {recovered_s:.1f} s after it was ready the next node was ordered"
        )
        assert recovered_s < 10
        wait_for(lambda: running(product, "spread") == 6, "what was under way is finished", 120)
        wait_for(lambda: running(product, "late") == 1, "the pod runs", 120)
        assert controller.poll() is None
        assert product.process() is controller
        owned = {_instance_of(claim) for claim in product.get("nodeclaims")}
        assert {each["id"] for each in look_at_model(product, "state")["ec2"]["instances"]} == owned


def _pod_that_waits(name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "1900m"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"nodeSelector": {"type": "karpenter"}, "containers": [container]},
    }


def _mark_unschedulable(plane: ControlPlane, name: str) -> None:
    """Say what the scheduler will say, which itself takes up to a minute to come back after an outage."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    reply = plane.request(
        "PATCH",
        f"/api/v1/namespaces/default/pods/{name}/status",
        {"status": {"conditions": [condition]}},
        content_type="application/merge-patch+json",
    )
    assert reply.is_success, reply.text


def _is_planned(plane: ControlPlane, name: str) -> bool:
    found = plane.request(
        "GET", f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name},reason=Nominated"
    )
    return bool(found.is_success and found.json()["items"])


@pytest.mark.timeout(300)
def test_a_leader_that_is_asked_to_stop_hands_over_within_seconds(tmp_path: Path) -> None:
    with ControlPlane() as plane, working(plane, tmp_path / "product") as product:
        product.start_controller("standby")
        wait_for(lambda: "starting" in product.messages("standby"), "the standby runs")
        product.apply(deployment("spread", 12, alone=True))
        wait_for(lambda: "created nodeclaim" in product.messages(), "nodes are ordered", 60)

        stopped_s = product.end("controller")
        wait_for(lambda: "leading" in product.messages("standby"), "the standby leads", 20)

        figure(f"stopped in {stopped_s:.1f} s")
        assert stopped_s < 5
        wait_for(lambda: running(product, "spread") == 12, "all pods run", 120)
        owned = {_instance_of(claim) for claim in product.get("nodeclaims")}
        assert len(owned) == 12
        assert {each["id"] for each in look_at_model(product, "state")["ec2"]["instances"]} == owned


@pytest.mark.timeout(400)
def test_a_leader_that_sleeps_through_its_lease_does_no_harm_when_it_wakes(tmp_path: Path) -> None:
    with ControlPlane() as plane, working(plane, tmp_path / "product") as product:
        product.start_controller("standby")
        wait_for(lambda: "starting" in product.messages("standby"), "the standby runs")
        product.apply(deployment("spread", 12, alone=True))
        wait_for(lambda: "created nodeclaim" in product.messages(), "nodes are ordered", 60)

        product.process().send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: running(product, "spread") == 12, "the standby finishes the work", 150)
        finally:
            product.process().send_signal(signal.SIGCONT)
        product.plane.kubectl("scale", "deploy/spread", "--replicas=16")
        wait_for(lambda: running(product, "spread") == 16, "four more run", 120)

        wait_for(
            lambda: any("lost the lease" in each for each in product.messages()), "the sleeper knows", 30
        )
        owned = {_instance_of(claim) for claim in product.get("nodeclaims")}
        assert len(owned) == 16
        assert {each["id"] for each in look_at_model(product, "state")["ec2"]["instances"]} == owned
