# SPDX-License-Identifier: Apache-2.0
"""What one odd object or many at once must not do: pin a node, pass a budget, stop every launch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for
from tests.e2e.scenes import NODE_CLASS, POOL, deployment, events, running

_STATE = "karpenter-state"
_NODES = 4
_EXPIRES_S = 60

_POOLS = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: expiring}
spec:
  template:
    metadata: {labels: {type: expiring}}
    spec:
      expireAfter: EXPIRESs
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  disruption: {consolidateAfter: Never, budgets: [{nodes: "1", reasons: [Expired]}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: graced}
spec:
  template:
    metadata: {labels: {type: graced}}
    spec:
      terminationGracePeriod: 20s
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  disruption: {consolidateAfter: Never}
""".replace("EXPIRES", str(_EXPIRES_S))

_UNREADABLE = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {_STATE}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: karpenter-launch-broken, namespace: {_STATE}, labels: {{karpenter.sh/launch-intent: "true"}}}}
data: {{intent: nonsense}}
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The product on a control plane whose launch journal holds an intent that cannot be read."""
    directory: Path = tmp_path_factory.mktemp("bounds")
    with ControlPlane(directory=directory / "plane") as plane:
        plane.kubectl("apply", "-f", "-", input=_UNREADABLE)
        with Product(plane, directory / "product") as product:
            product.apply(f"{POOL}---{NODE_CLASS}---{_POOLS}")
            wait_for(lambda: product.ready("nodepool", "expiring"), "the pool is ready")
            yield product


@pytest.mark.timeout(300)
def test_an_unreadable_launch_intent_is_set_aside_and_launches_go_on(product: Product) -> None:
    product.apply(deployment("first", 1))

    wait_for(lambda: running(product, "first") == 1, "the pod runs", 120)

    [kept] = product.get("configmaps", "-n", _STATE, "-l", "karpenter.sh/launch-intent=unreadable")
    assert kept["metadata"]["name"] == "karpenter-launch-broken"
    wait_for(
        lambda: bool(events(product, "LaunchIntentSetAside", "karpenter-launch-broken")), "it is told", 30
    )
    assert product.get("configmaps", "-n", "kube-system", "-l", "karpenter.sh/launch-intent") == []


@pytest.mark.timeout(300)
def test_a_pod_with_an_endless_grace_keeps_neither_its_node_nor_the_pods_beside_it(product: Product) -> None:
    endless = deployment("endless", 1, selector="{type: graced}", requests="{cpu: 100m}")
    product.apply(
        endless.replace("terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: 100000000000")
    )
    product.apply(deployment("beside", 1, selector="{type: graced}", requests="{cpu: 100m}"))
    wait_for(lambda: running(product, "endless") + running(product, "beside") == 2, "both run", 120)
    claims = product.get("nodeclaims", "-l", "karpenter.sh/nodepool=graced")

    began = time.monotonic()
    product.plane.kubectl("delete", "nodeclaims", "-l", "karpenter.sh/nodepool=graced", "--wait=false")
    gone = {each["metadata"]["uid"] for each in claims}
    wait_for(
        lambda: gone.isdisjoint(each["metadata"]["uid"] for each in product.get("nodeclaims")),
        "the nodes are gone",
        120,
    )

    assert time.monotonic() - began < 90
    product.plane.kubectl("delete", "deployment", "endless", "beside", "--wait=false")


@pytest.mark.timeout(420)
def test_nodes_that_expire_together_go_one_at_a_time_under_a_budget_of_one(product: Product) -> None:
    product.apply(deployment("expiring", _NODES, selector="{type: expiring}", alone=True))
    wait_for(lambda: running(product, "expiring") == _NODES, "all pods run", 120)
    path = "/apis/karpenter.sh/v1/nodeclaims?labelSelector=karpenter.sh/nodepool%3Dexpiring"
    leaving: list[int] = []
    gone: set[str] = set()

    until = time.monotonic() + 240
    while time.monotonic() < until and len(gone) < 2:
        claims = product.plane.request("GET", path).json()["items"]
        going = {each["metadata"]["name"] for each in claims if "deletionTimestamp" in each["metadata"]}
        leaving.append(sum(not _is_ended(each) for each in claims if each["metadata"]["name"] in going))
        gone |= going
        time.sleep(0.1)

    product.plane.kubectl("delete", "deployment", "expiring", "--wait=false")
    assert len(gone) == 2
    assert max(leaving) == 1


def _is_ended(claim: dict[str, object]) -> bool:
    """Whether a claim's instance was told to end: its node uses no budget up any more."""
    status = claim.get("status")
    conditions = status.get("conditions", []) if isinstance(status, dict) else []
    return any(each["type"] == "InstanceTerminating" and each["status"] == "True" for each in conditions)
