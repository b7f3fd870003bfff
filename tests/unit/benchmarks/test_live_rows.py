# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from benchmarks.live import gopeer, offloop, workload
from benchmarks.live.__main__ import main
from benchmarks.live.early import Pending
from benchmarks.live.early import table as pendings
from benchmarks.live.placement import Realised
from benchmarks.live.placement import table as placements
from benchmarks.live.reaction import Measured
from benchmarks.live.reaction import table as reactions
from benchmarks.live.report import Table, write_results

from karpenter.scheduling import SolveOptions, solve


def measured(side: str, pods: int, *waits_s: float) -> Measured:
    """One side's waits."""
    return Measured(side, pods, rounds=1, launch_s=list(waits_s))


def realised(price: float, *, pending: int = 0) -> Realised:
    """What became of a plan of 10 dollars."""
    return Realised(
        shape="generic",
        pods=100,
        nominated=True,
        planned_per_hour=10.0,
        realised_per_hour=price,
        plans=1,
        nodes=4,
        pending=pending,
        as_planned=0.5,
        seconds=12.0,
    )


def test_a_reaction_is_kept_when_both_percentiles_are_lower() -> None:
    rows = reactions(
        [
            measured("Go v1", 1, 1.0, 1.2),
            measured("Go v1", 100, 1.0, 1.2),
            measured("ours", 1, 0.25, 0.4),
            measured("ours", 100, 0.25, 1.3),
        ]
    ).rows

    assert [(row[0], row[-1]) for row in rows] == [("1", "yes"), ("100", "NO")]
    assert rows[0][2:6] == ("1.000", "1.200", "0.250", "0.400")


def test_without_the_go_side_ours_is_shown_alone() -> None:
    [row] = reactions([measured("ours", 1, 0.25)]).rows

    assert row == ("1", "1", "-", "-", "0.250", "0.250", "-", "-", "-")


@pytest.mark.parametrize(("price", "pending", "kept"), [(10.09, 0, "yes"), (10.2, 0, "NO"), (10.0, 1, "NO")])
def test_a_plan_is_followed_within_a_per_cent_and_without_a_pod_pending(
    price: float, pending: int, kept: str
) -> None:
    [row] = placements([realised(price, pending=pending)]).rows

    assert row[-1] == kept


def test_what_early_placement_saves_is_shown_beside_what_pods_wait_without_it() -> None:
    late = Pending(False, 2, 1, bound_s=[14.0, 15.0], running_s=[15.0, 16.0], after_ready_s=[2.0, 3.0])
    soon = Pending(True, 2, 1, early=2, bound_s=[4.0, 5.0], running_s=[13.0, 13.5], after_ready_s=[0.3, 0.4])

    rows = pendings([late, soon]).rows

    assert rows[0] == ("off", "2", "1", "0%", "14.00", "15.00", "15.00", "16.00", "2.00", "3.00")
    assert rows[1][:6] == ("on", "2", "1", "100%", "4.00", "5.00")
    assert soon.as_json()["bound_p50_s"] == 4.0


def test_tables_are_aligned_and_end_with_their_notes() -> None:
    table = Table("title", ("A", "LONG"), [("first", "1"), ("x", "22")], ["note"])

    assert table.render().splitlines() == ["title", "A      LONG", "first     1", "x        22", "note"]


def test_results_name_the_machine(tmp_path: Path) -> None:
    file = write_results(tmp_path / "new", "storm", {"pods": 1})

    assert file.name == "live-storm.json"
    assert '"cores"' in file.read_text(encoding="utf-8")


def test_pods_are_fit_to_be_created_and_pools_are_the_same_for_both_sides() -> None:
    pods = workload.pods("generic", 3, prefix="a")
    ours, theirs = workload.pool("generic"), workload.kwok_pool("generic")

    assert [pod["metadata"]["name"] for pod in pods] == ["a-0", "a-1", "a-2"]
    assert not any("uid" in pod["metadata"] or "status" in pod for pod in pods)
    assert ours["spec"]["template"]["spec"]["nodeClassRef"]["kind"] == "EC2NodeClass"
    assert theirs["spec"]["template"]["spec"]["nodeClassRef"]["kind"] == gopeer.node_class()["kind"]
    asked = [each["key"] for each in theirs["spec"]["template"]["spec"]["requirements"]]
    assert asked == ["karpenter.sh/capacity-type", "kubernetes.io/os"]


def test_the_release_that_is_compared_is_that_of_the_module_file() -> None:
    assert gopeer.version() == "v1.14.1"


def test_the_question_of_the_off_loop_row_has_an_answer() -> None:
    asked = offloop.question(nodes=6, arriving=30)

    plan = solve(asked.snapshot, asked.pods, SolveOptions())

    assert len(asked.snapshot.nodes) == 6
    assert all(len(node.pods) == 10 for node in asked.snapshot.nodes)
    assert not plan.rejections


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["reaction", "--pods", "0"],
        ["reaction", "--rounds", "1:x"],
        ["placement", "--shapes", "round:3"],
        ["placement", "--shapes", "big"],
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)

    assert "error:" in capsys.readouterr().err


def test_a_missing_control_plane_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "nowhere"))

    code = main(["reaction", "--skip-go", "--results", str(tmp_path), "--directory", str(tmp_path / "run")])

    assert code == 1
    assert "hint:" in capsys.readouterr().err
