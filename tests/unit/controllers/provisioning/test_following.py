# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from karpenter.api import labels as names
from karpenter.controllers.provisioning.following import Follower
from karpenter.kit.clock import FakeClock
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from karpenter.observe import Metrics
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node, pod


class Scene:
    """A node of ours, one that is not, and somebody who compares."""

    def __init__(self) -> None:
        self.client, self.cluster = paper_cluster(FakeClock())
        self.metrics = Metrics()
        self.follower = Follower(self.cluster, self.metrics)
        self.client.store(
            NODES, node("ip-1", labels={names.NODEPOOL: "default"}, provider_id="aws:///us-west-2a/i-1")
        )
        self.client.store(NODE_CLAIMS, claim("default-1", provider_id="aws:///us-west-2a/i-1"))
        self.client.store(NODES, node("other"))

    def pod(self, name: str, on: str = "") -> Any:
        """A pod, bound or not."""
        self.client.store(PODS, pod(name, on))
        found = self.cluster.informers.pods.get(name, "shop")
        assert found is not None
        return found

    def count(self, outcome: str) -> float:
        """How many pods ended so."""
        value: float = self.metrics.placements.labels(outcome)._value.get()
        return value


def test_a_pod_on_the_node_of_its_claim_is_where_it_was_planned() -> None:
    scene = Scene()
    scene.follower.planned([scene.pod("a"), scene.pod("b")], "default-1")

    scene.follower.bound(scene.pod("a", on="ip-1"))
    scene.follower.bound(scene.pod("b", on="other"))

    assert (scene.count("planned"), scene.count("elsewhere")) == (1, 1)
    assert scene.follower.share == 0.5


def test_a_pod_planned_onto_a_node_that_is_not_ours_is_known_by_the_nodes_name() -> None:
    scene = Scene()
    scene.follower.planned([scene.pod("a")], "other")

    scene.follower.bound(scene.pod("a", on="other"))

    assert scene.count("planned") == 1


def test_each_pod_counts_once_and_only_if_it_was_planned() -> None:
    scene = Scene()
    scene.follower.planned([scene.pod("a")], "other")
    scene.follower.planned([scene.pod("a")], "default-1")

    scene.follower.bound(scene.pod("a", on="ip-1"))
    scene.follower.bound(scene.pod("a", on="ip-1"))
    scene.follower.bound(scene.pod("stranger", on="ip-1"))

    assert (scene.count("planned"), scene.count("elsewhere")) == (1, 0)


def test_a_pod_that_goes_before_it_is_bound_does_not_count() -> None:
    scene = Scene()
    scene.follower.planned([scene.pod("a")], "default-1")

    scene.follower.gone(scene.pod("a"))
    scene.follower.bound(scene.pod("a", on="other"))

    assert (scene.count("planned"), scene.count("elsewhere")) == (0, 0)
    assert scene.follower.share == 1.0


def test_a_pod_that_is_bound_already_is_not_followed() -> None:
    scene = Scene()

    scene.follower.planned([scene.pod("a", on="other")], "default-1")
    scene.follower.bound(scene.pod("a", on="other"))

    assert scene.count("elsewhere") == 0
