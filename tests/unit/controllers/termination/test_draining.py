# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from karpenter.api import labels as names
from karpenter.api.core import Pod
from karpenter.controllers.termination import draining, must_leave

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(name: str, *, owner: str = "", critical: bool = False, **parts: Any) -> Pod:
    """A running pod."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        **parts.pop("metadata", {}),
    }
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o"}]
    spec = {"priorityClassName": "system-node-critical" if critical else "", **parts}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}, Pod)


def test_pods_leave_tier_by_tier_and_critical_daemons_last() -> None:
    pods = [
        pod("app"),
        pod("logs", owner="DaemonSet"),
        pod("dns", critical=True),
        pod("proxy", owner="DaemonSet", critical=True),
    ]
    order = []
    while pods:
        found = draining(pods, NOW)
        order.append([each.metadata.name for each in found.evict])
        pods = [each for each in pods if each not in found.evict]

    assert order == [["app"], ["logs"], ["dns"], ["proxy"]]


def test_a_tier_that_is_ending_holds_up_the_next() -> None:
    ending = pod("app", metadata={"deletionTimestamp": "2026-01-01T12:00:10Z"})

    found = draining([ending, pod("logs", owner="DaemonSet")], NOW)

    assert found.evict == ()
    assert len(found.waiting) == 2
    assert not found.is_done


def test_pods_that_need_not_leave_are_not_waited_for() -> None:
    over = msgspec.structs.replace(
        pod("over"), status=msgspec.convert({"phase": "Succeeded"}, type(pod("x").status))
    )
    mirror = pod("mirror", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})
    tolerant = pod("tolerant", tolerations=[{"key": names.DISRUPTED_TAINT.key, "operator": "Exists"}])
    stuck = pod("stuck", metadata={"deletionTimestamp": "2026-01-01T11:58:00Z"})

    found = draining([over, mirror, tolerant, stuck], NOW)

    assert found.is_done
    assert not any(must_leave(each, NOW) for each in (over, mirror, tolerant, stuck))


def test_a_pod_that_asks_not_to_be_disturbed_is_waited_for_until_the_deadline() -> None:
    shy = pod("shy", metadata={"annotations": {names.DO_NOT_DISRUPT: "true"}})

    patient = draining([shy], NOW)
    late = draining([shy], NOW, NOW + timedelta(seconds=10))

    assert patient.evict == ()
    assert patient.protected == (shy,)
    assert late.force == ((shy, 10),)
    assert late.protected == ()


def test_a_pod_is_forced_when_its_own_grace_no_longer_fits() -> None:
    quick, slow = (
        pod("quick", terminationGracePeriodSeconds=5),
        pod("slow", terminationGracePeriodSeconds=120),
    )

    found = draining([quick, slow, pod("dns", critical=True)], NOW, NOW + timedelta(seconds=60))

    assert [(each.metadata.name, grace) for each, grace in found.force] == [("slow", 60)]
    assert [each.metadata.name for each in found.evict] == ["quick"]


def test_after_the_deadline_everything_goes_with_a_second_of_grace() -> None:
    found = draining([pod("a"), pod("dns", critical=True)], NOW, NOW - timedelta(seconds=30))

    assert [grace for _, grace in found.force] == [1, 1]


def test_a_pod_that_ends_too_late_is_told_again() -> None:
    late = pod("late", metadata={"deletionTimestamp": "2026-01-01T13:00:00Z"})
    soon = pod("soon", metadata={"deletionTimestamp": "2026-01-01T12:00:20Z"})

    found = draining([late, soon], NOW, NOW + timedelta(seconds=60))

    assert [each.metadata.name for each, _ in found.force] == ["late"]
