# SPDX-License-Identifier: Apache-2.0
"""What a user hears when a pool makes no node, or a node is not what it seems, on the real control plane."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for
from tests.e2e.scenes import conditions, deployment, events, running, tell_model, working

CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
_TIMEOUT_S = 8


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One product; machines join late enough for a Node to be forged, and nodes of the pool unready never get ready."""
    directory = tmp_path_factory.mktemp("told")
    rules = directory / "behaviour.yaml"
    rules.write_text("- {match: {nodepool: unready}, kubelet: joins-not-ready}\n", encoding="utf-8")
    kubelets = ("--join-delay=5s", f"--behaviour={rules}")
    settings = {"initialization-timeout": f"{_TIMEOUT_S}s"}
    with ControlPlane() as plane, working(plane, directory, kubelets=kubelets, **settings) as found:
        yield found


def make_pool(product: Product, name: str, *requirements: dict[str, Any], **spec: Any) -> None:
    """A pool whose nodes are told apart by their label type."""
    template = {"requirements": list(requirements), "nodeClassRef": spec.pop("ref", CLASS)}
    whole = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {"labels": {"type": name}}, "spec": template}, **spec},
    }
    product.apply(json.dumps(whole))


def wait(product: Product, name: str) -> None:
    """Let a pod wait for a node of a pool."""
    product.apply(deployment(name, 1, selector=f"{{type: {name}}}"))


def heard(product: Product, app: str, words: str) -> str:
    """What the pods of an app are told, once the words are among it."""

    def found() -> str:
        names = [pod["metadata"]["name"] for pod in product.get("pods", "-l", f"app={app}")]
        told = [each for name in names for each in events(product, "FailedScheduling", name)]
        return next((each for each in told if words in each), "")

    return str(wait_for(found, f"the pod of {app} hears {words!r}", 90))


def is_unready(product: Product, name: str, kind: str, words: str) -> None:
    """Wait until a pool is not Ready and a condition says why."""

    def found() -> bool:
        known = conditions(product, "nodepool", name)
        return known.get("Ready", {}).get("status") == "False" and words in known[kind]["message"]

    wait_for(found, f"pool {name} is not Ready: {words}", 60)


BROKEN = {
    "arch": (
        [{"key": "kubernetes.io/arch", "operator": "In", "values": ["x86_64"]}],
        {},
        "did you mean amd64?",
    ),
    "zone": (
        [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}],
        {},
        "the node class has subnets in us-west-2a, us-west-2b",
    ),
    "family": (
        [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c", "t", "m"]}],
        {},
        "did you mean karpenter.k8s.aws/instance-category",
    ),
    "negative": ([], {"limits": {"cpu": "-5"}}, "spec.limits[cpu]: -5 is negative"),
    "kind": ([], {"ref": {**CLASS, "kind": "NodeTemplate"}}, "did you mean EC2NodeClass.karpenter.k8s.aws?"),
}


@pytest.mark.timeout(180)
def test_a_pool_that_can_never_make_a_node_is_not_ready_and_its_pod_hears_what_was_meant(
    product: Product,
) -> None:
    for name, (requirements, spec, _) in BROKEN.items():
        make_pool(product, name, *requirements, **spec)
        wait(product, name)

    for name, (_, _, words) in BROKEN.items():
        is_unready(product, name, "NodeClassReady" if name == "kind" else "ValidationSucceeded", words)
        assert f"NodePool {name} makes no node: " in heard(product, name, words)
        product.plane.kubectl("delete", "deployment", name)
        product.plane.kubectl("delete", "nodepool", name)
    assert product.ready("nodepool", "default")


@pytest.mark.timeout(180)
def test_a_forged_node_is_refused_and_the_true_one_registers(product: Product) -> None:
    make_pool(product, "forged")
    wait(product, "forged")

    def launched() -> str:
        found = product.get("nodeclaims", "-l", "karpenter.sh/nodepool=forged")
        return next((each.get("status", {}).get("providerID", "") for each in found), "")

    provider_id = wait_for(launched, "the claim is launched", 60)
    forged = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "evil"},
        "spec": {
            "providerID": provider_id,
            "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
        },
    }
    product.plane.kubectl("create", "-f", "-", input=json.dumps(forged))

    said = wait_for(lambda: events(product, "NodeRefused", "evil"), "the Node has an event", 60)
    [claim] = product.get("nodeclaims", "-l", "karpenter.sh/nodepool=forged")
    assert said == events(product, "NodeRefused", claim["metadata"]["name"])
    assert "EC2 calls the instance" in said[0]
    wait_for(lambda: running(product, "forged") == 1, "the pod runs on the true node", 90)
    [evil] = product.get("node", "evil")
    assert "finalizers" not in evil["metadata"]
    assert not [key for key in evil["metadata"].get("labels", {}) if "karpenter" in key]
    assert {each["key"] for each in evil["spec"]["taints"]} >= {"karpenter.sh/unregistered"}
    product.plane.kubectl("delete", "node", "evil")
    product.plane.kubectl("delete", "deployment", "forged")
    product.plane.kubectl("delete", "nodepool", "forged", "--wait=false")


POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-claims}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [karpenter.sh], apiVersions: ["*"], operations: [CREATE], resources: [nodeclaims]}
  validations: [{expression: "false", message: nobody may make nodes on a Friday}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-claims}
spec: {policyName: no-claims, validationActions: [Deny]}
"""


@pytest.mark.timeout(180)
def test_a_policy_that_refuses_claims_is_told_on_the_pool_and_on_the_pod(product: Product) -> None:
    make_pool(product, "webhook")
    product.apply(POLICY)
    probe = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "probe"},
        "spec": {"requirements": [], "nodeClassRef": CLASS},
    }

    def refuses() -> bool:
        dry = ("create", "--dry-run=server", "-f", "-")
        return product.plane.kubectl(*dry, input=json.dumps(probe), check=False).returncode != 0

    wait_for(refuses, "the policy is in force", 60)
    wait(product, "webhook")

    words = "nobody may make nodes on a Friday"
    assert heard(product, "webhook", words).startswith(
        "NodePool webhook makes no node: the API server does not take its NodeClaim: "
    )
    assert words in events(product, "NodeClaimNotCreated", "webhook")[0]
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        product.plane.kubectl("delete", kind, "no-claims")
    wait_for(lambda: running(product, "webhook") == 1, "the pod runs when it is gone", 90)
    product.plane.kubectl("delete", "deployment", "webhook")
    product.plane.kubectl("delete", "nodepool", "webhook", "--wait=false")


@pytest.mark.timeout(240)
def test_an_outage_of_ec2_is_told_on_claim_pool_and_pod_and_is_over_when_it_is(product: Product) -> None:
    make_pool(product, "outage")
    fault = {"service": "ec2", "operation": "CreateFleet", "code": "InternalError"}
    tell_model(product, "fault", fault)
    wait(product, "outage")

    said = heard(product, "outage", "is not launched")

    assert said.startswith("NodePool outage makes no node: NodeClaim outage-")
    [claim] = product.get("nodeclaims", "-l", "karpenter.sh/nodepool=outage")
    for name in ("outage", claim["metadata"]["name"]):
        assert said.endswith(events(product, "LaunchFailed", name)[0])
    tell_model(product, "clearFaults", {})
    wait_for(lambda: running(product, "outage") == 1, "the pod runs when it is over", 120)
    product.plane.kubectl("delete", "deployment", "outage")
    product.plane.kubectl("delete", "nodepool", "outage", "--wait=false")


@pytest.mark.timeout(300)
def test_one_pod_gets_three_nodes_that_never_become_ready_and_then_its_pool_pauses(product: Product) -> None:
    make_pool(product, "unready")
    wait(product, "unready")

    [said] = wait_for(
        lambda: events(product, "NodeNotInitialized", "unready")[:1], "the pool has an event", 90
    )
    assert "is not ready for work: the kubelet of ip-" in said
    wait_for(lambda: events(product, "LaunchesPaused", "unready"), "the pool pauses", 150)

    is_unready(product, "unready", "ValidationSucceeded", "nodes fail in a row (NodeNotInitialized)")
    assert "none is made until" in heard(product, "unready", "NodePool unready makes no node: nodes fail")
    wait_for(
        lambda: not product.get("nodeclaims", "-l", "karpenter.sh/nodepool=unready"), "its nodes go", 120
    )
    made = [
        line
        for line in product.log()
        if line["message"] == "created nodeclaim" and line["NodePool"]["name"] == "unready"
    ]
    assert len(made) == 3
    product.plane.kubectl("delete", "deployment", "unready")
