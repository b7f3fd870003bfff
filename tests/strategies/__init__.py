# SPDX-License-Identifier: Apache-2.0
"""Builders for test clusters, and random scheduling problems.

Builders take keyword options with sensible defaults and make plain API objects and model values::

    problem = Problem(
        pods=pods(5, memory="1Gi", topology_spread=[spread({"app": "web"})], labels={"app": "web"}),
        nodepools=(nodepool(limits={"cpu": "10"}),),
        types=small_catalogue(),
    )
    plan = solve(problem.snapshot(), problem.pods)

``random_problem(seed)`` draws a problem with every kind of constraint, ``shrink`` makes a failing one small, and
``to_problem`` and ``to_catalogue`` write it down for other schedulers.
"""

from tests.strategies.clusters import EBS_DRIVER, node, nodepool, storage_class, volume, volume_claim
from tests.strategies.drawing import CLUSTER_KINDS, KINDS, random_problem
from tests.strategies.expressions import (
    expression,
    node_term,
    pod_term,
    preferred,
    requirement,
    selector,
    spread,
    taint,
    toleration,
    weighted,
)
from tests.strategies.habits import POD_KINDS
from tests.strategies.machines import ZONES, instance_type, offering, reserved, small_catalogue
from tests.strategies.pods import NOON, container, daemon, daemon_on, host_port, pod, pods
from tests.strategies.problems import CATALOGUE_FILE, Problem, namespaces, to_catalogue, to_problem
from tests.strategies.shrinking import shrink

__all__ = [
    "CATALOGUE_FILE",
    "CLUSTER_KINDS",
    "EBS_DRIVER",
    "KINDS",
    "NOON",
    "POD_KINDS",
    "ZONES",
    "Problem",
    "container",
    "daemon",
    "daemon_on",
    "expression",
    "host_port",
    "instance_type",
    "namespaces",
    "node",
    "node_term",
    "nodepool",
    "offering",
    "pod",
    "pod_term",
    "pods",
    "preferred",
    "random_problem",
    "requirement",
    "reserved",
    "selector",
    "shrink",
    "small_catalogue",
    "spread",
    "storage_class",
    "taint",
    "to_catalogue",
    "to_problem",
    "toleration",
    "volume",
    "volume_claim",
    "weighted",
]
