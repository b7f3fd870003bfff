# SPDX-License-Identifier: Apache-2.0
"""Nodes that nobody needs go by themselves: the second half of people's notes, on both control planes."""

from __future__ import annotations

import contextlib
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

pytestmark = pytest.mark.timeout(600)


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
        wait_for(lambda: _types(product) == ["m5.large"], "one of the two nodes is deleted", 120)
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
        wait_for(lambda: _types(product) == [], "the empty node goes", 120)
        wait_for(lambda: not product.instances(), "no instance is left in the account")
        assert product.get("nodeclaims") == []


def _is_replaced_before_it_is_drained(product: Product, old: str) -> None:
    """The replacement is Ready while the old node still stands; then the old one goes."""
    seen: list[tuple[bool, bool]] = []

    def done() -> bool:
        nodes = {node["metadata"]["name"]: node for node in nodes_labelled(product, "type=karpenter")}
        cheaper = [
            node
            for node in nodes.values()
            if node_types([node]) == ["c5.large"]
            and any(
                each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"]
            )
        ]
        seen.append((bool(cheaper), old in nodes))
        return bool(cheaper) and old not in nodes

    wait_for(done, "the m5.large is replaced by a c5.large", 150)
    assert (True, True) in seen, "the old node went before the replacement was Ready"
    assert (False, False) not in seen


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
        wait_for(lambda: not product.instances(), "the empty node goes", 120)

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

        wait_for(renewed, "another node stands in its place", 150)
        with contextlib.suppress(Exception):
            product.plane.kubectl("scale", "-n", "other", "deploy/inflate", "--replicas=0")
