# SPDX-License-Identifier: Apache-2.0
"""What pods take of a node, added up exactly and rounded up once, at the end, as Kubernetes does.

Whole numbers in the units of a snapshot: thousandths of cpu, whole units of everything else. A resize under way is
not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from karpenter.api.core import Pod
from karpenter.kit.quantity import parse_quantity

__all__ = ["pod_amounts", "sum_amounts"]

_NANO = 10**9
_NANO_PER_MILLI = 10**6


def pod_amounts(pod: Pod) -> dict[str, int]:
    """Give what a pod takes of its node, its place among ``pods`` included."""
    together: dict[str, int] = {}
    for container in pod.spec.containers:
        together = _plus(together, _nano(container.resources.requests))
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for init in pod.spec.init_containers:
        own = _nano(init.resources.requests)
        if init.restart_policy == "Always":
            together = _plus(together, own)
            sidecars = _plus(sidecars, own)
            most = _most(most, sidecars)
        else:
            most = _most(most, _plus(sidecars, own))
    needed = _most(together, most)
    if pod.spec.resources is not None:
        for name, amount in _nano(pod.spec.resources.requests).items():
            if name in ("cpu", "memory") or name.startswith("hugepages-"):
                needed[name] = amount
    needed = _plus(needed, _nano(pod.spec.overhead))
    rounded = {
        name: -(-amount // (_NANO_PER_MILLI if name == "cpu" else _NANO)) for name, amount in needed.items()
    }
    return {name: amount for name, amount in rounded.items() if amount} | {"pods": 1}


def sum_amounts(pods: Iterable[Pod]) -> dict[str, int]:
    """Give what pods take together."""
    found: dict[str, int] = {}
    for pod in pods:
        found = _plus(found, pod_amounts(pod))
    return found


def _nano(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    return {name: parse_quantity(raw).nano for name, raw in quantities.items()}


def _plus(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
