# SPDX-License-Identifier: Apache-2.0
"""A scenario: a YAML file that says what happens in the model and when.

::

    start: 2026-01-01T00:00:00Z    # optional: model time at the start; without it, now
    speed: 10                      # optional: model seconds per second; 0 stands still
    steps:
      - fault: {service: ec2, operation: CreateFleet, code: InternalError, times: 2}
      - at: 90s                    # after the start; also a time of day such as 2026-01-01T00:10:00Z
        capacity: {instanceType: m5.large, zone: us-west-2a, count: 0}

A step has one action, named as in ``behaviour.actions``, and at most one time; without a time it happens at once. All
steps are read and checked before the first is done. Whatever is wrong is refused with file, line and field.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from karpenter.errors import KarpenterError
from karpenter.kit.durations import DurationError, parse_duration
from karpenter.sandbox.ec2.behaviour.actions import ACTIONS, ActionError, perform, read
from karpenter.sandbox.ec2.world import World

__all__ = ["Reader", "Scenario", "ScenarioError", "Step", "load", "parse", "plan"]

_step_field = re.compile(r"`\$((?:\.\w+|\[\d+\]|\[\.\.\.\])*)`")
_changed_field = re.compile(r"\w+((?:\[\d+\]|\.\w+)+): ")


class ScenarioError(KarpenterError):
    """A scenario that cannot be read, with file, line and field."""


@dataclass(frozen=True, slots=True)
class Step:
    """One action and its time: a delay since the start, a moment, or None for at once."""

    action: str
    document: Any
    at: timedelta | datetime | None
    line: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a file says."""

    name: str
    steps: tuple[Step, ...]
    start: datetime | None = None
    speed: float | None = None


Reader = Callable[[str, Any], Any]
"""Reads the document of an action and refuses, with ActionError, what cannot be meant."""


def load(path: Path, reader: Reader = read) -> Scenario:
    """Reads a scenario file; ``reader`` knows the actions, by default the model's own.

    Raises:
        ScenarioError: The file is not there, is not YAML, or says something that cannot be meant.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as refused:
        raise ScenarioError(f"cannot read the scenario {path}: {refused}") from refused
    return parse(text, str(path), reader)


def parse(text: str, name: str, reader: Reader = read) -> Scenario:
    """Reads a scenario from its text; ``name`` stands in errors, ``reader`` knows the actions.

    Raises:
        ScenarioError: It is not YAML, or says something that cannot be meant.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.safe_load(text)
    except yaml.YAMLError as broken:
        raise ScenarioError(f"{name}: not YAML: {broken}") from broken
    if root is None or not isinstance(document, dict):
        raise ScenarioError(f"{name}:1: a scenario is a mapping with the key steps", hint=_SHAPE)
    for key in document:
        if key not in {"start", "speed", "steps"}:
            raise ScenarioError(f"{name}:{_key_line(root, key)}: unknown field {key!r}", hint=_SHAPE)
    start, speed = document.get("start"), document.get("speed")
    if start is not None and not isinstance(start, datetime):
        raise ScenarioError(f"{name}:{_key_line(root, 'start')}: start: {start!r} is not a time", hint=_TIME)
    if speed is not None and (isinstance(speed, bool) or not isinstance(speed, (int, float)) or speed < 0):
        raise ScenarioError(f"{name}:{_key_line(root, 'speed')}: speed: {speed!r} is not a number from 0 up")
    steps = document.get("steps") or []
    if not isinstance(steps, list):
        raise ScenarioError(f"{name}:{_key_line(root, 'steps')}: steps: must be a list", hint=_SHAPE)
    nodes = _value(root, "steps")
    read_steps = tuple(
        _step(name, node, step, reader)
        for node, step in zip(nodes.value if nodes else (), steps, strict=True)
    )
    return Scenario(name, read_steps, _aware(start) if start else None, speed)


def plan(world: World, scenario: Scenario) -> None:
    """Does the steps without a time and plans the others.

    Raises:
        ScenarioError: A step without a time does not fit the world.
    """
    for step in scenario.steps:
        if step.at is None:
            try:
                perform(world, step.action, step.document)
            except KarpenterError as refused:
                raise ScenarioError(
                    f"{scenario.name}:{step.line}: {refused.message}", hint=refused.hint
                ) from refused
        else:
            moment = world.clock.start + step.at if isinstance(step.at, timedelta) else step.at
            world.plan(moment, _deed(world, scenario.name, step))


def _deed(world: World, name: str, step: Step) -> Any:
    def act() -> None:
        try:
            perform(world, step.action, step.document)
        except KarpenterError as refused:
            # What the world looks like at that time cannot be known before; the rest of the scenario goes on.
            world.mishaps.append(f"{name}:{step.line}: {refused.message}")

    return act


def _step(name: str, node: yaml.Node, step: Any, reader: Reader) -> Step:
    line = node.start_mark.line + 1
    if not isinstance(step, dict):
        raise ScenarioError(f"{name}:{line}: a step is a mapping with one action", hint=_SHAPE)
    actions = [key for key in step if key != "at"]
    if len(actions) != 1:
        said = ", ".join(map(str, actions)) or "none"
        raise ScenarioError(f"{name}:{line}: a step has exactly one action, this one has {said}", hint=_SHAPE)
    (action,) = actions
    at_line = _key_line(node, "at")
    at = _time(f"{name}:{at_line}: at", step["at"]) if "at" in step else None
    try:
        reader(str(action), step[action])
    except ActionError as refused:
        where = _blamed(node, str(action), refused.message)
        raise ScenarioError(f"{name}:{where}: {refused.message}", hint=refused.hint) from refused
    return Step(str(action), step[action], at, line)


def _time(where: str, raw: Any) -> timedelta | datetime:
    if isinstance(raw, datetime):
        return _aware(raw)
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        raise ScenarioError(f"{where}: {raw!r} has no unit", hint=f"{raw}s, {raw}m; or {_TIME}")
    try:
        return parse_duration(str(raw)).timedelta
    except DurationError as refused:
        raise ScenarioError(f"{where}: {refused.message}", hint=_TIME) from refused


def _aware(moment: datetime) -> datetime:
    # YAML gives UTC times without their zone.
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _blamed(node: yaml.Node, action: str, message: str) -> int:
    """Finds the line that a message such as ``... - at `$.status``` or ``prices[0].factor: ...`` speaks of."""
    inner = _value(node, action) or node
    line = int(inner.start_mark.line) + 1
    match = _step_field.search(message) or _changed_field.match(message)
    for index, key in re.findall(r"\[(\d+)\]|\.(\w+)", match[1]) if match else ():
        if key:
            line, inner = _key_line(inner, key), _value(inner, key) or inner
        elif isinstance(inner, yaml.SequenceNode) and int(index) < len(inner.value):
            inner = inner.value[int(index)]
            line = int(inner.start_mark.line) + 1
    unknown = re.search(r"unknown field `(\w+)`", message)
    return _key_line(inner, unknown[1]) if unknown else line


def _value(node: yaml.Node, key: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key:
                return value  # type: ignore[no-any-return]
    return None


def _key_line(node: yaml.Node, key: str) -> int:
    if isinstance(node, yaml.MappingNode):
        for name, _ in node.value:
            if name.value == str(key):
                return int(name.start_mark.line) + 1
    return int(node.start_mark.line) + 1


_SHAPE = f"steps: [{{at: 90s, fault: {{service: ec2, code: InternalError}}}}]; actions: {', '.join(sorted(ACTIONS))}"
_TIME = "a delay after the start such as 90s or 1h30m, or a time such as 2026-01-01T00:10:00Z"
