# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from karpenter.errors import KarpenterError
from tests.upstream.sources import BuiltSuite
from tests.upstream.specs import Spec, focused, listed, named, quick_specs
from tests.upstream.suites import SUITES, chosen

REPORT = """[{"SuiteDescription": "Drift", "SpecReports": [
  {"LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "passed"},
  {"ContainerHierarchyTexts": ["Budgets"], "LeafNodeType": "It", "LeafNodeText": "hold (all)", "State": "passed",
   "LeafNodeLocation": {"FileName": "b_test.go", "LineNumber": 9}},
  {"ContainerHierarchyTexts": ["Budgets", ""], "LeafNodeType": "It", "LeafNodeText": "wait", "State": "pending",
   "LeafNodeLocation": {"FileName": "b_test.go", "LineNumber": 3}},
  {"ContainerHierarchyTexts": ["Budgets"], "LeafNodeType": "It", "LeafNodeText": "wait", "State": "passed",
   "LeafNodeLocation": {"FileName": "b_test.go", "LineNumber": 7}}
]}]"""


@pytest.fixture
def built(tmp_path: Path) -> BuiltSuite:
    """A suite whose program writes a report."""
    suite = BuiltSuite(chosen(["drift"])[0], tmp_path)
    suite.directory.mkdir(parents=True)
    suite.program.parent.mkdir()
    (tmp_path / "report.json").write_text(REPORT)
    suite.program.write_text(
        "#!/bin/sh\nfor each; do case $each in *json-report=*) "
        f'cp "{tmp_path}/report.json" "${{each#*=}}";; esac; done\n'
    )
    suite.program.chmod(0o755)
    return suite


def test_specs_are_listed_once_by_name_in_the_order_of_the_sources(built: BuiltSuite) -> None:
    found = listed(built, {"PATH": "/usr/bin:/bin"})

    assert [(each.name, each.is_pending) for each in found] == [
        ("Budgets wait", True),
        ("Budgets hold (all)", False),
    ]


def test_a_program_that_lists_nothing_is_an_error(built: BuiltSuite) -> None:
    built.program.write_text("#!/bin/sh\necho no such flag\n")

    with pytest.raises(KarpenterError, match="drift did not list its specs: no such flag"):
        listed(built, {"PATH": "/usr/bin:/bin"})


def test_a_focus_matches_the_whole_name_and_nothing_else(built: BuiltSuite) -> None:
    spec = Spec(built, "Budgets hold (all) 50%, $1 [a]", "Drift")

    assert re.fullmatch(spec.focus, "Drift Budgets hold (all) 50%, $1 [a]")
    assert not re.search(spec.focus, "Drift Budgets hold (all) 50%, $1 [a] too")


def test_specs_are_chosen_by_expression_or_by_name(built: BuiltSuite) -> None:
    specs = listed(built, {"PATH": "/usr/bin:/bin"})

    assert [each.name for each in focused(specs, "hold|nothing")] == ["Budgets hold (all)"]
    assert [each.name for each in named(specs, [("drift", "Budgets wait")])] == ["Budgets wait"]
    with pytest.raises(KarpenterError, match="drift has no spec called 'Budgets rest'"):
        named(specs, [("drift", "Budgets rest")])


def test_the_quick_specs_are_of_several_suites_that_exist() -> None:
    suites = {suite for suite, _ in quick_specs()}

    assert len(suites) > 1
    assert suites <= {suite.name for suite in SUITES}


def test_suites_are_chosen_by_name_and_all_without_one() -> None:
    assert [suite.name for suite in chosen(["drift", "dra"])] == ["drift", "dra"]
    assert chosen([]) == SUITES
    with pytest.raises(KarpenterError, match="no suite called drifts"):
        chosen(["drifts"])


def test_a_spec_that_uses_what_another_one_left_is_run_together_with_it(tmp_path: Path) -> None:
    built = BuiltSuite(chosen(["integration"])[0], tmp_path)
    spec = Spec(
        built, "NodeClass IAM Permissions should succeed with all required permissions", "Integration"
    )

    for name in (
        spec.name,
        "NodeClass IAM Permissions IAM Permission Failure Tests should fail when CreateFleet is denied",
    ):
        assert re.fullmatch(spec.focus, f"Integration {name}")
    assert not re.fullmatch(spec.focus, "Integration Subnets should use the subnet-id selector")
