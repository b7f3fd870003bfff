# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import yaml

from karpenter.api import crds
from karpenter.api.crds.generate import definition
from karpenter.api.crds.kinds import KINDS
from karpenter.api.crds.write import main, outdated, render


def test_the_files_say_what_the_types_say() -> None:
    assert outdated() == [], "run `make crds`"


def test_there_is_one_file_a_kind() -> None:
    assert crds.file_names() == tuple(sorted(kind.file_name for kind in KINDS))


def test_a_file_reads_as_its_definition() -> None:
    for kind in KINDS:
        assert crds.read(kind.file_name) == definition(kind)
        assert crds.text(kind.file_name).startswith("# Made by `python -m karpenter.api.crds`")


def test_definitions_are_found_by_the_name_of_their_object() -> None:
    assert set(crds.read_all()) == {kind.crd_name for kind in KINDS}


def test_whoever_changes_a_definition_changes_only_their_own() -> None:
    crds.read_all()["nodepools.karpenter.sh"]["spec"].clear()

    assert crds.read_all()["nodepools.karpenter.sh"]["spec"]


def test_no_file_uses_anchors() -> None:
    for kind in KINDS:
        events = yaml.parse(render(kind))

        assert not [event for event in events if isinstance(event, yaml.AliasEvent)]


def test_writing_makes_what_is_missing_and_stale_and_removes_what_is_left_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "karpenter.sh_nodepools.yaml").write_text("stale", encoding="utf-8")
    (tmp_path / "example.com_things.yaml").write_text("left over", encoding="utf-8")

    assert main([], tmp_path) == 0

    written = capsys.readouterr().out.split()
    assert len(written) == len(KINDS) + 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kind.file_name for kind in KINDS)
    assert outdated(tmp_path) == []


def test_checking_changes_nothing_and_fails_when_a_file_is_stale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([], tmp_path)
    assert main(["--check"], tmp_path) == 0
    stale = tmp_path / "karpenter.sh_nodepools.yaml"
    stale.write_text("stale", encoding="utf-8")
    capsys.readouterr()

    status = main(["--check"], tmp_path)

    assert status == 1
    assert stale.read_text(encoding="utf-8") == "stale"
    assert capsys.readouterr().err == "error: karpenter.sh_nodepools.yaml is out of date\nhint:  make crds\n"


def test_the_package_is_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["crds", "--check"])

    with pytest.raises(SystemExit) as ended:
        runpy.run_module("karpenter.api.crds", run_name="__main__", alter_sys=False)

    assert ended.value.code == 0
