# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from karpenter.sandbox.kubelets.behaviour import WELL, BehaviourError, Rules, State, read_behaviour


def test_nothing_said_is_well() -> None:
    assert read_behaviour("") == read_behaviour("joins") == WELL
    assert WELL.at(1e9) == State()
    assert WELL.joins
    assert WELL.next_after(0) is None


def test_a_trouble_begins_in_its_time() -> None:
    behaviour = read_behaviour("not-ready@30s disk-pressure@1m")

    assert behaviour.at(29) == State()
    assert behaviour.at(30) == State(ready=False)
    assert behaviour.at(60) == State(ready=False, conditions=(("DiskPressure", "True"),))
    assert [behaviour.next_after(each) for each in (0, 30, 60)] == [30, 60, None]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("dies", State(silent=True)),
        ("silent", State(silent=True)),
        ("joins-not-ready", State(ready=False)),
        ("memory-pressure", State(conditions=(("MemoryPressure", "True"),))),
        ("condition/NetworkingReady=False", State(conditions=(("NetworkingReady", "False"),))),
    ],
)
def test_each_word_has_its_meaning(text: str, state: State) -> None:
    assert read_behaviour(text).at(0) == state


def test_a_machine_may_never_join() -> None:
    assert not read_behaviour("never-joins").joins


@pytest.mark.parametrize("text", ["sleepy", "not-ready@soon", "condition/Ready=Maybe", "@3s"])
def test_other_words_are_refused_by_name(text: str) -> None:
    with pytest.raises(BehaviourError, match=text.partition("@")[0] or "@3s"):
        read_behaviour(text)


def test_a_file_rules_by_the_first_match_and_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    rules = Rules(path)
    missing = (rules.refresh(), rules.of({"zone": "a"}))
    path.write_text(
        "- {match: {instanceType: 'm5.*', zone: a}, kubelet: silent}\n- {kubelet: not-ready}\n",
        encoding="utf-8",
    )

    changed, again = rules.refresh(), rules.refresh()

    assert missing == (False, None)
    assert (changed, again) == (True, False)
    assert rules.of({"instanceType": "m5.large", "zone": "a"}) == read_behaviour("silent")
    assert rules.of({"instanceType": "m5.large", "zone": "b"}) == read_behaviour("not-ready")
    path.unlink()
    assert rules.refresh()
    assert rules.of({"zone": "b"}) is None


def test_without_a_file_there_are_no_rules() -> None:
    rules = Rules()

    assert not rules.refresh()
    assert rules.of({}) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: b", "expected a list"),
        ("- [", "while parsing"),
        ("- {match: {}}", "rule 0: expected the fields"),
        ("- {kubelet: silent, wrong: 1}", "rule 0: expected the fields"),
        ("- {kubelet: silent, match: {colour: red}}", "rule 0: match: expected some of"),
        ("- {kubelet: joins}\n- {kubelet: sleepy}", "rule 1: 'sleepy' is no behaviour"),
    ],
)
def test_a_broken_file_is_refused_with_its_place_and_the_old_rules_stay(
    tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("- {kubelet: silent}", encoding="utf-8")
    rules = Rules(path)
    rules.refresh()
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1, 1))

    with pytest.raises(BehaviourError, match=why):
        rules.refresh()

    assert rules.of({}) == read_behaviour("silent")
