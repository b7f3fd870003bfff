# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import sys
import time

import click
import pytest

from karpenter.cli import output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Puts both streams on a terminal that shows colours; no fixture, because pytest takes the streams back."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return screen


def test_colour_is_for_terminals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    assert output.colour_wanted(Terminal())
    assert not output.colour_wanted(io.StringIO())


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_declined(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    screen = on_terminal(monkeypatch)
    monkeypatch.setenv(name, value)

    assert not output.colour_wanted(screen)


def test_an_empty_no_color_declines_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "")

    assert output.colour_wanted(screen)


def test_labels_are_coloured_on_a_terminal_and_their_text_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)

    output.error("it broke", "mend it")

    assert (
        screen.getvalue() == "\x1b[31m\x1b[1merror:\x1b[0m it broke\n\x1b[36m\x1b[1mhint: \x1b[0m mend it\n"
    )


def test_every_line_of_an_error_is_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    output.error("one\ntwo")

    assert capsys.readouterr().err == "error: one\nerror: two\n"


def test_an_error_without_words_is_still_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    output.error("")

    assert capsys.readouterr().err == "error: \n"


def test_a_difference_is_plain_text_for_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    del capsys

    assert output.diff("a\nb\n", "a\nc\n", "old", "new") == "--- old\n+++ new\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"


def test_a_difference_is_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)

    text = output.diff("a\n", "b\n", "old", "new")

    assert "\x1b[31m-a\x1b[0m\n\x1b[32m+b\x1b[0m\n" in text


def test_what_is_quick_is_done_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    with output.patiently("working ..."):
        pass

    assert capsys.readouterr().err == ""


def test_what_takes_long_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PATIENCE_S", 0.01)

    with output.patiently("working ..."):
        deadline = time.monotonic() + 5
        said = ""
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
            said = capsys.readouterr().err

    assert said == "working ...\n"


def test_a_count_comes_line_by_line_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PATIENCE_S", 0.01)
    monkeypatch.setattr(output, "_ELSEWHERE_S", 0.01)

    with output.patiently("0 of 2") as progress:
        said = waited_for(capsys, "0 of 2\n")
        progress.text = "1 of 2"
        said += waited_for(capsys, "1 of 2\n")
        # What has not changed is not said again.
        time.sleep(0.1)

    assert (said + capsys.readouterr().err) == "0 of 2\n1 of 2\n"


def test_a_count_is_one_line_on_a_terminal_and_gone_in_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PATIENCE_S", 0.01)
    monkeypatch.setattr(output, "_ON_A_TERMINAL_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    with output.patiently("0 of 2") as progress:
        said = waited_for(capsys, "0 of 2")
        progress.text = "1 of 2"
        said += waited_for(capsys, "1 of 2")
    said += capsys.readouterr().err

    assert "\n" not in said
    assert said.index("0 of 2") < said.index("1 of 2")
    assert said.endswith("\r\x1b[K")


def waited_for(capsys: pytest.CaptureFixture[str], words: str) -> str:
    """Wait until something is said, and give all that was said until then."""
    said, deadline = "", time.monotonic() + 10
    while words not in said and time.monotonic() < deadline:
        time.sleep(0.01)
        said += capsys.readouterr().err
    return said


def test_a_reader_that_went_away_ends_the_program_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError(32, text)

    monkeypatch.setattr(sys, "stdout", Closed())

    with pytest.raises(click.exceptions.Exit) as ended:
        output.write_data("data")

    assert ended.value.exit_code == output.BROKEN_PIPE
    sys.stdout.write("what Python still flushes at exit goes nowhere")
    sys.stdout.close()
