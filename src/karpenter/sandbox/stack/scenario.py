# SPDX-License-Identifier: Apache-2.0
"""Faults by timetable against a sandbox that runs: a YAML file of steps, each with one action and perhaps a time.

::

    steps:
      - say: {text: m5.large is sold out in one zone}
      - errors: {code: InsufficientInstanceCapacity, instanceType: m5.large, zone: us-west-2a, forSeconds: 120}
      - scale: {deployment: other/inflate, replicas: 12}
      - at: 60s
        nodes: {kubelet: not-ready, count: 1}

The actions are those of the EC2 model (``sandbox.ec2.behaviour.actions``) and these of the cluster:

===============  ============================================================================================
``nodes``        a behaviour of kubelets (``sandbox.kubelets.behaviour``) for nodes that match; ``joins`` heals
``deleteNodes``  delete nodes that match, as ``kubectl delete node`` does
``scale``        set the replicas of a Deployment
``apply``        apply the manifests of a file beside the scenario
``kill``         end one of the sandbox's processes, by SIGKILL
``say``          show a text
===============  ============================================================================================

Times count from the start of playing, in the sandbox's time: where that is ten times as fast, so are they. Everything
is read and checked before the first step; whatever is wrong is refused with file, line and field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from karpenter.api import labels as names
from karpenter.sandbox.ec2.behaviour.actions import ACTIONS, ActionError, Document
from karpenter.sandbox.ec2.behaviour.actions import read as read_model_action
from karpenter.sandbox.ec2.behaviour.scenario import Scenario, ScenarioError, load
from karpenter.sandbox.kubelets.behaviour import ANNOTATION, BehaviourError, read_behaviour
from karpenter.sandbox.stack import children
from karpenter.sandbox.stack.errors import NotUpError, StackError
from karpenter.sandbox.stack.lifecycle import Stack
from karpenter.sandbox.stack.record import Child
from karpenter.sandbox.stack.replicas import is_system_node

__all__ = ["Play", "ScenarioError", "Timed", "read_scenario", "timetable"]

_NODES: Final = "/api/v1/nodes"


class Match(Document):
    """Which nodes: patterns such as ``m5.*``, and at most so many, by name."""

    name: str = "*"
    instance_type: str = "*"
    zone: str = "*"
    capacity_type: str = "*"
    nodepool: str = "*"
    count: int | None = None

    def chosen(self, nodes: list[dict[str, Any]]) -> list[str]:
        """Gives the names of the nodes that match."""
        found = sorted(each["metadata"]["name"] for each in nodes if self._fits(each))
        return found[: self.count] if self.count is not None else found

    def _fits(self, node: Mapping[str, Any]) -> bool:
        labels = node["metadata"].get("labels", {})
        if is_system_node(node):
            # Whoever plays with Karpenter's nodes does not mean the one that Karpenter runs on.
            return False
        wanted = {
            names.INSTANCE_TYPE: self.instance_type,
            names.ZONE: self.zone,
            names.CAPACITY_TYPE: self.capacity_type,
            names.NODEPOOL: self.nodepool,
        }
        return fnmatchcase(node["metadata"]["name"], self.name) and all(
            fnmatchcase(labels.get(key, ""), pattern) for key, pattern in wanted.items()
        )


class Nodes(Match, kw_only=True):
    """A behaviour for the kubelets of nodes that match."""

    kubelet: str


class Scale(Document):
    """The replicas of a Deployment, named as ``namespace/name``."""

    deployment: str
    replicas: int


class Apply(Document):
    """A file with manifests, relative to the scenario's own."""

    file: str


class Kill(Document):
    """One of the sandbox's processes."""

    process: str


class Say(Document):
    """A text."""

    text: str


_OWN: Final[Mapping[str, type[Document]]] = {
    "nodes": Nodes,
    "deleteNodes": Match,
    "scale": Scale,
    "apply": Apply,
    "kill": Kill,
    "say": Say,
}


@dataclass(frozen=True, slots=True)
class Timed:
    """One step: after how many seconds of the sandbox's time, what, and where it stands in the file."""

    at_s: float
    action: str
    document: Any
    line: int

    @property
    def shown(self) -> str:
        """Gives what it says, on one line."""
        if self.action == "say":
            return str(self.document["text"])
        return _words(self.document)


def read_scenario(path: Path) -> Scenario:
    """Reads a scenario for a running sandbox.

    Raises:
        ScenarioError: It cannot be read or meant; the message names file, line and field.
    """
    scenario = load(path, partial(_read, path.parent))
    for field, value in (("start", scenario.start), ("speed", scenario.speed)):
        if value is not None:
            raise ScenarioError(
                f"{path}: {field}: a sandbox that runs has its own time",
                hint="leave it out; 'karpenter sandbox up --speed N' sets the pace",
            )
    for step in scenario.steps:
        if isinstance(step.at, datetime):
            raise ScenarioError(
                f"{path}:{step.line}: at: {step.at.isoformat()} is a time of day",
                hint="write a delay after the start, such as 90s",
            )
    return scenario


def timetable(scenario: Scenario) -> list[Timed]:
    """Gives the steps in the order in which they happen; at the same time, in that of the file."""
    steps = [
        Timed(
            each.at.total_seconds() if isinstance(each.at, timedelta) else 0.0,
            each.action,
            each.document,
            each.line,
        )
        for each in scenario.steps
    ]
    return sorted(steps, key=lambda each: each.at_s)


class Play:
    """Carries steps out against a sandbox."""

    def __init__(self, stack: Stack, scenario: Path) -> None:
        self._stack = stack
        self._folder = scenario.parent
        self._api = stack.kube()
        self._model = stack.model()
        self._own: Mapping[str, Callable[[Any], str]] = {
            "nodes": self._nodes,
            "deleteNodes": self._delete_nodes,
            "scale": self._scale,
            "apply": self._apply,
            "kill": self._kill,
            "say": lambda _: "",
        }

    def close(self) -> None:
        """Lets go of the connections."""
        self._api.close()
        self._model.close()

    def do(self, step: Timed) -> str:
        """Does one step and gives what came of it, in a few words.

        Raises:
            StackError: The sandbox refuses it, or does not answer.
        """
        if step.action in self._own:
            return self._own[step.action](msgspec.convert(step.document, _OWN[step.action]))
        self._model.do(step.action, step.document)
        return ""

    def _nodes(self, wanted: Nodes) -> str:
        words = wanted.kubelet.strip()
        note = None if words in {"", "joins"} else words
        chosen = wanted.chosen(self._api.items(_NODES))
        for name in chosen:
            self._api.merge(f"{_NODES}/{name}", {"metadata": {"annotations": {ANNOTATION: note}}})
        return _named(chosen)

    def _delete_nodes(self, wanted: Match) -> str:
        chosen = wanted.chosen(self._api.items(_NODES))
        for name in chosen:
            self._api.delete(f"{_NODES}/{name}")
        return _named(chosen)

    def _scale(self, wanted: Scale) -> str:
        namespace, _, name = wanted.deployment.rpartition("/")
        path = f"/apis/apps/v1/namespaces/{namespace or 'default'}/deployments/{name}"
        self._api.merge(path, {"spec": {"replicas": wanted.replicas}})
        return ""

    def _apply(self, wanted: Apply) -> str:
        manifests = _manifests(self._folder / wanted.file)
        self._api.apply_all(manifests)
        return f"{len(manifests)} objects"

    def _kill(self, wanted: Kill) -> str:
        found = {each.name: each for each in self._stack.status().pieces}
        each = found.get(wanted.process)
        if each is None:
            raise StackError(f"there is no process {wanted.process!r}", hint=f"one of {', '.join(found)}")
        if not each.running:
            raise NotUpError(f"{wanted.process} does not run")
        children.kill(self._stack.home, each.lock, Child(pid=each.pid, started=each.since))
        return f"pid {each.pid}"


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return "; ".join(map(_words, value))
    return "" if value is None else str(value)


def _named(chosen: list[str]) -> str:
    if not chosen:
        return "no node matches"
    return (
        f"{len(chosen)} node{'s' * (len(chosen) != 1)}: {', '.join(chosen[:3])}{' ...' * (len(chosen) > 3)}"
    )


def _read(folder: Path, action: str, document: Any) -> Any:
    if action not in _OWN:
        if action not in ACTIONS:
            raise ActionError(
                f"there is no action {action!r}", hint=f"one of {', '.join(sorted([*_OWN, *ACTIONS]))}"
            )
        return read_model_action(action, document)
    kind = _OWN[action]
    try:
        read = msgspec.convert({} if document is None else document, kind)
    except msgspec.ValidationError as wrong:
        fields = ", ".join(kind.__struct_encode_fields__)
        raise ActionError(f"{action}: {wrong}", hint=f"{action} takes {fields}") from wrong
    if isinstance(read, Nodes):
        try:
            read_behaviour(read.kubelet)
        except BehaviourError as wrong:
            raise ActionError(f"nodes: {wrong.message} - at `$.kubelet`", hint=wrong.hint) from wrong
    if isinstance(read, Scale) and read.replicas < 0:
        raise ActionError("scale: replicas must not be negative - at `$.replicas`")
    if isinstance(read, Apply):
        _checked_file(folder / read.file)
    return read


def _checked_file(path: Path) -> None:
    try:
        _manifests(path)
    except (OSError, UnicodeDecodeError) as refused:
        raise ActionError(f"apply: cannot read {path}: {refused} - at `$.file`") from refused
    except yaml.YAMLError as broken:
        raise ActionError(f"apply: {path} is not YAML: {broken} - at `$.file`") from broken


def _manifests(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]
