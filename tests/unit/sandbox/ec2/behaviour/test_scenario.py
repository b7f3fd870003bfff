# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from karpenter.sandbox.ec2.behaviour.scenario import ScenarioError, load, parse, plan
from tests.unit.sandbox.ec2.calling import a_world

GOOD = """\
start: 2026-01-01T00:00:00Z
speed: 0
steps:
  - fault: {service: ec2, operation: CreateFleet, code: InternalError, times: 2}
  - at: 90s
    capacity: {instanceType: m5.large, zone: us-west-2a, count: 0}
  - at: 2026-01-01T00:05:00Z
    clearFaults:
"""


def test_steps_happen_at_their_times() -> None:
    world, scenario = a_world(), parse(GOOD, "good.yaml")

    plan(world, scenario)

    assert len(world.faults.active) == 1
    assert world.ec2.capacity.pools == []
    assert world.planned == [
        world.clock.start + timedelta(seconds=90),
        world.clock.start + timedelta(minutes=5),
    ]
    world.advance(91)
    assert [rule.count for rule in world.ec2.capacity.pools] == [0]
    world.advance(600)
    assert world.faults.active == []
    assert world.mishaps == []


def test_start_and_speed_are_read() -> None:
    scenario = parse(GOOD, "good.yaml")

    assert scenario.start == datetime(2026, 1, 1, tzinfo=UTC)
    assert scenario.speed == 0


def test_a_step_that_does_not_fit_the_world_of_its_time_is_noted_and_the_rest_goes_on() -> None:
    world = a_world()
    plan(
        world,
        parse("steps: [{at: 1s, message: {queue: gone, body: x}}, {at: 2s, fault: {code: X}}]", "s.yaml"),
    )

    world.advance(5)

    assert world.mishaps == ["s.yaml:1: message: no queue 'gone'"]
    assert len(world.faults.active) == 1


def test_a_step_without_a_time_that_does_not_fit_stops_the_start() -> None:
    with pytest.raises(ScenarioError, match=r"s\.yaml:2: message: no queue 'gone'"):
        plan(a_world(), parse("steps:\n  - message: {queue: gone, body: x}", "s.yaml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps: [", "not YAML"),
        ("", ":1: a scenario is a mapping"),
        ("- a", ":1: a scenario is a mapping"),
        ("speed: 1\nstep: []", ":2: unknown field 'step'"),
        ("start: soon", ":1: start: 'soon' is not a time"),
        ("\nspeed: fast", ":2: speed: 'fast' is not a number"),
        ("steps: 3", ":1: steps: must be a list"),
        ("steps:\n  - hello", ":2: a step is a mapping"),
        ("steps:\n  - at: 5s", ":2: a step has exactly one action, this one has none"),
        (
            "steps:\n  - fault: {code: X}\n    deny: {}",
            ":2: a step has exactly one action, this one has fault, deny",
        ),
        ("steps:\n  - fualt: {code: X}", ":2: there is no action 'fualt'"),
        ("steps:\n  - fault: {code: X}\n    at: 5", ":3: at: 5 has no unit"),
        ("steps:\n  - fault: {code: X}\n    at: later", ":3: at:"),
        (
            "steps:\n  - fault:\n      code: X\n      times: many",
            ":4: fault: Expected `int | null`, got `str` - at `$.times`",
        ),
        (
            "steps:\n  - fault:\n      code: X\n      tmies: 3",
            ":4: fault: Object contains unknown field `tmies`",
        ),
        ("steps:\n  - fault: {}", ":2: fault: a fault needs one of code, latencySeconds, lost"),
        ("steps:\n  - capacity: {instanceTyp: m5.large}", ":2: capacity"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_field(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse(text, "s.yaml")

    assert f"s.yaml{message}" in refused.value.message or f"s.yaml: {message}" in refused.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"nothing\.yaml"):
        load(tmp_path / "nothing.yaml")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD, encoding="utf-8")

    assert len(load(path).steps) == 3
