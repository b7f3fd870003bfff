# SPDX-License-Identifier: Apache-2.0
"""Our metrics have Karpenter's names, types and labels, as listed from its Go sources."""

from __future__ import annotations

import asyncio
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import karpenter
from karpenter.kit.clock import FakeClock
from karpenter.kit.rounds import LISTENER, Outcome, ended, queue_known
from karpenter.observe import Detail, Lifetimes, Metrics, controller_name, measured, resource_type, solving
from karpenter.observe.catalogue import Catalogue
from karpenter.observe.declaring import Declared, Quantiles
from karpenter.observe.lifetimes import KEPT_S
from karpenter.observe.metrics import declarations

_FACTS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("karpenter_metrics.json").read_text(encoding="utf-8")
)
_OURS = {each.name: each for each in declarations()}


def series(metrics: Metrics) -> set[str]:
    """The series that are shown, without their values."""
    lines = metrics.render().decode().splitlines()
    return {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}


def test_the_list_of_karpenters_metrics_is_whole() -> None:
    assert len(_FACTS) == 72


@pytest.mark.parametrize("name", sorted(_FACTS))
def test_a_metric_of_karpenter_is_there_with_its_type_and_labels(name: str) -> None:
    assert name in _OURS, f"{name} is not declared"
    assert _OURS[name].type == _FACTS[name]["type"]
    assert sorted(_OURS[name].labels) == _FACTS[name]["labels"]


@pytest.mark.parametrize("name", sorted(_FACTS))
def test_a_metric_of_karpenter_is_shown_with_its_type_when_it_is_switched_on(name: str) -> None:
    text = Metrics(details=tuple(Detail)).render().decode()

    assert f"# TYPE {name} {_FACTS[name]['type']}\n" in text


def test_every_metric_is_fed_somewhere() -> None:
    sources = Path(karpenter.__file__).parent
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in sources.rglob("*.py")
        if path.name not in {"catalogue.py", "declaring.py"}
    )
    fed = set(re.findall(r"(?:metrics|_metrics)\.(\w+)", code))
    declared = {
        name
        for owner in Catalogue.__mro__
        for name, each in vars(owner).items()
        if isinstance(each, Declared)
    }

    assert declared - fed == set()


def test_what_has_a_series_for_each_object_is_off_until_it_is_asked_for() -> None:
    asked, unasked = Metrics(details=[Detail.PODS]), Metrics()
    for metrics in (asked, unasked):
        metrics.pod_unbound_seconds.replace({("web", "shop"): 1.0})

    assert 'karpenter_pods_unbound_time_seconds{name="web",namespace="shop"}' in series(asked)
    assert b"karpenter_pods_unbound_time_seconds" not in unasked.render()
    assert b"karpenter_nodes_allocatable" not in asked.render()


def test_readings_have_no_series_of_what_they_were_not_given_again() -> None:
    metrics = Metrics()
    metrics.pool_cost.replace({("a",): 1.0, ("b",): 2.0})
    metrics.pool_cost.replace({("b",): 3.0})

    assert metrics.registry.get_sample_value("karpenter_nodepools_cost_total", {"nodepool": "b"}) == 3.0
    assert metrics.registry.get_sample_value("karpenter_nodepools_cost_total", {"nodepool": "a"}) is None


def test_a_summary_has_the_quantiles_of_the_last_ten_minutes() -> None:
    now = 0.0
    times = Quantiles("took_seconds", "How long.", ["nodepool"], lambda: now)
    for value in range(1, 101):
        times.labels("a").observe(value)

    def quantiles() -> dict[str, float]:
        [family] = times.collect()
        return {each.labels["quantile"]: each.value for each in family.samples if "quantile" in each.labels}

    assert quantiles() == {"0": 1, "0.5": 50, "0.9": 90, "0.99": 99, "1": 100}
    now = 601.0
    assert all(map(math.isnan, quantiles().values()))
    [family] = times.collect()
    assert [each.value for each in family.samples[:2]] == [100, 5050]


def test_there_are_no_series_that_say_when_a_series_began() -> None:
    metrics = Metrics()
    metrics.nodes_drained.labels("a").inc()

    assert not any("_created{" in each and "created_total" not in each for each in series(metrics))


def _use(metrics: Metrics, pool: str) -> None:
    """Count something of a pool in every metric that has series of pools."""
    for each in declarations():
        made = metrics.made[each.name]
        if "nodepool" in each.labels and each.type != "gauge":
            labelled = made.labels(*(pool if label == "nodepool" else "x" for label in each.labels))
            if each.type == "counter":
                labelled.inc()
            else:
                labelled.observe(1.0)


def test_series_go_two_minutes_after_their_pool() -> None:
    metrics = Metrics()
    pools = Lifetimes(metrics, "nodepool")
    _use(metrics, "kept")
    before = series(metrics)
    for pool in ("kept", "gone", ""):
        pools.seen(pool)
    _use(metrics, "gone")

    pools.sweep({"kept"}, 0.0)
    pools.sweep({"kept"}, KEPT_S - 1)
    assert any('nodepool="gone"' in each for each in series(metrics))
    pools.sweep({"kept"}, KEPT_S)

    assert series(metrics) == before


def test_a_pool_that_comes_back_keeps_its_series() -> None:
    metrics = Metrics()
    pools = Lifetimes(metrics, "nodepool")
    metrics.nodes_drained.labels("back").inc()
    pools.seen("back")
    pools.sweep((), 0.0)
    pools.sweep({"back"}, KEPT_S)
    pools.sweep((), KEPT_S + 1)
    pools.sweep((), KEPT_S + 2)

    assert metrics.registry.get_sample_value("karpenter_nodes_drained_total", {"nodepool": "back"}) == 1


def test_many_pools_that_come_and_go_leave_no_more_series_than_there_were() -> None:
    metrics = Metrics()
    pools = Lifetimes(metrics, "nodepool")
    most, now = 0, 0.0
    before = len(series(metrics))
    for number in range(500):
        name = f"pool-{number}"
        pools.seen(name)
        _use(metrics, name)
        pools.sweep({name}, now)
        now += 20.0
        if number % 50 == 0:
            most = max(most, len(series(metrics)))
    for _ in range(8):
        now += 20.0
        pools.sweep((), now)

    assert len(series(metrics)) == before
    # One pool every twenty seconds, each kept for two minutes more.
    assert most < before + 9 * 300


async def test_a_controllers_rounds_and_queues_are_measured_under_its_name() -> None:
    metrics = Metrics()
    said: list[Any] = []

    async def run() -> None:
        said.append(controller_name())
        with queue_known(lambda: 3):
            said.append(metrics.registry.get_sample_value("workqueue_depth", labels))
        ended(2.0, Outcome.SUCCESS)
        ended(1.0, Outcome.ERROR)

    labels = {"name": "node.termination", "controller": "node.termination"}
    await asyncio.ensure_future(measured(metrics, "node.termination", run)())

    value, of = metrics.registry.get_sample_value, {"controller": "node.termination"}
    assert said == ["node.termination", 3]
    assert controller_name() == ""
    assert LISTENER.get() is None
    assert value("workqueue_depth", labels) == 0
    assert value("controller_runtime_reconcile_errors_total", of) == 1
    assert value("controller_runtime_reconcile_total", {**of, "result": "success"}) == 1
    assert value("controller_runtime_reconcile_total", {**of, "result": "requeue_after"}) == 0
    assert value("controller_runtime_reconcile_time_seconds_sum", of) == 3


def test_a_solve_is_shown_while_it_runs_and_measured_afterwards() -> None:
    metrics, clock = Metrics(), FakeClock()
    with solving(metrics, clock, "provisioner", 7):
        clock.tick(2.5)
        shown = {each.partition("{")[0] for each in series(metrics) if "scheduling_id" in each}
        [working] = metrics.unfinished_work_seconds.collect()
        assert [each.value for each in working.samples] == [2.5]

    assert shown == {"karpenter_scheduler_queue_depth", "karpenter_scheduler_unfinished_work_seconds"}
    assert not any("scheduling_id" in each for each in series(metrics))
    name = "karpenter_scheduler_scheduling_duration_seconds_sum"
    assert metrics.registry.get_sample_value(name, {"controller": "provisioner"}) == 2.5


def test_resources_are_named_as_karpenter_names_them() -> None:
    assert resource_type("ephemeral-storage") == "ephemeral_storage"
    assert resource_type("vpc.amazonaws.com/pod-eni") == "vpc.amazonaws.com/pod_eni"
