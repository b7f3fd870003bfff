# SPDX-License-Identifier: Apache-2.0
"""From old manifests to v1 on a real control plane: the old kinds go, and no node, claim or instance is replaced."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for
from tests.e2e.scenarios import manifest, rollout, scale, wait_until_ready

pytestmark = pytest.mark.timeout(400)

_PROFILE = "KarpenterNodeInstanceProfile-sandbox"
_SEOUL = "ap-northeast-2"
_WATCHED_S = 20.0
_OLD = "provisioners,awsnodetemplates"
_OLD_CRDS = ("provisioners.karpenter.sh", "machines.karpenter.sh", "awsnodetemplates.karpenter.k8s.aws")


@dataclass(frozen=True)
class Fleet:
    """Who is there: names with uids, and instances."""

    nodes: dict[str, str]
    claims: dict[str, str]
    pods: dict[str, str]
    pools: dict[str, str]
    classes: dict[str, str]
    instances: frozenset[str]

    def losses(self, later: Fleet) -> list[str]:
        """What of this is not there any more, or another of the same name."""
        both = (
            ("node", self.nodes, later.nodes),
            ("claim", self.claims, later.claims),
            ("pod", self.pods, later.pods),
            ("NodePool", self.pools, later.pools),
            ("EC2NodeClass", self.classes, later.classes),
        )
        lost = [f"{kind} {name}" for kind, old, new in both for name in old if old[name] != new.get(name)]
        return lost + [f"instance {each}" for each in self.instances - later.instances]


@contextlib.contextmanager
def _working(directory: Path, **options: str) -> Iterator[Product]:
    """The product on a control plane of its own, with the instance profile that the old manifests name."""
    with (
        ControlPlane(directory=directory / "plane") as plane,
        Product(plane, directory / "product", **options) as product,
    ):
        with contextlib.closing(product.aws("iam")) as iam:
            iam.create_instance_profile(InstanceProfileName=_PROFILE)
            iam.add_role_to_instance_profile(
                InstanceProfileName=_PROFILE, RoleName="KarpenterNodeRole-sandbox"
            )
        yield product


def test_v1beta1_objects_become_v1_in_place_and_their_node_stays(tmp_path: Path) -> None:
    with _working(tmp_path) as product:
        product.apply(manifest("w1"))
        product.apply(manifest("inflate"))
        wait_until_ready(product, "ec2nodeclass/default", "nodepool/default")
        scale(product, 5)
        before = _fleet(product)
        assert len(before.nodes) == 1

        # The kinds are the same, and so are the objects: there is nothing old to delete.
        product.apply(_converted(manifest("w1")))
        [pool] = product.get("nodepools")
        assert pool["spec"]["template"]["spec"]["nodeClassRef"]["group"] == "karpenter.k8s.aws"

        _stays(product, before)
        scale(product, 12)
        after = _fleet(product)
        assert before.losses(after) == []
        assert len(after.nodes) == 2


def test_the_node_of_the_default_provisioner_outlives_it(tmp_path: Path) -> None:
    # Amazon Linux 2 is not published for Kubernetes 1.33 and newer; the cluster's version is what EKS says.
    with _working(tmp_path, region=_SEOUL, cluster_version="1.32") as product:
        product.apply(manifest("w2"))
        wait_until_ready(product, "provisioner/karpenter-default", "ec2nodeclass/karpenter-default")
        product.apply(manifest("w2-pod"))
        _pod_runs(product, "work")
        before = _fleet(product)
        assert len(before.nodes) == 1

        _move_to_v1(product)

        _stays(product, before)
        product.apply(manifest("w2-pod").replace("name: work, ", "name: more, "))
        _pod_runs(product, "more")
        after = _fleet(product)
        assert before.losses(after) == []
        assert len(after.nodes) == 2


def test_nodes_of_several_provisioners_outlive_them(tmp_path: Path) -> None:
    with _working(tmp_path, cluster_version="1.32") as product:
        product.apply(manifest("w3"))
        wait_until_ready(product, "provisioner/team1", "provisioner/heavy", "provisioner/tainted")
        for each, count in (("plain", 1), ("team1", 2), ("tolerant", 1)):
            product.plane.kubectl("scale", f"deploy/{each}", f"--replicas={count}")
            rollout(product, f"deploy/{each}", "default")
        before = _fleet(product)
        assert len(before.pools) == 3

        _move_to_v1(product)

        _stays(product, before)
        scale(product, 12, "deploy/team1", "default")
        after = _fleet(product)
        assert before.losses(after) == []
        assert len(after.nodes) > len(before.nodes)
        served = {node["metadata"]["labels"]["karpenter.sh/nodepool"] for node in product.get("nodes")}
        assert served == {"team1", "heavy", "tainted"}


def _move_to_v1(product: Product) -> None:
    """Convert what the cluster has, apply it, and delete the old: first the objects, then their kinds."""
    written = product.plane.kubectl("get", _OLD, "-o", "yaml").stdout
    product.apply(_converted(written))
    # Whoever applies the new objects owns them; until the controller has let go, they would go with the old.
    wait_for(lambda: _ownerless(product), "the new objects are let go", 20)
    product.plane.kubectl("delete", _OLD, "--all", "--timeout=30s")
    # Of a kind that nobody has asked for yet the API server reads nothing at first ("storage is (re)initializing"), and
    # then takes its time until it tries to delete the kind again.
    assert product.get("machines") == []
    product.plane.kubectl("delete", "crd", *_OLD_CRDS, "--timeout=120s", timeout_s=150)


def _ownerless(product: Product) -> bool:
    found = product.get("nodepools") + product.get("ec2nodeclasses")
    return not any(each["metadata"].get("ownerReferences") for each in found)


def _converted(manifests: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "karpenter", "convert", "-f", "-"],
        input=manifests,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _pod_runs(product: Product, name: str) -> None:
    product.plane.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=180s", timeout_s=190)


def _stays(product: Product, before: Fleet) -> None:
    """Look again and again: nothing goes, nothing new comes, nobody is on the way out or says that it has drifted."""
    end = time.monotonic() + _WATCHED_S
    while time.monotonic() < end:
        assert _fleet(product) == before
        for each in (*product.get("nodes"), *product.get("nodeclaims"), *product.get("nodepools")):
            assert "deletionTimestamp" not in each["metadata"], each["metadata"]["name"]
            assert not _has_drifted(each), each["metadata"]["name"]
        time.sleep(1)


def _has_drifted(claim: dict[str, Any]) -> bool:
    conditions = claim.get("status", {}).get("conditions", [])
    return any(each["type"] == "Drifted" and each["status"] == "True" for each in conditions)


def _fleet(product: Product) -> Fleet:
    def uids(*what: str) -> dict[str, str]:
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in product.get(*what)}

    return Fleet(
        nodes=uids("nodes"),
        claims=uids("nodeclaims"),
        pods=uids("pods", "-A"),
        pools=uids("nodepools"),
        classes=uids("ec2nodeclasses"),
        instances=frozenset(each["InstanceId"] for each in product.instances()),
    )
