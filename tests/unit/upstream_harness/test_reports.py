# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.upstream.reports import Known, Outcome, Verdict, judged, known_specs, read_verdict, unexpected
from tests.upstream.suites import SUITES


def part(name: str, state: str, message: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "ContainerHierarchyTexts": ["Drift"],
        "LeafNodeType": "It",
        "LeafNodeText": name,
        "State": state,
        "RunTime": 2_000_000_000,
        **({"Failure": {"Message": message}} if message else {}),
        **fields,
    }


def report(directory: Path, *parts: dict[str, Any]) -> Path:
    path = directory / "report.json"
    path.write_text(json.dumps([{"SpecReports": list(parts)}, {"SpecReports": None}]))
    return path


def verdict(directory: Path, *parts: dict[str, Any], spec: str = "Drift replaces nodes") -> Verdict | None:
    return read_verdict("drift", spec, report(directory, *parts))


OUT_OF_FOCUS = part("is out of focus", "skipped", RunTime=0)


def test_a_spec_that_passed_is_read_among_those_out_of_focus(tmp_path: Path) -> None:
    found = verdict(tmp_path, OUT_OF_FOCUS, part("replaces nodes", "passed"))

    assert found == Verdict("drift", "Drift replaces nodes", Outcome.PASSED, 2.0)


@pytest.mark.parametrize("state", ["failed", "panicked", "timedout", "interrupted", "aborted"])
def test_any_bad_end_is_a_failure(tmp_path: Path, state: str) -> None:
    found = verdict(tmp_path, part("replaces nodes", state))

    assert found is not None
    assert (found.outcome, found.message) == (Outcome.FAILED, state)


def test_a_failure_says_where_and_why_in_one_line(tmp_path: Path) -> None:
    failure = {
        "Message": "Timed out\n  after 90 s.",
        "Location": {"FileName": "/suites/drift/suite_test.go", "LineNumber": 87},
    }
    found = verdict(tmp_path, part("replaces nodes", "failed", Failure=failure))

    assert found is not None
    assert found.message == "suite_test.go:87: Timed out after 90 s."


def test_a_panic_says_what_it_was(tmp_path: Path) -> None:
    failure = {"Message": "Test Panicked", "ForwardedPanic": "nil pointer"}
    found = verdict(tmp_path, part("replaces nodes", "panicked", Failure=failure))

    assert found is not None
    assert found.message == "Test Panicked nil pointer"


def test_a_spec_that_the_suite_leaves_out_is_not_applicable_with_its_reason(tmp_path: Path) -> None:
    skipped = verdict(tmp_path, part("replaces nodes", "skipped", "needs a private cluster", RunTime=0))
    pending = verdict(tmp_path, part("replaces nodes", "pending"))

    assert skipped is not None
    assert (skipped.outcome, skipped.message) == (Outcome.NOT_APPLICABLE, "needs a private cluster")
    assert pending is not None
    assert (pending.outcome, pending.message) == (
        Outcome.NOT_APPLICABLE,
        "the suite's authors have switched it off",
    )


def test_a_suite_that_fails_before_its_first_spec_gives_its_failure_to_the_spec(tmp_path: Path) -> None:
    before = part("", "failed", "no cluster", LeafNodeType="BeforeSuite", ContainerHierarchyTexts=None)
    found = verdict(tmp_path, before, part("replaces nodes", "skipped", RunTime=0))

    assert found == Verdict("drift", "Drift replaces nodes", Outcome.FAILED, 2.0, "no cluster")


def test_of_two_specs_with_one_name_the_failed_one_counts(tmp_path: Path) -> None:
    found = verdict(tmp_path, part("replaces nodes", "passed"), part("replaces nodes", "failed", "no"))

    assert found is not None
    assert found.outcome is Outcome.FAILED


def test_a_report_that_is_not_there_or_says_nothing_gives_no_verdict(tmp_path: Path) -> None:
    assert read_verdict("drift", "Drift replaces nodes", tmp_path / "none.json") is None
    assert verdict(tmp_path, OUT_OF_FOCUS) is None


FAILED = Verdict("drift", "Drift breaks", Outcome.FAILED, 3.0, "nil map")


def test_a_listed_spec_that_fails_is_known_and_has_the_listed_reason() -> None:
    found = judged(FAILED, {("drift", "Drift breaks"): Known("we do not do that")})

    assert (found.outcome, found.message) == (Outcome.KNOWN, "we do not do that")
    assert unexpected([found, FAILED]) == (FAILED,)


def test_a_listed_spec_that_cannot_apply_is_not_applicable() -> None:
    found = judged(FAILED, {("drift", "Drift breaks"): Known("needs Windows", applies=False)})

    assert (found.outcome, found.message) == (Outcome.NOT_APPLICABLE, "needs Windows")


def test_a_listed_spec_that_passes_stays_passed_and_is_marked() -> None:
    passed = Verdict("drift", "Drift breaks", Outcome.PASSED, 3.0)
    found = judged(passed, {("drift", "Drift breaks"): Known("we do not do that")})

    assert (found.outcome, found.is_listed) == (Outcome.PASSED, True)


def test_a_spec_of_the_same_name_in_another_suite_is_not_listed() -> None:
    assert judged(FAILED, {("storage", "Drift breaks"): Known("other")}) == FAILED


def test_the_list_of_known_specs_is_by_suite_name_and_controller(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text(
        '[[spec]]\nsuite = "drift"\nname = "Drift breaks"\nreason = "because"\n'
        '[[spec]]\nsuite = "ami"\nname = "AMI boots"\nreason = "Windows"\napplies = false\n'
        '[[spec]]\nsuite = "drift"\nname = "Drift waits"\nreason = "its clock"\ncontroller = "go"\n'
        '[[spec]]\nsuite = "ipv6"\nname = "IPv6 races"\nreason = "a race"\ncontroller = "both"\n'
    )

    both = {
        ("ami", "AMI boots"): Known("Windows", applies=False),
        ("ipv6", "IPv6 races"): Known("a race"),
    }
    assert known_specs("ours", path) == {("drift", "Drift breaks"): Known("because"), **both}
    assert known_specs("go", path) == {("drift", "Drift waits"): Known("its clock"), **both}


def test_every_listed_spec_names_a_suite_that_exists() -> None:
    for controller in ("ours", "go"):
        assert {suite for suite, _ in known_specs(controller)} <= {suite.name for suite in SUITES}
