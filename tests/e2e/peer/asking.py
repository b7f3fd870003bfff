# SPDX-License-Identifier: Apache-2.0
"""Asks the Go scheduler about problems, many in one process, and gives its plans in the shape that the checker judges.

A new node is taken as what Go would buy first: the cheapest offering of the cheapest type. Only where a pool asks for
several values to be kept open do its other types come with it, since there they are what is judged.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.model.pools import Pool
from karpenter.model.requirements import Requirement
from karpenter.model.snapshot import Snapshot
from tests.checker import ForeignPlan, Offer, Purchase, Refusal
from tests.checker.amounts import sum_amounts
from tests.checker.world import new_place, own_keys
from tests.strategies import Problem, to_catalogue, to_problem

__all__ = ["GoAnswer", "ask_go"]

_TIMEOUT_S = 200.0


@dataclass(frozen=True)
class GoAnswer:
    """What Go said of one problem: a plan, or why there is none."""

    plan: ForeignPlan | None
    error: str = ""


def ask_go(program: Path, problems: Sequence[Problem], folder: Path) -> list[GoAnswer]:
    """Solve problems with the Go scheduler.

    Args:
        program: The peer program.
        problems: The problems, at least two.
        folder: Where the files for it may be written.
    """
    command = [str(program)]
    for number, problem in enumerate(problems):
        for name, content in (("catalogue", to_catalogue(problem.types)), ("problem", to_problem(problem))):
            path = folder / f"{name}-{number}.json"
            path.write_text(json.dumps(content), encoding="utf-8")
            command.append(str(path))
    # The program is one that we built ourselves, the files are those written here.
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    lines = done.stdout.splitlines()
    return [_answer(problem, json.loads(line)) for problem, line in zip(problems, lines, strict=True)]


def _answer(problem: Problem, said: Mapping[str, Any]) -> GoAnswer:
    if "error" in said:
        return GoAnswer(None, said["error"])
    snapshot = problem.snapshot()
    pods = {f"{each.metadata.namespace}/{each.metadata.name}": each for each in problem.pods}
    return GoAnswer(
        ForeignPlan(
            existing={node: tuple(pods[name] for name in names) for node, names in said["existing"].items()},
            new_nodes=tuple(
                _purchase(snapshot, number, node, pods) for number, node in enumerate(said["newNodes"])
            ),
            rejections=(Refusal(tuple(pods[each["pod"]] for each in said["unschedulable"])),),
            price_per_hour=said["pricePerHour"],
        )
    )


def _purchase(snapshot: Snapshot, number: int, said: Mapping[str, Any], pods: Mapping[str, Pod]) -> Purchase:
    pool = next(each for each in snapshot.pools if each.name == said["nodePool"])
    keeps_open = any(each.min_values is not None for each in pool.requirements)
    offers = [_offer(each) for each in (said, *(said["alternatives"] if keeps_open else ()))]
    bought = Purchase(
        pool=pool.name,
        instance_type=offers[0].instance_type,
        zone=offers[0].zone,
        capacity_type=offers[0].capacity_type,
        price_per_hour=offers[0].price_per_hour,
        alternatives=tuple(sorted(offers, key=lambda offer: offer.price_per_hour)),
        requirements=pool.requirements.plus(*_narrowed(pool, said["labels"], offers)),
        pods=tuple(pods[name] for name in said["pods"]),
        requests={},
        daemon_overhead={},
    )
    place = new_place(snapshot, number, bought, bought)
    assert place is not None
    return replace(
        bought,
        requests=sum_amounts((*bought.pods, *place.daemons)),
        daemon_overhead=sum_amounts(place.daemons),
    )


def _offer(said: Mapping[str, Any]) -> Offer:
    return Offer(said["instanceType"], said["zone"], said["capacityType"], said["pricePerHour"])


def _narrowed(pool: Pool, labels: Mapping[str, str], offers: Sequence[Offer]) -> list[Requirement]:
    """Give what a claim for just these offerings asks for, with the labels that Go has settled."""
    sold = {
        INSTANCE_TYPE: {each.instance_type for each in offers},
        ZONE: {each.zone for each in offers},
        CAPACITY_TYPE: {each.capacity_type for each in offers},
    }
    own = {key: {labels[key]} for key in own_keys(pool) if key in labels}
    return [Requirement.of(key, "In", tuple(sorted(values))) for key, values in {**sold, **own}.items()]
