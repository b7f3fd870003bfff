# SPDX-License-Identifier: Apache-2.0
"""How much a pod asks for and a node has: cpu in thousandths, everything else in whole units.

A pod asks for the larger of what its containers need together and what its init containers need one after the other
beside the sidecars started before them; then what is said for the pod as a whole takes precedence, and the overhead
of its runtime class is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from karpenter.kit.quantity import QuantityError, parse_milli, parse_value

__all__ = ["CPU", "MEMORY", "PODS", "Amounts", "pod_requests", "read_amounts", "scoring_requests"]

Amounts: TypeAlias = dict[str, int]

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"

# What the scheduler assumes, when it compares nodes, of containers that do not say what they need.
_ASSUMED_CPU_MILLI: Final = 100
_ASSUMED_MEMORY_BYTES: Final = 200 * 1024 * 1024


def read_amounts(wire: Mapping[str, Any] | None) -> Amounts:
    """Reads a resource list; what cannot be read counts as nothing."""
    found: Amounts = {}
    for name, quantity in (wire or {}).items():
        try:
            found[name] = parse_milli(quantity) if name == CPU else parse_value(quantity)
        except QuantityError:
            continue
    return found


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """Gives what a pod asks of a node."""
    return _fold(spec, assumed=False)


def scoring_requests(spec: Mapping[str, Any]) -> tuple[int, int]:
    """Gives cpu and memory as the scheduler compares nodes by them: containers that ask nothing count a little."""
    found = _fold(spec, assumed=True)
    return found.get(CPU, 0), found.get(MEMORY, 0)


def _fold(spec: Mapping[str, Any], *, assumed: bool) -> Amounts:
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _container(container, assumed=assumed))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _container(container, assumed=assumed)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            _add(own, sidecars)
        for name, amount in own.items():
            peak[name] = max(peak.get(name, 0), amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    for name, amount in read_amounts((spec.get("resources") or {}).get("requests")).items():
        total[name] = amount
    _add(total, read_amounts(spec.get("overhead")))
    return total


def _container(container: Mapping[str, Any], *, assumed: bool) -> Amounts:
    found = read_amounts((container.get("resources") or {}).get("requests"))
    if assumed:
        found.setdefault(CPU, _ASSUMED_CPU_MILLI)
        found.setdefault(MEMORY, _ASSUMED_MEMORY_BYTES)
    return found


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
