# SPDX-License-Identifier: Apache-2.0
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from benchmarks.peers.sides import Ledger, SideFailedError, find_ours, go_command, our_command, run_json

from tests.unit.benchmarks.builders import catalogue, instance_type, pod, pool, problem

LEDGER = Ledger(problem(pool(), pod("a"), pod("b")), catalogue(instance_type("small", price=0.25)))


def plan(**changes: Any) -> dict[str, Any]:
    return {
        "newNodes": [
            {"instanceType": "small", "zone": "zone-a", "capacityType": "on-demand", "pods": ["default/a"]}
        ],
        "existing": {"n1": ["default/b"]},
        "unschedulable": [],
        "pricePerHour": 0.25,
        "lowerBoundPerHour": 0.2,
        "solveSeconds": 0.5,
        "maxRssMiB": 40,
        **changes,
    }


def run_python(code: str, timeout_s: float = 10.0) -> tuple[dict[str, Any], float]:
    return run_json([sys.executable, "-c", code], timeout_s)


def test_a_command_that_prints_json_is_read_and_timed() -> None:
    printed, wall_s = run_python("import time; time.sleep(0.05); print('{\"a\": 1}')")

    assert printed == {"a": 1}
    assert wall_s >= 0.05


def test_a_plan_that_leaves_pods_over_is_a_plan() -> None:
    printed, _ = run_python("print('{}'); raise SystemExit(1)")

    assert printed == {}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit('no such command: solve')", "code 1: no such command: solve"),
        ("raise SystemExit(3)", "code 3: it said nothing"),
        ("print('hello')", "something else than a JSON object"),
        ("print('[]')", "something else than a JSON object"),
        ("print('{}'); raise SystemExit(2)", "code 2"),
    ],
)
def test_a_command_that_fails_is_quoted(code: str, words: str) -> None:
    with pytest.raises(SideFailedError, match=words):
        run_python(code)


def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(SideFailedError, match="cannot start no-such-program: No such file"):
        run_json(["no-such-program"], 1.0)


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    child = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"

    with pytest.raises(SideFailedError, match=r"not done within 1.5 s"):
        run_python(parent, timeout_s=1.5)

    pid = int(pid_file.read_text(encoding="utf-8"))
    deadline = time.monotonic() + 5
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_sound_plan_is_summed_up_at_catalogue_prices() -> None:
    outcome = LEDGER.audit(plan(pricePerHour=0.2501), 1.5)

    assert outcome.price_per_hour == 0.25
    assert (outcome.nodes, outcome.placed_pods, outcome.unschedulable_pods) == (1, 2, 0)
    assert (outcome.seconds, outcome.wall_s, outcome.max_rss_mib) == (0.5, 1.5, 40)
    assert outcome.lower_bound_per_hour == 0.2


def test_a_pod_without_a_place_is_counted_as_such() -> None:
    outcome = LEDGER.audit(plan(existing=None, unschedulable=[{"pod": "default/b", "message": "no"}]), 1.0)

    assert (outcome.placed_pods, outcome.unschedulable_pods) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pricePerHour": 0.1}, r"reports 0.1 \$/h, but its nodes cost 0.25"),
        ({"existing": {}}, "accounts for 1 of 2 pods"),
        ({"existing": {"n1": ["default/a"]}}, "names pod default/a 2 times"),
        ({"newNodes": [{"instanceType": "x", "zone": "z", "capacityType": "spot"}]}, "not offer: x z spot"),
    ],
)
def test_a_plan_that_does_not_add_up_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SideFailedError, match=words):
        LEDGER.audit(plan(**changes), 1.0)


def test_a_plan_without_a_promised_key_is_refused_by_its_name() -> None:
    without = {key: value for key, value in plan().items() if key != "solveSeconds"}

    with pytest.raises(SideFailedError, match="no solveSeconds"):
        LEDGER.audit(without, 1.0)


def test_both_command_lines_name_catalogue_problem_and_rounds() -> None:
    go = go_command(Path("peer"), Path("c.json"), Path("p.json"), 3)
    ours = our_command(["karpenter"], Path("c.json"), Path("p.json"), 3)

    assert go == ["peer", "-rounds", "3", "c.json", "p.json"]
    assert ours == ["karpenter", "solve", "p.json", "--catalogue", "c.json", "--rounds", "3", "-o", "json"]


def _executable(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_our_command_is_the_one_beside_python_or_else_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    with pytest.raises(SideFailedError, match="no `karpenter`") as failure:
        find_ours()
    assert "--ours" in failure.value.hint

    elsewhere = _executable(tmp_path / "elsewhere" / "karpenter")
    assert find_ours() == [str(elsewhere)]

    beside = _executable(tmp_path / "bin" / "karpenter")
    assert find_ours() == [str(beside)]
    assert os.access(beside, os.X_OK)
