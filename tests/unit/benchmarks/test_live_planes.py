# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from benchmarks.live import consolidating
from benchmarks.live.__main__ import main
from benchmarks.live.consolidating import Tidied, quiet_s, result_name, table
from benchmarks.live.planes import PLANES, SANDBOX, make_plane
from benchmarks.live.stage import BenchmarkError, Stage

from tests.e2e.controlplane.errors import ControlPlaneError
from tests.e2e.scenarios import SandboxPlane


def test_the_sandbox_is_a_plane_whose_files_stay_where_they_are_wanted(tmp_path: Path) -> None:
    plane = make_plane(SANDBOX, tmp_path / "plane")

    assert isinstance(plane, SandboxPlane)
    assert plane.kubeconfig == tmp_path / "plane" / "kubeconfig"
    assert SANDBOX in PLANES


def test_requests_to_the_sandbox_are_not_counted(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda _: None, SANDBOX)

    with pytest.raises(BenchmarkError, match="not written down") as refused:
        stage.audit("pods")

    assert "real control plane" in (refused.value.hint or "")


def test_what_was_measured_in_the_sandbox_is_kept_apart_and_says_so() -> None:
    case = Tidied("third", 1000, 1, "ours", is_quiet=True, bound_per_hour=2.0, after_per_hour=3.0)

    titles = {plane: table([case], plane).title for plane in PLANES}

    assert titles["sandbox"].endswith("in the sandbox")
    assert "sandbox" not in titles["real"]
    assert len({result_name(plane) for plane in PLANES}) == len(PLANES)


def test_a_large_cluster_must_be_still_for_longer_than_the_longest_search_of_the_go_karpenter() -> None:
    assert quiet_s(50) == quiet_s(100) == 120
    assert quiet_s(200) == quiet_s(1000) > 3 * 60


async def test_the_first_side_that_fails_says_why_and_ends_the_others() -> None:
    ended: list[str] = []

    async def fails() -> Tidied:
        raise ControlPlaneError("no room")

    async def works() -> Tidied:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("works")
        raise AssertionError

    with pytest.raises(ControlPlaneError, match="no room"):
        await consolidating._together([works(), fails()])

    assert ended == ["works"]


def test_a_plane_that_nobody_knows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["consolidation", "--plane", "cloud"])

    assert "'cloud'" in capsys.readouterr().err
