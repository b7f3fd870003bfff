# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from karpenter.cloud.aws.fleet import Launched
from karpenter.cloud.aws.journal import JournalError, LaunchIntent
from karpenter.kit.clock import FakeClock
from karpenter.kube import ForbiddenError, Listing, NotFoundError, Recorder
from karpenter.observe import Metrics, get_log
from karpenter.operator.journal import CONFIG_MAPS, KubeJournal, SetAside
from tests.unit.controllers.paper import PaperClient

START = datetime(2026, 1, 1, tzinfo=UTC)


def intent(token: str, minutes: int = 0, assigned: dict[str, Launched] | None = None) -> LaunchIntent:
    """A launch for one claim."""
    return LaunchIntent(
        token=token,
        members=(("uid-1", 0),),
        request={"ClientToken": token, "Type": "instant"},
        capacity_type="spot",
        reservations={},
        written_at=START + timedelta(minutes=minutes),
        assigned=assigned,
    )


async def test_what_was_written_is_read_by_the_next_the_oldest_first() -> None:
    client = PaperClient()
    await KubeJournal(client, "karpenter").put(intent("b", 5))
    await KubeJournal(client, "karpenter").put(intent("A", 1))

    found = await KubeJournal(client, "karpenter").load()

    assert [each.token for each in found] == ["A", "b"]
    assert found[0] == intent("A", 1)


async def test_an_answer_takes_the_place_of_the_question() -> None:
    client = PaperClient()
    journal = KubeJournal(client, "karpenter")
    await journal.put(intent("a"))

    await journal.put(intent("a", assigned={}))

    [found] = await journal.load()
    assert found.assigned == {}
    assert [each.verb for each in client.calls] == ["create", "patch"]


async def test_a_question_that_is_asked_again_and_an_answer_without_one_are_written_too() -> None:
    client = PaperClient()
    journal = KubeJournal(client, "karpenter")
    await journal.put(intent("a"))

    await journal.put(intent("a", minutes=3))
    await journal.put(intent("b", minutes=4, assigned={}))

    assert [(each.token, each.assigned) for each in await journal.load()] == [("a", None), ("b", {})]


async def test_a_settled_launch_is_dropped_and_dropping_twice_is_no_trouble() -> None:
    client = PaperClient()
    journal = KubeJournal(client, "karpenter")
    await journal.put(intent("a"))

    await journal.drop(["a", "gone"])

    assert await journal.load() == []


async def test_without_rights_nothing_may_be_launched() -> None:
    client = PaperClient()
    journal = KubeJournal(client, "karpenter")
    client.fail("create", "configmaps", ForbiddenError("configmaps is forbidden", status=403))

    with pytest.raises(JournalError, match="cannot be written") as caught:
        await journal.put(intent("a"))

    assert "Role" in caught.value.hint


async def test_trouble_with_deleting_is_told() -> None:
    client = PaperClient()
    journal = KubeJournal(client, "karpenter")
    await journal.put(intent("a"))
    client.fail("delete", "configmaps", ForbiddenError("no", status=403))

    with pytest.raises(JournalError, match="cannot be deleted"):
        await journal.drop(["a"])


async def test_a_journal_that_cannot_be_listed_stops_launches() -> None:
    client = PaperClient()

    async def refuse(*_: Any, **__: Any) -> Any:
        raise ForbiddenError("no", status=403)

    client.list = refuse  # type: ignore[method-assign]

    with pytest.raises(JournalError, match="cannot be read"):
        await KubeJournal(client, "karpenter").load()


class Labelled(PaperClient):
    """Lists by one label, as the server does."""

    async def list(self, kind: Any, namespace: str = "", **options: Any) -> Any:
        """Read the objects that have the label."""
        found = await super().list(kind, namespace)
        key, _, value = options["labels"].partition("=")
        kept = tuple(each for each in found.items if each.metadata.labels.get(key) == value)
        return Listing(kept, found.resource_version)


@pytest.mark.parametrize(
    "spoiled", ["nonsense", "", '{"token": 1}', msgspec.json.encode(intent("b")).decode()]
)
async def test_an_intent_that_cannot_be_read_is_set_aside_and_told_of_once(spoiled: str) -> None:
    client = Labelled()
    recorder, metrics = Recorder(client, clock=FakeClock()), Metrics()
    journal = KubeJournal(client, "karpenter", SetAside(recorder, metrics, get_log("test")))
    await journal.put(intent("a"))
    await journal.put(intent("good"))
    await client.patch(CONFIG_MAPS, "karpenter-launch-a", {"data": {"intent": spoiled}}, "karpenter")

    first = await journal.load()
    second = await journal.load()

    assert [each.token for each in first] == [each.token for each in second] == ["good"]
    assert metrics.launch_intents_set_aside._value.get() == 1
    [event] = recorder._queue
    assert (event.subject.kind, event.subject.name, event.reason) == (
        "ConfigMap",
        "karpenter-launch-a",
        "LaunchIntentSetAside",
    )
    assert "kubectl -n karpenter delete configmap karpenter-launch-a" in event.message
    kept = client.raw_object(CONFIG_MAPS, "karpenter-launch-a", "karpenter")
    assert kept is not None
    assert kept["data"]["intent"] == spoiled


async def test_an_intent_that_cannot_be_set_aside_holds_up_no_launch_either() -> None:
    client = PaperClient()
    told: list[str] = []
    journal = KubeJournal(client, "karpenter", lambda found, _: told.append(found.metadata.name))
    await journal.put(intent("a"))
    await client.patch(CONFIG_MAPS, "karpenter-launch-a", {"data": {"intent": "{"}}, "karpenter")
    client.fail("patch", "configmaps", ForbiddenError("no", status=403))

    assert await journal.load() == []
    await journal.set_aside("b", "it is forged")

    assert told == ["karpenter-launch-a", "karpenter-launch-b"]


async def test_the_namespace_of_the_journal_is_made_where_it_is_missing() -> None:
    client = PaperClient()
    missing = [NotFoundError("namespaces not found", status=404)] * 2
    client.fail("create", "configmaps", *missing[:1])
    await KubeJournal(client, "karpenter-state").put(intent("a"))
    client.fail("create", "configmaps", *missing[1:])
    await KubeJournal(client, "karpenter-state").put(intent("b"))

    assert [call.name for call in client.writes("create", "namespaces")] == ["karpenter-state"] * 2
    assert len(await KubeJournal(client, "karpenter-state").load()) == 2
