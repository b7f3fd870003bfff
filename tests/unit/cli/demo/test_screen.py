# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io

import pytest

from karpenter.cli.demo.screen import Screen, table
from karpenter.cli.demo.seeing import Picture, picture
from karpenter.cli.demo.telling import Line
from tests.unit.cli.demo.objects import claim, node, pod


def a_picture() -> Picture:
    on = "ip-1.us-west-2.compute.internal"
    return picture(
        claims=[claim("a", instance="i-1"), claim("b")],
        nodes=[node("ip-1", "i-1")],
        pods=[pod("one", on=on), pod("two")],
        prices={"i-1": 0.096},
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_are_lines_and_a_table_on_request() -> None:
    out = io.StringIO()
    screen = Screen(out)

    screen.heading("kubectl get nodes")
    screen.line(Line("node ready", "ip-1", ("because of this and that",)))
    screen.update(a_picture())
    screen.table(a_picture())
    screen.finish()

    lines = out.getvalue().splitlines()
    assert lines[:2] == ["", "▸ kubectl get nodes"]
    assert lines[2].endswith("  node ready              ip-1")
    assert lines[3].strip() == "because of this and that"
    assert lines[4].strip() == "2 nodes   $0.096/h  $70.08/month   1 of 2 pods run"
    assert [each.split()[0] for each in lines[5:]] == ["NODE", "ip-1", "b"]
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_the_table_stays_below_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    screen = Screen(out)

    screen.update(a_picture())
    screen.text("something happened")
    screen.table(a_picture())

    drawn = out.getvalue()
    assert drawn.count("2 nodes") == 2
    assert "\x1b[5F\x1b[J" in drawn
    assert drawn.index("something happened") < drawn.rindex("2 nodes")

    screen.finish()
    screen.text("the end")

    assert out.getvalue().endswith("the end\n")
    assert out.getvalue().count("\x1b[5F") == 1


def test_the_table_is_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()

    Screen(out).update(a_picture())

    assert "…" in out.getvalue()
    assert max(len(line) for line in out.getvalue().splitlines() if "…" in line) == 40


def test_a_narrow_terminal_gets_fewer_columns_and_all_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()

    Screen(out).update(a_picture())

    head, first, second = out.getvalue().splitlines()[2:]
    assert "ZONE" not in head
    assert first.endswith("ready")
    assert second.endswith("ordered")


def test_colour_changes_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()

    Screen(out).update(a_picture())

    assert "\x1b[32mready\x1b[0m" in out.getvalue()
    assert table(a_picture())[1].endswith("ready")


def test_an_empty_cluster_costs_nothing() -> None:
    out = io.StringIO()

    Screen(out).table(Picture())

    assert "no nodes, nothing to pay" in out.getvalue()
    assert table(Picture()) == []
