# SPDX-License-Identifier: Apache-2.0
"""How many more pods the places of a spread take, as the scheduler would count them."""

from __future__ import annotations

from collections.abc import Iterable

from karpenter.api.core import Pod
from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.controllers.provisioning.levels import Levels, Site, crowds_of, rules_of
from tests.strategies import expression, node_term, pod, pods, spread, taint

A, B, C = "us-east-1a", "us-east-1b", "us-east-1c"
WEB = {"app": "web"}


def site(zone: str, here: Iterable[Pod] = (), **more: str) -> Site:
    """A node of a zone, named after it."""
    return Site(zone, {ZONE: zone, HOSTNAME: zone, **more}, (), crowds_of(here))


def room(owner: Pod, node: str, *sites: Site) -> int:
    """What the owner's spread leaves on a node."""
    [(rule, places)] = rules_of(owner).spreads
    return Levels(lambda: sites).room(rule, places, node)


def owner(**options: object) -> Pod:
    return pod("owner", labels=WEB, topology_spread=[spread(WEB, **options)])  # type: ignore[arg-type]


def test_a_place_takes_as_many_as_keep_it_within_the_skew_of_the_emptiest() -> None:
    sites = (site(A, pods(3, labels=WEB)), site(B, pods(2, labels=WEB)), site(C, pods(4, labels=WEB)))

    assert [room(owner(max_skew=2), zone, *sites) for zone in (A, B, C)] == [1, 2, 0]


def test_only_pods_that_the_spread_selects_and_that_stay_are_counted() -> None:
    others = (
        pod("other", labels={"app": "db"}),
        pod("elsewhere", labels=WEB, namespace="shop"),
        pod("leaving", labels=WEB, terminating=True),
        pod("over", labels=WEB, phase="Succeeded"),
    )

    assert room(owner(), A, site(A, others), site(B)) == 1


def test_with_too_few_places_the_emptiest_counts_as_empty() -> None:
    sites = (site(A, pods(1, labels=WEB)), site(B, pods(1, labels=WEB)))

    assert room(owner(min_domains=2), A, *sites) == 1
    assert room(owner(min_domains=3), A, *sites) == 0


def test_nodes_that_the_owner_cannot_use_are_no_places() -> None:
    chosen = pod(
        "owner",
        labels=WEB,
        topology_spread=[spread(WEB)],
        node_affinity=[node_term(expression("disk", "In", "fast"))],
    )
    sites = (site(A, pods(1, labels=WEB), disk="fast"), site(B))

    assert room(chosen, A, *sites) == 1
    assert room(owner(), A, *sites) == 0


def test_taints_count_where_the_spread_says_so() -> None:
    tainted = site(B)._replace(taints=(taint("team"),))
    sites = (site(A, pods(1, labels=WEB)), tainted)

    assert room(owner(node_taints_policy="Honor"), A, *sites) == 1
    assert room(owner(), A, *sites) == 0


def test_a_node_that_is_no_place_or_unknown_is_taken_for_level() -> None:
    nowhere = Site("nowhere", {}, (), {})

    assert room(owner(max_skew=2), "nowhere", site(A, pods(3, labels=WEB)), nowhere) == 2
    assert room(owner(max_skew=2), "unknown") == 2


def test_nodes_are_looked_at_once_and_only_if_somebody_asks() -> None:
    looks: list[int] = []

    def look() -> list[Site]:
        looks.append(1)
        return [site(A)]

    levels = Levels(look)
    asking = pod(
        "owner", labels=WEB, topology_spread=[spread(WEB), spread(WEB, HOSTNAME), spread({"app": "db"})]
    )
    before = len(looks)
    found = [levels.room(rule, places, A) for rule, places in rules_of(asking).spreads for _ in range(2)]

    assert (before, len(looks)) == (0, 1)
    assert found == [1, 1, 1, 1, 1, 1]
