# SPDX-License-Identifier: Apache-2.0
"""Verdicts of specs: read from Ginkgo's JSON reports, compared with the list of known ones, shown as a table.

A spec passed, failed, was left out by the suite itself (not applicable), or was not reached because an ordered
container ended before it. ``known.toml`` lists by name what is expected not to pass and why: as a difference of ours,
a limit of the models, or because it needs what no model can carry.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

__all__ = ["KNOWN", "Outcome", "Verdict", "known_specs", "read_report", "summary", "table", "unexpected"]

KNOWN: Final = Path(__file__).with_name("known.toml")
_MESSAGE_CHARACTERS: Final = 160


class Outcome(StrEnum):
    """What became of a spec."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"
    NOT_REACHED = "not reached"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One spec and what became of it."""

    suite: str
    spec: str
    outcome: Outcome
    seconds: float
    message: str = ""


def read_report(suite: str, path: Path) -> tuple[Verdict, ...]:
    """Return the verdicts of a suite's report; specs that a focus left out are not among them."""
    reports = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return tuple(
        _verdict(suite, spec)
        for report in reports
        for spec in report.get("SpecReports") or ()
        if spec["LeafNodeType"] == "It" and not _is_filtered_out(spec)
    )


def known_specs(path: Path = KNOWN) -> Mapping[tuple[str, str], str]:
    """Return why each listed spec of each suite is expected not to pass."""
    listed = tomllib.loads(path.read_text(encoding="utf-8")).get("spec", ())
    return {(each["suite"], each["name"]): each["reason"] for each in listed}


def unexpected(verdicts: Iterable[Verdict], known: Mapping[tuple[str, str], str]) -> tuple[Verdict, ...]:
    """Return the specs that should have passed and did not."""
    bad = (Outcome.FAILED, Outcome.NOT_REACHED)
    return tuple(each for each in verdicts if each.outcome in bad and (each.suite, each.spec) not in known)


def table(verdicts: Sequence[Verdict], known: Mapping[tuple[str, str], str]) -> str:
    """Return a row for each spec: suite, outcome, seconds, name and, where it did not pass, why."""
    rows = []
    for each in verdicts:
        why = known.get((each.suite, each.spec), each.message) if each.outcome is not Outcome.PASSED else ""
        rows.append(
            f"{each.suite:<22} {each.outcome:<14} {each.seconds:6.0f} s  {each.spec}"
            + (f"\n    {why}" if why else "")
        )
    return "\n".join(rows)


def summary(verdicts: Iterable[Verdict]) -> str:
    """Return a line for each suite with its counts, and one for all."""
    suites: dict[str, Counter[Outcome]] = {}
    for each in verdicts:
        suites.setdefault(each.suite, Counter())[each.outcome] += 1
    suites["all"] = sum(suites.values(), Counter())
    return "\n".join(
        f"{suite:<22} {counts[Outcome.PASSED]} of {counts.total()} passed"
        + "".join(
            f", {counts[each]} {each}" for each in Outcome if counts[each] and each is not Outcome.PASSED
        )
        for suite, counts in suites.items()
    )


def _verdict(suite: str, spec: Mapping[str, Any]) -> Verdict:
    failure = spec.get("Failure") or {}
    name = " ".join((*(spec.get("ContainerHierarchyTexts") or ()), spec["LeafNodeText"]))
    message = " ".join(str(failure.get("Message", "")).split())[:_MESSAGE_CHARACTERS]
    return Verdict(suite, name, _outcome(spec, message), spec.get("RunTime", 0) / 1e9, message)


def _outcome(spec: Mapping[str, Any], message: str) -> Outcome:
    match spec["State"]:
        case "passed":
            return Outcome.PASSED
        case "pending":
            return Outcome.NOT_APPLICABLE
        case "skipped" if "an earlier spec" in message.lower() or not message:
            return Outcome.NOT_REACHED
        case "skipped":
            return Outcome.NOT_APPLICABLE
    return Outcome.FAILED


def _is_filtered_out(spec: Mapping[str, Any]) -> bool:
    """Return whether Ginkgo never meant to run a spec: skipped, without a message and without a start."""
    return (
        spec["State"] == "skipped"
        and not (spec.get("Failure") or {}).get("Message")
        and not spec.get("RunTime")
    )
