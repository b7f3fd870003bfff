# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from karpenter.errors import KarpenterError
from tests.upstream import planes
from tests.upstream.reports import Known, Outcome
from tests.upstream.runs import Options, run_all
from tests.upstream.sources import WAIT_VARIABLE, BuiltSuite
from tests.upstream.specs import Spec
from tests.upstream.suites import chosen

# A suite's program: a spec fails if its name holds "bad", writes nothing with "mute", and does not end with "slow".
PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time
given = dict(each.lstrip("-").split("=", 1) for each in sys.argv[1:] if "=" in each)
name = given["ginkgo.focus"].strip("^$").split(" ", 1)[1].strip("()")
if "slow" in name:
    time.sleep(600)
if "mute" not in name:
    state = "failed" if "bad" in name else "passed"
    pool = [given[key].rpartition("/")[2] for key in given if key == "default-nodepool"]
    part = {"LeafNodeType": "It", "LeafNodeText": name, "State": state, "RunTime": 1000000000,
            "Failure": {"Message": " ".join((os.environ["PLANE"], os.environ["%s"], *pool))}}
    with open(given["ginkgo.json-report"], "w") as file:
        json.dump([{"SpecReports": [part]}], file)
"""


class Planes:
    """Planes that are only names, and what became of them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.policies: list[str] = []
        self.open = 0
        self.failures = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def started(
        self, name: str, options: planes.PlaneOptions, environ: Mapping[str, str], directory: Path
    ) -> Iterator[dict[str, str]]:
        with self._lock:
            self.names.append(name)
            self.policies.append(options.min_values_policy)
            if self.failures:
                self.failures -= 1
                raise KarpenterError("it did not come up")
            self.open += 1
        directory.mkdir(parents=True)
        try:
            yield {**environ, "PLANE": f"plane-{len(self.names)}"}
        finally:
            with self._lock:
                self.open -= 1


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Planes:
    found = Planes()
    monkeypatch.setattr(planes, "started", found.started)
    return found


@pytest.fixture
def built(tmp_path: Path) -> BuiltSuite:
    suite = BuiltSuite(chosen(["drift"])[0], tmp_path / "module")
    suite.directory.mkdir(parents=True)
    suite.program.parent.mkdir()
    suite.program.write_text(PROGRAM % WAIT_VARIABLE)
    suite.program.chmod(0o755)
    return suite


def run(built: BuiltSuite, results: Path, *names: str, **options: object) -> list[tuple[str, Outcome, str]]:
    specs = [Spec(built, name, "Drift") for name in names]
    said: list[str] = []
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    verdicts = run_all(specs, environ, Options(results, **options), said.append)  # type: ignore[arg-type]
    assert [each.spec for each in verdicts] == list(names)
    return [(each.spec, each.outcome, each.message) for each in verdicts]


def test_a_spec_that_fails_takes_its_plane_with_it(fake: Planes, built: BuiltSuite, tmp_path: Path) -> None:
    found = run(built, tmp_path / "results", "one", "two bad", "three", "four", jobs=1)

    assert [outcome for _, outcome, _ in found] == [
        Outcome.PASSED,
        Outcome.FAILED,
        Outcome.PASSED,
        Outcome.PASSED,
    ]
    assert found[1][2] == "plane-1 120s"
    assert (len(fake.names), fake.open) == (2, 0)
    # Logs stay of the plane on which a spec failed.
    assert [each.name for each in (tmp_path / "results" / "planes").iterdir()] == [fake.names[0]]


def test_planes_have_names_of_their_own(fake: Planes, built: BuiltSuite, tmp_path: Path) -> None:
    run(built, tmp_path / "results", *(f"bad {number}" for number in range(6)), jobs=3)

    assert len(fake.names) == len(set(fake.names)) == 6


@pytest.mark.usefixtures("fake")
def test_a_program_without_a_report_has_failed(built: BuiltSuite, tmp_path: Path) -> None:
    [(_, outcome, message)] = run(built, tmp_path / "results", "mute")

    assert (outcome, message) == (Outcome.FAILED, "it wrote no report; see drift-000.log")


def test_a_plane_that_does_not_come_up_costs_one_spec(
    fake: Planes, built: BuiltSuite, tmp_path: Path
) -> None:
    fake.failures = 1

    found = run(built, tmp_path / "results", "one", "two", jobs=1)

    assert found[0][1:] == (Outcome.FAILED, "no plane: it did not come up")
    assert found[1][1] is Outcome.PASSED


def test_specs_that_cannot_apply_are_listed_and_run_on_demand_only(
    fake: Planes, built: BuiltSuite, tmp_path: Path
) -> None:
    known = {
        ("drift", "two bad"): Known("needs Windows", applies=False),
        ("drift", "bad"): Known("on purpose"),
    }

    found = run(built, tmp_path / "results", "two bad", "bad", known=known)

    assert found == [
        ("two bad", Outcome.NOT_APPLICABLE, "needs Windows"),
        ("bad", Outcome.KNOWN, "on purpose"),
    ]
    assert len(fake.names) == 1
    run(built, tmp_path / "results", "two bad", known=known, inapplicable=True)
    assert len(fake.names) == 2


@pytest.mark.usefixtures("fake")
def test_reports_of_a_run_stay(built: BuiltSuite, tmp_path: Path) -> None:
    run(built, tmp_path / "results", "one")

    report = tmp_path / "results" / "reports" / "drift-000.json"
    assert json.loads(report.read_text())[0]["SpecReports"][0]["State"] == "passed"
    assert json.loads((tmp_path / "results" / "results.json").read_text())[0]["outcome"] == "passed"


def test_a_plane_runs_the_specs_of_its_own_setting_only(
    fake: Planes, built: BuiltSuite, tmp_path: Path
) -> None:
    other = BuiltSuite(chosen(["scheduling-besteffort"])[0], tmp_path / "module")
    other.directory.mkdir(parents=True)
    other.program.symlink_to(built.program)
    specs = [Spec(suite, name, "x") for suite, name in ((built, "one"), (other, "two"), (built, "three"))]

    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    verdicts = run_all(specs, environ, Options(tmp_path / "results", jobs=1), lambda _: None)

    assert [each.outcome for each in verdicts] == [Outcome.PASSED] * 3
    assert fake.policies == ["Strict", "BestEffort"]


def test_an_interrupt_ends_what_runs_and_takes_the_planes_down(
    fake: Planes, built: BuiltSuite, tmp_path: Path
) -> None:
    specs = [Spec(built, name, "Drift") for name in ("bad", "slow", "never run")]
    said: list[str] = []

    def interrupt(text: str) -> None:
        said.append(text)
        raise KeyboardInterrupt

    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    with pytest.raises(KeyboardInterrupt):
        run_all(specs, environ, Options(tmp_path / "results", jobs=2), interrupt)

    assert not any("never run" in each for each in said)
    assert fake.open == 0


def test_specs_of_the_core_module_get_a_pool_of_nodes_that_they_expect(
    fake: Planes, built: BuiltSuite, tmp_path: Path
) -> None:
    core = BuiltSuite(chosen(["regression"])[0], tmp_path / "module")
    core.directory.mkdir(parents=True)
    core.program.symlink_to(built.program)

    found = run(core, tmp_path / "results", "bad", "CapacityBuffer bad", jobs=1)

    assert [message.split()[-1] for _, _, message in found] == ["nodepool.yaml", "nodepool-small.yaml"]
    assert len(fake.names) == 2
