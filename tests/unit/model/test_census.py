# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from typing import Any

import pytest

from karpenter.api.core import Pod
from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.api.meta import OwnerReference
from karpenter.kit.quantity import QuantityError
from karpenter.model.census import NodeCensus
from karpenter.model.resources import Resources
from karpenter.model.selectors import EVERYTHING, NamespaceSelection
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.model.topology import CountGroup, topology_rules
from karpenter.model.volumes import Storage
from tests.strategies.clusters import EBS_DRIVER, volume, volume_claim
from tests.strategies.expressions import pod_term, weighted
from tests.strategies.pods import host_port, pod


def node(name: str, *pods: Pod) -> NodeView:
    return NodeView(name, {HOSTNAME: name}, Resources({"cpu": 4000}), pods=pods)


def app(name: str, label: str, **spec: Any) -> Pod:
    return pod(name, labels={"app": label}, **spec)


def apart(name: str, label: str, **spec: Any) -> Pod:
    return app(name, label, anti_affinity=[pod_term({"app": label}, HOSTNAME)], **spec)


def group_of(label: str) -> CountGroup:
    return topology_rules(apart("owner", label)).affinities[0].group


def counted(snapshot: Snapshot, group: CountGroup) -> dict[str, int]:
    """Where pods of a group are, as whoever decides sees it: nodes of the snapshot alone."""
    there = {id(each) for each in snapshot.nodes}
    return {
        found.name: number
        for census in snapshot.censuses()
        for found, number in census.counted_by(group, snapshot.namespaces)
        if id(found) in there
    }


def test_a_node_that_is_closed_has_no_room_and_the_same_pods_counted_once() -> None:
    open_ = node("a", app("x", "web", cpu="500m"))
    counted = open_.census

    closed = open_.closed()

    assert not closed.allocatable
    assert closed.pods == open_.pods
    assert closed.census is counted
    assert open_.allocatable


def test_a_node_adds_up_what_its_pods_take() -> None:
    census = node("a", app("x", "web", cpu="500m"), app("y", "web", cpu="250m")).census

    assert census.requests["cpu"] == 750
    assert census.requests["pods"] == 2
    assert census.crowds == {("default", (("app", "web"),)): 2}


def test_a_pod_that_is_over_takes_nothing_and_counts_for_nobody() -> None:
    census = NodeCensus([apart("x", "web", phase="Succeeded", ports=[host_port(80)])])

    assert not census.requests
    assert not census.ports
    assert not census.crowds
    assert not census.apart


def test_a_pod_on_its_way_out_takes_its_room_but_does_not_count() -> None:
    census = NodeCensus([apart("x", "web", cpu="1", terminating=True, ports=[host_port(80)])])

    assert census.requests["cpu"] == 1000
    assert census.ports
    assert not census.crowds
    assert not census.apart


def test_owners_are_known_by_their_uid() -> None:
    owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="logs", uid="u1")

    assert NodeCensus([app("x", "logs", owner=owner)]).owners == {"u1"}


def test_claims_are_looked_up_once_in_each_storage() -> None:
    census = NodeCensus([app("x", "web", claims=["data"])])
    storage = Storage.of([volume_claim("data", volume_name="v")], [volume("v")], [])

    assert census.attached(storage).counts() == {EBS_DRIVER: 1}
    assert census.attached(storage) is census.attached(storage)
    assert not census.attached(Storage()).claims


def test_a_node_counts_when_it_is_asked_and_remembers() -> None:
    unreadable = node("a", app("x", "web", cpu="many"))
    readable = node("b", app("y", "web"))

    with pytest.raises(QuantityError):
        _ = unreadable.census
    assert readable.census is readable.census
    assert replace(readable, pods=()).census.crowds == {}


def test_pods_are_found_by_who_counts_them() -> None:
    snapshot = Snapshot(nodes=(node("a", app("x", "web")), node("b", app("y", "db"), app("z", "db"))))
    everybody = CountGroup(ZONE, NamespaceSelection(frozenset({"default"})), EVERYTHING)
    elsewhere = CountGroup(ZONE, NamespaceSelection(frozenset({"other"})), EVERYTHING)

    assert counted(snapshot, group_of("web")) == {"a": 1}
    assert counted(snapshot, group_of("db")) == {"b": 2}
    assert counted(snapshot, group_of("none")) == {}
    assert counted(snapshot, everybody) == {"a": 1, "b": 2}
    assert counted(snapshot, elsewhere) == {}


def test_snapshots_made_from_one_another_share_a_census() -> None:
    snapshot = Snapshot(nodes=(node("a", app("x", "web")), node("b", app("y", "web"))))
    counted(snapshot, group_of("web"))

    smaller = snapshot.without(["a"])

    assert smaller.censuses() == snapshot.censuses()
    assert counted(smaller, group_of("web")) == {"b": 1}


def test_a_node_that_got_more_pods_is_counted_anew_and_the_others_are_not() -> None:
    snapshot = Snapshot(nodes=(node("a", app("x", "web")), node("b", app("y", "web"))))

    fuller = snapshot.plus([app("z", "web", node_name="a")])

    assert len(fuller.censuses()) == 2
    assert counted(fuller, group_of("web")) == {"a": 2, "b": 1}
    assert counted(snapshot, group_of("web")) == {"a": 1, "b": 1}


def test_groups_that_pods_keep_away_from_are_known() -> None:
    snapshot = Snapshot(nodes=(node("a", apart("x", "web"), apart("y", "web")), node("b", app("z", "db"))))
    (census,) = snapshot.censuses()

    assert list(census.groups_apart()) == [group_of("web")]
    assert [(each.name, number) for each, number in census.keeping_apart(group_of("web"))] == [("a", 2)]
    assert list(census.keeping_apart(group_of("db"))) == []


def test_wishes_to_stand_apart_keep_nobody_away() -> None:
    wished = app("x", "web", preferred_anti_affinity=[weighted(pod_term({"app": "web"}, HOSTNAME))])

    assert not NodeCensus([wished]).apart
