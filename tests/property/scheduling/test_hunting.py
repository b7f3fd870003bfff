# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.scheduling import SolveOptions
from tests.property.scheduling.hunting import kind_of, main, violations
from tests.strategies import Problem, nodepool, pod, small_catalogue


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "new node 0 of pool default has 1920 of cpu, its pods take 1921",
            "new node 12 of pool extra has 3920 of cpu, its pods take 5000",
        ),
        (
            "pod default/a allows a skew of 1 by topology.kubernetes.io/zone, but us-east-1a has 3 ({'x': 1})",
            "pod shop/b-1 allows a skew of 2 by karpenter.sh/capacity-type, but spot has 7 ({})",
        ),
        (
            "new node 1 of pool a as m5.large spot in us-east-1a does not meet the node affinity of pod a/b",
            "new node 2 of pool b as c5.2xlarge on-demand in us-east-1c does not meet the node affinity of pod c/d",
        ),
    ],
)
def test_violations_that_differ_in_names_and_numbers_are_of_one_kind(one: str, other: str) -> None:
    assert kind_of(one) == kind_of(other)


def test_different_violations_are_of_different_kinds() -> None:
    assert kind_of("new node 0 of pool a has no pods") != kind_of("new node 0 of pool a leaves it open")


def test_a_good_plan_gives_no_violations() -> None:
    problem = Problem(pods=(pod(),), nodepools=(nodepool(),), types=small_catalogue())

    assert violations(problem, SolveOptions()) == []


def test_a_crash_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr("tests.property.scheduling.hunting.solve", broken)

    assert violations(Problem(), SolveOptions()) == ["crash in broken: RuntimeError: oops"]


def test_the_hunt_says_what_it_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.property.scheduling.hunting.check", lambda *_: ["pod a/b is unhappy"])

    code = main(["0", "2", "--shrink"])

    said = capsys.readouterr().out
    assert code == 1
    assert "seed 0: pod a/b is unhappy" in said
    assert "     2  pod * is unhappy" in said
