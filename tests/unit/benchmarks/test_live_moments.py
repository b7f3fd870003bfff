# SPDX-License-Identifier: Apache-2.0
import json
import math
from typing import Any

import pytest
from benchmarks.live.moments import (
    Launch,
    marks,
    node_creations,
    percentile,
    read_audit,
    seconds_of,
    waits,
)
from benchmarks.live.storm import excess
from hypothesis import given
from hypothesis import strategies as st

SCHEDULER = "system:kube-scheduler"


def line(verb: str, resource: str, name: str, second: int, **parts: Any) -> str:
    """One line of an audit log."""
    about = {"resource": resource, "namespace": "default", "name": name}
    if parts.get("subresource"):
        about["subresource"] = parts["subresource"]
    event = {
        "stage": parts.get("stage", "ResponseComplete"),
        "verb": verb,
        "user": {"username": parts.get("user", SCHEDULER)},
        "userAgent": "karpenter",
        "objectRef": about,
        "responseStatus": {"code": parts.get("code", 200)},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{second:02}.250000Z",
        "stageTimestamp": f"2026-01-01T00:00:{second:02}.500000Z",
    }
    return json.dumps(event, separators=(",", ":")) + "\n"


def at(second: float) -> float:
    """A moment of the log."""
    return seconds_of("2026-01-01T00:00:00Z") + second


def test_only_whole_lines_of_answered_requests_about_the_resources_are_read() -> None:
    log = [
        line("create", "pods", "a", 1),
        line("create", "nodes", "n", 2),
        line("get", "leases", "x", 3),
        line("create", "pods", "b", 4, stage="Panic"),
        line("create", "pods", "c", 5).rstrip("\n")[:-5],
    ]

    found = read_audit(log, "pods", "nodes")

    assert [(each.resource, each.name, each.received_at) for each in found] == [
        ("pods", "a", at(1.25)),
        ("nodes", "n", at(2.25)),
    ]


def test_a_pod_is_marked_by_the_schedulers_first_answered_write_to_its_status() -> None:
    log = [
        line("patch", "pods", "a", 1, subresource="status", code=409),
        line("patch", "pods", "a", 2, subresource="status"),
        line("patch", "pods", "a", 3, subresource="status"),
        line("patch", "pods", "b", 4, subresource="status", user="somebody"),
        line("create", "pods", "c", 5, subresource="binding"),
    ]

    assert marks(read_audit(log)) == {"a": at(2.5)}


def test_a_node_is_ordered_when_the_request_for_it_comes_in() -> None:
    log = [
        line("create", "nodes", "n1", 1, code=201),
        line("create", "nodes", "n2", 2, code=409),
        line("patch", "nodes", "n3", 3, subresource="status"),
    ]

    assert node_creations(read_audit(log)) == {"n1": at(1.25)}


def test_the_kth_pod_waits_for_the_kth_place() -> None:
    launches = [Launch(10.0, 1), Launch(4.0, 2)]

    assert waits([1.0, 3.0, 2.0], launches) == [3.0, 2.0, 7.0]


def test_pods_beyond_the_places_wait_for_the_last_launch() -> None:
    assert waits([1.0, 2.0, 3.0], [Launch(2.5, 1), Launch(5.0, 1)]) == [1.5, 3.0, 2.0]
    assert waits([1.0], []) == []


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0, 100))
def test_the_sum_of_waits_is_that_of_places_minus_that_of_marks(marked: list[float], later: float) -> None:
    launches = [Launch(max(marked) + later + number, 1) for number in range(len(marked))]

    assert sum(waits(marked, launches)) == pytest.approx(sum(each.at for each in launches) - sum(marked))


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2), (0.99, 4), (0.25, 1), (0.0, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert percentile([4, 1, 3, 2], share) == expected


def test_of_nothing_there_is_no_percentile() -> None:
    assert math.isnan(percentile([], 0.5))


def test_a_burst_within_the_bucket_passes_no_limit() -> None:
    assert excess([0.0] * 10, rate_per_s=1, burst=10) == 0
    assert excess([0.0] * 12, rate_per_s=1, burst=10) == 2
    assert excess([0.0] * 10 + [5.0] * 5, rate_per_s=1, burst=10) == 0
    assert excess([0.0, 100.0], rate_per_s=1, burst=10) == -9
