# SPDX-License-Identifier: Apache-2.0
"""What several end-to-end tests begin with: a pool and a node class that work, a workload, and words with the model."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for

__all__ = [
    "NODE_CLASS",
    "OLD_KINDS",
    "POOL",
    "conditions",
    "deployment",
    "events",
    "figure",
    "look_at_model",
    "running",
    "tell_model",
    "working",
]

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
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: Never}
"""

# As people have them in their notes, for a cluster called prod; and a pod that waits for their node.
OLD_KINDS = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec:
  labels: {type: karpenter}
  requirements:
    - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
    - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
  consolidation: {enabled: true}
  providerRef: {name: default}
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: default}
spec:
  subnetSelector: {karpenter.sh/discovery: prod}
  securityGroupSelector: {karpenter.sh/discovery: prod}
---
apiVersion: v1
kind: Pod
metadata: {name: waiting, namespace: default}
spec:
  nodeSelector: {type: karpenter}
  terminationGracePeriodSeconds: 0
  containers: [{name: pause, image: pause, resources: {requests: {cpu: 100m}}}]
"""

NODE_CLASS = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: KarpenterNodeRole-sandbox
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
"""


def deployment(
    name: str,
    replicas: int = 0,
    *,
    requests: str = "{cpu: 500m}",
    alone: bool = False,
    selector: str = "{type: karpenter}",
    more: str = "",
) -> str:
    """A Deployment in namespace default; ``alone`` keeps its pods on a node each, ``more`` goes into the pod's spec."""
    apart = (
        "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        f"[{{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: {name}}}}}}}]}}}}"
        if alone
        else ""
    )
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      nodeSelector: {selector}
      terminationGracePeriodSeconds: 0
      {apart}
      {more}
      containers:
      - {{name: main, image: registry.k8s.io/pause:3.10, resources: {{requests: {requests}}}}}
"""


@contextmanager
def working(
    plane: ControlPlane, directory: Path, *, kubelets: Sequence[str] = (), **settings: str
) -> Iterator[Product]:
    """The product at work on a control plane, with the pool above, ready."""
    with Product(plane, directory, kubelets=kubelets, **settings) as product:
        product.apply(POOL + "---" + NODE_CLASS)
        wait_for(lambda: product.ready("nodepool", "default"), "the pool is ready")
        yield product


def figure(text: str) -> None:
    """Say what was measured; pytest shows it with -s or -rP."""
    sys.stderr.write(f"\n{text}\n")


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


def look_at_model(product: Product, view: str) -> Any:
    """What the EC2 model shows of itself."""
    with urllib.request.urlopen(f"{product.endpoint}/_model/{view}", timeout=10) as reply:  # noqa: S310 - loopback
        return json.load(reply)


def events(product: Product, reason: str, about: str = "") -> list[str]:
    """The messages of our events, about one object if it is named."""
    fields = f"reason={reason}" + (f",involvedObject.name={about}" if about else "")
    found = product.get("events", "-A", "--field-selector", fields)
    return [str(each["message"]) for each in found if each.get("reportingComponent") == "karpenter"]


def conditions(product: Product, kind: str, name: str) -> dict[str, dict[str, Any]]:
    """The conditions of an object by type."""
    [found] = product.get(kind, name)
    return {each["type"]: each for each in found.get("status", {}).get("conditions", [])}


def running(product: Product, app: str) -> int:
    """How many pods of an app run."""
    pods = product.get("pods", "-l", f"app={app}")
    return sum(pod["status"].get("phase") == "Running" for pod in pods)
