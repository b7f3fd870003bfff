# SPDX-License-Identifier: Apache-2.0
"""Why standing nodes did not take a pod, and which offering comes closest."""

from typing import Any

import pytest

from karpenter.api.core import Pod
from karpenter.api.labels import ARCH, CAPACITY_TYPE, HOSTNAME, NODEPOOL, NVIDIA_GPU, ZONE
from karpenter.model.snapshot import NodeView
from karpenter.scheduling import Cause
from karpenter.scheduling.reasons import Constraint
from tests.strategies.clusters import EBS_DRIVER, node, nodepool, storage_class, volume, volume_claim
from tests.strategies.expressions import expression, node_term, pod_term, requirement, spread, taint
from tests.strategies.machines import ZONES, instance_type, small_catalogue
from tests.strategies.pods import host_port, pod
from tests.unit.scheduling.refusals import holding, refusal

A, B, C = ZONES

CLOSED = nodepool(taints=[taint("closed")])
ROOMY = {"cpu": 9000, "memory": 2**34, "pods": 9}


def first_obstacle(asked: Pod, standing: NodeView, **cluster: Any) -> Constraint:
    ((obstacle, number),) = refusal(
        asked, CLOSED, nodes=(standing,), **cluster
    ).explanation.standing.obstacles
    assert number == 1
    return obstacle


CASES: list[tuple[str, Pod, NodeView, dict[str, Any], Constraint]] = [
    ("taint", pod(), node(taints=[taint("a", "b")]), {}, Constraint(Cause.TAINT, "a=b:NoSchedule")),
    ("valueless taint", pod(), node(taints=[taint("a")]), {}, Constraint(Cause.TAINT, "a:NoSchedule")),
    ("label", pod(node_selector={ARCH: "arm64"}), node(), {}, Constraint(Cause.REQUIREMENT, ARCH)),
    (
        "name",
        pod(node_affinity=[node_term(expression(ARCH, "Exists"), name=("In", "other"))]),
        node(),
        {},
        Constraint(Cause.REQUIREMENT, "metadata.name"),
    ),
    (
        "volume",
        pod(claims=["data"]),
        node(zone=B),
        {
            "claims": (volume_claim("data", volume_name="v"),),
            "volumes": (volume("v", zones=[A]),),
        },
        Constraint(Cause.VOLUME_REACH),
    ),
    ("room", pod(cpu="2"), node(), {}, Constraint(Cause.RESOURCES, "cpu")),
    (
        "port",
        pod(ports=[host_port(80)]),
        node(pods=[pod("other", ports=[host_port(80)], cpu="1m")]),
        {},
        Constraint(Cause.HOST_PORT, "*:80/TCP"),
    ),
    (
        "attachments",
        pod(claims=["data"]),
        node(volume_limits={EBS_DRIVER: 0}),
        {"claims": (volume_claim("data"),), "classes": (storage_class("ebs"),)},
        Constraint(Cause.ATTACH_LIMIT, EBS_DRIVER),
    ),
    (
        "follower by host",
        pod(affinity=[pod_term({"app": "db"}, HOSTNAME)]),
        node(),
        {},
        Constraint(Cause.AFFINITY, HOSTNAME),
    ),
    (
        "anti-affinity by host",
        pod(anti_affinity=[pod_term({"app": "db"}, HOSTNAME)]),
        node(pods=[pod("other", labels={"app": "db"}, cpu="1m")]),
        {},
        Constraint(Cause.ANTI_AFFINITY, HOSTNAME),
    ),
    (
        "anti-affinity of another by host",
        pod(labels={"app": "web"}),
        node(pods=[pod("other", cpu="1m", anti_affinity=[pod_term({"app": "web"}, HOSTNAME)])]),
        {},
        Constraint(Cause.ANTI_AFFINITY, HOSTNAME),
    ),
    (
        "follower by zone",
        pod(affinity=[pod_term({"app": "db"})]),
        node(),
        {},
        Constraint(Cause.AFFINITY, ZONE),
    ),
    (
        "follower without a place",
        pod(affinity=[pod_term({"app": "db"}, "rack")]),
        node(),
        {},
        Constraint(Cause.AFFINITY, "rack"),
    ),
    (
        "anti-affinity by zone",
        pod(anti_affinity=[pod_term({"app": "db"})]),
        node(pods=[pod("other", labels={"app": "db"}, cpu="1m")]),
        {},
        Constraint(Cause.ANTI_AFFINITY, ZONE),
    ),
    (
        "anti-affinity of another by zone",
        pod(labels={"app": "web"}),
        node(pods=[pod("other", cpu="1m", anti_affinity=[pod_term({"app": "web"})])]),
        {},
        Constraint(Cause.ANTI_AFFINITY, ZONE),
    ),
]


@pytest.mark.parametrize(
    ("asked", "standing", "cluster", "obstacle"),
    [each[1:] for each in CASES],
    ids=[each[0] for each in CASES],
)
def test_the_first_thing_that_a_node_lacks_is_told(
    asked: Pod, standing: NodeView, cluster: dict[str, Any], obstacle: Constraint
) -> None:
    assert first_obstacle(asked, standing, **cluster) == obstacle


def test_a_full_spread_keeps_a_pod_off_a_node_with_room() -> None:
    asked = pod(labels={"app": "web"}, topology_spread=[spread({"app": "web"})])
    there = node("n1", zone=A, pods=[pod("other", labels={"app": "web"}, cpu="1m")], allocatable=ROOMY)
    elsewhere = node("n2", zone=B, allocatable={})

    standing = refusal(asked, CLOSED, nodes=(there, elsewhere)).explanation.standing

    assert {constraint for constraint, _ in standing.obstacles} == {
        Constraint(Cause.SPREAD, ZONE),
        Constraint(Cause.RESOURCES, "cpu"),
    }


def test_nodes_that_lack_the_same_are_counted_and_the_most_come_first() -> None:
    nodes = (node("n1", taints=[taint("a")]), holding("n2", A, "web"), holding("n3", B, "web"))

    standing = refusal(pod(), CLOSED, nodes=nodes).explanation.standing

    assert standing.obstacles == (
        (Constraint(Cause.RESOURCES, "cpu"), 2),
        (Constraint(Cause.TAINT, "a:NoSchedule"), 1),
    )


def test_the_nearest_offering_is_the_one_that_fails_least() -> None:
    nearest = refusal(
        pod(requests={NVIDIA_GPU: "2"}, node_selector={ZONE: B}),
        nodepool("plain", requirements=[requirement("karpenter.k8s.aws/instance-family", "In", "m5")]),
        nodepool("tainted", taints=[taint("gpu")]),
    ).explanation.nearest

    assert nearest is not None
    assert (nearest.pool, nearest.instance_type, nearest.zone) == ("plain", "m5.large", B)
    assert nearest.fits == ("cpu", "memory", "zone")
    assert nearest.misses == (Constraint(Cause.RESOURCES, NVIDIA_GPU, "2", ""),)


def test_of_types_that_are_too_small_the_largest_is_nearest_in_whatever_pool() -> None:
    nearest = refusal(
        pod(cpu="9"),
        nodepool("a", requirements=[requirement("node.kubernetes.io/instance-type", "In", "m5.large")]),
        nodepool("b", requirements=[requirement("node.kubernetes.io/instance-type", "In", "m5.xlarge")]),
    ).explanation.nearest

    assert nearest is not None
    assert (nearest.pool, nearest.instance_type) == ("b", "m5.xlarge")


def test_a_type_that_is_too_small_is_nearer_than_one_of_another_kind() -> None:
    types = (instance_type("m5.large", cpu=2), instance_type("m6g.metal", cpu=64, arch="arm64"))

    nearest = refusal(pod(cpu="4", node_selector={ARCH: "amd64"}), types=types).explanation.nearest

    assert nearest is not None
    assert nearest.instance_type == "m5.large"


def test_volumes_that_are_in_reach_are_something_that_fits() -> None:
    nearest = refusal(
        pod(cpu="9", claims=["data"]),
        claims=(volume_claim("data", volume_name="v"),),
        volumes=(volume("v", zones=[A]),),
    ).explanation.nearest

    assert nearest is not None
    assert nearest.fits == ("memory", "zone")


def test_nothing_is_near_to_a_pod_that_everything_fails() -> None:
    labels = {f"example.com/l{number}": "x" for number in range(9)}

    assert refusal(pod(node_selector=labels)).explanation.nearest is None


def test_what_is_asked_of_the_pool_is_something_that_fits_too() -> None:
    asked = pod(cpu="9", memory=None, node_selector={NODEPOOL: "default", CAPACITY_TYPE: "spot"})

    nearest = refusal(asked, types=small_catalogue()).explanation.nearest

    assert nearest is not None
    assert nearest.fits == ("capacity-type", "nodepool")
    assert nearest.capacity_type == "spot"
