# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from karpenter.api.core import Node
from karpenter.api.meta import ObjectMeta
from karpenter.kit.clock import FakeClock
from karpenter.kube import Change, Client, Informer
from karpenter.kube.kinds import NODES
from tests.unit.kube.paper import HastyClock, client_for, paper_server, refuses, says, streams, until


def node(name: str, version: int, **labels: str) -> dict[str, Any]:
    """A Node as the server sends it."""
    return {"metadata": {"name": name, "resourceVersion": str(version), "labels": labels}}


def listing(version: int, *items: dict[str, Any]) -> Any:
    """A list at a version."""
    return says({"metadata": {"resourceVersion": str(version)}, "items": list(items)})


def event(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """An event of a watch."""
    return {"type": kind, "object": item}


def decoded(name: str, version: int, **labels: str) -> Node:
    """A Node as we hold it."""
    return Node(metadata=ObjectMeta(name=name, resource_version=str(version), labels=labels))


def zones(item: Node) -> list[str]:
    """Index by zone."""
    return [item.metadata.labels["zone"]] if "zone" in item.metadata.labels else []


@asynccontextmanager
async def running(client: Client, **options: Any) -> AsyncIterator[tuple[Informer[Node], list[str]]]:
    """An informer that follows, and what its handlers have heard."""
    heard: list[str] = []
    options.setdefault("clock", HastyClock())
    informer = Informer(client, NODES, indexes={"zone": zones}, **options)
    informer.on_change(lambda change: heard.append(words(change)))
    task = asyncio.ensure_future(informer.run())
    try:
        yield informer, heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def words(change: Change[Node]) -> str:
    """A change in a word."""
    sign = "+" if change.old is None else "-" if change.new is None else "~"
    return f"{sign}{change.object.metadata.name}@{change.object.metadata.resource_version}"


async def test_it_lists_then_watches_and_keeps_its_indexes() -> None:
    hold = asyncio.Event()
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(
            listing(10, node("a", 5, zone="x"), node("b", 6)),
            streams(
                event("MODIFIED", node("a", 11, zone="y")),
                event("ADDED", node("c", 12, zone="y")),
                event("DELETED", node("b", 13)),
                hold=hold,
            ),
        )
        async with running(client) as (informer, heard):
            await until(lambda: len(heard) == 5)

            assert heard == ["+a@5", "+b@6", "~a@11", "+c@12", "-b@13"]
            assert [item.metadata.name for item in informer.by("zone", "y")] == ["a", "c"]
            assert informer.by("zone", "x") == ()
            assert informer.get("b") is None
            assert len(informer) == 2
            assert informer.is_synced
            await informer.wait_synced()
            hold.set()


async def test_a_watch_that_ends_is_begun_again_where_it_stopped() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(
            listing(10),
            streams(event("BOOKMARK", {"metadata": {"resourceVersion": "40"}})),
            streams(event("ADDED", node("a", 41))),
        )
        paper.always = streams(hold=asyncio.Event())
        async with running(client) as (informer, heard):
            await until(lambda: informer.get("a") and len(paper.seen) == 4)

    assert heard == ["+a@41"]
    assert [seen.query["resourceVersion"] for seen in paper.seen[1:]] == ["10", "40", "41"]


async def test_after_410_everything_is_listed_again_and_a_missed_deletion_comes_to_light() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(
            listing(10, node("a", 5), node("b", 6)),
            refuses(410, "Expired"),
            listing(50, node("b", 30)),
        )
        paper.always = streams(hold=asyncio.Event())
        async with running(client) as (_, heard):
            await until(lambda: len(heard) == 4)

    assert heard == ["+a@5", "+b@6", "~b@30", "-a@5"]


async def test_trouble_is_reported_and_waited_out() -> None:
    errors: list[Exception] = []
    clock = HastyClock()
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(refuses(403, "Forbidden", "nodes is forbidden"), listing(10, node("a", 5)))
        paper.always = streams(hold=asyncio.Event())
        async with running(client, on_error=errors.append, clock=clock) as (informer, _):
            await until(lambda: informer.get("a"))

    assert "nodes is forbidden" in str(errors[0])
    assert clock.slept


async def test_our_own_write_is_seen_at_once_and_older_news_do_not_undo_it() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        informer = Informer(client, NODES, indexes={"zone": zones})
        informer.observe(decoded("a", 20, zone="new"))

        informer.observe(decoded("a", 15, zone="old"))

        assert informer.by("zone", "new")
        assert not informer.by("zone", "old")
        assert paper.seen == []


async def test_a_list_from_before_our_write_does_not_take_it_away() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(listing(10))
        paper.always = streams(hold=asyncio.Event())
        async with running(client) as (informer, _):
            informer.observe(decoded("mine", 20))
            await informer.wait_synced()

            assert informer.get("mine") is not None


async def test_a_late_answer_does_not_raise_the_dead() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        informer = Informer(client, NODES)
        informer.observe(decoded("a", 20))
        informer.observe_gone(decoded("a", 25))

        informer.observe(decoded("a", 22))
        gone = informer.get("a")
        informer.observe(decoded("a", 30))

    assert gone is None
    assert informer.get("a") is not None
    assert paper.seen == []


async def test_news_of_a_death_before_our_write_is_old_news() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        informer = Informer(client, NODES)
        informer.observe(decoded("a", 20))

        informer.observe_gone(decoded("a", 10))
        informer.observe_gone(decoded("unknown", 10))

        assert informer.get("a") is not None
        assert paper.seen == []


async def test_the_dead_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karpenter.kube.informer._TOMBSTONES", 2)
    informer = Informer(Client.__new__(Client), NODES)
    for number in range(3):
        informer.observe(decoded(f"n{number}", 10))
        informer.observe_gone(decoded(f"n{number}", 20))

    for number in range(3):
        informer.observe(decoded(f"n{number}", 15))

    assert [item.metadata.name for item in informer] == ["n0"]


async def test_a_handler_that_fails_is_reported_and_stops_nothing() -> None:
    errors: list[Exception] = []
    heard: list[str] = []
    informer = Informer(Client.__new__(Client), NODES, on_error=errors.append)

    def broken(change: Change[Node]) -> None:
        raise ValueError(words(change))

    informer.on_change(broken)
    informer.on_change(lambda change: heard.append(words(change)))
    informer.observe(decoded("a", 1))

    assert heard == ["+a@1"]
    assert [str(error) for error in errors] == ["+a@1"]


async def test_a_handler_that_comes_late_hears_of_all_that_is_there() -> None:
    informer = Informer(Client.__new__(Client), NODES)
    informer.observe(decoded("a", 1))
    heard: list[str] = []

    informer.on_change(lambda change: heard.append(words(change)))

    assert heard == ["+a@1"]


async def test_a_resync_tells_of_every_object_again() -> None:
    clock = FakeClock()
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(listing(10, node("a", 5)))
        paper.always = streams(hold=asyncio.Event())
        async with running(client, resync_s=60, clock=clock) as (informer, heard):
            await informer.wait_synced()
            await clock.advance(61)

    assert heard == ["+a@5", "~a@5"]


async def test_a_change_of_nothing_is_refused() -> None:
    nothing: Change[Node] = Change(None, None)

    with pytest.raises(ValueError, match="nothing"):
        _ = nothing.object


async def test_versions_that_are_no_numbers_let_the_latest_win() -> None:
    informer = Informer(Client.__new__(Client), NODES)
    for version in ("v2", "v1"):
        informer.observe(Node(metadata=ObjectMeta(name="a", resource_version=version)))

    found = informer.get("a")

    assert found is not None
    assert found.metadata.resource_version == "v1"
