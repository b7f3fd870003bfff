# SPDX-License-Identifier: Apache-2.0
"""Troubles that people had, on the real control plane and the EC2 model: what must happen instead."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for
from tests.e2e.test_walkthroughs import INFLATE

POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    metadata: {labels: {type: karpenter}}
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  limits: {cpu: "1000"}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: KarpenterNodeRole-sandbox
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
"""


@pytest.fixture
def product(tmp_path: Any) -> Iterator[Product]:
    """The product at work, with a pool that is ready."""
    with ControlPlane() as plane, Product(plane, tmp_path / "product") as product:
        product.apply(POOL)
        product.apply(INFLATE)
        wait_for(lambda: product.ready("nodepool", "default"), "the pool is ready")
        yield product


def tell_model(product: Product, action: str, body: Any) -> None:
    """Change how the EC2 model behaves."""
    request = urllib.request.Request(  # noqa: S310 - loopback
        f"{product.endpoint}/_model/{action}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310
        assert reply.status == 200


def events(product: Product, reason: str) -> list[str]:
    """The messages of events, newest last."""
    found = product.get("events", "-A", "--field-selector", f"reason={reason}")
    return [str(each["message"]) for each in found]


@pytest.mark.timeout(300)
def test_an_instance_that_dies_for_its_kms_key_is_told_and_launches_back_off(product: Product) -> None:
    reason = "Client.InvalidKMSKey.InvalidState"
    tell_model(product, "failures", {"kind": "dies", "instanceType": "*", "code": reason, "afterSeconds": 1})

    product.plane.kubectl("scale", "-n", "other", "deploy/inflate", "--replicas=1")

    said = wait_for(lambda: events(product, "InstanceDied"), "an event tells how the instance died", 90)
    assert reason in said[0]
    wait_for(lambda: events(product, "LaunchesPaused"), "the pool pauses", 120)
    made = product.messages().count("created nodeclaim")
    assert made <= 4


@pytest.mark.timeout(300)
def test_a_leader_killed_while_it_launches_leaves_no_double_and_no_leak(product: Product) -> None:
    standby = product.start_controller("standby")
    wait_for(lambda: "starting" in product.messages("standby"), "the standby runs")

    product.plane.kubectl("scale", "-n", "other", "deploy/inflate", "--replicas=40")
    wait_for(lambda: "created nodeclaim" in product.messages(), "the leader has ordered nodes", 30)
    product.kill("controller")

    product.plane.kubectl(
        "rollout", "status", "-n", "other", "deploy/inflate", "--timeout=120s", timeout_s=130
    )
    assert standby.poll() is None
    claims = {claim["status"]["providerID"].rpartition("/")[2] for claim in product.get("nodeclaims")}

    def equal() -> bool:
        return {each["InstanceId"] for each in product.instances()} == claims

    wait_for(equal, "every instance has its claim, and every claim one instance", 90)
    uids = [
        tag["Value"]
        for each in product.instances()
        for tag in each["Tags"]
        if tag["Key"] == "karpenter.sh/nodeclaim-uid"
    ]
    assert len(uids) == len(set(uids))
