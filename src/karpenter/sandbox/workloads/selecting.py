# SPDX-License-Identifier: Apache-2.0
"""Who selects whom by labels, without looking at everybody: indexes of stores, and questions to them.

Objects are found by one label that a selector demands; selectors by one label that they demand. A selector that demands
no label of a certain value is compared with everything in its namespace. What is found is always matched in full.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

from karpenter.sandbox.scheduler.matching import Selector, read_selector
from karpenter.sandbox.workloads.caching import Store
from karpenter.sandbox.workloads.resources import Wire

__all__ = ["index_labels", "index_selectors", "selected", "selectors_of"]

_LABEL: Final = "label"
_SELECTOR: Final = "selector"


def index_labels(store: Store) -> None:
    """Lets a store find objects by their labels."""
    store.index(_LABEL, _label_places)


def index_selectors(store: Store) -> None:
    """Lets a store find objects by what their selector demands."""
    store.index(_SELECTOR, _selector_places)


def selected(store: Store, namespace: str, selector: Selector) -> list[Wire]:
    """Gives the objects of a namespace that a selector selects; their labels must be indexed."""
    if selector.nothing:
        return []
    demanded = _demanded(selector)
    near = store.indexed(_LABEL, (namespace, *demanded)) if demanded else store.in_namespace(namespace)
    return [each for each in near if selector.matches(_labels(each))]


def selectors_of(store: Store, wire: Mapping[str, Any]) -> list[Wire]:
    """Gives the objects of a store whose selector selects an object; their selectors must be indexed."""
    namespace, labels = wire["metadata"].get("namespace", ""), _labels(wire)
    places: list[Hashable] = [(namespace,), *((namespace, *pair) for pair in labels.items())]
    return [
        each
        for place in places
        for each in store.indexed(_SELECTOR, place)
        if read_selector(each["spec"].get("selector")).matches(labels)
    ]


def _label_places(wire: Wire) -> Iterable[Hashable]:
    namespace = wire["metadata"].get("namespace", "")
    return [(namespace, *pair) for pair in _labels(wire).items()]


def _selector_places(wire: Wire) -> Iterable[Hashable]:
    demanded = _demanded(read_selector((wire.get("spec") or {}).get("selector")))
    return [(wire["metadata"].get("namespace", ""), *(demanded or ()))]


def _demanded(selector: Selector) -> tuple[str, str] | None:
    for each in selector.requirements:
        if each.operator == "In" and len(each.values) == 1:
            return each.key, next(iter(each.values))
    return None


def _labels(wire: Mapping[str, Any]) -> Mapping[str, str]:
    return wire["metadata"].get("labels") or {}
