# SPDX-License-Identifier: Apache-2.0
"""Verdicts of specs: read from Ginkgo's JSON reports and compared with the list of known ones.

A spec passed, failed, or is not applicable: the suite itself leaves it out, or ``known.toml`` says what it needs that
no model can carry. ``known.toml`` also lists by name what is expected to fail, and why.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.upstream.specs import spec_name

__all__ = ["KNOWN", "Known", "Outcome", "Verdict", "judged", "known_specs", "read_verdict", "unexpected"]

KNOWN: Final = Path(__file__).with_name("known.toml")
_MESSAGE_CHARACTERS: Final = 240


class Outcome(StrEnum):
    """What became of a spec."""

    PASSED = "passed"
    FAILED = "failed"
    KNOWN = "known to fail"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One spec and what became of it.

    Attributes:
        suite: Name of the suite.
        spec: Name of the spec.
        outcome: What became of it.
        seconds: How long it took.
        message: Why it did not pass, in one line.
        is_listed: Whether ``known.toml`` lists it.
    """

    suite: str
    spec: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""
    is_listed: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """Why a spec is expected not to pass.

    Attributes:
        reason: In one sentence.
        applies: Whether it fails, or else needs what no model can carry.
    """

    reason: str
    applies: bool = True


def read_verdict(suite: str, spec: str, path: Path) -> Verdict | None:
    """Return what a report says of a spec, or None where it says nothing."""
    if not path.is_file():
        return None
    reports = json.loads(path.read_text(encoding="utf-8"))
    parts = [part for report in reports for part in report.get("SpecReports") or ()]
    own = [
        part
        for part in parts
        if part["LeafNodeType"] == "It" and spec_name(part) == spec and not _is_filtered_out(part)
    ]
    # A suite that fails before its first spec has a failure, but no spec that ran.
    parts = own or [part for part in parts if part["State"] not in ("passed", "skipped", "pending")]
    verdicts = [_verdict(suite, spec, part) for part in parts]
    bad = [each for each in verdicts if each.outcome is Outcome.FAILED]
    return next(iter((*bad, *verdicts)), None)


def known_specs(controller: str = "ours", path: Path = KNOWN) -> Mapping[tuple[str, str], Known]:
    """Return why each listed spec of each suite is expected not to pass with a controller.

    An entry that names no controller is about ours; one that cannot apply is about both.
    """
    listed = tomllib.loads(path.read_text(encoding="utf-8")).get("spec", ())
    return {
        (each["suite"], each["name"]): Known(each["reason"], each.get("applies", True))
        for each in listed
        if each.get("controller", "ours") in (controller, "both") or not each.get("applies", True)
    }


def judged(verdict: Verdict, known: Mapping[tuple[str, str], Known]) -> Verdict:
    """Return a verdict with what the list of known specs says about it."""
    listed = known.get((verdict.suite, verdict.spec))
    if listed is None:
        return verdict
    if verdict.outcome is not Outcome.FAILED:
        return replace(verdict, is_listed=True)
    outcome = Outcome.KNOWN if listed.applies else Outcome.NOT_APPLICABLE
    return replace(verdict, outcome=outcome, message=listed.reason, is_listed=True)


def unexpected(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return the specs that should have passed and did not."""
    return tuple(each for each in verdicts if each.outcome is Outcome.FAILED)


def _verdict(suite: str, spec: str, part: Mapping[str, Any]) -> Verdict:
    failure = part.get("Failure") or {}
    said = f"{failure.get('Message', '')} {failure.get('ForwardedPanic', '')}"
    message = " ".join(said.split())[:_MESSAGE_CHARACTERS]
    outcome = _outcome(part["State"])
    if outcome is Outcome.FAILED:
        message = f"{_place(failure)}{message or part['State']}"
    if outcome is Outcome.NOT_APPLICABLE:
        message = message or "the suite's authors have switched it off"
    return Verdict(suite, spec, outcome, part.get("RunTime", 0) / 1e9, message)


def _outcome(state: str) -> Outcome:
    match state:
        case "passed":
            return Outcome.PASSED
        case "pending" | "skipped":
            return Outcome.NOT_APPLICABLE
    return Outcome.FAILED


def _place(failure: Mapping[str, Any]) -> str:
    location = failure.get("Location") or {}
    name = str(location.get("FileName", "")).rpartition("/")[2]
    return f"{name}:{location.get('LineNumber', 0)}: " if name else ""


def _is_filtered_out(part: Mapping[str, Any]) -> bool:
    """Return whether Ginkgo never meant to run a spec: skipped, without a message and without a start."""
    return (
        part["State"] == "skipped"
        and not (part.get("Failure") or {}).get("Message")
        and not part.get("RunTime")
    )
