# SPDX-License-Identifier: Apache-2.0
"""Nodes that the cloud takes, that drifted, or that a DaemonSet does not fit; and controllers that die half-way."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product, wait_for
from tests.e2e.scenarios import (
    PLANES,
    manifest,
    nodes_labelled,
    plane_named,
    rollout,
    scale,
    wait_until_ready,
)

pytestmark = pytest.mark.timeout(900)

_SETTINGS = {"disruption-validation-delay": "3s", "feature-gates": "StaticCapacity=true"}
_DAEMON_SET = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: other}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {type: karpenter}
      terminationGracePeriodSeconds: 0
      containers:
      - name: agent
        image: registry.k8s.io/pause:3.10
        resources: {requests: {memory: 2Gi}}
"""
_STATIC = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: static}
spec:
  replicas: 2
  template:
    metadata: {labels: {type: static}}
    spec:
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [c5.large]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  disruption: {consolidateAfter: 0s, budgets: [{nodes: "100%"}]}
"""


def _names(product: Product, label: str = "type=karpenter") -> set[str]:
    return {str(node["metadata"]["name"]) for node in nodes_labelled(product, label)}


def _is_tainted(node: dict[str, Any]) -> bool:
    return any(taint["key"] == "karpenter.sh/disrupted" for taint in node["spec"].get("taints", []))


def _started(product: Product, *, spot: bool = False) -> None:
    text = manifest("w1").replace("values: [on-demand]", "values: [spot]") if spot else manifest("w1")
    product.apply(text)
    product.apply(manifest("inflate"))
    wait_until_ready(product, "ec2nodeclass/default", "nodepool/default")


def _moments(product: Product, *messages: str) -> list[str]:
    return [message for message in product.messages() if message in messages]


def _replaced(product: Product, before: set[str], label: str = "type=karpenter") -> set[str]:
    def done() -> bool:
        found = _names(product, label)
        return bool(found) and not found & before

    wait_for(done, f"other nodes stand instead of {', '.join(sorted(before))}", 180)
    return _names(product, label)


@pytest.mark.parametrize("name", PLANES)
def test_a_spot_node_is_tainted_at_once_and_drained_when_another_is_ordered(
    name: str, tmp_path: Path
) -> None:
    with (
        plane_named(name, tmp_path / "plane") as plane,
        Product(plane, tmp_path / "product", **_SETTINGS) as product,
    ):
        _started(product, spot=True)
        scale(product, 5)
        before = _names(product)
        ordered = len(_moments(product, "created nodeclaim"))
        notice = [{"instanceIds": [product.instances()[0]["InstanceId"]], "warningSeconds": 60}]
        request = urllib.request.Request(  # noqa: S310 - the model on loopback
            f"{product.endpoint}/_model/interrupt", json.dumps(notice).encode(), method="POST"
        )
        with urllib.request.urlopen(request):  # noqa: S310
            told = time.monotonic()

        wait_for(lambda: any(map(_is_tainted, nodes_labelled(product, "type=karpenter"))), "the taint", 30)
        assert time.monotonic() - told < 10
        _replaced(product, before)
        rollout(product, "deploy/inflate")

        order = _moments(product, "created nodeclaim", "initiating delete from interruption message")
        assert order[ordered:] == ["created nodeclaim", "initiating delete from interruption message"]


@pytest.mark.parametrize("name", PLANES)
def test_a_controller_that_is_killed_half_way_is_gone_on_with(name: str, tmp_path: Path) -> None:
    with (
        plane_named(name, tmp_path / "plane") as plane,
        Product(plane, tmp_path / "product") as product,
    ):
        _started(product)
        scale(product, 5)
        scale(product, 1)
        wait_for(lambda: any(map(_is_tainted, nodes_labelled(product, "type=karpenter"))), "the taint", 60)
        product.kill("controller")
        product.start_controller()
        wait_for(lambda: len(product.get("nodeclaims")) == 2, "the replacement is ordered", 180)
        replacement = max(
            product.get("nodeclaims"), key=lambda each: str(each["metadata"]["creationTimestamp"])
        )
        product.kill("controller")
        product.start_controller()

        def done() -> bool:
            types = [
                node["metadata"]["labels"]["node.kubernetes.io/instance-type"]
                for node in product.get("nodes")
            ]
            return types == ["c5.large"]

        wait_for(done, "the m5.large is replaced by a c5.large", 240)
        wait_for(lambda: len(product.instances()) == 1, "one instance is left", 60)
        wait_for(lambda: len(product.get("nodeclaims")) == 1, "one claim is left", 60)
        [claim] = product.get("nodeclaims")
        assert claim["metadata"]["uid"] == replacement["metadata"]["uid"]
        assert not any(map(_is_tainted, product.get("nodes")))
        rollout(product, "deploy/inflate")


@pytest.mark.parametrize("name", PLANES)
def test_drift_daemon_sets_and_static_pools(name: str, tmp_path: Path) -> None:
    with (
        plane_named(name, tmp_path / "plane") as plane,
        Product(plane, tmp_path / "product", **_SETTINGS) as product,
    ):
        _started(product)
        scale(product, 5)
        before = _names(product)
        team = '{"spec":{"template":{"metadata":{"labels":{"team":"a"}}}}}'
        plane.kubectl("patch", "nodepool", "default", "--type=merge", "-p", team)
        before = _replaced(product, before)
        rollout(product, "deploy/inflate")

        product.apply(_DAEMON_SET)
        _is_offered_a_plan(product)
        plane.kubectl("annotate", "nodepool", "default", "karpenter.sh/replace-for-daemonsets=true")
        [now] = _replaced(product, before)

        def runs() -> bool:
            pods = product.get("pods", "-n", "other", "-l", "app=agent")
            return any(
                pod["spec"].get("nodeName") == now and pod["status"]["phase"] == "Running" for pod in pods
            )

        wait_for(runs, "the DaemonSet's pod runs on the new node", 60)

        product.apply(_STATIC)
        wait_for(lambda: len(_names(product, "type=static")) == 2, "two static nodes", 120)
        plane.kubectl("scale", "nodepool/static", "--replicas=1")
        wait_for(lambda: len(_names(product, "type=static")) == 1, "one static node", 120)
        before = _names(product, "type=static")
        plane.kubectl("patch", "nodepool", "static", "--type=merge", "-p", team)
        assert len(_replaced(product, before, "type=static")) == 1


def _is_offered_a_plan(product: Product) -> None:
    def told() -> list[str]:
        events = product.get("events", "-n", "other")
        return [each["message"] for each in events if each["reason"] == "DaemonSetDoesNotFit"]

    [words] = wait_for(told, "the plan is told", 90)
    assert "karpenter.sh/replace-for-daemonsets=true" in words
    assert "$/h" in words
