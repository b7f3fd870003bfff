# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from karpenter.sandbox.stack import children, leash
from karpenter.sandbox.stack.errors import StartError
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.pieces import Piece
from karpenter.sandbox.stack.record import Child
from tests.unit.sandbox.stack.programs import tiny

# Programs are started, which takes its time on a machine that does other things.
pytestmark = pytest.mark.timeout(120)


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def speaks(home: Home, name: str) -> bool:
    return "at work" in home.log(name).read_text(encoding="utf-8")


def test_a_program_lives_until_it_is_stopped_and_its_words_are_kept(home: Home) -> None:
    child = children.start(home, tiny("one", "speak"), owned=False)
    assert eventually(lambda: speaks(home, "one"))
    assert children.is_alive(home, "one")

    ended = children.stop(home, [("one", child)])

    assert ended == ["one"]
    assert not children.is_alive(home, "one")
    assert children.stop(home, [("one", child)]) == []


def test_the_log_of_the_run_before_is_kept_beside(home: Home) -> None:
    for word in ("first", "second"):
        child = children.start(home, tiny("one", word), owned=False)
        eventually(lambda: speaks(home, "one"))
        children.kill(home, "one", child)

    assert home.earlier_log("one").read_text(encoding="utf-8") == "first at work\n"
    assert home.log("one").read_text(encoding="utf-8") == "second at work\n"


def test_a_program_is_not_started_twice(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_LOCK_PATIENCE_S", 0.1)
    child = children.start(home, tiny("one", "speak"), owned=False)

    with pytest.raises(StartError, match="one runs already"):
        children.start(home, tiny("one", "speak"), owned=False)

    children.kill(home, "one", child)


def test_one_that_does_not_listen_is_killed(home: Home) -> None:
    child = children.start(home, tiny("deaf", "ignore"), owned=False)
    eventually(lambda: speaks(home, "deaf"))

    children.stop(home, [("deaf", child)], turn_s=0.1, patience_s=0.3)

    assert not children.is_alive(home, "deaf")


def test_the_last_ones_are_asked_after_the_others(home: Home) -> None:
    kept = [(name, children.start(home, tiny(name, "speak"), owned=False)) for name in ("a", "b", "c")]

    ended = children.stop(home, kept, last=("a",))

    assert sorted(ended) == ["a", "b", "c"]
    assert not any(children.is_alive(home, name) for name, _ in kept)


def test_a_pid_that_is_another_programs_now_is_left_alone(home: Home) -> None:
    child = children.start(home, tiny("one", "speak"), owned=False)
    children.kill(home, "one", child)
    other = Child(pid=os.getpid(), started=child.started)

    children.stop(home, [("one", other)])
    children.kill(home, "one", other)

    assert os.getpid()


def test_a_program_that_cannot_be_started_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")

    with pytest.raises(StartError, match="one cannot be started"):
        children.start(home, tiny("one", "speak"), owned=False)


def test_owned_programs_end_when_their_owner_is_gone(home: Home) -> None:
    owner = os.open(home.owner, os.O_RDWR | os.O_CREAT)
    fcntl.flock(owner, fcntl.LOCK_EX)
    children.start(home, tiny("one", "speak"), owned=True)
    assert eventually(lambda: speaks(home, "one"))

    os.close(owner)

    assert eventually(lambda: not children.is_alive(home, "one"))


def test_a_program_ends_when_its_time_is_up(home: Home) -> None:
    children.start(home, tiny("one", "speak"), owned=False, life_s=0.3)

    assert eventually(lambda: not children.is_alive(home, "one"))


def test_an_owner_that_was_never_there_counts_as_gone(tmp_path: Path) -> None:
    leash.wait_for_owner(tmp_path / "nobody")


def test_a_program_has_a_session_of_its_own(home: Home) -> None:
    child = children.start(home, tiny("one", "speak"), owned=False)

    assert os.getsid(child.pid) == child.pid

    children.kill(home, "one", child)


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["error: port 80 is in use", "hint:  another"], "port 80 is in use"),
        (
            [json.dumps({"level": "ERROR", "message": "no answer", "error": "refused"}), "later"],
            "no answer: refused",
        ),
        ([json.dumps({"level": "INFO", "message": "fine"}), "{broken"], ""),
        ([], ""),
    ],
)
def test_the_last_error_of_a_log_is_found(home: Home, lines: list[str], error: str) -> None:
    home.log("one").write_text("\n".join(lines), encoding="utf-8")

    assert children.last_error(home, "one") == error


def test_a_program_that_failed_has_its_error_for_last_words(home: Home) -> None:
    children.start(home, Piece("one", "", ("fail",), module="tests.unit.sandbox.stack.tiny"), owned=False)
    eventually(lambda: not children.is_alive(home, "one"))

    assert children.last_words(home, "one")
    assert children.last_words(home, "never") == ""


def test_one_that_is_gone_already_is_no_trouble(home: Home) -> None:
    gone = Child(pid=2**22 + 1, started=datetime.now(UTC))

    children.kill(home, "never", gone)
    children._signal(gone.pid, signal.SIGTERM)

    assert not children.is_alive(home, "never")
