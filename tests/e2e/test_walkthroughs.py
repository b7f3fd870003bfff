# SPDX-License-Identifier: Apache-2.0
"""What people's notes do, word for word, with the real kubectl on a real control plane and the EC2 model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for

W1 = """
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: default}
spec:
  template:
    metadata: {labels: {type: karpenter}}
    spec:
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [c5.large, m5.large, r5.large, m5.xlarge]}
      nodeClassRef: {name: default}
  limits: {cpu: "1000", memory: 1000Gi}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 720h}
---
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiFamily: AL2023
  role: KarpenterNodeRole-sandbox
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  tags: {team: a}
"""

INFLATE = """
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: inflate, namespace: other}
spec:
  replicas: 0
  selector: {matchLabels: {app: inflate}}
  template:
    metadata: {labels: {app: inflate}}
    spec:
      nodeSelector: {type: karpenter}
      terminationGracePeriodSeconds: 0
      containers:
      - name: inflate
        image: registry.k8s.io/pause:3.10
        resources: {requests: {memory: 1Gi}}
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The product at work on a control plane of its own, with W1's manifests applied and ready."""
    with ControlPlane() as plane, Product(plane, tmp_path_factory.mktemp("product")) as product:
        product.apply(W1)
        product.plane.kubectl("apply", "-f", "-", input=INFLATE)
        wait_for(lambda: product.ready("ec2nodeclass", "default"), "the node class is ready")
        wait_for(lambda: product.ready("nodepool", "default"), "the pool is ready")
        yield product


def scale(product: Product, count: int) -> None:
    """Scale inflate and wait for its rollout, as people do."""
    product.plane.kubectl("scale", "-n", "other", "deploy/inflate", f"--replicas={count}")
    product.plane.kubectl("rollout", "status", "-n", "other", "deploy/inflate", "--timeout=60s", timeout_s=70)


def our_nodes(product: Product) -> list[dict[str, Any]]:
    """The nodes with W1's label, the oldest first."""
    nodes = product.get("nodes", "-l", "type=karpenter")
    return sorted(nodes, key=lambda node: str(node["metadata"]["creationTimestamp"]))


@pytest.mark.timeout(400)
def test_inflate_grows_from_nothing_to_two_m5_large_and_ends_clean(product: Product) -> None:
    scale(product, 5)
    [first] = our_nodes(product)
    assert first["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "m5.large"
    launched = [line for line in product.log() if line["message"] == "launched nodeclaim"]
    assert launched[0]["instance-type"] == "m5.large"

    scale(product, 12)
    nodes = our_nodes(product)
    assert [node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in nodes] == [
        "m5.large"
    ] * 2
    assert first["metadata"]["name"] in {node["metadata"]["name"] for node in nodes}
    assert len(product.instances()) == 2

    _has_the_rows_of_describe_node(nodes[0])
    _claim_and_node_know_each_other(product, nodes[0])
    _instance_carries_its_tags(product)

    _a_deleted_node_is_drained_and_replaced(product, nodes[0]["metadata"]["name"])
    _an_instance_killed_by_hand_is_noticed(product)

    product.plane.kubectl("scale", "-n", "other", "deploy/inflate", "--replicas=0")
    product.plane.kubectl("delete", "nodeclaims", "--all", "--timeout=60s", timeout_s=70)
    wait_for(lambda: not product.instances(), "no instance is left in the account")
    assert product.get("nodes") == []


def _has_the_rows_of_describe_node(node: dict[str, Any]) -> None:
    labels = node["metadata"]["labels"]
    aws = [
        "category",
        "cpu",
        "family",
        "generation",
        "hypervisor",
        "memory",
        "size",
        "encryption-in-transit-supported",
    ]
    wanted = [f"karpenter.k8s.aws/instance-{name}" for name in aws]
    wanted += ["karpenter.sh/capacity-type", "karpenter.sh/initialized", "karpenter.sh/nodepool"]
    wanted += ["kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os"]
    wanted += [
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    ]
    assert [name for name in wanted if name not in labels] == []


def _claim_and_node_know_each_other(product: Product, node: dict[str, Any]) -> None:
    assert node["metadata"]["finalizers"] == ["karpenter.sh/termination"]
    [owner] = node["metadata"]["ownerReferences"]
    [claim] = product.get("nodeclaims", owner["name"])
    assert claim["status"]["providerID"] == node["spec"]["providerID"]
    assert claim["status"]["nodeName"] == node["metadata"]["name"]
    assert claim["metadata"]["ownerReferences"][0]["kind"] == "NodePool"


def _instance_carries_its_tags(product: Product) -> None:
    for instance in product.instances():
        tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
        assert tags["karpenter.sh/nodepool"] == "default"
        assert tags["kubernetes.io/cluster/sandbox"] == "owned"
        assert tags["team"] == "a"

    def are_named() -> bool:
        names = {tag["Value"] for each in product.instances() for tag in each["Tags"] if tag["Key"] == "Name"}
        return names == {node["metadata"]["name"] for node in our_nodes(product)}

    wait_for(are_named, "instances are named after their nodes", 30)


def _a_deleted_node_is_drained_and_replaced(product: Product, name: str) -> None:
    product.plane.kubectl("delete", "node", name, "--timeout=60s", timeout_s=70)
    product.plane.kubectl("rollout", "status", "-n", "other", "deploy/inflate", "--timeout=60s", timeout_s=70)
    assert name not in {node["metadata"]["name"] for node in our_nodes(product)}
    wait_for(lambda: len(product.instances()) == 2, "the instance of the deleted node is gone")
    messages = product.messages()
    assert messages.index("tainted node") < messages.index("deleted node")


def _an_instance_killed_by_hand_is_noticed(product: Product) -> None:
    victim = product.instances()[0]["InstanceId"]
    client = boto3.client(
        "ec2",
        endpoint_url=product.endpoint,
        region_name="us-west-2",
        aws_access_key_id="model",
        aws_secret_access_key="model",
    )
    client.terminate_instances(InstanceIds=[victim])

    def is_gone() -> bool:
        claims = product.get("nodeclaims")
        return all(victim not in claim.get("status", {}).get("providerID", "") for claim in claims)

    wait_for(is_gone, "the claim of the dead instance is gone", 90)
    product.plane.kubectl("rollout", "status", "-n", "other", "deploy/inflate", "--timeout=60s", timeout_s=70)
