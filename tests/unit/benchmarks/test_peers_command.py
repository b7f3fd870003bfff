# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.peers import __main__ as command
from benchmarks.peers.report import Row
from benchmarks.peers.sides import SideFailedError
from benchmarks.peers.toolchain import PeerUnavailableError

# A scheduler that gives every pod an m5.large of its own.
STAND_IN = """
import json, sys
paths = [argument for argument in sys.argv[1:] if argument.endswith(".json")]
problem = next(json.load(open(path)) for path in paths if "catalogue.json" not in path)
pods = [each["metadata"]["name"] for each in problem["objects"] if each["kind"] == "Pod"]
node = {"instanceType": "m5.large", "zone": "us-east-1a", "capacityType": "on-demand"}
print(json.dumps({
    "newNodes": [{**node, "pods": [pod]} for pod in pods[LEFT:]],
    "unschedulable": [{"pod": pod, "message": "no"} for pod in pods[:LEFT]],
    "pricePerHour": 0.096 * len(pods[LEFT:]), "solveSeconds": 0.01, "maxRssMiB": 9,
}))
"""


class Bench:
    """The command with stand-ins for both sides, and what it leaves behind."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.results = directory / "results" / "peers.json"
        self.monkeypatch = monkeypatch

    def stand_in(self, name: str, *, leaves: int = 0, code: str = STAND_IN) -> Path:
        path = self.directory / name
        path.write_text(f"#!{sys.executable}\n{code.replace('LEFT', str(leaves))}", encoding="utf-8")
        path.chmod(0o755)
        return path

    def use_go(self, program: Path) -> None:
        self.monkeypatch.setattr(command, "build_peer", lambda _environ, _say: program)

    def run(self, *arguments: str) -> int:
        return command.main([*arguments, "--results", str(self.results)])

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.results.read_text(encoding="utf-8"))["rows"]
        return rows


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_both_sides_run_on_the_same_problems_and_the_results_are_kept(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.use_go(bench.stand_in("peer"))

    code = bench.run("--ours", str(bench.stand_in("ours")), "--problems", "inflate:5,generic:3:9")

    out, err = capsys.readouterr()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["PROBLEM", "inflate:5", "generic:3:9"]
    assert "inflate:5: Go 0.010 s, 0.480 $/h, 5 nodes" in err
    assert [row["ours"]["price_per_hour"] for row in bench.rows()] == pytest.approx([0.48, 0.288])


def test_json_on_request(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.run("--skip-go", "--ours", str(bench.stand_in("ours")), "--problems", "inflate:5", "-o", "json")

    printed = json.loads(capsys.readouterr().out)
    assert printed["rows"] == bench.rows()
    assert printed["peer"] == "sigs.k8s.io/karpenter v1.14.1"


def test_without_go_only_our_side_runs_and_the_table_says_so(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_environ: object, _say: object) -> Path:
        raise PeerUnavailableError("Go is not installed", hint="install Go")

    bench.monkeypatch.setattr(command, "build_peer", missing)

    code = bench.run("--ours", str(bench.stand_in("ours")), "--problems", "inflate:5")

    assert code == 0
    assert "only our side was run: Go is not installed (hint: install Go)" in capsys.readouterr().out
    assert bench.rows()[0]["go"] is None


def test_without_our_command_only_the_go_side_runs(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    def missing() -> list[str]:
        raise SideFailedError("there is no `karpenter`")

    bench.monkeypatch.setattr(command, "find_ours", missing)
    bench.use_go(bench.stand_in("peer"))

    code = bench.run("--problems", "inflate:5")

    assert code == 0
    assert "only the Go side was run: there is no `karpenter`" in capsys.readouterr().out

    assert bench.run("--problems", "inflate:5", "--skip-go") == 1
    assert "neither side can run" in capsys.readouterr().err


def test_a_side_that_fails_is_noted_and_the_next_problem_goes_on(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    fails_once = "import sys\nif 'inflate-5.json' in ' '.join(sys.argv): sys.exit('broken')\n" + STAND_IN
    bench.use_go(bench.stand_in("peer"))

    code = bench.run(
        "--ours", str(bench.stand_in("ours", code=fails_once)), "--problems", "inflate:5,inflate:6"
    )

    assert code == 1
    assert "inflate:5: ours: ours failed with code 1: broken" in capsys.readouterr().out
    assert [row["ours"] is None for row in bench.rows()] == [True, False]
    assert all(row["go"] for row in bench.rows())


def test_a_plan_below_the_bound_is_refused(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    code = bench.run("--skip-go", "--ours", str(bench.stand_in("ours")), "--problems", "big:60")

    assert code == 1
    assert "less than the bound" in capsys.readouterr().out


def test_pods_without_a_place_are_noted_and_excuse_a_low_price(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    code = bench.run("--skip-go", "--ours", str(bench.stand_in("ours", leaves=2)), "--problems", "big:60")

    assert code == 0
    assert "big:60: ours: 2 of 60 pods have no place" in capsys.readouterr().out


def test_the_big_problems_are_only_in_the_full_run(bench: Bench) -> None:
    sizes = {"full": command.FULL_PROBLEMS, "usual": command.DEFAULT_PROBLEMS}
    ran: dict[str, list[str]] = {}

    def note(problem: command.Problem, *_others: object) -> Row:
        ran[current].append(problem.name)
        return Row(problem.name, problem.count, None, None, None)

    bench.monkeypatch.setattr(command, "_run_problem", note)
    bench.monkeypatch.setattr(command, "render_problem", lambda *_arguments: "{}")
    for current in sizes:
        ran[current] = []
        bench.run("--skip-go", "--ours", "x", *(["--full"] if current == "full" else []))

    assert {each: ",".join(names) for each, names in ran.items()} == sizes
    assert "diverse:20000" in ran["full"]
    assert "diverse:20000" not in ran["usual"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("blob:5", "no shape 'blob', only inflate"),
        ("generic", "not SHAPE:COUNT"),
        ("generic:x", "not SHAPE:COUNT"),
        ("generic:1:2:3", "not SHAPE:COUNT"),
    ],
)
def test_a_problem_that_is_not_one_is_refused(text: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        command.Problem.parse(text)


def test_no_rounds_at_all_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--rounds", "0"])

    assert "not a whole number above 0" in capsys.readouterr().err
