# SPDX-License-Identifier: Apache-2.0
"""Hunts for plans that break a rule: ``python -m tests.property.scheduling.hunting FIRST LAST [--shrink]``.

Solves the random problems of a range of seeds, judges the plans and prints each kind of violation once, with how often
it came up, a seed and, with ``--shrink``, the smallest problem found that still shows it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from karpenter.api.labels import STABLE_NAMES
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling import Plan, SolveOptions, solve
from tests.checker import carried_out, check, recheck_rejection
from tests.checker.matching import asks_by_name, hard_spreads, spread_counts
from tests.checker.topology import TopologyCheck
from tests.checker.world import world_of
from tests.strategies import Problem, random_problem, shrink, to_problem

__all__ = ["hunt", "kind_of", "second_thoughts", "violations"]

# What differs between violations of one kind: names, machines, labels, counts.
_DETAILS = (
    (re.compile(r"\{.*\}"), "{}"),
    (
        re.compile(r"(?:, )?\b[\w.-]+\.(?:io|sh|com|aws)/[\w-]+(?:, [\w.-]+\.(?:io|sh|com|aws)/[\w-]+)*"),
        " KEY",
    ),
    (re.compile(r"\b(pod|claim|pool) [\w/.-]+"), r"\1 *"),
    (re.compile(r"\bnode node-\d+"), "node *"),
    (re.compile(r"\b[a-z0-9]+\.\w*(?:large|medium) [\w-]+ in us-east-1\w"), "OFFERING"),
    (re.compile(r"\bbut [\w-]+ has"), "but PLACE has"),
    (re.compile(r"\bboth are in .*"), "both are in PLACE"),
    (re.compile(r"\d+"), "#"),
)


def violations(problem: Problem, options: SolveOptions) -> list[str]:
    """Solve a problem and say what is wrong with the plan; a crash is a violation too."""
    snapshot = problem.snapshot()
    try:
        plan = solve(snapshot, problem.pods, options)
        found = check(snapshot, problem.pods, plan, options)
        found += recheck_rejection(snapshot, problem.pods, plan)
        return found or second_thoughts(snapshot, plan, options)
    except Exception as error:  # noqa: BLE001 - whatever it is, the hunt goes on
        where = traceback.extract_tb(error.__traceback__)[-1]
        return [f"crash in {where.name}: {type(error).__name__}: {error}"]


def second_thoughts(snapshot: Snapshot, plan: Plan, options: SolveOptions) -> list[str]:
    """Say which rejected pods get a place if they are offered again once the plan is carried out.

    Passed over are pods that choose nodes by name, since only then do the new nodes have names, and pods that the
    spread constraint of a placed pod counts: it binds a plan, but not those who come later. So does who founds a group
    that others would have been bound to before: a late place counts only if the plan with it keeps every rule. With
    minValues nothing is said: a node that stands may hold what not every choice of it would have held.
    """
    if any(
        requirement.min_values is not None for pool in snapshot.pools for requirement in pool.requirements
    ):
        return []
    owners = [
        pod for pods in (*plan.existing.values(), *(node.pods for node in plan.new_nodes)) for pod in pods
    ]
    counted = [spread_counts(rule, owner) for owner in owners for rule in hard_spreads(owner)]
    rejected = [
        pod
        for rejection in plan.rejections
        for pod in rejection.pods
        if not asks_by_name(pod) and not any(counts(pod) for counts in counted)
    ]
    later = solve(carried_out(snapshot, plan), rejected, options)
    found = [replace(later, existing={name: pods}, new_nodes=()) for name, pods in later.existing.items()]
    found += [replace(later, existing={}, new_nodes=(node,)) for node in later.new_nodes]
    if not _breaks_rules(snapshot, plan, later):
        found = [later]
    return [
        f"pod {pod.metadata.namespace}/{pod.metadata.name} was rejected, but has a place once the plan is carried out"
        for each in found
        if not _breaks_rules(snapshot, plan, each)
        for pods in (*each.existing.values(), *(node.pods for node in each.new_nodes))
        for pod in pods
    ]


def _breaks_rules(snapshot: Snapshot, plan: Plan, later: Plan) -> bool:
    """Tell whether a plan with what came later added to it breaks a rule between pods."""
    nodes = [
        replace(node, pods=(*node.pods, *later.existing.get(f"new-{number}", ())))
        for number, node in enumerate(plan.new_nodes)
    ]
    existing = {
        name: (*plan.existing.get(name, ()), *later.existing.get(name, ()))
        for name in {*plan.existing, *later.existing}
    }
    world = world_of(snapshot, replace(plan, existing=existing, new_nodes=(*nodes, *later.new_nodes)))
    pods = [pod for place in world for pod in place.arriving]
    return bool(TopologyCheck(snapshot, pods).violations(world))


def kind_of(violation: str) -> str:
    """Take names and numbers out of a violation, so that alike ones are equal."""
    for pattern, instead in _DETAILS:
        violation = pattern.sub(instead, violation)
    return violation


def hunt(seeds: Sequence[int], options: SolveOptions, *, shrinking: bool) -> Counter[str]:
    """Print what is found over the seeds; give how often each kind came up."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        problem = random_problem(seed)
        for kind, violation in {kind_of(each): each for each in violations(problem, options)}.items():
            seen[kind] += 1
            if seen[kind] == 1:
                _report(seed, problem, kind, violation, options, shrinking=shrinking)
    return seen


def _report(
    seed: int, problem: Problem, kind: str, violation: str, options: SolveOptions, *, shrinking: bool
) -> None:
    _say(f"seed {seed}: {violation}")
    if not shrinking:
        return

    def still_fails(candidate: Problem) -> bool:
        return kind in map(kind_of, violations(candidate, options))

    small = shrink(problem, still_fails)
    for each in violations(small, options):
        _say(f"    {each}")
    for kind_sold in small.types:
        amounts = {
            name: amount for name, amount in kind_sold.allocatable.items() if name != "ephemeral-storage"
        }
        sold = [f"{o.zone} {o.capacity_type} {o.price_per_hour}" for o in kind_sold.offerings if o.available]
        _say(f"    type {kind_sold.name} {amounts} {sold}")
    for each in to_problem(small)["objects"]:
        if each["kind"] not in ("NodeClaim", "Namespace"):
            _say(f"    {each['kind']} {json.dumps(_brief(each))}")


def _brief(wire: Any) -> Any:
    """Leave out of an object what hardly ever explains anything."""
    if not isinstance(wire, dict):
        return [_brief(each) for each in wire] if isinstance(wire, list) else wire
    parts = {key: _brief(value) for key, value in wire.items() if key not in _UNTOLD and not _is_derived(key)}
    return {key: value for key, value in parts.items() if value not in ({}, [])}


_UNTOLD = frozenset(
    {
        "apiVersion",
        "kind",
        "uid",
        "creationTimestamp",
        "image",
        "nodeClassRef",
        "providerID",
        "conditions",
        "phase",
    }
)


def _is_derived(key: str) -> bool:
    """Tell whether a label follows from a node's type, or is an old name of another."""
    return key in STABLE_NAMES or key.startswith(("karpenter.k8s.aws/", "karpenter.sh/registered"))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Run the hunt; exit 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="hunting", description="Look for plans that break a rule.")
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("last", type=int, help="the seed after the last")
    parser.add_argument("--shrink", action="store_true", help="make the first problem of each kind small")
    options = parser.parse_args(arguments)
    found = hunt(range(options.first, options.last), SolveOptions(), shrinking=options.shrink)
    for kind, count in found.most_common():
        _say(f"{count:6d}  {kind}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
