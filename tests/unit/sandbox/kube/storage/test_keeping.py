# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from karpenter.sandbox.kube.storage.keeping import Keeper, StateError
from karpenter.sandbox.kube.storage.store import Store


def _thing(name: str) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": name, "namespace": "ns"}}


def test_a_store_that_was_closed_comes_back(tmp_path: Path) -> None:
    store = Store()
    keeper = Keeper(tmp_path, store)
    made = store.put("things", _thing("a"), None)
    store.put("things", _thing("b"), None)
    store.remove("things", "ns", "a", made.revision)
    keeper.close()

    again = Store()
    Keeper(tmp_path, again).close()

    assert [each.obj["metadata"]["name"] for each in again.items("things")] == ["b"]
    assert again.revision == store.revision


def test_a_store_that_crashed_comes_back_from_its_log(tmp_path: Path) -> None:
    store = Store()
    crashed = Keeper(tmp_path, store)
    made = store.put("things", _thing("a"), None)
    store.put("things", _thing("b"), None)
    store.remove("things", "ns", "a", made.revision)
    with (tmp_path / "log.jsonl").open("ab") as log:
        log.write(b'{"kind":"things","obj')
    crashed._log.close()
    crashed._lock.close()

    again = Store()
    Keeper(tmp_path, again).close()

    assert [each.obj["metadata"]["name"] for each in again.items("things")] == ["b"]
    assert again.revision == store.revision


def test_a_directory_serves_one_process_at_a_time(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, Store())

    with pytest.raises(StateError, match="in use") as refused:
        Keeper(tmp_path, Store())
    keeper.close()

    assert "--state" in refused.value.hint


def test_a_snapshot_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "snapshot.json").write_text("{", encoding="utf-8")

    with pytest.raises(StateError, match=r"snapshot\.json"):
        Keeper(tmp_path, Store())


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("", encoding="utf-8")

    with pytest.raises(StateError, match="cannot hold the state"):
        Keeper(taken, Store())
