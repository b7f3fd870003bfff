# SPDX-License-Identifier: Apache-2.0
"""W4 without KEDA: a timetable on a CapacityBuffer, and five nodes stand before the load comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for
from tests.e2e.scenes import NODE_CLASS, POOL, deployment

_TEMPLATE = """
apiVersion: v1
kind: PodTemplate
metadata: {name: load, namespace: default}
template:
  metadata: {labels: {app: load}}
  spec:
    nodeSelector: {type: karpenter}
    containers: [{name: app, image: pause, resources: {requests: {cpu: 500m}}}]
    affinity:
      podAntiAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: load}}}
"""


@pytest.mark.timeout(500)
def test_five_nodes_are_ready_before_the_load_comes(control_plane: ControlPlane, tmp_path: Path) -> None:
    with Product(control_plane, tmp_path, **{"feature-gates": "CapacityBuffer=true"}) as product:
        product.apply(NODE_CLASS)
        product.apply(POOL)
        product.apply(_TEMPLATE)
        # The minute after the next, in Seoul: its minutes are those of UTC.
        opens = datetime.now(UTC) + timedelta(minutes=1)
        product.apply(
            f"""
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {{name: hourly, namespace: default}}
spec:
  podTemplateRef: {{name: load}}
  schedules:
    - {{schedule: "{opens.minute} * * * *", timeZone: Asia/Seoul, duration: 10m, replicas: 5}}
"""
        )

        assert product.get("nodes", "-l", "type=karpenter") == []
        wait_for(lambda: len(_ready_nodes(product)) == 5, "five nodes before the load", 150)
        product.apply(deployment("load", 5, alone=True))
        wait_for(lambda: _running(product) == 5, "the load runs", 60)
        claims = {each["metadata"]["name"] for each in product.get("nodeclaims")}
        assert len(claims) >= 5

        product.plane.kubectl("delete", "capacitybuffer,deployment,podtemplate", "--all")
        product.plane.kubectl("delete", "nodepools", "--all", "--timeout=120s", timeout_s=130)
        wait_for(lambda: not product.instances(), "all instances go", 90)


def _ready_nodes(product: Product) -> list[str]:
    return [
        each["metadata"]["name"]
        for each in product.get("nodes", "-l", "type=karpenter")
        if any(
            one["type"] == "Ready" and one["status"] == "True" for one in each["status"].get("conditions", ())
        )
    ]


def _running(product: Product) -> int:
    pods = product.get("pods", "-n", "default", "-l", "app=load")
    return sum(each["status"].get("phase") == "Running" for each in pods)
