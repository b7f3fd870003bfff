# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from karpenter.kit.clock import FakeClock
from karpenter.kube import Client, Elector, FencedError, LeaseTimes
from tests.unit.kube.paper import Seen, client_for, paper_server, until


class OneLease:
    """A server that keeps one Lease, with versions and conflicts."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.is_down = False

    def __call__(self, seen: Seen) -> web.StreamResponse:
        if self.is_down:
            return web.json_response({"message": "etcd is away"}, status=500)
        if seen.method == "GET" and self.lease is None:
            return web.json_response({"reason": "NotFound"}, status=404)
        if seen.method == "POST":
            if self.lease is not None:
                return web.json_response({"reason": "AlreadyExists"}, status=409)
            self.lease = {"metadata": seen.body["metadata"], "spec": seen.body["spec"]}
        assert self.lease is not None
        if seen.method == "PATCH":
            if seen.body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return web.json_response({"reason": "Conflict"}, status=409)
            self.lease["spec"] |= seen.body["spec"]
        if seen.method != "GET":
            self.version += 1
            self.lease["metadata"]["resourceVersion"] = str(self.version)
        return web.json_response(self.lease)

    @property
    def holder(self) -> str:
        """Who holds it."""
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else ""


@asynccontextmanager
async def server() -> AsyncIterator[tuple[OneLease, Client]]:
    """A server with no lease yet, and a client."""
    store = OneLease()
    async with paper_server() as paper, client_for(paper) as client:
        paper.always = store
        yield store, client


def elector(client: Client, identity: str, clock: FakeClock, heard: list[bool] | None = None) -> Elector:
    """A candidate with short names."""
    return Elector(
        client,
        name="leader",
        namespace="kube-system",
        identity=identity,
        clock=clock,
        on_change=heard.append if heard is not None else None,
    )


async def test_the_first_to_come_creates_the_lease_and_leads() -> None:
    clock = FakeClock()
    async with server() as (store, client):
        one = elector(client, "one", clock)
        await one._step()

    assert one.is_leader
    assert one.leader == "one"
    one.check()
    assert store.lease is not None
    assert store.lease["spec"]["leaseDurationSeconds"] == 15
    assert store.lease["spec"]["acquireTime"] == "2026-01-01T00:00:00.000000Z"


async def test_the_second_waits_until_it_has_seen_no_renewal_for_the_duration() -> None:
    clock = FakeClock()
    async with server() as (store, client):
        one, two = elector(client, "one", clock), elector(client, "two", clock)
        await one._step()
        await two._step()
        clock.tick(14)
        await two._step()
        early = two.is_leader
        clock.tick(1)
        await two._step()

    assert not early
    assert two.is_leader
    assert not one.is_leader
    assert store.holder == "two"
    assert store.lease is not None
    assert store.lease["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_renews_is_left_alone() -> None:
    clock = FakeClock()
    async with server() as (_, client):
        one, two = elector(client, "one", clock), elector(client, "two", clock)
        for _ in range(20):
            await one._step()
            await two._step()
            clock.tick(2)

    assert one.is_leader
    assert not two.is_leader
    assert two.leader == "one"


async def test_a_leader_that_was_stopped_finds_out_before_it_writes() -> None:
    clock = FakeClock()
    async with server() as (_, client):
        one = elector(client, "one", clock)
        await one._step()
        clock.tick(10)

    assert not one.is_leader
    with pytest.raises(FencedError, match="one does not hold the lease kube-system/leader") as caught:
        one.check()
    assert "waits" in caught.value.hint


async def test_of_two_that_take_over_at_once_one_succeeds() -> None:
    clock = FakeClock()
    async with server() as (store, client):
        old, one, two = (elector(client, name, clock) for name in ("old", "one", "two"))
        await old._step()
        await asyncio.gather(one._step(), two._step())
        clock.tick(16)
        await asyncio.gather(one._step(), two._step())

    assert [one.is_leader, two.is_leader].count(True) == 1
    assert store.holder in {"one", "two"}


async def test_who_gives_up_is_followed_without_a_wait() -> None:
    clock = FakeClock()
    async with server() as (store, client):
        one, two = elector(client, "one", clock), elector(client, "two", clock)
        await one._step()
        await two._step()
        await one.release()
        released = store.holder
        await two._step()
        await one.release()

    assert released == ""
    assert not one.is_leader
    assert two.is_leader


async def test_it_runs_tells_of_changes_and_survives_an_outage() -> None:
    clock, heard = FakeClock(), list[bool]()
    async with server() as (store, client):
        one = elector(client, "one", clock, heard)
        task = asyncio.ensure_future(one.run())
        await until(lambda: one.is_leader and clock.sleeping)
        async with asyncio.timeout(5):
            await one.wait_leading()
            store.is_down = True
            while one.is_leader or heard[-1]:
                clock.tick(2)
                await asyncio.sleep(0.005)
            await one.wait_lost()
            store.is_down = False
            while not (one.is_leader and heard[-1]):
                clock.tick(2)
                await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert heard == [True, False, True]


async def test_one_who_lost_the_race_to_create_does_not_lead() -> None:
    clock = FakeClock()
    async with server() as (store, client):
        one = elector(client, "one", clock)
        store.lease = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "two"}}
        await one._create(0.0)

    assert not one.is_leader


def test_times_that_would_let_two_lead_are_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        LeaseTimes(duration_s=10, renew_deadline_s=15)
