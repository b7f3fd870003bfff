# SPDX-License-Identifier: Apache-2.0
"""The validation corpus: objects, good and bad, and what a real kube-apiserver says to each.

The files beside this one hold the cases (``validation/*.yaml``). The unit tests hold our own validation
against the recorded verdicts; the end-to-end tests hold the recorded verdicts, and ours, against the server.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from karpenter.api.schema import Admission, Registry

__all__ = ["CASES", "ValidationCase", "merged"]

_FOLDER = Path(__file__).parent / "validation"


@dataclass(frozen=True)
class ValidationCase:
    """One object, perhaps a second write to it, and the server's verdict on the last write."""

    file: str
    name: str
    object: dict[str, Any]
    update: dict[str, Any] | None
    status: dict[str, Any] | None
    verdict: str
    problems: frozenset[tuple[str, str]]

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"

    @property
    def is_second_write(self) -> bool:
        """Whether the object must be stored before the write that is judged."""
        return self.update is not None or self.status is not None

    @property
    def subresource(self) -> str:
        """The subresource of the second write."""
        return "status" if self.status is not None else ""

    def second_write(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is sent, given what is stored."""
        if self.status is not None:
            return {**stored, "status": self.status}
        sent: dict[str, Any] = merged(stored, self.update)
        return sent

    def judged(self, registry: Registry) -> Admission:
        """Return our own verdict."""
        first = registry.admit(self.object)
        if not self.is_second_write:
            return first
        stored = first.check()
        return registry.admit(self.second_write(stored), stored, subresource=self.subresource)


def merged(value: Any, patch: Any) -> Any:
    """Return a value with a merge patch applied: null removes, lists are replaced."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(value) if isinstance(value, Mapping) else {}
    for key, inner in patch.items():
        if inner is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), inner)
    return result


def _repeated(obj: dict[str, Any], repeat: Mapping[str, Any]) -> None:
    *way, last = repeat["at"]
    for key in way:
        obj = obj[key]
    obj[last] = [repeat["item"]] * repeat["times"]


def _case(file: Path, base: dict[str, Any], raw: Mapping[str, Any]) -> ValidationCase:
    obj = raw["object"] if "object" in raw else merged(copy.deepcopy(base), raw.get("with", {}))
    if "repeat" in raw:
        _repeated(obj, raw["repeat"])
    verdict = next(word for word in ("accepted", "refused", "unreadable") if word in raw)
    problems = [line.rsplit(" ", 1) for line in raw.get("refused", ())]
    return ValidationCase(
        file=file.stem,
        name=raw["name"],
        object=obj,
        update=raw.get("update"),
        status=raw.get("status"),
        verdict=verdict,
        problems=frozenset((field, type_) for field, type_ in problems),
    )


def _load() -> tuple[ValidationCase, ...]:
    cases = []
    for file in sorted(_FOLDER.glob("*.yaml")):
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
        cases += [_case(file, raw["base"], each) for each in raw["cases"]]
    return tuple(cases)


CASES = _load()
