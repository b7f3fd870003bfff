# SPDX-License-Identifier: Apache-2.0
"""What users see when something is wrong: with the server, the credentials, the CRDs, or one object among others."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.e2e.controlplane import ControlPlane
from tests.e2e.controlplane.startup import free_port
from tests.e2e.product import Product, wait_for
from tests.e2e.scenes import conditions, deployment, events, running, working

CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def pool(name: str, **changes: Any) -> dict[str, Any]:
    """A NodePool; ``changes`` go into its template's spec."""
    spec = {"requirements": [], "nodeClassRef": CLASS, **changes}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {"labels": {"type": name}}, "spec": spec}},
    }


def started(kubeconfig: Path, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """What a controller does that cannot start."""
    flags = ("--cluster-name=sandbox", "--metrics-port=0", "--health-probe-port=0")
    return subprocess.run(
        [sys.executable, "-m", "karpenter", "controller", *flags, f"--kubeconfig={kubeconfig}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def kubeconfig(path: Path, server: str, ca_file: Path, token: str) -> Path:
    """A kubeconfig with a token."""
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    path.write_text(json.dumps(whole), encoding="utf-8")
    return path


def test_a_server_that_cannot_be_reached_is_named_with_where_its_address_comes_from(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    nowhere = f"https://127.0.0.1:{free_port()}"
    path = kubeconfig(tmp_path / "nowhere", nowhere, control_plane.ca_file, "t")

    ended = started(path)

    assert ended.returncode == 1
    assert f"{nowhere} gave no answer" in ended.stderr
    assert f"the address comes from {path}, context c" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_expired_token_is_told_with_how_to_check_it(control_plane: ControlPlane, tmp_path: Path) -> None:
    token = _expired(control_plane)
    path = kubeconfig(tmp_path / "expired", control_plane.url, control_plane.ca_file, token)

    ended = started(path)

    assert ended.returncode == 1
    assert "Unauthorized" in ended.stderr
    assert "has expired: try `kubectl auth whoami` with it" in ended.stderr


def _expired(plane: ControlPlane) -> str:
    """A token of the default service account that was good until a minute ago."""
    token = plane.kubectl("create", "token", "default").stdout.strip()
    header, claims = (_decoded(part) for part in token.split(".")[:2])
    now = int(time.time())
    claims |= {"iat": now - 7200, "nbf": now - 7200, "exp": now - 60}
    content = f"{_encoded(header)}.{_encoded(claims)}"
    key = serialization.load_pem_private_key(
        (plane.directory / "pki" / "service-account.key").read_bytes(), password=None
    )
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    r, s = decode_dss_signature(key.sign(content.encode(), ec.ECDSA(hashes.SHA256())))
    signature = base64.urlsafe_b64encode(r.to_bytes(32, "big") + s.to_bytes(32, "big")).rstrip(b"=")
    return f"{content}.{signature.decode()}"


def _decoded(part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def _encoded(document: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


def test_missing_crds_are_told_with_the_command_that_installs_them() -> None:
    with ControlPlane() as bare:
        ended = started(bare.kubeconfig)

    assert ended.returncode == 1
    assert "does not serve nodepools.karpenter.sh: our CRDs are not installed" in ended.stderr
    assert "karpenter crds | kubectl apply --server-side -f -" in ended.stderr


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The product with a pool that works, beside which others are broken."""
    with ControlPlane() as plane, working(plane, tmp_path_factory.mktemp("bad-input")) as product:
        yield product


def apply(product: Product, *objects: dict[str, Any]) -> None:
    """Apply objects on the server's side, because the client's copy of a large one would not fit an annotation."""
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    product.plane.kubectl("apply", "--server-side", "-f", "-", input=listed)


def the_rest_runs_on(product: Product, name: str) -> None:
    """See that pods of the pool that works still get their node, and that the controller is the same."""
    product.apply(deployment(name, 1, alone=True))
    wait_for(lambda: running(product, name) == 1, "a pod of the healthy pool runs", 90)
    product.plane.kubectl("delete", "deployment", name)
    assert product.process().poll() is None


def is_told(product: Product, kind: str, name: str, condition: str, reason: str) -> str:
    """Wait for a False condition and a Warning event on an object, and give the words."""

    def found() -> str:
        seen = conditions(product, kind, name).get(condition, {})
        return str(seen["message"]) if (seen.get("status"), seen.get("reason")) == ("False", reason) else ""

    words = str(wait_for(found, f"{kind} {name} says {condition}=False ({reason})", 60))
    said = wait_for(lambda: events(product, reason, name), f"an event {reason} about {name}", 30)
    assert words in said
    return words


def test_a_pool_without_its_node_class_says_what_to_create(product: Product) -> None:
    apply(product, pool("lost", nodeClassRef={**CLASS, "name": "nowhere"}))

    words = is_told(product, "nodepool", "lost", "NodeClassReady", "NodeClassNotFound")

    assert words == "EC2NodeClass nowhere is not there: create it, or correct nodeClassRef.name"
    assert not product.ready("nodepool", "lost")
    the_rest_runs_on(product, "beside-lost")


def test_a_pool_whose_node_class_is_not_ready_says_why(product: Product) -> None:
    [good] = product.get("ec2nodeclass", "default")
    wanted = {"subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "no-such-cluster"}}]}
    bad = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "unready"},
        "spec": {**good["spec"], **wanted},
    }
    apply(product, bad, pool("unready", nodeClassRef={**CLASS, "name": "unready"}))

    said = wait_for(lambda: events(product, "SubnetsNotFound", "unready"), "the class has an event", 60)
    wait_for(
        lambda: conditions(product, "nodepool", "unready").get("NodeClassReady", {}).get("status") == "False",
        "the pool knows",
    )

    assert "spec.subnetSelectorTerms: no subnet matches any term" in said[0]
    assert conditions(product, "ec2nodeclass", "unready")["SubnetsReady"]["reason"] == "SubnetsNotFound"
    assert "SubnetsReady" in conditions(product, "nodepool", "unready")["NodeClassReady"]["message"]
    the_rest_runs_on(product, "beside-unready")


def test_a_pool_whose_node_class_is_being_deleted_says_so(product: Product) -> None:
    [good] = product.get("ec2nodeclass", "default")
    going = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "going", "finalizers": ["example.com/hold"]},
        "spec": good["spec"],
    }
    apply(product, going, pool("going", nodeClassRef={**CLASS, "name": "going"}))
    wait_for(lambda: product.ready("nodepool", "going"), "the pool is ready", 60)

    product.plane.kubectl("delete", "ec2nodeclass", "going", "--wait=false")
    words = is_told(product, "nodepool", "going", "NodeClassReady", "NodeClassTerminating")

    assert words == "EC2NodeClass going is being deleted"
    the_rest_runs_on(product, "beside-going")
    release = '{"metadata": {"finalizers": null}}'
    product.plane.kubectl("patch", "ec2nodeclass", "going", "--type=merge", "-p", release)


def test_a_pool_that_no_type_can_meet_names_the_requirement(product: Product) -> None:
    large = {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["9000"]}
    apply(product, pool("impossible", requirements=[large]))

    words = is_told(product, "nodepool", "impossible", "InstanceTypesFound", "NoCompatibleInstanceTypes")

    assert "no instance type meets karpenter.k8s.aws/instance-cpu" in words
    product.apply(deployment("impossible", 1, selector="{type: impossible}"))
    [said] = wait_for(lambda: _refusals(product, "impossible"), "the pod is told", 60)[:1]
    assert "instance-cpu" in said
    product.plane.kubectl("delete", "deployment", "impossible")
    the_rest_runs_on(product, "beside-impossible")


def _refusals(product: Product, app: str) -> list[str]:
    names = {pod["metadata"]["name"] for pod in product.get("pods", "-l", f"app={app}")}
    return [words for name in names for words in events(product, "FailedScheduling", name)]


def test_a_pool_with_a_thousand_taints_and_a_pod_that_bears_them_hold_up_nobody(product: Product) -> None:
    taints = [{"key": f"example.com/t{n}", "value": "x", "effect": "NoSchedule"} for n in range(1000)]
    apply(product, pool("tainted", taints=taints))

    the_rest_runs_on(product, "beside-tainted")
    tolerant = deployment("tainted", 1, selector="{type: tainted}", more="tolerations: [{operator: Exists}]")
    product.apply(tolerant)
    claim = wait_for(lambda: _claim_of(product, "tainted"), "a node is ordered", 60)

    assert claim
    the_rest_runs_on(product, "beside-tainted-again")
    product.plane.kubectl("delete", "deployment", "tainted")
    product.plane.kubectl("delete", "nodepool", "tainted", "--wait=false")


def _claim_of(product: Product, name: str) -> dict[str, Any] | None:
    found = product.get("nodeclaims", "-l", f"karpenter.sh/nodepool={name}")
    return found[0] if found else None


def test_a_pool_whose_annotations_fill_a_megabyte_is_told_that_no_node_can_carry_them(
    product: Product,
) -> None:
    heavy = pool("heavy")
    heavy["spec"]["template"]["metadata"]["annotations"] = {
        f"example.com/a{n}": "x" * 100_000 for n in range(10)
    }
    apply(product, heavy)

    words = is_told(product, "nodepool", "heavy", "ValidationSucceeded", "NodePoolValidationFailed")

    assert "spec.template.metadata.annotations" in words
    assert "262144" in words
    the_rest_runs_on(product, "beside-heavy")


def test_foreign_nodes_and_pods_of_any_size_hold_up_nobody(product: Product) -> None:
    taints = [{"key": f"example.com/t{n}", "effect": "NoSchedule"} for n in range(1000)]
    weight = {f"example.com/a{n}": "x" * 50_000 for n in range(5)}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "foreign", "annotations": weight},
        "spec": {"taints": taints},
    }
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000000"}}}
    tolerations = [{"key": f"example.com/t{n}", "operator": "Exists"} for n in range(1000)]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hostile", "namespace": "default", "annotations": weight},
        "spec": {
            "containers": [container],
            "tolerations": tolerations,
            "nodeSelector": {"type": "karpenter"},
        },
    }
    apply(product, node, pod)

    [said] = wait_for(lambda: events(product, "FailedScheduling", "hostile"), "the pod is told", 60)

    assert "cpu" in said
    the_rest_runs_on(product, "beside-foreign")
    product.plane.kubectl("delete", "node/foreign", "pod/hostile", "--wait=false")
