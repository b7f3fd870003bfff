# SPDX-License-Identifier: Apache-2.0
"""What an informer does when watches end, break, are refused or fall silent, and when objects do not decode."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from karpenter.kube import Informer, UnreachableError, UnreadableError
from karpenter.kube.errors import SilentWatchError
from karpenter.kube.informer import STALE_S
from karpenter.kube.kinds import NODES
from tests.unit.kube.paper import (
    HastyClock,
    Paper,
    Seen,
    client_for,
    paper_server,
    refuses,
    says,
    streams,
    until,
)
from tests.unit.kube.test_informer import event, listing, node, running

ODD = {
    "metadata": {
        "name": "a",
        "uid": "u",
        "resourceVersion": "20",
        "creationTimestamp": "0000-01-01T00:00:00Z",
    }
}


async def breaks(seen: Seen) -> web.StreamResponse:
    """Begin a watch and cut the connection."""
    response = web.StreamResponse()
    await response.prepare(seen.request)
    assert seen.request.transport is not None
    seen.request.transport.close()
    return response


def watches(paper: Paper) -> list[Seen]:
    """The watches that were asked for."""
    return [seen for seen in paper.seen if "watch" in seen.query]


def lists_and(watch: Any) -> Any:
    """Answer lists with one node, and watches as told."""

    def answer(seen: Seen) -> Any:
        return watch(seen) if "watch" in seen.query else listing(10, node("a", 5))(seen)

    return answer


@pytest.mark.parametrize("end", [streams(), refuses(410, "Expired"), breaks])
async def test_watches_that_end_at_once_are_reopened_ever_more_slowly(end: Any) -> None:
    clock = HastyClock()
    async with paper_server() as paper, client_for(paper, clock=clock) as client:
        paper.always = lists_and(end)
        async with running(client, clock=clock):
            await until(lambda: clock.monotonic() > 300)

    # After the first few, one in five seconds, less or more by the jitter.
    assert len(watches(paper)) < 300 / 3.5 + 10
    assert len(paper.seen) < 2 * (300 / 3.5 + 10)


async def test_watches_pass_the_rate_limit_of_the_client() -> None:
    clock = HastyClock()
    async with paper_server() as paper, client_for(paper, clock=clock, qps=0.01, burst=2) as client:
        paper.always = lists_and(streams())
        async with running(client, clock=clock):
            await until(lambda: len(watches(paper)) >= 4)

    # The list and the first watch are free; each of the three others waits for its token.
    assert clock.monotonic() >= 3 * 99


async def test_a_watch_that_lasted_is_reopened_at_once_where_it_ended() -> None:
    clock = HastyClock()

    async def lasts(seen: Seen) -> web.StreamResponse:
        clock.tick(55)
        response = web.StreamResponse()
        await response.prepare(seen.request)
        await response.write(b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "40"}}}\n')
        return response

    async with paper_server() as paper, client_for(paper) as client:
        paper.next(listing(10), lasts, lasts)
        paper.always = streams(hold=asyncio.Event())
        async with running(client, clock=clock):
            await until(lambda: len(paper.seen) == 4)

    assert clock.slept == []
    assert [seen.query["resourceVersion"] for seen in watches(paper)] == ["10", "40", "40"]


async def test_a_connection_that_breaks_is_taken_up_where_it_broke() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(listing(10), breaks)
        paper.always = streams(hold=asyncio.Event())
        errors: list[Exception] = []
        async with running(client, on_error=errors.append):
            await until(lambda: len(paper.seen) == 3)

    assert [seen.query["resourceVersion"] for seen in watches(paper)] == ["10", "10"]
    assert isinstance(errors[0], UnreachableError)


async def test_a_connection_that_breaks_after_a_long_silence_is_followed_by_a_list() -> None:
    clock = HastyClock()

    async def breaks_late(seen: Seen) -> web.StreamResponse:
        clock.tick(20)
        return await breaks(seen)

    async with paper_server() as paper, client_for(paper) as client:
        paper.next(listing(10), breaks_late, listing(30))
        paper.always = streams(hold=asyncio.Event())
        async with running(client, clock=clock):
            await until(lambda: len(paper.seen) == 4)

    assert ["watch" in seen.query for seen in paper.seen] == [False, True, False, True]


async def test_a_silent_watch_is_noticed_and_shown_until_the_next_one_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("karpenter.kube.client._WATCH_SILENCE_S", 0.05)
    errors: list[Exception] = []
    clock = HastyClock()
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(listing(10))
        paper.always = lists_and(streams(hold=asyncio.Event()))
        async with running(client, on_error=errors.append, clock=clock) as (informer, _):
            await until(lambda: informer.get("a"))
            silent = informer.staleness
            paper.always = lists_and(streams(event("BOOKMARK", {"metadata": {"resourceVersion": "40"}})))
            await until(lambda: not informer.staleness)

    assert silent == "the watch of nodes was silent for 0.05 s"
    assert isinstance(errors[0], SilentWatchError)
    assert "proxy" in errors[0].hint


def test_a_watch_asks_the_server_to_end_it_before_it_counts_as_silent() -> None:
    from karpenter.kube import client  # noqa: PLC0415 - the numbers themselves are what is tested

    assert client._WATCH_S < client._WATCH_SILENCE_S < STALE_S == 70


async def test_a_copy_is_stale_when_nothing_was_heard_for_long() -> None:
    clock = HastyClock()
    async with paper_server() as paper, client_for(paper) as client:
        informer = Informer(client, NODES, clock=clock)
        unlisted = informer.staleness, informer.heard_ago_s
        paper.next(listing(10))
        paper.always = streams(hold=asyncio.Event())
        task = asyncio.ensure_future(informer.run())
        await informer.wait_synced()
        clock.tick(69)
        fresh = informer.staleness
        clock.tick(5)
        stale = informer.staleness
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert unlisted == ("", 0.0)
    assert fresh == ""
    assert stale == "nothing was heard of nodes for 74 s"


async def test_an_object_that_no_longer_decodes_stays_as_it_was_and_is_named_until_it_does() -> None:
    hold = asyncio.Event()
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(listing(10, node("a", 5)), streams(event("MODIFIED", ODD)), refuses(410))
        paper.next(says({"metadata": {"resourceVersion": "30"}, "items": [ODD]}))
        paper.always = streams(hold=hold)
        async with running(client) as (informer, heard):
            await until(lambda: len(paper.seen) == 5)
            kept, named = informer.get("a"), dict(informer.unreadable)
            paper.next(streams(event("MODIFIED", node("a", 41)), hold=asyncio.Event()))
            hold.set()
            await until(lambda: len(heard) == 2)

            assert kept is not None
            assert kept.metadata.resource_version == "5"
            assert [(each.name, each.uid) for each in named.values()] == [("a", "u")]
            assert "creationTimestamp" in named["", "a"].problem
            assert heard == ["+a@5", "~a@41"]
            assert informer.unreadable == {}


async def test_an_object_that_does_not_decode_goes_with_its_deletion() -> None:
    gone = {"metadata": {**ODD["metadata"], "resourceVersion": "31"}}
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(
            listing(10, node("a", 5), node("b", 6)),
            streams(
                event("MODIFIED", ODD),
                event("DELETED", gone),
                event("MODIFIED", {"metadata": {**ODD["metadata"], "name": "b"}}),
                event("DELETED", node("b", 33)),
            ),
        )
        paper.always = streams(hold=asyncio.Event())
        async with running(client) as (informer, heard):
            await until(lambda: len(heard) == 4)

            assert heard == ["+a@5", "+b@6", "-a@5", "-b@33"]
            assert informer.unreadable == {}


async def test_an_answer_that_does_not_decode_is_an_error_with_a_hint() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(says(ODD))

        with pytest.raises(UnreadableError, match="GET /api/v1/nodes/a cannot be read as Node") as caught:
            await client.get(NODES, "a")

    assert "kubectl edit nodes" in caught.value.hint
