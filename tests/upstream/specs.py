# SPDX-License-Identifier: Apache-2.0
"""The specs of suites: listed by a dry run of a suite's program, chosen by a regular expression or by name."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from karpenter.errors import KarpenterError
from tests.upstream.sources import BuiltSuite
from tests.upstream.suites import Suite

__all__ = ["QUICK", "Spec", "focused", "listed", "named", "quick_specs", "spec_name"]

QUICK: Final = Path(__file__).with_name("quick.toml")
# Specs that use variables which another one, earlier in their container, has set: they fail without it, also on AWS.
_LEADERS: Final = {
    (
        "integration",
        "NodeClass IAM Permissions should succeed with all required permissions",
    ): "NodeClass IAM Permissions IAM Permission Failure Tests should fail when CreateFleet is denied",
}
_LIST_TIMEOUT_S: Final = 120.0
_SPECIAL: Final = re.compile(r"[.*+?()|\[\]{}^$\\]")


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec of a built suite.

    Attributes:
        built: The suite's program.
        name: The texts of its containers and its own.
        title: The suite's own title, which Ginkgo puts before names when it compares them with a focus.
        is_pending: Whether the suite's authors have switched it off.
    """

    built: BuiltSuite
    name: str
    title: str
    is_pending: bool = False

    @property
    def suite(self) -> Suite:
        """The suite that it is part of."""
        return self.built.suite

    @property
    def focus(self) -> str:
        """A regular expression that this spec's name matches, and that of the one that it builds on."""
        leader = _LEADERS.get((self.suite.name, self.name))
        names = "|".join(_quoted(each) for each in (self.name, leader) if each)
        return f"^{_quoted(self.title)} ({names})$"


def listed(built: BuiltSuite, environ: Mapping[str, str]) -> tuple[Spec, ...]:
    """Return all specs of a suite, in the order of its sources, each name once.

    Raises:
        KarpenterError: The program did not list them.
    """
    with tempfile.TemporaryDirectory(prefix="karpenter-suites-") as directory:
        report = Path(directory) / "report.json"
        done = subprocess.run(
            [
                str(built.program),
                "--ginkgo.dry-run",
                "--ginkgo.no-color",
                "--ginkgo.seed=1",
                f"--ginkgo.json-report={report}",
            ],
            cwd=built.directory,
            env=dict(environ),
            capture_output=True,
            text=True,
            timeout=_LIST_TIMEOUT_S,
            check=False,
        )
        if not report.is_file():
            raise KarpenterError(f"the suite {built.suite.name} did not list its specs: {done.stdout[-800:]}")
        reports = json.loads(report.read_text(encoding="utf-8"))
    return _specs(built, reports)


def focused(specs: Iterable[Spec], focus: str) -> tuple[Spec, ...]:
    """Return the specs whose name matches a regular expression."""
    pattern = re.compile(focus)
    return tuple(each for each in specs if pattern.search(each.name))


def named(specs: Sequence[Spec], names: Iterable[tuple[str, str]]) -> tuple[Spec, ...]:
    """Return the specs of these suites and names, in that order.

    Raises:
        KarpenterError: There is no spec of that name.
    """
    known = {(each.suite.name, each.name): each for each in specs}
    found = []
    for suite, name in names:
        if (suite, name) not in known:
            raise KarpenterError(f"the suite {suite} has no spec called '{name}'")
        found.append(known[suite, name])
    return tuple(found)


def quick_specs(path: Path = QUICK) -> tuple[tuple[str, str], ...]:
    """Return suite and name of the specs that run in continuous integration."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["spec"]
    return tuple((each["suite"], each["name"]) for each in entries)


def spec_name(report: Mapping[str, Any]) -> str:
    """Return the name of a spec from its part of a Ginkgo report."""
    texts = (*(report.get("ContainerHierarchyTexts") or ()), report["LeafNodeText"])
    return " ".join(text for text in texts if text)


def _specs(built: BuiltSuite, reports: Iterable[Mapping[str, Any]]) -> tuple[Spec, ...]:
    found: dict[str, Spec] = {}
    for report in reports:
        its = [each for each in report.get("SpecReports") or () if each["LeafNodeType"] == "It"]
        for each in sorted(its, key=_place):
            name = spec_name(each)
            pending = each["State"] == "pending"
            found.setdefault(name, Spec(built, name, report["SuiteDescription"], pending))
    return tuple(found.values())


def _place(report: Mapping[str, Any]) -> tuple[str, int]:
    location = report.get("LeafNodeLocation") or {}
    return str(location.get("FileName", "")), int(location.get("LineNumber", 0))


def _quoted(text: str) -> str:
    """Return a regular expression of Go that matches a text (Python's own escapes more than Go knows)."""
    return _SPECIAL.sub(r"\\\g<0>", text)
