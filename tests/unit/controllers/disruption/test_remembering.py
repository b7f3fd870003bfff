# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.consolidation import Memory
from karpenter.controllers.disruption import remembering as module
from karpenter.controllers.disruption.remembering import Remembering, replicas_of
from karpenter.kit.clock import FakeClock
from karpenter.kube import ForbiddenError
from karpenter.kube.kinds import REPLICA_SETS, STATEFUL_SETS
from tests.unit.controllers.disruption.world import Store, World


def learnt(memory: Memory) -> Memory:
    """A memory with a promise."""
    return memory.promised("a", "Empty", 0.1, 1.0)


async def test_the_next_process_knows_what_the_last_one_learnt() -> None:
    store = Store()
    first, second = Remembering(store, FakeClock()), Remembering(store, FakeClock())
    await first.load()

    first.learn(learnt)
    await first.save()
    await second.load()

    assert second.memory == first.memory != Memory()


async def test_it_is_written_now_and_then_and_only_when_it_has_changed() -> None:
    clock, store = FakeClock(), Store()
    kept = Remembering(store, clock)
    kept.learn(learnt)
    await kept.save()
    first = store.text

    kept.learn(lambda memory: memory.promised("b", "Empty", 0.1, 2.0))
    await kept.save()
    assert store.text == first
    await kept.save(now=True)
    assert store.text != first
    store.text = ""
    await clock.advance(31)
    await kept.save()
    assert store.text == ""


async def test_a_memory_that_cannot_be_read_or_kept_is_told_and_does_not_matter() -> None:
    store = Store()
    store.text = "no memory"
    kept = Remembering(store, FakeClock())
    await kept.load()
    assert kept.memory == Memory()

    class Refusing(Store):
        """A store without rights."""

        async def load(self) -> str:
            """Refuse."""
            raise ForbiddenError("no", status=403)

        async def save(self, text: str) -> None:
            """Refuse."""
            del text
            raise ForbiddenError("no", status=403)

    kept = Remembering(Refusing(), FakeClock())
    await kept.load()
    kept.learn(learnt)
    await kept.save()
    assert kept._written == ""


async def test_a_memory_that_is_too_large_loses_what_is_learnt_soonest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LONGEST", 300)
    store = Store()
    kept = Remembering(store, FakeClock())
    kept.learn(lambda memory: memory.counted({f"shop/ReplicaSet/a{number}": 3 for number in range(20)}, 1.0))

    await kept.save()

    assert 0 < len(store.text) < 300


def test_workloads_are_counted_by_what_is_asked_for_and_old_revisions_are_not() -> None:
    world = World()
    for name, number in (("now", 3), ("old", 0), ("zero", 0)):
        made = {"metadata": {"name": name, "namespace": "shop"}, "spec": {"replicas": number}}
        world.client.store(REPLICA_SETS, made)
    world.client.store(
        STATEFUL_SETS, {"metadata": {"name": "db", "namespace": "shop"}, "spec": {"replicas": 1}}
    )
    memory = Memory().counted({"shop/ReplicaSet/zero": 5}, 1.0)

    found = replicas_of(world.cluster, memory)

    assert found == {"shop/ReplicaSet/now": 3, "shop/ReplicaSet/zero": 0, "shop/StatefulSet/db": 1}
