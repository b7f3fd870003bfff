# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.controlplane.errors import ComponentFailedError
from tests.e2e.controlplane.processes import ProcessGroup, is_alive
from tests.e2e.controlplane.waiting import eventually

IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


def test_children_share_a_process_group_that_is_not_ours(tmp_path: Path) -> None:
    with ProcessGroup(tmp_path) as group:
        groups = {os.getpgid(group.start(name, ["sleep", "60"]).pid) for name in ("a", "b")}

    assert groups == {group.group_id}
    assert group.group_id != os.getpgid(0)


def test_leaving_the_block_ends_all_children(tmp_path: Path) -> None:
    with ProcessGroup(tmp_path) as group:
        children = [group.start(name, ["sleep", "60"]) for name in ("a", "b")]
        assert all(each.is_running for each in children)

    assert [each.exit_code for each in children] == [-signal.SIGTERM, -signal.SIGTERM]
    assert not is_alive(group.group_id)


def test_a_child_that_ignores_the_request_is_killed_after_the_grace_time(tmp_path: Path) -> None:
    group = ProcessGroup(tmp_path)
    child = group.start("deaf", ["sh", "-c", IGNORES_TERM])
    eventually(lambda: child.log_says("ready"), "the child runs")

    started = time.monotonic()
    group.stop(grace_s=0.2)

    assert child.exit_code == -signal.SIGKILL
    assert 0.2 <= time.monotonic() - started < 5


def test_grandchildren_end_with_the_group(tmp_path: Path) -> None:
    group = ProcessGroup(tmp_path)
    child = group.start("parent", ["sh", "-c", "sleep 60 & echo $!; wait"])
    grandchild = int(eventually(child.log_tail, "the id of the grandchild"))

    group.stop()

    eventually(lambda: not is_alive(grandchild), "no grandchild")


def test_stopping_twice_is_harmless_and_starting_afterwards_is_refused(tmp_path: Path) -> None:
    group = ProcessGroup(tmp_path)

    group.stop()
    group.stop()

    with pytest.raises(ComponentFailedError, match="late cannot be started"):
        group.start("late", ["true"])


def test_a_failure_carries_the_end_of_the_log_and_where_the_rest_is(tmp_path: Path) -> None:
    with ProcessGroup(tmp_path) as group:
        child = group.start("etcd", ["sh", "-c", "seq 100; echo 'no space left' >&2; exit 3"])
        eventually(lambda: not child.is_running, "the child has ended")

        failure = child.failure("ended")

    assert child.exit_code == 3
    assert failure.message.startswith("etcd ended; the end of its log:\n82\n")
    assert failure.message.endswith("no space left")
    assert str(tmp_path / "etcd.log") in str(failure)


def test_kill_9_of_the_parent_ends_its_children(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path\n"
        "from tests.e2e.controlplane.processes import ProcessGroup\n"
        "group = ProcessGroup(Path(sys.argv[1]))\n"
        f"deaf = group.start('deaf', ['sh', '-c', {IGNORES_TERM!r}])\n"
        "print(group.group_id, deaf.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        alive_before = [is_alive(pid) for pid in pids]

        parent.kill()

    assert alive_before == [True, True]
    eventually(lambda: [pid for pid in pids if is_alive(pid)], "no child", holds=lambda left: not left)
