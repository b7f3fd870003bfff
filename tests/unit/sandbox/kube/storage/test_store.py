# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.sandbox.kube.storage.store import Change, CompactedError, ConflictError, FutureError, Store


def _thing(name: str, namespace: str = "ns", **more: Any) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": name, "namespace": namespace}, **more}


def test_every_write_gets_a_revision_of_its_own() -> None:
    store = Store()

    first = store.put("things", _thing("a"), None)
    second = store.put("things", _thing("a", size=2), first.revision)

    assert second.revision == first.revision + 1
    assert second.obj["metadata"]["resourceVersion"] == str(second.revision)


def test_a_write_that_saw_an_older_revision_is_refused() -> None:
    store = Store()
    first = store.put("things", _thing("a"), None)
    store.put("things", _thing("a", size=2), first.revision)

    with pytest.raises(ConflictError):
        store.put("things", _thing("a", size=3), first.revision)


def test_a_new_object_under_a_taken_name_is_refused() -> None:
    store = Store()
    store.put("things", _thing("a"), None)

    with pytest.raises(ConflictError):
        store.put("things", _thing("a"), None)


def test_removal_needs_the_latest_revision_and_gives_one() -> None:
    store = Store()
    made = store.put("things", _thing("a"), None)

    with pytest.raises(ConflictError):
        store.remove("things", "ns", "a", made.revision + 5)
    gone = store.remove("things", "ns", "a", made.revision)

    assert gone.obj["metadata"]["resourceVersion"] == str(made.revision + 1)
    assert store.get("things", "ns", "a") is None


def test_lists_are_in_order_of_namespace_and_name() -> None:
    store = Store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y")):
        store.put("things", _thing(name, namespace), None)

    everything = [each.obj["metadata"]["name"] for each in store.items("things")]
    some = [each.obj["metadata"]["name"] for each in store.items("things", "a")]
    rest = [each.obj["metadata"]["name"] for each in store.items("things", after=("a", "y"))]

    assert everything == ["y", "z", "x"]
    assert some == ["y", "z"]
    assert rest == ["z", "x"]


def test_the_past_is_known_until_it_is_compacted() -> None:
    store = Store()
    first = store.put("things", _thing("a"), None)
    second = store.put("things", _thing("b"), None)

    assert [change.revision for change in store.since("things", first.revision)] == [second.revision]

    store.compact(second.revision)

    with pytest.raises(CompactedError):
        store.since("things", first.revision)
    with pytest.raises(FutureError):
        store.since("things", second.revision + 10)


def test_only_so_much_of_the_past_is_kept() -> None:
    store = Store(history=3)
    first = store.put("things", _thing("a"), None)
    for name in "bcde":
        store.put("things", _thing(name), None)

    with pytest.raises(CompactedError):
        store.since("things", first.revision - 1)


async def test_a_watcher_hears_every_change_once_and_in_order() -> None:
    store = Store()
    watcher = store.watch("things")

    for name in "abc":
        store.put("things", _thing(name), None)
    store.put("others", _thing("a"), None)
    heard = await watcher.take(1)

    assert [change.key[1] for change in heard] == ["a", "b", "c"]
    assert await watcher.take(0.01) == []


async def test_a_watcher_that_does_not_keep_up_is_cut_off_and_the_others_are_not() -> None:
    store = Store(watcher_buffer=2)
    slow, quick = store.watch("things"), store.watch("things")

    heard = []
    for name in "abcd":
        store.put("things", _thing(name), None)
        heard += await quick.take(1)

    assert slow.cut_off
    assert await slow.take(1) == []
    assert [change.key[1] for change in heard] == ["a", "b", "c", "d"]


def test_what_is_dumped_can_be_loaded() -> None:
    store = Store()
    store.put("things", _thing("a", size=1), None)
    fresh = Store()

    fresh.load(store.dump())

    found = fresh.get("things", "ns", "a")
    assert found is not None
    assert found.obj["size"] == 1
    assert fresh.revision == store.revision
    assert list(fresh.kinds()) == ["things"]


def test_listeners_hear_in_order_even_if_one_of_them_writes() -> None:
    store = Store()
    heard: list[int] = []

    def answers(change: Change) -> None:
        if change.kind == "/a":
            store.put("/b", {"metadata": {"name": "x"}}, None)

    store.listeners += [answers, lambda change: heard.append(change.revision)]

    store.put("/a", {"metadata": {"name": "x"}}, None)

    assert heard == sorted(heard)
    assert len(heard) == 2
