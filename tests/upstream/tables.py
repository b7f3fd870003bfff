# SPDX-License-Identifier: Apache-2.0
"""Verdicts as people and programs read them: text, Markdown, JSON and JUnit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.upstream.reports import Outcome, Verdict

__all__ = ["markdown", "summary", "text", "write_results"]


def text(verdicts: Iterable[Verdict]) -> str:
    """Return a row for each spec: suite, outcome, seconds, name and, where it did not pass, why."""
    rows = []
    for each in verdicts:
        rows.append(f"{each.suite:<22} {each.outcome:<14} {each.seconds:6.0f} s  {each.spec}")
        if each.message:
            rows.append(f"    {each.message}")
    return "\n".join(rows)


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return a line for each suite with its counts, one for all, and the listed specs that pass."""
    suites: dict[str, Counter[Outcome]] = {}
    for each in verdicts:
        suites.setdefault(each.suite, Counter())[each.outcome] += 1
    suites["all"] = sum(suites.values(), Counter())
    lines = [f"{suite:<22} {_counts(counts)}" for suite, counts in suites.items()]
    lines += [
        f"listed in known.toml, but passes: {each.suite}: {each.spec}"
        for each in verdicts
        if each.is_listed and each.outcome is Outcome.PASSED
    ]
    return "\n".join(lines)


def markdown(verdicts: Sequence[Verdict], title: str) -> str:
    """Return a page with a table of counts and a table of all specs."""
    suites = dict.fromkeys(each.suite for each in verdicts)
    lines = [f"# {title}", "", "| suite | result |", "| --- | --- |"]
    for suite in (*suites, None):
        counts = Counter(each.outcome for each in verdicts if suite in (None, each.suite))
        lines.append(f"| {suite or 'all'} | {_counts(counts)} |")
    lines += ["", "| suite | spec | outcome | seconds | reason |", "| --- | --- | --- | ---: | --- |"]
    lines += [
        f"| {each.suite} | {_cell(each.spec)} | {each.outcome} | {each.seconds:.0f} | {_cell(each.message)} |"
        for each in verdicts
    ]
    return "\n".join(lines) + "\n"


def write_results(verdicts: Sequence[Verdict], directory: Path, title: str) -> None:
    """Write ``results.md``, ``results.json`` and ``junit.xml`` into a directory."""
    (directory / "results.md").write_text(markdown(verdicts, title), encoding="utf-8")
    rows = [asdict(each) for each in verdicts]
    (directory / "results.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    ET.ElementTree(_junit(verdicts)).write(directory / "junit.xml", encoding="unicode", xml_declaration=True)


def _junit(verdicts: Sequence[Verdict]) -> ET.Element:
    root = ET.Element("testsuites")
    for suite in dict.fromkeys(each.suite for each in verdicts):
        own = [each for each in verdicts if each.suite == suite]
        failed = sum(each.outcome is Outcome.FAILED for each in own)
        skipped = sum(each.outcome in (Outcome.KNOWN, Outcome.NOT_APPLICABLE) for each in own)
        counts = {"tests": str(len(own)), "failures": str(failed), "skipped": str(skipped)}
        element = ET.SubElement(root, "testsuite", {"name": suite, **counts})
        for each in own:
            case = ET.SubElement(
                element, "testcase", classname=suite, name=each.spec, time=f"{each.seconds:.1f}"
            )
            if each.outcome is Outcome.FAILED:
                ET.SubElement(case, "failure", message=each.message)
            elif each.outcome is not Outcome.PASSED:
                ET.SubElement(case, "skipped", message=f"{each.outcome}: {each.message}")
    return root


def _counts(counts: Counter[Outcome]) -> str:
    applicable = counts.total() - counts[Outcome.NOT_APPLICABLE]
    return f"{counts[Outcome.PASSED]} of {applicable} passed" + "".join(
        f", {counts[each]} {each}" for each in Outcome if counts[each] and each is not Outcome.PASSED
    )


def _cell(words: str) -> str:
    return words.replace("|", "\\|")
