# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from karpenter.cloud.aws.fleet import Launched
from karpenter.cloud.aws.journal import JournalError, LaunchIntent
from karpenter.kube import ForbiddenError
from karpenter.operator.journal import CONFIG_MAPS, KubeJournal
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


async def test_trouble_with_deleting_and_an_intent_that_cannot_be_read_are_told() -> None:
    client = PaperClient()
    journal = KubeJournal(client, "karpenter")
    await journal.put(intent("a"))
    client.fail("delete", "configmaps", ForbiddenError("no", status=403))
    with pytest.raises(JournalError, match="cannot be deleted"):
        await journal.drop(["a"])
    await client.patch(CONFIG_MAPS, "karpenter-launch-a", {"data": {"intent": "nonsense"}}, "karpenter")

    with pytest.raises(JournalError, match="cannot be read"):
        await journal.load()
