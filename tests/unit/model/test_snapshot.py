# SPDX-License-Identifier: Apache-2.0
from karpenter.api.core import Pod, PodSpec
from karpenter.api.labels import HOSTNAME
from karpenter.api.meta import ObjectMeta
from karpenter.model.resources import Resources
from karpenter.model.snapshot import NodeView, Snapshot


def node(name: str, **labels: str) -> NodeView:
    return NodeView(name, labels, Resources({"cpu": 1000}))


def pod(name: str, on: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name), spec=PodSpec(node_name=on))


def test_without_leaves_out_nodes_and_shares_the_rest() -> None:
    snapshot = Snapshot(nodes=(node("a"), node("b")))

    smaller = snapshot.without(["a", "unknown"])

    assert [each.name for each in smaller.nodes] == ["b"]
    assert smaller.nodes[0] is snapshot.nodes[1]
    assert len(snapshot.nodes) == 2


def test_plus_binds_pods_and_shares_the_other_nodes() -> None:
    snapshot = Snapshot(nodes=(node("a"), node("b")))

    fuller = snapshot.plus([pod("x", "a"), pod("y", "a"), pod("z", "nowhere")])

    assert [each.metadata.name for each in fuller.nodes[0].pods] == ["x", "y"]
    assert fuller.nodes[1] is snapshot.nodes[1]
    assert snapshot.nodes[0].pods == ()


def test_the_hostname_is_the_label_or_the_name() -> None:
    assert node("a").hostname == "a"
    assert node("a", **{HOSTNAME: "b"}).hostname == "b"
