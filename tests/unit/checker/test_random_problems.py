# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest

from karpenter.api.labels import RESERVED
from karpenter.scheduling.problems import read_catalogue, read_problem
from tests.strategies import (
    KINDS,
    Problem,
    daemon,
    daemon_on,
    instance_type,
    node,
    nodepool,
    pod,
    pod_term,
    pods,
    random_problem,
    reserved,
    small_catalogue,
    spread,
    storage_class,
    to_catalogue,
    to_problem,
    weighted,
)

SEEDS = range(150)


def test_a_seed_always_draws_the_same_problem() -> None:
    assert random_problem(7) == random_problem(7)
    assert random_problem(7) != random_problem(8)


def test_problems_are_small_but_not_trivial() -> None:
    drawn = [random_problem(seed) for seed in SEEDS]

    assert all(1 <= len(problem.pods) <= 40 for problem in drawn)
    assert all(len(problem.nodes) <= 5 and 1 <= len(problem.nodepools) <= 3 for problem in drawn)
    assert all(2 <= len(problem.types) <= 12 for problem in drawn)
    assert sum(len(problem.pods) for problem in drawn) > 10 * len(drawn)


def test_every_kind_of_constraint_is_drawn() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        problem = random_problem(seed)
        text = json.dumps(to_problem(problem))
        seen.update(word for word in _WORDS if word in text)
        seen["sold-out"] += any(not each.available for kind in problem.types for each in kind.offerings)
        seen["reserved"] += any(
            each.capacity_type == RESERVED for kind in problem.types for each in kind.offerings
        )

    missing = [word for word in (*_WORDS, "sold-out", "reserved") if not seen[word]]
    assert missing == []


_WORDS = (
    "PreferNoSchedule",
    "NoExecute",
    "ScheduleAnyway",
    "DoNotSchedule",
    "allowedTopologies",
    "hostPort",
    "initContainers",
    "limits",
    "matchFields",
    "matchLabelKeys",
    "minDomains",
    "minValues",
    "mismatchLabelKeys",
    "namespaceSelector",
    "nodeAffinityPolicy",
    "nodeSelectorTerms",
    "nodeTaintsPolicy",
    "nvidia.com/gpu",
    "overhead",
    "podAffinity",
    "podAntiAffinity",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "priority",
    "resourceClaims",
    "restartPolicy",
    "tolerations",
    "DaemonSet",
    "PersistentVolumeClaim",
    "CSINode",
)


@pytest.mark.parametrize(
    ("kind", "mark"),
    [
        ("devices", "resourceClaims"),
        ("init-containers", "initContainers"),
        ("match-fields", "matchFields"),
        ("overhead", '"overhead": {"cpu"'),
        ("ports", '"hostPort": 8080'),
        ("priority", '"priority"'),
        ("spread-wish", "ScheduleAnyway"),
        ("volumes", '"PersistentVolumeClaim"'),
    ],
)
def test_a_kind_that_is_left_out_does_not_occur(kind: str, mark: str) -> None:
    texts = [json.dumps(to_problem(random_problem(seed, kinds=KINDS - {kind}))) for seed in range(60)]

    assert not any(mark in text for text in texts)


def test_without_any_kind_only_plain_pods_are_drawn() -> None:
    for seed in range(20):
        problem = random_problem(seed, kinds=())
        assert not any((problem.nodes, problem.daemons, problem.claims))
        assert all(pod.spec.affinity is None for pod in problem.pods)


def test_spread_constraints_of_one_pod_differ_as_the_api_demands() -> None:
    for seed in SEEDS:
        for drawn in random_problem(seed).pods:
            rules = [
                (each.topology_key, each.when_unsatisfiable)
                for each in drawn.spec.topology_spread_constraints
            ]
            assert len(rules) == len(set(rules))


@pytest.mark.parametrize("seed", range(25))
def test_a_problem_survives_being_written_and_read(seed: int) -> None:
    problem = random_problem(seed, kinds=KINDS - {"label-keys"})

    catalogue = read_catalogue(json.dumps(to_catalogue(problem.types)).encode(), "catalogue")
    read = read_problem(json.dumps(to_problem(problem)).encode(), catalogue, "problem")

    snapshot = problem.snapshot()
    assert read.pods == problem.pods
    assert read.snapshot.nodes == snapshot.nodes
    assert read.snapshot.storage == snapshot.storage
    assert read.snapshot.namespaces == snapshot.namespaces
    assert [pod.spec for pod in read.snapshot.daemons] == [pod.spec for pod in snapshot.daemons]
    assert [(pool.name, pool.limits, pool.requirements, pool.taints) for pool in read.snapshot.pools] == [
        (pool.name, pool.limits, pool.requirements, pool.taints) for pool in snapshot.pools
    ]


def test_offerings_that_are_sold_out_are_not_written() -> None:
    kind = instance_type(zones=["here", "there"], capacity_types=["spot"])
    first, second = kind.offerings
    half = instance_type(offerings=[first, type(second)("there", "spot", 1.0, available=False)])

    written = to_catalogue([half])

    assert [offer[0] for offer in written["instanceTypes"][0]["offerings"]] == ["here"]
    assert written["zones"] == ["here"]


def test_reserved_capacity_is_written_with_its_reservation() -> None:
    kind = instance_type(offerings=[reserved("cr-1", 2)])

    written = json.dumps(to_catalogue([kind])).encode()

    (read,) = read_catalogue(written, "catalogue").types
    assert read.offerings == kind.offerings


def test_what_an_api_server_fills_in_is_written() -> None:
    problem = Problem(
        pods=pods(1, topology_spread=[spread({"app": "web"})]),
        classes=(storage_class("slow", immediate=True),),
    )

    written = {each["kind"]: each for each in to_problem(problem)["objects"]}

    assert written["Pod"]["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "DoNotSchedule"
    assert written["StorageClass"]["volumeBindingMode"] == "Immediate"
    assert written["Pod"]["apiVersion"] == "v1"


def test_label_keys_are_merged_into_selectors() -> None:
    term = pod_term({"app": "web"}, match_label_keys=["version", "absent"], mismatch_label_keys=["tier"])
    owner = pod(
        labels={"version": "1", "tier": "x"}, affinity=[term], preferred_anti_affinity=[weighted(term)]
    )

    (written,) = to_problem(Problem(pods=(owner,), namespaces={}))["objects"]

    affinity = written["spec"]["affinity"]
    (near,) = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (apart,) = affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    expected = [
        {"key": "version", "operator": "In", "values": ["1"]},
        {"key": "tier", "operator": "NotIn", "values": ["x"]},
    ]
    assert near["labelSelector"]["matchExpressions"] == expected
    assert apart["podAffinityTerm"]["labelSelector"]["matchExpressions"] == expected


# Builders.


def test_a_plain_pod_waits_for_a_node_and_a_bound_one_does_not() -> None:
    assert pod().status.conditions[0].reason == "Unschedulable"
    assert pod(node_name="n").status.phase == "Running"


def test_the_pod_of_a_daemon_on_a_node_has_the_same_owner() -> None:
    agent = daemon()

    running = daemon_on(agent, "n")

    assert running.metadata.owner_references == agent.metadata.owner_references
    assert running.spec.node_name == "n"
    assert running.metadata.uid != agent.metadata.uid


def test_a_catalogue_gets_dearer_with_size() -> None:
    by_name = {kind.name: kind for kind in small_catalogue()}
    sizes = [by_name[f"m5.{size}"].offerings[0].price_per_hour for size in ("large", "xlarge", "2xlarge")]

    assert len(by_name) == 12
    assert all(smaller < larger for smaller, larger in pairwise(sizes))


def test_nodes_of_a_pool_count_against_its_limits() -> None:
    problem = Problem(
        nodepools=(nodepool(limits={"cpu": "10", "nodes": "3"}),),
        types=small_catalogue(),
        nodes=(node("ours"), node("foreign", pool="")),
    )

    (pool,) = problem.snapshot().pools

    assert pool.limits == {"cpu": 8000, "nodes": 2}
