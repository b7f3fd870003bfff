# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.upstream.measures import comparison
from tests.upstream.reports import Outcome, Verdict
from tests.upstream.tables import markdown, summary, text, write_results

VERDICTS = (
    Verdict("drift", "Drift replaces nodes", Outcome.PASSED, 12.0),
    Verdict("drift", "Drift a|b", Outcome.FAILED, 90.0, "timed out"),
    Verdict("ami", "AMI boots", Outcome.NOT_APPLICABLE, 0.0, "needs Windows", is_listed=True),
    Verdict("ami", "AMI ends", Outcome.KNOWN, 5.0, "on purpose", is_listed=True),
    Verdict("ami", "AMI rests", Outcome.PASSED, 5.0, is_listed=True),
)


def test_the_text_has_a_row_for_each_spec_and_why_it_did_not_pass() -> None:
    assert text(VERDICTS).splitlines()[:3] == [
        "drift                  passed             12 s  Drift replaces nodes",
        "drift                  failed             90 s  Drift a|b",
        "    timed out",
    ]


def test_the_summary_counts_without_what_cannot_apply_and_names_listed_specs_that_pass() -> None:
    assert summary(VERDICTS).splitlines() == [
        "drift                  1 of 2 passed, 1 failed",
        "ami                    1 of 2 passed, 1 known to fail, 1 not applicable",
        "all                    2 of 4 passed, 1 failed, 1 known to fail, 1 not applicable",
        "listed in known.toml, but passes: ami: AMI rests",
    ]


def test_markdown_has_counts_and_all_specs() -> None:
    lines = markdown(VERDICTS, "Ours").splitlines()

    assert lines[0] == "# Ours"
    assert "| all | 2 of 4 passed, 1 failed, 1 known to fail, 1 not applicable |" in lines
    assert "| drift | Drift a\\|b | failed | 90 | timed out |" in lines


def test_results_are_written_as_markdown_json_and_junit(tmp_path: Path) -> None:
    write_results(VERDICTS, tmp_path, "Ours")

    assert (tmp_path / "results.md").read_text().startswith("# Ours\n")
    assert json.loads((tmp_path / "results.json").read_text())[1]["outcome"] == "failed"
    root = ET.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - written by the line above
    assert [(each.get("name"), each.get("failures"), each.get("skipped")) for each in root] == [
        ("drift", "1", "0"),
        ("ami", "0", "2"),
    ]
    assert [each.get("message") for each in root.iter("failure")] == ["timed out"]


def test_what_both_sides_measured_stands_side_by_side(tmp_path: Path) -> None:
    for side, seconds in (("ours", 40), ("go", 50)):
        (tmp_path / side).mkdir()
        report = {"total_time": seconds * 10**9, "total_nodes": 3, "total_reserved_cpu_utilization": 0.5}
        (tmp_path / side / "scale_out_performance_report.json").write_text(json.dumps(report))

    rows = comparison({side: tmp_path / side for side in ("ours", "go")}).splitlines()

    assert rows[0].split()[:4] == ["measured", "side", "seconds", "nodes"]
    assert [row.split()[:4] for row in rows[1:]] == [
        ["scale_out", "ours", "40.0", "3.0"],
        ["scale_out", "go", "50.0", "3.0"],
    ]
    assert rows[1].split()[5] == "50.0"


def test_nothing_measured_gives_no_table(tmp_path: Path) -> None:
    assert comparison({"ours": tmp_path / "ours"}) == ""
