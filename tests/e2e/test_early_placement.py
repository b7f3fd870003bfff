# SPDX-License-Identifier: Apache-2.0
"""Early placement on a real control plane: pods get their node while it boots, and lose it if it never is ready."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for
from tests.e2e.scenes import conditions, deployment, events, figure, running, working

_PODS = 6
_BOOT = "6s"
_BARE = """
apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: default, labels: {app: bare}}
spec:
  nodeSelector: {type: karpenter}
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: 500m}}}]
"""


def _early(product: Product, app: str) -> int:
    """How many pods of an app have a node that is not ready; a node that is ready now was perhaps not before."""
    bound = [each["spec"].get("nodeName") for each in product.get("pods", "-l", f"app={app}")]
    unready = {
        node["metadata"]["name"]
        for node in product.get("nodes")
        if any(each["type"] == "Ready" and each["status"] != "True" for each in node["status"]["conditions"])
    }
    return sum(name in unready for name in bound)


def _claims(product: Product) -> set[str]:
    return {each["metadata"]["name"] for each in product.get("nodeclaims")}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane for each test: starting one is faster than waiting until all nodes of another have gone."""
    with ControlPlane(directory=tmp_path / "plane") as plane:
        yield plane


@pytest.mark.parametrize(("wanted", "early"), [("true", _PODS), ("false", 0)], ids=["on", "off"])
def test_pods_have_their_node_while_it_boots_only_where_that_is_asked_for(
    plane: ControlPlane, tmp_path: Path, wanted: str, early: int
) -> None:
    settings = {"early-placement": wanted}
    with working(plane, tmp_path, kubelets=("--ready-delay", _BOOT), **settings) as product:
        started, most = time.monotonic(), 0

        product.apply(deployment("boot", _PODS))
        while running(product, "boot") < _PODS:
            assert time.monotonic() - started < 60, "the pods run"
            most = max(most, _early(product, "boot"))
            time.sleep(0.2)

        figure(f"early placement {wanted}: all run after {time.monotonic() - started:.1f} s")
        assert most == early
        assert bool(events(product, "Scheduled")) is bool(early)


def test_a_node_that_never_is_ready_is_replaced_and_its_pods_run_elsewhere_but_for_bare_ones(
    plane: ControlPlane, tmp_path: Path
) -> None:
    settings = {"early-placement": "true", "initialization-timeout": "15s"}
    rules = tmp_path / "rules.yaml"
    rules.write_text("- {kubelet: joins-not-ready}\n", encoding="utf-8")
    with working(plane, tmp_path, kubelets=("--behaviour", str(rules)), **settings) as product:
        product.apply(deployment("boot", 2) + "---" + _BARE)
        wait_for(lambda: _early(product, "boot") == 2 and _early(product, "bare") == 1, "pods are bound")
        [claim] = product.get("nodeclaims")
        stuck = conditions(product, "nodeclaim", claim["metadata"]["name"])["Initialized"]
        broken = claim["status"]["providerID"].rpartition("/")[2]
        rules.write_text(f"- {{match: {{instance: {broken}}}, kubelet: joins-not-ready}}\n", encoding="utf-8")
        wait_for(lambda: running(product, "boot") == 2, "the Deployment's pods run on another node")

        wait_for(lambda: claim["metadata"]["name"] not in _claims(product), "the claim is gone")

        assert stuck["reason"] == "NodeNotReady"
        assert product.get("pods", "-l", "app=bare") == []
