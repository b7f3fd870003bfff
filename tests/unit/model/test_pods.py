# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from karpenter.api.core import Pod, PodSpec, PodStatus
from karpenter.api.meta import Condition, ObjectMeta, OwnerReference
from karpenter.model.pods import (
    DoNotDisrupt,
    do_not_disrupt,
    eviction_cost,
    is_active,
    is_critical,
    is_daemon,
    is_mirror,
    is_provisionable,
    is_reschedulable,
    is_terminal,
    is_terminating,
)

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNSCHEDULABLE = Condition(type="PodScheduled", status="False", reason="Unschedulable")
DAEMON_SET = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="d")
NODE = OwnerReference(api_version="v1", kind="Node", name="n")
STATEFUL_SET = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="s")


def pod(
    *owners: OwnerReference, annotations: dict[str, str] | None = None, going: bool = False, **fields: Any
) -> Pod:
    status = {
        name: fields.pop(name)
        for name in ("conditions", "nominated_node_name", "phase", "start_time")
        if name in fields
    }
    metadata = ObjectMeta(
        owner_references=owners, annotations=annotations or {}, deletion_timestamp=START if going else None
    )
    return Pod(metadata=metadata, spec=PodSpec(**fields), status=PodStatus(**status))


def waiting(*owners: OwnerReference, **fields: Any) -> Pod:
    return pod(*owners, **{"conditions": (UNSCHEDULABLE,), **fields})


class TestProvisionable:
    def test_a_pod_that_the_scheduler_could_not_place_waits_for_a_node(self) -> None:
        assert is_provisionable(waiting())

    @pytest.mark.parametrize(
        "other",
        [
            pod(),
            pod(conditions=(Condition(type="PodScheduled", status="False", reason="SchedulingGated"),)),
            pod(conditions=(Condition(type="Ready", status="False", reason="Unschedulable"),)),
            waiting(node_name="n"),
            waiting(nominated_node_name="n"),
            waiting(DAEMON_SET),
            waiting(NODE),
            waiting(annotations={"kubernetes.io/config.mirror": "x"}),
        ],
    )
    def test_no_other_pod_does(self, other: Pod) -> None:
        assert not is_provisionable(other)

    def test_an_owner_of_another_group_that_is_called_daemonset_is_none(self) -> None:
        foreign = OwnerReference(api_version="apps.kruise.io/v1alpha1", kind="DaemonSet", name="d")

        assert is_provisionable(waiting(foreign))


class TestKinds:
    def test_owners_decide_what_a_pod_is(self) -> None:
        assert is_daemon(pod(STATEFUL_SET, DAEMON_SET))
        assert not is_daemon(pod(STATEFUL_SET))
        assert is_mirror(pod(NODE))
        assert is_mirror(pod(annotations={"kubernetes.io/config.mirror": "x"}))
        assert not is_mirror(pod())

    @pytest.mark.parametrize(
        ("name", "expected"),
        [("system-cluster-critical", True), ("system-node-critical", True), ("high", False), ("", False)],
    )
    def test_critical_pods_are_known_by_their_class(self, name: str, *, expected: bool) -> None:
        assert is_critical(pod(priority_class_name=name)) is expected

    @pytest.mark.parametrize(
        ("phase", "over"),
        [("Succeeded", True), ("Failed", True), ("Running", False), ("Pending", False), ("", False)],
    )
    def test_a_pod_is_over_when_it_succeeded_or_failed(self, phase: str, *, over: bool) -> None:
        assert is_terminal(pod(phase=phase)) is over
        assert is_active(pod(phase=phase)) is not over

    def test_a_pod_that_was_asked_to_stop_is_terminating(self) -> None:
        assert is_terminating(pod(going=True))
        assert not is_terminating(pod())
        assert not is_active(pod(going=True))


class TestReschedulable:
    @pytest.mark.parametrize(
        ("candidate", "expected"),
        [
            (pod(phase="Running"), True),
            (pod(phase="Failed"), False),
            (pod(going=True), False),
            (pod(STATEFUL_SET, going=True), True),
            (pod(DAEMON_SET), False),
            (pod(NODE), False),
        ],
    )
    def test_a_pod_needs_another_place_if_it_runs_or_will_come_back(
        self, candidate: Pod, *, expected: bool
    ) -> None:
        assert is_reschedulable(candidate) is expected


class TestDoNotDisrupt:
    def protected(self, text: str, *, age: timedelta | None = timedelta()) -> DoNotDisrupt:
        start = None if age is None else START
        annotated = pod(annotations={"karpenter.sh/do-not-disrupt": text}, start_time=start)
        return do_not_disrupt(annotated, START + (age or timedelta()))

    def test_a_pod_without_the_annotation_is_not_protected(self) -> None:
        assert do_not_disrupt(pod(), START) == DoNotDisrupt()

    def test_true_protects_for_ever(self) -> None:
        assert self.protected("true", age=timedelta(days=400)) == DoNotDisrupt(active=True)

    def test_a_duration_protects_from_the_start_of_the_pod(self) -> None:
        ends = START + timedelta(minutes=90)

        assert self.protected("1h30m", age=timedelta(minutes=89)) == DoNotDisrupt(active=True, until=ends)
        assert self.protected("1h30m", age=timedelta(minutes=90)) == DoNotDisrupt(active=False, until=ends)

    def test_a_pod_that_has_not_started_is_protected(self) -> None:
        assert self.protected("5m", age=None) == DoNotDisrupt(active=True)

    @pytest.mark.parametrize("text", ["false", "True", "5", "", "-5m", "0s", "1d"])
    def test_anything_else_protects_nothing_and_says_why(self, text: str) -> None:
        answer = self.protected(text)

        assert not answer.active
        assert answer.problem.startswith("karpenter.sh/do-not-disrupt: ")
        assert f'"{text}"' in answer.problem


class TestEvictionCost:
    @pytest.mark.parametrize(
        ("deletion_cost", "priority", "cost"),
        [
            (None, None, 1.0),
            (str(2**27), None, 2.0),
            (str(-(2**28)), None, -1.0),
            (None, 2**25, 2.0),
            (str(2**27), 2**25, 3.0),
            ("2147483647", 1_000_000_000, 10.0),
            ("-2147483647", -2_147_483_648, -10.0),
            ("1e3", None, 1 + 1000 / 2**27),
            ("much", None, 1.0),
            ("nan", None, 1.0),
            ("", 0, 1.0),
        ],
    )
    def test_annotation_and_priority_move_the_cost_within_ten(
        self, deletion_cost: str | None, priority: int | None, cost: float
    ) -> None:
        key = "controller.kubernetes.io/pod-deletion-cost"
        annotations = {} if deletion_cost is None else {key: deletion_cost}

        assert eviction_cost(pod(annotations=annotations, priority=priority)) == cost
