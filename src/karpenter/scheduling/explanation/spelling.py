# SPDX-License-Identifier: Apache-2.0
"""Guesses what was meant: a mistyped label, value or NodePool name, a family where a type belongs, ``M`` for ``m``.

A guess is offered only where one candidate stands out; a text too long to be a label is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from karpenter.api.core import Pod
from karpenter.api.labels import INSTANCE_TYPE, NODEPOOL, WELL_KNOWN
from karpenter.kit.quantity import SuffixMistake, suffix_mistake
from karpenter.model.catalogue import Catalogue
from karpenter.model.requirements import Requirement
from karpenter.model.spelling import meant_label, meant_value, nearest_label
from karpenter.scheduling.explanation.lists import either

__all__ = ["Meant", "Speller", "misread_requests"]

# The longest label that Kubernetes allows: a prefix of 253, a slash, a name of 63.
_LONGEST_LABEL = 317
# Nobody mistypes more values than this at once, and each costs a look at every value there is.
_MOST_VALUES = 8


@dataclass(frozen=True, slots=True)
class Meant:
    """What was probably meant: another label, or other values; with the words to say so."""

    words: str
    key: str = ""
    values: tuple[tuple[str, str], ...] = ()


class Speller:
    """Knows every label and value that nodes of one cluster could have."""

    def __init__(self, pool_names: Iterable[str], pool_labels: Iterable[str]) -> None:
        self._pool_names = frozenset(pool_names)
        self._labels = WELL_KNOWN.union(pool_labels)

    def label(self, key: str) -> Meant | None:
        """Return the label that a key nobody knows was meant to be."""
        meant = nearest_label(key, self._labels) if len(key) <= _LONGEST_LABEL else ""
        return Meant(f'did you mean "{meant}"?', key=meant) if meant else None

    def values(self, requirement: Requirement, catalogue: Catalogue) -> Meant | None:
        """Return what values were meant to be, where none of them exists."""
        if requirement.complement or not requirement.values:
            return None
        asked = sorted(requirement.values)
        known = self._known(requirement.key, catalogue)
        if not known or not known.isdisjoint(asked):
            return None
        other = meant_label(requirement.key, asked, catalogue.values)
        if other:
            unknown = f"no EC2 type is called {either(asked)}; " if requirement.key == INSTANCE_TYPE else ""
            return Meant(f"{unknown}did you mean {other}?", key=other)
        if len(asked) > _MOST_VALUES:
            return None
        corrected = tuple((value, meant_value(requirement.key, value, known)) for value in asked)
        if not all(better for _, better in corrected):
            return None
        better = either(f'"{value}"' for _, value in corrected)
        return Meant(f"did you mean {better}?", values=corrected)

    def _known(self, key: str, catalogue: Catalogue) -> frozenset[str]:
        return self._pool_names if key == NODEPOOL else frozenset(catalogue.values(key))


def misread_requests(pod: Pod, resource: str) -> Iterator[tuple[tuple[str | int, ...], SuffixMistake]]:
    """Yield the requests for a resource that were hardly meant, each with the way to its field."""
    for kind, containers in (
        ("containers", pod.spec.containers),
        ("initContainers", pod.spec.init_containers),
    ):
        for index, container in enumerate(containers):
            raw = container.resources.requests.get(resource)
            mistake = suffix_mistake(resource, raw) if isinstance(raw, str) else None
            if mistake is not None:
                yield ("spec", kind, index, "resources", "requests", resource), mistake
