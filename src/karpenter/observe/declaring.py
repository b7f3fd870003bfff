# SPDX-License-Identifier: Apache-2.0
"""How a metric is declared: once, with its name, type, labels and help, as an attribute of the class that lists them.

Besides the counters, gauges and histograms of prometheus_client there are two kinds that it lacks. ``Readings`` is a
gauge whose series are given all at once, as they are now: a series goes with the object that it was about.
``Quantiles`` is a summary with quantiles over the last ten minutes, as Karpenter's summaries have them.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, Self, TypeVar, cast, overload

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

__all__ = [
    "DURATION_S",
    "Declared",
    "Detail",
    "Made",
    "Quantiles",
    "Readings",
    "counter",
    "gauge",
    "histogram",
    "readings",
    "summary",
]

# Karpenter's buckets of durations.
DURATION_S: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
    *(120, 150, 300, 450, 600),
)
_Row = TypeVar("_Row", bound=tuple[str, ...])
_QUANTILES: Final = (0.0, 0.5, 0.9, 0.99, 1.0)
_WINDOW_S: Final = 600.0
_MOST_KEPT: Final = 2000


class Detail(StrEnum):
    """Metrics with so many series that they are off unless a user asks for them."""

    NODES = "nodes"
    PODS = "pods"
    INSTANCE_TYPES = "instancetypes"


class Readings(Collector):
    """A gauge whose series are replaced all at once."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._name = name
        self._text = text
        self._labels = tuple(labels)
        self._rows: Mapping[tuple[str, ...], float] = {}

    def replace(self, rows: Mapping[_Row, float]) -> None:
        """Gives the values by label values; series that are not named are gone."""
        self._rows = {tuple(labels): value for labels, value in rows.items()}

    def collect(self) -> Iterator[Metric]:
        """Yields the family."""
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for values, value in self._rows.items():
            family.add_metric(values, value)
        yield family


class _Window:
    """What was observed for one set of labels: number and sum for ever, values for some minutes."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._seen: deque[tuple[float, float]] = deque(maxlen=_MOST_KEPT)
        self.count = 0
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Adds a value."""
        self.count += 1
        self.sum += value
        self._seen.append((self._now(), value))

    def quantiles(self) -> dict[float, float]:
        """Gives the quantiles of the last minutes; no number where nothing was seen in them."""
        oldest = self._now() - _WINDOW_S
        while self._seen and self._seen[0][0] < oldest:
            self._seen.popleft()
        values = sorted(value for _, value in self._seen)
        if not values:
            return dict.fromkeys(_QUANTILES, math.nan)
        return {each: values[max(math.ceil(each * len(values)) - 1, 0)] for each in _QUANTILES}


class Quantiles(Collector):
    """A summary with Karpenter's quantiles: the least, the median, the 90th and 99th percentile and the most."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._text = text
        self._labels = tuple(labels)
        self._now = now
        self._windows: dict[tuple[str, ...], _Window] = {}

    def labels(self, *values: str) -> _Window:
        """Gives what values are observed by."""
        return self._windows.setdefault(values, _Window(self._now))

    def observe(self, value: float) -> None:
        """Adds a value, where there are no labels."""
        self.labels().observe(value)

    def remove_by_labels(self, labels: Mapping[str, str]) -> None:
        """Removes the series that have these labels."""
        wanted = {(self._labels.index(name), value) for name, value in labels.items()}
        for values in tuple(self._windows):
            if wanted <= set(enumerate(values)):
                del self._windows[values]

    def collect(self) -> Iterator[Metric]:
        """Yields the family."""
        family = SummaryMetricFamily(self._name, self._text, labels=self._labels)
        for values, window in tuple(self._windows.items()):
            family.add_metric(values, window.count, window.sum)
            named = dict(zip(self._labels, values, strict=True))
            for quantile, value in window.quantiles().items():
                family.add_sample(self._name, {**named, "quantile": f"{quantile:g}"}, value)
        yield family


class Made(Protocol):
    """Who holds the metrics that were made of declarations, by name."""

    @property
    def made(self) -> Mapping[str, Any]:
        """The metrics by name."""
        ...


_M_co = TypeVar("_M_co", covariant=True)


class Declared(Generic[_M_co]):
    """The declaration of a metric; on an instance of the class that lists it, the metric itself.

    Attributes:
        name: The whole name.
        type: counter, gauge, histogram or summary.
        text: What it measures.
        labels: The names of its labels.
        detail: Which choice of the user switches it on; None if it is always on.
    """

    def __init__(
        self,
        name: str,
        type: str,  # noqa: A002 - Prometheus' word
        text: str,
        labels: Sequence[str],
        make: Callable[[], _M_co],
        detail: Detail | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.text = text
        self.labels = tuple(labels)
        self.detail = detail
        self._make = make

    def make(self, registry: CollectorRegistry | None) -> _M_co:
        """Makes the metric, and has it shown by a registry if one is given."""
        made = self._make()
        if registry is not None:
            registry.register(cast("Collector", made))
        return made

    @overload
    def __get__(self, holder: None, owner: type[Any]) -> Self: ...

    @overload
    def __get__(self, holder: Made, owner: type[Any]) -> _M_co: ...

    def __get__(self, holder: Made | None, owner: type[Any]) -> Self | _M_co:
        if holder is None:
            return self
        return cast("_M_co", holder.made[self.name])


def counter(name: str, text: str, *labels: str) -> Declared[Counter]:
    """Declares a counter; its name ends in ``_total``."""
    return Declared(name, "counter", text, labels, lambda: Counter(name, text, labels, registry=None))


def gauge(name: str, text: str, *labels: str) -> Declared[Gauge]:
    """Declares a gauge that is set series by series."""
    return Declared(name, "gauge", text, labels, lambda: Gauge(name, text, labels, registry=None))


def readings(name: str, text: str, *labels: str, detail: Detail | None = None) -> Declared[Readings]:
    """Declares a gauge whose series are replaced all at once."""
    return Declared(name, "gauge", text, labels, lambda: Readings(name, text, labels), detail)


def histogram(
    name: str, text: str, *labels: str, buckets: Sequence[float] = DURATION_S
) -> Declared[Histogram]:
    """Declares a histogram."""
    return Declared(
        name,
        "histogram",
        text,
        labels,
        lambda: Histogram(name, text, labels, registry=None, buckets=buckets),
    )


def summary(name: str, text: str, *labels: str) -> Declared[Quantiles]:
    """Declares a summary with quantiles."""
    return Declared(name, "summary", text, labels, lambda: Quantiles(name, text, labels))
