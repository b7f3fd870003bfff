# SPDX-License-Identifier: Apache-2.0
"""The roles that features bring with them: everything that they grant is used, and nothing else is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for
from tests.e2e.rights import GATED, NAMESPACE, USUAL, calls, granted, install, kubeconfig, used
from tests.e2e.scenes import NODE_CLASS, POOL, conditions, deployment, running

_TEMPLATES = Path(__file__).parents[2] / "charts" / "karpenter" / "templates"
_OVERLAY = """
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: cheaper}
spec:
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
  priceAdjustment: "-10%"
"""
_WORKLOADS = """
apiVersion: v1
kind: PodTemplate
metadata: {name: room, namespace: default}
template:
  spec:
    nodeSelector: {type: karpenter}
    containers: [{name: app, image: pause, resources: {requests: {cpu: 100m}}}]
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: set, namespace: default}
spec:
  replicas: 0
  selector: {matchLabels: {app: set}}
  template:
    metadata: {labels: {app: set}}
    spec: {containers: [{name: app, image: pause}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: state, namespace: default}
spec:
  replicas: 0
  serviceName: state
  selector: {matchLabels: {app: state}}
  template:
    metadata: {labels: {app: state}}
    spec: {containers: [{name: app, image: pause}]}
"""


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane with an audit log, and the chart's roles with those of all features."""
    with ControlPlane(audit=True) as plane:
        install(plane, *GATED)
        yield plane


def _buffer(name: str, reference: str) -> str:
    return f"""
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {{name: {name}, namespace: default}}
spec: {{{reference}, replicas: 1}}
"""


def test_every_role_of_a_feature_is_looked_at() -> None:
    files = {path.stem.partition("-")[2] for path in _TEMPLATES.glob("clusterrole-*.yaml")}

    assert files == {*GATED, *USUAL}
    assert not granted(*GATED) & granted()


@pytest.mark.timeout(240)
def test_every_right_of_a_feature_is_used_and_no_other_is_needed(plane: ControlPlane, tmp_path: Path) -> None:
    settings = {
        "kubeconfig": str(kubeconfig(plane, tmp_path)),
        "leader-election-namespace": NAMESPACE,
        "feature-gates": "CapacityBuffer=true,NodeOverlay=true",
        "early-placement": "true",
    }
    with Product(plane, tmp_path / "logs", kubelets=("--ready-delay", "4s"), **settings) as product:
        product.apply("---".join((POOL, NODE_CLASS, _OVERLAY, _WORKLOADS, deployment("web", 2))))
        references = {
            "by-template": "podTemplateRef: {name: room}",
            "by-deployment": "scalableRef: {apiGroup: apps, kind: Deployment, name: web}",
            "by-replicaset": "scalableRef: {apiGroup: apps, kind: ReplicaSet, name: set}",
            "by-statefulset": "scalableRef: {apiGroup: apps, kind: StatefulSet, name: state}",
        }
        for name, reference in references.items():
            product.apply(_buffer(name, reference))

        wait_for(lambda: running(product, "web") == 2, "the pods run", 90)
        for name in references:
            wait_for(partial(conditions, product, "capacitybuffer", name), f"{name} is judged")
        wait_for(lambda: conditions(product, "nodeoverlay", "cheaper"), "the overlay is judged")

        refused = [call for call in calls(plane.audit_log) if call.code == 403]
        assert refused == []
        assert sorted(granted(*GATED) - used(plane.audit_log)) == [], "granted and never used"
        assert not [line for line in product.messages() if "forbidden" in line.lower()]
