# SPDX-License-Identifier: Apache-2.0
"""The metrics of one controller: made from the catalogue, shown in Prometheus' format, removed with their objects.

Every registry is its own, so that two controllers in one process (and two tests) do not meet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, cast

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics, generate_latest

from karpenter.observe.catalogue import Catalogue
from karpenter.observe.declaring import Declared, Detail, Readings

__all__ = ["CONTENT_TYPE", "Metrics", "declarations", "resource_type"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# Go's library has no series that say when a series began, and they would be half as many again.
cast("Callable[[], None]", disable_created_metrics)()


class Metrics(Catalogue):
    """Every metric of the product, by attribute.

    Args:
        registry: Where they are shown; one of their own by default.
        details: Which of the metrics with many series are on.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, details: Collection[Detail] = ()
    ) -> None:
        self.registry = registry or CollectorRegistry()
        self.details = frozenset(details)
        self.made: dict[str, Any] = {}
        for each in declarations():
            shown = each.detail is None or each.detail in self.details
            self.made[each.name] = each.make(self.registry if shown else None)
        ProcessCollector(registry=self.registry)

    def render(self) -> bytes:
        """Gives all of them in Prometheus' text format."""
        return generate_latest(self.registry)

    def forget(self, label: str, value: str) -> None:
        """Removes every series with this label value: the object of that name is gone."""
        for each in declarations():
            made = self.made[each.name]
            # Readings are replaced as a whole, and have no series of what is gone.
            if label in each.labels and not isinstance(made, Readings):
                with contextlib.suppress(KeyError):
                    made.remove_by_labels({label: value})


def declarations() -> Iterator[Declared[Any]]:
    """Yields the declaration of every metric."""
    for owner in Catalogue.__mro__:
        for each in vars(owner).values():
            if isinstance(each, Declared):
                yield each


def resource_type(resource: str) -> str:
    """Gives the label value of a resource, e.g. ``ephemeral_storage``."""
    return resource.lower().replace("-", "_")
