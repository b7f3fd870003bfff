# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from karpenter.sandbox.stack.errors import BusyError, SandboxNameError, StackError, UnreadableError
from karpenter.sandbox.stack.home import Home, default_root, homes
from karpenter.sandbox.stack.record import Options, Record, load, save


def a_record(name: str = "try-1") -> Record:
    return Record(name=name, options=Options(speed=2), token="secret", ports={"kube": 1, "ec2": 2})


def test_sandboxes_live_where_the_user_says_or_where_state_belongs(tmp_path: Path) -> None:
    assert default_root({"KARPENTER_SANDBOX_HOME": str(tmp_path)}) == tmp_path
    assert default_root({"XDG_STATE_HOME": "/x"}) == Path("/x/karpenter/sandboxes")
    assert default_root({}).parts[-4:] == (".local", "state", "karpenter", "sandboxes")


@pytest.mark.parametrize("name", ["", "A", "../etc", "a/b", "-a", "a-", "a" * 41])
def test_a_name_that_no_directory_should_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SandboxNameError) as refused:
        Home(tmp_path, name)

    assert repr(name) in refused.value.message
    assert refused.value.hint


def test_only_those_that_were_written_down_are_listed(home: Home) -> None:
    Home(home.root, "empty").make()
    save(home.record, a_record())

    assert [each.name for each in homes(home.root)] == ["try-1"]
    assert homes(home.root / "nowhere") == []


def test_a_record_is_read_as_it_was_written_and_by_its_owner_alone(home: Home) -> None:
    save(home.record, a_record())
    save(home.record, a_record())

    assert load(home.record) == a_record()
    assert stat.S_IMODE(home.record.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.directory.stat().st_mode) == 0o700


def test_a_damaged_record_names_its_file_and_what_to_do(home: Home) -> None:
    home.record.write_text('{"name": "try-1"', encoding="utf-8")

    with pytest.raises(UnreadableError, match=r"record\.json") as refused:
        load(home.record)

    assert str(home.directory) in refused.value.hint


def test_no_record_is_no_error(home: Home) -> None:
    assert load(home.record) is None


def test_two_commands_do_not_work_on_the_same_sandbox_at_once(home: Home) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with home.locked():
            entered.set()
            leave.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(10)
    try:
        with pytest.raises(BusyError, match="try-1"), home.locked(patience_s=0.1):
            pass
    finally:
        leave.set()
        holder.join()
    with home.locked(patience_s=1):
        home.remove()

    assert not home.directory.exists()


def test_a_place_that_cannot_be_written_is_told_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(StackError) as refused:
        Home(tmp_path / "file").make()

    assert "KARPENTER_SANDBOX_HOME" in refused.value.hint


def test_emptying_takes_the_objects_and_the_logs_and_leaves_the_record(home: Home) -> None:
    save(home.record, a_record())
    home.data.mkdir()
    home.log("kube").write_text("words", encoding="utf-8")

    home.empty()

    assert home.record.exists()
    assert not home.data.exists()
    assert not home.log("kube").exists()
