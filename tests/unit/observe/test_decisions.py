# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.kit.clock import FakeClock
from karpenter.observe import Decision, DecisionKind, DecisionLog, Metrics


def test_a_decision_keeps_its_reason_and_what_it_saves() -> None:
    clock = FakeClock()
    log = DecisionLog(clock)

    made = log.record(
        DecisionKind.REPLACE,
        "Node/n1",
        "NodeClaim/c1",
        reason="Underutilized",
        message="n1 is replaced by a cheaper one",
        price_before=0.5,
        price_after=0.2,
        pods=3,
    )

    assert made.number == 1
    assert made.at == clock.now()
    assert made.subject == ("Node/n1", "NodeClaim/c1")
    assert made.saving_per_hour == 0.3
    assert made.details == {"pods": 3}


def test_a_decision_without_prices_claims_no_saving() -> None:
    made = DecisionLog(FakeClock()).record(DecisionKind.PLAN, reason="Pods", message="m", price_after=1.0)

    assert made.saving_per_hour is None


def test_the_oldest_are_forgotten_and_the_rest_can_be_asked_for_since_a_number() -> None:
    log = DecisionLog(FakeClock(), kept=2)
    for reason in ("a", "b", "c"):
        log.record(DecisionKind.PLAN, reason=reason, message="m")

    assert len(log) == 2
    assert [each.reason for each in log.since()] == ["b", "c"]
    assert [each.reason for each in log.since(2)] == ["c"]


def test_listeners_hear_at_once_and_a_broken_one_is_dropped() -> None:
    heard: list[str] = []
    log = DecisionLog(FakeClock())

    def broken(_: Decision) -> None:
        raise ValueError

    log.listen(broken)
    leave = log.listen(lambda each: heard.append(each.reason))
    log.record(DecisionKind.PLAN, reason="a", message="m")
    log.record(DecisionKind.PLAN, reason="b", message="m")
    leave()
    leave()
    log.record(DecisionKind.PLAN, reason="c", message="m")

    assert heard == ["a", "b"]


def test_metrics_have_karpenters_names_and_two_registries_do_not_meet() -> None:
    one, two = Metrics(), Metrics()

    one.claims_created.labels(reason="provisioned", nodepool="default", min_values_relaxed="false").inc()

    text = one.render().decode()
    assert (
        'karpenter_nodeclaims_created_total{min_values_relaxed="false",nodepool="default",reason="provisioned"} 1.0'
        in text
    )
    assert "karpenter_scheduler_scheduling_duration_seconds" in text
    assert b'reason="provisioned"' not in two.render()
