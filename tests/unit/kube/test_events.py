# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from karpenter.api.core import Pod
from karpenter.api.meta import ObjectMeta
from karpenter.kit.clock import FakeClock
from karpenter.kube import Recorder, Subject
from karpenter.kube.kinds import PODS
from tests.unit.kube.paper import Paper, client_for, paper_server, refuses, says, until

SUBJECT = Subject.of(PODS, Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u1")))


@asynccontextmanager
async def recorder(clock: FakeClock) -> AsyncIterator[tuple[Paper, Recorder]]:
    """A recorder whose server accepts everything."""
    async with paper_server() as paper, client_for(paper, clock=FakeClock()) as client:
        paper.always = says({})
        yield paper, Recorder(client, instance="replica-1", clock=clock)


async def test_an_event_names_its_object_and_who_says_it() -> None:
    async with recorder(FakeClock()) as (paper, events):
        assert events.tell(SUBJECT, "FailedScheduling", "no room", type="Warning")
        await events.drain()

    [seen] = paper.seen
    assert seen.path == "/api/v1/namespaces/shop/events"
    assert seen.body["involvedObject"] == {
        "kind": "Pod",
        "apiVersion": "v1",
        "name": "web",
        "namespace": "shop",
        "uid": "u1",
    }
    assert (seen.body["type"], seen.body["reason"], seen.body["count"]) == ("Warning", "FailedScheduling", 1)
    assert seen.body["firstTimestamp"] == seen.body["lastTimestamp"] == "2026-01-01T00:00:00Z"
    assert (seen.body["reportingComponent"], seen.body["reportingInstance"]) == ("karpenter", "replica-1")


async def test_an_object_without_a_namespace_has_its_events_in_default() -> None:
    async with recorder(FakeClock()) as (paper, events):
        events.tell(Subject("NodePool", "karpenter.sh/v1", "default"), "Ready", "it is")
        await events.drain()

    assert paper.seen[0].path == "/api/v1/namespaces/default/events"


async def test_the_same_words_are_said_once_and_counted_when_they_come_again_later() -> None:
    clock = FakeClock()
    async with recorder(clock) as (paper, events):
        said = [events.tell(SUBJECT, "Nominated", "to n1"), events.tell(SUBJECT, "Nominated", "to n1")]
        await events.drain()
        clock.tick(121)
        said.append(events.tell(SUBJECT, "Nominated", "to n1"))
        await events.drain()

    assert said == [True, False, True]
    assert [seen.method for seen in paper.seen] == ["POST", "PATCH"]
    assert paper.seen[1].path.endswith(paper.seen[0].body["metadata"]["name"])
    assert paper.seen[1].body == {"count": 2, "lastTimestamp": "2026-01-01T00:02:01Z", "message": "to n1"}


async def test_changing_numbers_do_not_make_news_when_the_topic_is_named() -> None:
    async with recorder(FakeClock()) as (_, events):
        first = events.tell(SUBJECT, "Blocked", "waits 3 s", about="waits")
        second = events.tell(SUBJECT, "Blocked", "waits 4 s", about="waits")

    assert (first, second) == (True, False)


async def test_an_event_that_the_server_has_forgotten_is_begun_anew() -> None:
    clock = FakeClock()
    async with recorder(clock) as (paper, events):
        events.tell(SUBJECT, "Nominated", "to n1")
        await events.drain()
        clock.tick(7200)
        events.tell(SUBJECT, "Nominated", "to n1")
        paper.next(refuses(404, "NotFound"))
        await events.drain()

    assert [seen.method for seen in paper.seen] == ["POST", "PATCH", "POST"]
    assert paper.seen[2].body["count"] == 1
    assert paper.seen[2].body["metadata"]["name"] != paper.seen[0].body["metadata"]["name"]


async def test_a_long_message_is_cut_to_what_the_server_takes() -> None:
    async with recorder(FakeClock()) as (paper, events):
        events.tell(SUBJECT, "Odd", "x" * 5000)
        await events.drain()

    assert len(paper.seen[0].body["message"]) == 1024


async def test_a_refused_event_is_dropped_and_the_next_is_sent() -> None:
    async with recorder(FakeClock()) as (paper, events):
        paper.next(refuses(403, "Forbidden"))
        events.tell(SUBJECT, "One", "1")
        events.tell(SUBJECT, "Two", "2")
        task = asyncio.ensure_future(events.run())
        await until(lambda: len(paper.seen) == 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert events.dropped == 1
    assert paper.seen[1].body["reason"] == "Two"


async def test_a_full_queue_drops_the_oldest_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karpenter.kube.events._QUEUE", 3)
    monkeypatch.setattr("karpenter.kube.events._MEMORY", 2)
    async with recorder(FakeClock()) as (paper, events):
        for number in range(4):
            events.tell(SUBJECT, "Odd", str(number))
        await events.drain()

    assert events.dropped == 1
    assert [seen.body["message"] for seen in paper.seen] == ["1", "2", "3"]
