# SPDX-License-Identifier: Apache-2.0
"""The controller under the chart's roles: everything that they grant is used, and nothing else is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for
from tests.e2e.rights import NAMESPACE, calls, granted, install, kubeconfig, used
from tests.e2e.scenes import NODE_CLASS, POOL, deployment, events, running, tell_model

BRIEF = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: brief}
spec:
  template:
    metadata: {labels: {type: brief}}
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      terminationGracePeriod: 1s
      expireAfter: 60s
"""

STUBBORN = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: stubborn}
spec:
  template:
    metadata: {labels: {type: stubborn}}
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
"""

OLD = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: old}
spec:
  labels: {type: old}
  providerRef: {name: old}
---
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: older}
spec:
  labels: {type: older}
  kubeletConfiguration: {maxPods: 20}
  providerRef: {name: old}
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: old}
spec:
  amiFamily: AL2023
  instanceProfile: KarpenterNodeInstanceProfile-sandbox
  subnetSelector: {karpenter.sh/discovery: sandbox}
  securityGroupSelector: {karpenter.sh/discovery: sandbox}
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane with an audit log, and the chart's roles in it."""
    with ControlPlane(audit=True) as plane:
        install(plane)
        yield plane


@pytest.fixture(scope="module")
def product(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The product, its controller signed in as the chart's ServiceAccount."""
    directory = tmp_path_factory.mktemp("rights")
    settings = {
        "kubeconfig": str(kubeconfig(plane, directory)),
        "leader-election-namespace": NAMESPACE,
        "batch-idle-duration": "500ms",
    }
    with Product(plane, directory, **settings) as product:
        yield product


@pytest.mark.timeout(600)
def test_every_right_that_the_chart_grants_is_used_and_no_other_is_needed(
    product: Product, plane: ControlPlane
) -> None:
    product.apply(f"{POOL}---{NODE_CLASS}---{BRIEF}---{STUBBORN}")
    wait_for(lambda: product.ready("nodepool", "default"), "the pool is ready", 60)

    _a_drain_is_held_up(product)
    _a_launch_is_refused_and_then_granted(product)
    _old_kinds_are_served(product)
    _pods_are_evicted_and_an_instance_is_taken_away(product)
    _a_node_expires_and_its_pod_is_deleted(product)
    wait_for(lambda: _is_counted_up(product), "an event is counted up", 180)

    refused = [call for call in calls(plane.audit_log) if call.code == 403]
    assert refused == []
    assert sorted(granted() - used(plane.audit_log)) == [], "granted and never used"
    assert not [line for line in product.messages() if "forbidden" in line.lower()]


def _a_drain_is_held_up(product: Product) -> None:
    """Begin with a drain that a pod forbids, so that its event is said again two minutes later."""
    protected = deployment("stubborn", 1, selector="{type: stubborn}").replace(
        "labels: {app: stubborn}}\n    spec",
        'labels: {app: stubborn}, annotations: {karpenter.sh/do-not-disrupt: "true"}}\n    spec',
    )
    product.apply(protected)
    wait_for(lambda: running(product, "stubborn") == 1, "the pod runs", 90)
    product.plane.kubectl("delete", "nodeclaims", "-l", "karpenter.sh/nodepool=stubborn", "--wait=false")
    wait_for(lambda: events(product, "FailedDraining"), "the drain is held up", 30)


def _a_launch_is_refused_and_then_granted(product: Product) -> None:
    fault = {"service": "ec2", "operation": "CreateFleet", "code": "UnauthorizedOperation", "times": 1}
    tell_model(product, "fault", fault)
    product.apply(deployment("plain", 3))
    wait_for(lambda: running(product, "plain") == 3, "the pods run", 120)


def _old_kinds_are_served(product: Product) -> None:
    profile = "KarpenterNodeInstanceProfile-sandbox"
    with contextlib.closing(product.aws("iam")) as iam:
        iam.create_instance_profile(InstanceProfileName=profile)
        iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName="KarpenterNodeRole-sandbox")
    product.apply(OLD)
    product.apply(deployment("old", 1, selector="{type: old}"))
    wait_for(lambda: running(product, "old") == 1, "a node of a Provisioner serves", 120)
    wait_for(lambda: len(product.get("ec2nodeclasses")) == 3, "a class for each kubelet configuration", 30)
    change = '{"spec": {"kubeletConfiguration": null}}'
    product.plane.kubectl("patch", "provisioners", "older", "--type=merge", "-p", change)
    wait_for(lambda: len(product.get("ec2nodeclasses")) == 2, "the class that nobody wants is gone", 60)


def _pods_are_evicted_and_an_instance_is_taken_away(product: Product) -> None:
    [first, *_] = product.get("nodes", "-l", "type=karpenter")
    product.plane.kubectl("delete", "node", first["metadata"]["name"], "--timeout=60s", timeout_s=70)
    wait_for(lambda: running(product, "plain") == 3, "the pods run elsewhere", 120)
    [claim, *_] = product.get("nodeclaims", "-l", "karpenter.sh/nodepool=default")
    tell_model(product, "terminate", {"instanceIds": [claim["status"]["providerID"].rpartition("/")[2]]})
    name = claim["metadata"]["name"]
    wait_for(lambda: name not in _names(product, "nodeclaims"), "the claim of a dead instance is gone", 120)
    wait_for(lambda: running(product, "plain") == 3, "the pods run elsewhere again", 120)


def _a_node_expires_and_its_pod_is_deleted(product: Product) -> None:
    protected = deployment("brief", 1, selector="{type: brief}").replace(
        "labels: {app: brief}}\n    spec",
        'labels: {app: brief}, annotations: {karpenter.sh/do-not-disrupt: "true"}}\n    spec',
    )
    product.apply(protected)
    wait_for(lambda: running(product, "brief") == 1, "the pod runs on spot", 120)
    [claim, *_] = product.get("nodeclaims", "-l", "karpenter.sh/nodepool=brief")
    name = claim["metadata"]["name"]
    wait_for(lambda: name not in _names(product, "nodeclaims"), "the node expired", 150)
    wait_for(lambda: running(product, "brief") == 1, "the pod runs on its successor", 120)


def _names(product: Product, kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in product.get(kind)}


def _is_counted_up(product: Product) -> bool:
    found = product.get("events", "-A", "--field-selector", "reason=FailedDraining")
    return any((each.get("count") or 0) > 1 for each in found)


@pytest.mark.parametrize(
    ("role", "verb", "resource", "answer"),
    [
        ("view", "list", "nodepools.karpenter.sh", "yes"),
        ("view", "get", "awsnodetemplates.karpenter.k8s.aws", "yes"),
        ("view", "create", "nodepools.karpenter.sh", "no"),
        ("edit", "list", "nodeclaims.karpenter.sh", "yes"),
        ("edit", "create", "capacitybuffers.autoscaling.x-k8s.io", "yes"),
        ("edit", "create", "ec2nodeclasses.karpenter.k8s.aws", "no"),
        ("admin", "create", "ec2nodeclasses.karpenter.k8s.aws", "yes"),
        ("admin", "delete", "nodeclaims.karpenter.sh", "yes"),
        ("admin", "patch", "nodepools.karpenter.sh/status", "no"),
    ],
)
def test_people_get_the_rights_of_their_role(
    product: Product, plane: ControlPlane, role: str, verb: str, resource: str, answer: str
) -> None:
    del product
    plane.kubectl(
        "create",
        "clusterrolebinding",
        f"{role}-ann",
        f"--clusterrole={role}",
        f"--user={role}-ann",
        check=False,
    )

    # Roles are put together by a controller, in its own time.
    wait_for(lambda: _may(plane, role, "list", "nodepools.karpenter.sh") == "yes", f"{role} is complete", 30)
    assert _may(plane, role, verb, resource) == answer


def _may(plane: ControlPlane, role: str, verb: str, resource: str) -> str:
    what, _, subresource = resource.partition("/")
    more = [f"--subresource={subresource}"] if subresource else []
    found = plane.kubectl("auth", "can-i", verb, what, *more, f"--as={role}-ann", "-A", check=False)
    return found.stdout.strip()
