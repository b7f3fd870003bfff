# SPDX-License-Identifier: Apache-2.0
"""Hours of a small cluster in faked time, where pods land as planned: how many are moved, and when it is quiet."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from msgspec import structs

from karpenter.api.core import Pod
from karpenter.consolidation import Command, Memory, Reason, Settings
from karpenter.scheduling import solve
from tests.strategies.machines import instance_type
from tests.unit.consolidation.world import NOW, Setting, _made, replica

# The machine may be busy.
pytestmark = pytest.mark.timeout(120)

STEP_S = 600.0
TYPES = tuple(
    instance_type(name, cpu=cpu, memory_gib=cpu * ratio, price=price, capacity_types=("on-demand",))
    for name, cpu, ratio, price in (
        ("c5.large", 2, 2, 0.085),
        ("m5.large", 2, 4, 0.096),
        ("c5.xlarge", 4, 2, 0.17),
        ("m5.xlarge", 4, 4, 0.192),
        ("c5.2xlarge", 8, 2, 0.34),
        ("m5.2xlarge", 8, 4, 0.384),
    )
)


class Day:
    """A cluster that is provisioned and consolidated step by step."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.world = Setting(types=TYPES, settings=settings or Settings(tries=40))
        self.memory = Memory()
        self.now = NOW
        self.made = 0
        self.chance = Random(7)  # noqa: S311 - the same hours every time
        self.evictions: list[int] = []
        self.launches: list[int] = []

    def step(self, wanted: dict[str, int]) -> None:
        """Let ten minutes pass with so many replicas of each workload."""
        self.now += STEP_S
        self.launches.append(0)
        self.evictions.append(0)
        self._scale(wanted)
        counts = {f"default/ReplicaSet/{name}": number for name, number in wanted.items()}
        self.memory = self.memory.counted(counts, self.now).hour_passed(["default"], self.now, Settings())
        # A command that follows from another is looked for at once, but not for ever.
        for _ in range(5):
            world = self.world.but(memory=self.memory, now=self.now)
            command = world.propose()
            if not isinstance(command, Command):
                break
            self._carry_out(command)

    def _scale(self, wanted: dict[str, int]) -> None:
        there: dict[str, list[Pod]] = {name: [] for name in wanted}
        for view in self.world.nodes:
            for pod in view.pods:
                there[pod.metadata.labels["app"]].append(pod)
        gone: set[str] = set()
        fresh: list[Pod] = []
        for name, number in wanted.items():
            self.chance.shuffle(there[name])
            gone.update(pod.metadata.uid for pod in there[name][number:])
            for _ in range(number - len(there[name])):
                self.made += 1
                fresh.append(replica(f"{name}-{self.made}", "", of=name, cpu="500m", memory="900Mi"))
        kept = tuple(
            replace(view, pods=tuple(pod for pod in view.pods if pod.metadata.uid not in gone))
            for view in self.world.nodes
        )
        self.world = self.world.but(nodes=kept)
        if fresh:
            self._provision(fresh)

    def _provision(self, fresh: list[Pod]) -> None:
        plan = solve(self.world.snapshot(), fresh)
        nodes = [
            replace(view, pods=(*view.pods, *_on(plan.existing.get(view.name, ()), view.name)))
            for view in self.world.nodes
        ]
        kinds = {kind.name: kind for kind in TYPES}
        for launch in plan.new_nodes:
            self.launches[-1] += 1
            self.made += 1
            name = f"node-{self.made:05d}"
            nodes.append(_made(launch, name, kinds, _on(launch.pods, name)))
        if plan.new_nodes:
            self.memory = self.memory.launched(["default"], self.now, Settings())
        self.world = self.world.but(nodes=tuple(nodes))

    def _carry_out(self, command: Command) -> None:
        for stage in command.stages:
            uids = {move.uid for move in stage.moves}
            moved = [pod for view in self.world.nodes for pod in view.pods if pod.metadata.uid in uids]
            self.world = self.world.after(stage)
            self.evictions[-1] += stage.evictions
            self.memory = self.memory.moved(moved, self.now)
        if command.reason is Reason.UNDERUTILIZED:
            self.memory = self.memory.removed(["default"], self.now, Settings())


def _on(pods: tuple[Pod, ...], name: str) -> list[Pod]:
    return [
        structs.replace(
            pod,
            spec=structs.replace(pod.spec, node_name=name),
            status=structs.replace(pod.status, phase="Running"),
        )
        for pod in pods
    ]


def test_replicas_that_swing_by_a_tenth_move_few_pods_and_buy_few_nodes() -> None:
    day = Day()
    for _ in range(36):
        day.step({"web": day.chance.randrange(36, 45), "api": 20})

    assert sum(day.evictions[12:]) <= 10
    assert sum(day.launches[12:]) <= 5


def test_a_calm_cluster_is_tidied_up_once_and_then_left_alone() -> None:
    day = Day()
    day.step({"web": 60, "api": 20})
    for _ in range(36):
        day.step({"web": 20, "api": 20})

    assert sum(day.evictions[:6]) > 0
    assert sum(day.evictions[-18:]) == 0
    assert sum(day.launches[1:]) == 0


def test_a_cluster_that_comes_and_goes_is_bought_and_emptied_without_moving_many() -> None:
    day = Day()
    for hour in range(48):
        day.step({"web": 40 if 16 <= hour < 36 else 5})

    assert sum(day.evictions) <= 15
    assert day.world.price < 0.5
