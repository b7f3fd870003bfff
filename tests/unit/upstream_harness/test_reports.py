# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from karpenter.errors import KarpenterError
from tests.upstream.reports import Outcome, known_specs, read_report, summary, table, unexpected
from tests.upstream.suites import SUITES, chosen


def spec(
    name: str, state: str, message: str = "", *, seconds: float = 1.0, kind: str = "It"
) -> dict[str, Any]:
    return {
        "ContainerHierarchyTexts": ["Drift"] if kind == "It" else None,
        "LeafNodeType": kind,
        "LeafNodeText": name,
        "State": state,
        "RunTime": int(seconds * 1e9),
        **({"Failure": {"Message": message}} if message else {}),
    }


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "drift.json"
    specs = [
        spec("", "passed", kind="BeforeSuite"),
        spec("replaces nodes", "passed", seconds=12),
        spec("replaces images", "failed", "Timed out\n  after 90 s."),
        spec("needs Windows", "skipped", "this needs a Windows AMI", seconds=0),
        spec(
            "comes later",
            "skipped",
            "Spec skipped because an earlier spec in an ordered container failed",
            seconds=0,
        ),
        spec("is written one day", "pending", seconds=0),
        spec("is out of focus", "skipped", seconds=0),
        spec("breaks", "panicked", "nil map"),
    ]
    path.write_text(json.dumps([{"SpecReports": specs}, {"SpecReports": None}]))
    return path


def test_each_spec_that_was_meant_to_run_has_a_verdict(report: Path) -> None:
    verdicts = read_report("drift", report)

    assert [(each.spec, each.outcome) for each in verdicts] == [
        ("Drift replaces nodes", Outcome.PASSED),
        ("Drift replaces images", Outcome.FAILED),
        ("Drift needs Windows", Outcome.NOT_APPLICABLE),
        ("Drift comes later", Outcome.NOT_REACHED),
        ("Drift is written one day", Outcome.NOT_APPLICABLE),
        ("Drift breaks", Outcome.FAILED),
    ]
    assert (verdicts[0].seconds, verdicts[1].message) == (12.0, "Timed out after 90 s.")


def test_a_suite_that_wrote_no_report_has_no_verdicts(tmp_path: Path) -> None:
    assert read_report("drift", tmp_path / "drift.json") == ()


def test_only_specs_that_are_not_listed_are_unexpected(report: Path) -> None:
    verdicts = read_report("drift", report)
    known = {
        ("drift", "Drift replaces images"): "images are not copied",
        ("storage", "Drift breaks"): "other",
    }

    assert [each.spec for each in unexpected(verdicts, known)] == ["Drift comes later", "Drift breaks"]


def test_the_table_gives_the_listed_reason_before_the_message(report: Path) -> None:
    rows = table(read_report("drift", report), {("drift", "Drift replaces images"): "images are not copied"})

    assert rows.splitlines()[:3] == [
        "drift                  passed             12 s  Drift replaces nodes",
        "drift                  failed              1 s  Drift replaces images",
        "    images are not copied",
    ]


def test_the_summary_counts_by_suite_and_in_all(report: Path) -> None:
    lines = summary(read_report("drift", report)).splitlines()

    counts = "1 of 6 passed, 2 failed, 2 not applicable, 1 not reached"
    assert lines == [f"drift                  {counts}", f"all                    {counts}"]


def test_the_list_of_known_specs_is_by_suite_and_name(tmp_path: Path) -> None:
    listed = tmp_path / "known.toml"
    listed.write_text('[[spec]]\nsuite = "drift"\nname = "Drift breaks"\nreason = "because"\n')

    assert known_specs(listed) == {("drift", "Drift breaks"): "because"}


def test_every_listed_spec_names_a_suite_that_exists() -> None:
    assert {suite for suite, _ in known_specs()} <= {suite.name for suite in SUITES}


def test_suites_are_chosen_by_name_and_all_without_one() -> None:
    assert [suite.name for suite in chosen(["drift", "dra"])] == ["drift", "dra"]
    assert chosen([]) == SUITES
    with pytest.raises(KarpenterError, match="no suite called drifts"):
        chosen(["drifts"])
