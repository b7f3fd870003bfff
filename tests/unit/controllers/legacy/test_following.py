# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

from karpenter.controllers.legacy import STORED_PROVISIONERS, OldKinds
from karpenter.kit.clock import FakeClock
from tests.unit.controllers.legacy.paperold import OldPaperClient, provisioner


async def test_a_kind_that_is_not_served_counts_as_empty_and_is_asked_for_again() -> None:
    clock = FakeClock()
    client = OldPaperClient(clock)
    client.missing = {"provisioners", "awsnodetemplates"}
    old = OldKinds(client, clock)
    task = asyncio.ensure_future(old.run())
    await clock.settle()
    assert old.is_ready
    assert old.is_empty

    client.missing = set()
    client.store(STORED_PROVISIONERS, provisioner())
    await clock.advance(29)
    assert old.is_empty
    await clock.advance(2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert old.is_ready
    assert [each.metadata.name for each in old.provisioners] == ["default"]


async def test_what_was_heard_in_an_earlier_run_does_not_count() -> None:
    clock = FakeClock()
    client = OldPaperClient(clock)
    old = OldKinds(client, clock)
    assert not old.is_ready
    task = asyncio.ensure_future(old.run())
    await clock.settle()
    assert old.is_ready
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await clock.advance(60)

    task = asyncio.ensure_future(old.run())
    await asyncio.sleep(0)
    before = old.is_ready
    await clock.settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert not before
    assert old.is_ready
