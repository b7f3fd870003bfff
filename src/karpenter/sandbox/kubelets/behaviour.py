# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with a kubelet, and when: words that stand in tags, in an annotation or in a file.

A behaviour is words such as ``not-ready@30s``: what, and how long after the node was first Ready (at once without a
time; "ready" is when it would have been for kubelets that never get there).

=======================  ====================================================================================
``joins``                nothing; the machine joins and stays well
``never-joins``          there is never a Node
``joins-not-ready``      a Node that never becomes Ready
``dies``                 silent from the moment at which it is Ready
``silent``               no lease, no status, no pods from then on, as a machine that hangs
``not-ready``            says itself that it is not Ready
``disk-pressure``        the condition DiskPressure; ``memory-pressure``, ``pid-pressure`` likewise
``condition/TYPE=VALUE``  any condition, such as ``condition/NetworkingReady=False``
=======================  ====================================================================================

Several words are separated by spaces. An annotation of the Node wins over the file, that over the machine's tag or
the model's failure profile; taking the annotation away heals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import yaml

from karpenter.errors import KarpenterError
from karpenter.kit.durations import DurationError, parse_duration

__all__ = ["ANNOTATION", "WELL", "Behaviour", "BehaviourError", "Rules", "State", "read_behaviour"]

ANNOTATION: Final = "sandbox.karpenter.sh/kubelet"

_PRESSURES: Final = {
    "disk-pressure": "DiskPressure",
    "memory-pressure": "MemoryPressure",
    "pid-pressure": "PIDPressure",
}
_KINDS: Final = ("joins", "never-joins", "joins-not-ready", "dies", "silent", "not-ready", *_PRESSURES)
_CONDITION: Final = re.compile(r"condition/([A-Za-z]+)=(True|False|Unknown)")
_FIELDS: Final = ("instance", "node", "instanceType", "zone", "nodepool")


class BehaviourError(KarpenterError):
    """Words that name no behaviour, or a file of them that cannot be read."""


@dataclass(frozen=True, slots=True)
class State:
    """How a kubelet is at one moment."""

    silent: bool = False
    ready: bool = True
    conditions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What becomes of a kubelet over time: each trouble with the seconds after which it begins."""

    troubles: tuple[tuple[str, float], ...] = ()

    @property
    def joins(self) -> bool:
        """Says whether there will be a Node at all."""
        return all(kind != "never-joins" for kind, _ in self.troubles)

    def at(self, seconds: float) -> State:
        """Gives how it is that long after it was Ready."""
        active = [kind for kind, after_s in self.troubles if after_s <= seconds]
        conditions = [(_PRESSURES[kind], "True") for kind in active if kind in _PRESSURES]
        for kind in active:
            match = _CONDITION.fullmatch(kind)
            if match:
                conditions.append((match[1], match[2]))
        return State(
            silent=any(kind in {"silent", "dies"} for kind in active),
            ready=not any(kind in {"not-ready", "joins-not-ready"} for kind in active),
            conditions=tuple(conditions),
        )

    def next_after(self, seconds: float) -> float | None:
        """Gives when something changes next, counted from when it was Ready; None if nothing does."""
        return min((after_s for _, after_s in self.troubles if after_s > seconds), default=None)


WELL: Final = Behaviour()


def read_behaviour(text: str) -> Behaviour:
    """Reads the words of a behaviour.

    Raises:
        BehaviourError: One of them is none.
    """
    troubles = []
    for word in text.split():
        kind, _, delay = word.partition("@")
        if kind not in _KINDS and _CONDITION.fullmatch(kind) is None:
            raise BehaviourError(
                f"{word!r} is no behaviour of a kubelet",
                hint=f"one of {', '.join(_KINDS)}, condition/TYPE=False; with a time: not-ready@30s",
            )
        try:
            after_s = parse_duration(delay).seconds if delay else 0.0
        except DurationError as wrong:
            raise BehaviourError(f"{word!r}: {wrong.message}", hint=wrong.hint) from wrong
        if kind != "joins":
            troubles.append((kind, after_s))
    return Behaviour(tuple(troubles))


class Rules:
    """A file of behaviours, read again whenever it changes; the first rule that fits a machine counts.

    ::

        - match: {instanceType: "m5.*", zone: us-west-2a}    # also instance, node, nodepool; wildcards allowed
          kubelet: not-ready@30s
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._rules: Sequence[tuple[Mapping[str, str], Behaviour]] = ()

    def refresh(self) -> bool:
        """Reads the file if it has changed and says whether it had; a file that is not there has no rules.

        Raises:
            BehaviourError: It says something that cannot be meant; the rules from before stay.
        """
        if self._path is None:
            return False
        try:
            found = self._path.stat()
            stamp: tuple[int, int] | None = (found.st_mtime_ns, found.st_size)
        except FileNotFoundError:
            stamp = None
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self._rules = () if stamp is None else _read_rules(self._path)
        return True

    def of(self, machine: Mapping[str, str]) -> Behaviour | None:
        """Gives the behaviour of a machine that has these fields; None where no rule fits."""
        for wanted, behaviour in self._rules:
            if all(fnmatchcase(machine.get(field, ""), pattern) for field, pattern in wanted.items()):
                return behaviour
        return None


def _read_rules(path: Path) -> list[tuple[Mapping[str, str], Behaviour]]:
    try:
        document: Any = yaml.safe_load(path.read_text(encoding="utf-8")) or []
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as broken:
        raise BehaviourError(f"{path}: {broken}") from broken
    if not isinstance(document, list):
        raise BehaviourError(
            f"{path}: expected a list of rules", hint="- {match: {...}, kubelet: silent@30s}"
        )
    rules: list[tuple[Mapping[str, str], Behaviour]] = []
    for number, rule in enumerate(document):
        where = f"{path}: rule {number}"
        if not isinstance(rule, dict) or set(rule) - {"match", "kubelet"} or "kubelet" not in rule:
            raise BehaviourError(f"{where}: expected the fields match and kubelet")
        wanted = rule.get("match") or {}
        if not isinstance(wanted, dict) or set(wanted) - set(_FIELDS):
            raise BehaviourError(f"{where}: match: expected some of {', '.join(_FIELDS)}")
        try:
            rules.append(({k: str(v) for k, v in wanted.items()}, read_behaviour(str(rule["kubelet"]))))
        except BehaviourError as wrong:
            raise BehaviourError(f"{where}: {wrong.message}", hint=wrong.hint) from wrong
    return rules
