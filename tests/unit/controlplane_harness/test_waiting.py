# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.e2e.controlplane.errors import ControlPlaneError, described
from tests.e2e.controlplane.progress import Progress, elapsed_text
from tests.e2e.controlplane.waiting import eventually


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (59.9, "59 s"), (60.0, "1 min 00 s"), (725.2, "12 min 05 s")],
)
def test_elapsed_time_reads_as_a_person_says_it(seconds: float, text: str) -> None:
    assert elapsed_text(seconds) == text


def test_progress_is_silent_at_first_and_then_speaks_now_and_again() -> None:
    now = 0.0
    said: list[str] = []
    progress = Progress(said.append, quiet_s=2, every_s=15, clock=lambda: now)

    for tenth in range(400):
        now = tenth / 10
        progress.tick("building")

    assert [line.split("  building")[0].strip() for line in said] == ["2 s", "17 s", "32 s"]


def test_eventually_returns_the_first_thing_that_holds() -> None:
    numbers = iter(range(10))

    seen = eventually(lambda: next(numbers), "three", holds=lambda number: number == 3, poll_s=0)

    assert seen == 3


def test_eventually_gives_up_with_what_it_saw_last() -> None:
    with pytest.raises(AssertionError, match=r"a node: not within 0\.15 s; last seen: \[\]"):
        eventually(list, "a node", timeout_s=0.05, poll_s=0.01)


def test_an_error_is_described_with_its_hint() -> None:
    error = ControlPlaneError("no etcd", hint="build it")

    assert described(error) == "error: no etcd\nhint:  build it"
    assert described(ControlPlaneError("no etcd")) == "error: no etcd"
    assert str(error) == "no etcd\nhint:  build it"
