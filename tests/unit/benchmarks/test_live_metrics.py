# SPDX-License-Identifier: Apache-2.0
import math

from benchmarks.live.metrics import buckets, counted, quantile, since
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest


def rendered() -> str:
    """What a program shows that has counted a little."""
    registry = CollectorRegistry()
    counter = Counter("shop_sold", "", ("what", "where"), registry=registry)
    counter.labels("apple", "here").inc(2)
    counter.labels("apple", "there").inc(3)
    counter.labels("pear", "here").inc()
    lag = Histogram("shop_lag_seconds", "", registry=registry, buckets=(0.01, 0.1, 1))
    for value in (0.005, 0.005, 0.05, 0.5):
        lag.observe(value)
    return generate_latest(registry).decode()


def test_counters_are_summed_by_one_label() -> None:
    assert counted(rendered(), "shop_sold_total", "what") == {"apple": 5, "pear": 1}
    assert counted(rendered(), "unknown", "what") == {}


def test_a_quantile_is_the_bound_of_its_bucket() -> None:
    found = buckets(rendered(), "shop_lag_seconds")

    assert found == {0.01: 2, 0.1: 3, 1.0: 4, math.inf: 4}
    assert [quantile(found, share) for share in (0.5, 0.75, 0.99)] == [0.01, 0.1, 1.0]


def test_what_was_counted_before_is_left_out() -> None:
    after = {0.1: 10.0, math.inf: 12.0}

    assert since({0.1: 9.0, math.inf: 9.0}, after) == {0.1: 1.0, math.inf: 3.0}
    assert since({}, after) == after
    assert math.isnan(quantile(since(after, after), 0.99))
