# SPDX-License-Identifier: Apache-2.0
"""Nodes that nobody needs go by themselves: the second half of people's notes, on both control planes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product, wait_for
from tests.e2e.scenarios import (
    PLANES,
    manifest,
    node_types,
    nodes_labelled,
    plane_named,
    scale,
    wait_until_ready,
)
from tests.e2e.test_walkthroughs import _make_profile

pytestmark = pytest.mark.timeout(1200)


def _types(product: Product) -> list[str]:
    return sorted(node_types(nodes_labelled(product, "type=karpenter")))


def _disruptions(product: Product) -> list[dict[str, Any]]:
    return [line for line in product.log() if line.get("message") == "disrupting node(s)"]


@pytest.mark.parametrize("name", PLANES)
def test_inflate_shrinks_from_twelve_to_nothing(name: str, tmp_path: Path) -> None:
    with (
        plane_named(name, tmp_path / "plane") as plane,
        Product(plane, tmp_path / "product") as product,
    ):
        product.apply(manifest("w1"))
        product.apply(manifest("inflate"))
        wait_until_ready(product, "ec2nodeclass/default", "nodepool/default")
        scale(product, 5)
        scale(product, 12)
        assert _types(product) == ["m5.large", "m5.large"]

        scale(product, 5)
        wait_for(lambda: _types(product) == ["m5.large"], "one of the two nodes is deleted", 240)
        told = _disruptions(product)[-1]
        assert told["reason"].lower() in {"empty", "underutilized"}
        assert told["decision"] == "delete"
        assert any("saving" in key for key in told), told

        [old] = nodes_labelled(product, "type=karpenter")
        scale(product, 1)
        _is_replaced_before_it_is_drained(product, old["metadata"]["name"])
        told = _disruptions(product)[-1]
        assert told["decision"] == "replace"

        scale(product, 0)
        wait_for(lambda: _types(product) == [], "the empty node goes", 240)
        wait_for(lambda: not product.instances(), "no instance is left in the account", 120)
        # The claim goes once EC2 says that its instance is gone, a moment later.
        wait_for(lambda: not product.get("nodeclaims"), "no claim is left", 60)


def _is_replaced_before_it_is_drained(product: Product, old: str) -> None:
    """The replacement is ready before anything happens to the pods of the old node; then the old one goes."""

    def replaced() -> dict[str, Any] | None:
        nodes = nodes_labelled(product, "type=karpenter")
        alone = len(nodes) == 1 and nodes[0]["metadata"]["name"] != old
        return nodes[0] if alone else None

    new = wait_for(replaced, "the m5.large is replaced", 240)
    assert node_types([new]) == ["c5.large"]
    # By the log and not by looking: between two looks of kubectl everything may have happened.
    lines = [
        (line["message"], (line.get("Node") or {}).get("name"))
        for line in product.log()
        if isinstance(line.get("Node"), dict)
    ]
    assert lines.index(("initialized nodeclaim", new["metadata"]["name"])) < lines.index(
        ("deleted node", old)
    )


@pytest.mark.parametrize("name", PLANES)
def test_an_empty_node_of_an_old_provisioner_goes_after_its_time(name: str, tmp_path: Path) -> None:
    with (
        plane_named(name, tmp_path / "plane") as plane,
        Product(plane, tmp_path / "product", region="ap-northeast-2", cluster_version="1.32") as product,
    ):
        _make_profile(product)
        # The notes say 60 s; ten are enough to see that it waits and then goes.
        product.apply(manifest("w2").replace("ttlSecondsAfterEmpty: 60", "ttlSecondsAfterEmpty: 10"))
        wait_until_ready(product, "provisioner/karpenter-default")
        product.apply(manifest("w2-pod"))
        product.plane.kubectl("wait", "--for=condition=Ready", "pod/work", "--timeout=180s", timeout_s=190)

        product.plane.kubectl("delete", "pod", "work", "--timeout=30s")
        emptied = time.monotonic()
        wait_for(lambda: not product.instances(), "the empty node goes", 240)

        assert time.monotonic() - emptied >= 9
        wait_for(lambda: product.get("nodes") == [], "its Node goes too", 30)


@pytest.mark.parametrize("name", PLANES)
def test_a_node_is_renewed_when_its_time_is_over(name: str, tmp_path: Path) -> None:
    with (
        plane_named(name, tmp_path / "plane") as plane,
        Product(plane, tmp_path / "product") as product,
    ):
        product.apply(manifest("w1").replace("expireAfter: 720h", "expireAfter: 30s"))
        product.apply(manifest("inflate"))
        wait_until_ready(product, "ec2nodeclass/default", "nodepool/default")
        scale(product, 1)
        [first] = nodes_labelled(product, "type=karpenter")

        def renewed() -> bool:
            names = [node["metadata"]["name"] for node in nodes_labelled(product, "type=karpenter")]
            return bool(names) and first["metadata"]["name"] not in names

        wait_for(renewed, "another node stands in its place", 240)
