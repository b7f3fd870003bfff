# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from benchmarks.peers.__main__ import FULL_PROBLEMS
from benchmarks.peers.promises import PROMISES, Promise
from benchmarks.peers.sides import Outcome

OURS = Outcome(
    seconds=0.1,
    wall_s=1.0,
    price_per_hour=10.0,
    nodes=5,
    placed_pods=100,
    unschedulable_pods=0,
    max_rss_mib=50,
    lower_bound_per_hour=9.0,
)
GO = replace(OURS, seconds=1.0, price_per_hour=20.0)
BOUND = 8.0


@pytest.mark.parametrize(
    ("kept", "broken", "text"),
    [
        (Promise(least_speedup=10), Promise(least_speedup=11), ">= 11x faster"),
        (Promise(most_seconds=0.1), Promise(most_seconds=0.05), "<= 0.05 s"),
        (Promise(most_price_per_hour=10), Promise(most_price_per_hour=9.9), "<= 9.9 $/h"),
        (Promise(most_of_go_price=0.5), Promise(most_of_go_price=0.4), "<= 0.4 x Go's price"),
        (Promise(most_of_bound=1.25), Promise(most_of_bound=1.2), "<= 1.2 x the bound"),
        (Promise(most_nodes=5), Promise(most_nodes=4), "<= 4 nodes"),
        (Promise(most_rss_mib=50), Promise(most_rss_mib=49), "<= 49 MiB"),
    ],
)
def test_each_limit_may_be_reached_but_not_broken(kept: Promise, broken: Promise, text: str) -> None:
    assert kept.missed(OURS, GO, BOUND) == []
    assert broken.missed(OURS, GO, BOUND) == [text]


def test_what_cannot_be_compared_is_not_missed() -> None:
    promise = Promise(least_speedup=1000, most_of_go_price=0.01, most_of_bound=1.0)

    assert promise.missed(OURS, None, None) == []


def test_a_pod_that_only_the_other_side_places_is_missed() -> None:
    left_one = replace(OURS, placed_pods=99, unschedulable_pods=1)

    assert Promise().missed(left_one, GO, BOUND) == ["all pods placed"]
    assert Promise().missed(left_one, replace(GO, unschedulable_pods=1), BOUND) == []


def test_every_problem_of_the_full_run_has_a_promise() -> None:
    assert set(FULL_PROBLEMS.split(",")) == set(PROMISES)
