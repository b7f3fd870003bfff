# SPDX-License-Identifier: Apache-2.0
"""Makes a failing problem small: leaves out and simplifies whatever the failure does not need.

Greedy and plain: one change at a time, kept if the problem still fails, until no change helps. What is left is small
enough to read, not the smallest there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace as replace_fields
from typing import Any, TypeVar

from msgspec.structs import replace

from karpenter.api.core import Affinity, NodeAffinity, Pod, PodAffinity, PodSpec
from karpenter.api.nodepool import NodePool
from karpenter.model.instancetypes import InstanceType
from karpenter.model.snapshot import NodeView
from tests.strategies.problems import Problem

__all__ = ["shrink"]

T = TypeVar("T")

_LISTS = ("pods", "nodes", "nodepools", "daemons", "types", "claims", "volumes", "classes")


def shrink(problem: Problem, still_fails: Callable[[Problem], bool], *, most_tries: int = 3000) -> Problem:
    """Return a smaller problem that still fails.

    Args:
        problem: A problem that fails.
        still_fails: The test.
        most_tries: After so many tests the smallest one so far is returned.
    """
    tries = 0
    progress = True
    while progress:
        progress = False
        for candidate in _smaller(problem):
            tries += 1
            if tries > most_tries:
                return problem
            if still_fails(candidate):
                problem, progress = candidate, True
                break
    return problem


def _smaller(problem: Problem) -> Iterator[Problem]:
    for name in _LISTS:
        for shorter in _shorter(getattr(problem, name)):
            yield _with(problem, name, shorter)
    yield from _each(problem, "pods", _simpler_pods)
    yield from _each(problem, "nodes", _simpler_nodes)
    yield from _each(problem, "nodepools", _simpler_nodepools)
    yield from _each(problem, "daemons", _simpler_pods)
    yield from _each(problem, "types", _simpler_types)


def _each(problem: Problem, name: str, simpler: Callable[[Any], Iterator[Any]]) -> Iterator[Problem]:
    """Replace one object of a list by a simpler one, each in turn."""
    objects = getattr(problem, name)
    for index, each in enumerate(objects):
        for other in simpler(each):
            yield _with(problem, name, (*objects[:index], other, *objects[index + 1 :]))


def _with(problem: Problem, name: str, value: tuple[Any, ...]) -> Problem:
    changes: dict[str, Any] = {name: value}
    return replace_fields(problem, **changes)


def _shorter(objects: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """Leave out a half, a quarter, ... and at last each single one."""
    size = len(objects)
    while size:
        for start in range(0, len(objects), size):
            yield objects[:start] + objects[start + size :]
        size //= 2


def _simpler_pods(pod: Pod) -> Iterator[Pod]:
    spec = pod.spec
    for name in ("tolerations", "topology_spread_constraints", "volumes", "init_containers"):
        for shorter in _shorter(getattr(spec, name)):
            yield replace(pod, spec=replace(spec, **{name: shorter}))
    plain = PodSpec()
    for name in ("node_selector", "overhead", "priority", "resource_claims"):
        if getattr(spec, name) != getattr(plain, name):
            yield replace(pod, spec=replace(spec, **{name: getattr(plain, name)}))
    for affinity in _simpler_affinities(spec.affinity):
        yield replace(pod, spec=replace(spec, affinity=affinity))
    for index, container in enumerate(spec.containers):
        if container.ports:
            others = (*spec.containers[:index], replace(container, ports=()), *spec.containers[index + 1 :])
            yield replace(pod, spec=replace(spec, containers=others))
    for key in pod.metadata.labels:
        labels = {other: value for other, value in pod.metadata.labels.items() if other != key}
        yield replace(pod, metadata=replace(pod.metadata, labels=labels))


def _simpler_affinities(affinity: Affinity | None) -> Iterator[Affinity | None]:
    if affinity is None:
        return
    yield None
    for name in ("node_affinity", "pod_affinity", "pod_anti_affinity"):
        side: NodeAffinity | PodAffinity | None = getattr(affinity, name)
        if side is None:
            continue
        yield replace(affinity, **{name: None})
        for shorter in _shorter(side.preferred):
            yield replace(affinity, **{name: replace(side, preferred=shorter)})
        if isinstance(side, PodAffinity):
            for terms in _shorter(side.required):
                yield replace(affinity, **{name: replace(side, required=terms)})


def _simpler_nodes(node: NodeView) -> Iterator[NodeView]:
    for shorter in _shorter(node.pods):
        yield replace_fields(node, pods=shorter)
    for taints in _shorter(node.taints):
        yield replace_fields(node, taints=taints)
    for index, pod in enumerate(node.pods):
        for simpler in _simpler_pods(pod):
            yield replace_fields(node, pods=(*node.pods[:index], simpler, *node.pods[index + 1 :]))
    if node.volume_limits:
        yield replace_fields(node, volume_limits={})


def _simpler_nodepools(nodepool: NodePool) -> Iterator[NodePool]:
    spec = nodepool.spec
    template = spec.template
    for name in ("requirements", "taints", "startup_taints"):
        for shorter in _shorter(getattr(template.spec, name)):
            inner = replace(template.spec, **{name: shorter})
            yield replace(nodepool, spec=replace(spec, template=replace(template, spec=inner)))
    if template.metadata.labels:
        bare = replace(template, metadata=replace(template.metadata, labels={}))
        yield replace(nodepool, spec=replace(spec, template=bare))
    if spec.limits:
        yield replace(nodepool, spec=replace(spec, limits={}))
    if spec.weight is not None:
        yield replace(nodepool, spec=replace(spec, weight=None))


def _simpler_types(kind: InstanceType) -> Iterator[InstanceType]:
    for shorter in _shorter(kind.offerings):
        if shorter:
            yield replace_fields(kind, offerings=shorter)
