# SPDX-License-Identifier: Apache-2.0
"""Which pods are told their node together, so that none of them keeps another out."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.core import Pod
from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.controllers.provisioning.nominating import nominable
from karpenter.kube import ForbiddenError, NotFoundError
from karpenter.kube.kinds import NODES, PODS
from tests.strategies import pod, pod_term, pods, spread
from tests.unit.controllers.provisioning.test_provisioner import UNSCHEDULABLE, Scene
from tests.unit.state.worlds import node

WEB, DB = {"app": "web"}, {"app": "db"}


def names(found: tuple[Pod, ...]) -> list[str]:
    return [each.metadata.name for each in found]


def test_whom_others_follow_is_nominated_before_the_owner_of_a_spread_that_counts_it() -> None:
    owner = pod("a-owner", labels=WEB, topology_spread=[spread(WEB)], affinity=[pod_term(WEB, HOSTNAME)])
    leader = pod("b-leader", labels=WEB)

    assert names(nominable([owner, leader])) == ["b-leader"]
    assert names(nominable([owner])) == ["a-owner"]


def test_pods_that_follow_each_other_are_in_no_hurry() -> None:
    group = pods(2, labels=WEB, affinity=[pod_term(WEB, HOSTNAME)])
    owner = pod("owner", labels=DB, topology_spread=[spread(DB)])

    assert names(nominable([*group, owner])) == ["owner", "pod-0", "pod-1"]


def test_as_many_are_nominated_as_the_place_of_their_spread_takes_now() -> None:
    web = pods(4, labels=WEB, topology_spread=[spread(WEB, max_skew=2)])

    assert names(nominable(web)) == ["pod-0", "pod-1"]
    assert names(nominable(web, lambda _rule, _places: 3)) == ["pod-0", "pod-1", "pod-2"]
    assert names(nominable(web, lambda _rule, _places: 1)) == ["pod-0"]


def test_an_owner_whose_place_is_ahead_of_others_waits_and_keeps_nobody_waiting() -> None:
    owner = pod("owner", labels=WEB, topology_spread=[spread(WEB)])
    counted = pods(2, labels=WEB)

    assert names(nominable([owner, *counted])) == ["owner"]
    assert names(nominable([owner, *counted], lambda _rule, _places: 0)) == ["pod-0", "pod-1"]


def test_the_oldest_of_equal_pods_is_nominated_first() -> None:
    younger, older = (
        pod(name, labels=WEB, topology_spread=[spread(WEB)], age_s=age_s)
        for name, age_s in (("a", 10), ("b", 20))
    )

    assert names(nominable([younger, older])) == ["b"]


def _web(name: str, *, node: str = "", owns: bool = False) -> dict[str, Any]:
    """A pod of app=web, waiting or bound, perhaps with a hard spread over zones."""
    rule = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": WEB},
    }
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": WEB},
        "spec": {"nodeName": node, "topologySpreadConstraints": [rule] if owns else []},
        "status": {"phase": "Running"} if node else UNSCHEDULABLE,
    }


def _promise(scene: Scene, node: str, *names_: str) -> None:
    scene.cluster.nominations.promise([f"uid-{name}" for name in names_], node, 100)
    scene.provisioner.follower.planned(
        [each for each in scene.cluster.unbound() if each.metadata.name in names_], node
    )


def _two_nodes(scene: Scene) -> None:
    for name, zone in (("n1", "us-west-2a"), ("n2", "us-west-2b")):
        scene.client.store(NODES, node(name, f"aws:///{zone}/i-{name}", labels={ZONE: zone}))


def _nominated(scene: Scene) -> dict[str, str]:
    return {
        each.metadata.name: each.status.nominated_node_name
        for each in scene.cluster.unbound()
        if each.status.nominated_node_name
    }


async def test_who_was_told_too_early_is_told_otherwise_once_the_owner_of_a_spread_may_come() -> None:
    scene = Scene()
    _two_nodes(scene)
    scene.client.store(PODS, _web("standing", node="n1"))
    for name in ("owner", "one", "other"):
        scene.client.store(PODS, _web(name, owns=name == "owner"))
    _promise(scene, "n1", "owner", "one", "other")

    await scene.provisioner.nominator.renew()
    while_ahead = _nominated(scene)
    scene.client.store(PODS, _web("more", node="n2"))
    await scene.provisioner.nominator.renew(("n2",))

    assert while_ahead == {"one": "n1", "other": "n1"}
    assert _nominated(scene) == {"owner": "n1"}


async def test_a_pod_whose_place_an_equal_one_took_is_promised_the_place_of_that_one() -> None:
    scene = Scene()
    _two_nodes(scene)
    for name in ("one", "other"):
        scene.client.store(PODS, _web(name))
    _promise(scene, "n1", "one")
    _promise(scene, "n2", "other")

    scene.client.store(PODS, _web("one", node="n2"))
    await scene.provisioner.nominator.renew()

    assert scene.cluster.nominations.member_of("uid-other") == "n1"
    assert _nominated(scene) == {"other": "n1"}


async def test_nothing_is_traded_for_a_node_that_is_gone_or_with_pods_of_another_kind() -> None:
    scene = Scene()
    _two_nodes(scene)
    for name in ("one", "other", "third"):
        scene.client.store(PODS, _web(name, owns=name == "third"))
    _promise(scene, "gone", "one")
    _promise(scene, "n1", "third")
    _promise(scene, "n2", "other")

    scene.client.store(PODS, _web("one", node="n2"))
    scene.client.store(PODS, _web("third", node="n2", owns=True))

    assert scene.cluster.nominations.member_of("uid-other") == "n2"


async def test_telling_a_pod_otherwise_is_not_mistaken_for_the_scheduler_taking_it_back() -> None:
    scene = Scene()
    _two_nodes(scene)
    scene.client.store(PODS, _web("one"))
    _promise(scene, "n1", "one")
    await scene.provisioner.nominator.renew()
    _promise(scene, "n2", "one")
    taken_back: list[bool] = []
    scene.cluster.informers.pods.on_change(
        lambda change: taken_back.append(scene.provisioner.nominator.was_ours(change))
    )

    await scene.provisioner.nominator.renew()

    assert _nominated(scene) == {"one": "n2"}
    assert taken_back
    assert not any(taken_back)


@pytest.mark.parametrize(
    "trouble",
    [
        NotFoundError("pods one not found", status=404, reason="NotFound"),
        ForbiddenError("pods is forbidden", status=403),
    ],
)
async def test_a_nomination_that_the_server_refuses_is_not_taken_for_ours(trouble: Exception) -> None:
    scene = Scene()
    _two_nodes(scene)
    scene.client.store(PODS, _web("one"))
    _promise(scene, "n1", "one")
    scene.client.fail("patch", "pods", trouble)

    await scene.provisioner.nominator.renew()
    scene.client.store(PODS, _web("one") | {"status": {**UNSCHEDULABLE, "nominatedNodeName": "n1"}})

    [waiting] = scene.cluster.unbound()
    assert not scene.provisioner.nominator.is_ours(waiting)
