# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from karpenter.cloud.aws.fleet import Launched
from karpenter.cloud.aws.journal import FileJournal, JournalError, LaunchIntent, subnet_zones

REQUEST = {"LaunchTemplateConfigs": [{"Overrides": [{"SubnetId": "s", "AvailabilityZone": "z"}]}]}
INTENT = LaunchIntent(
    token="t-1",
    members=(("u1", 0), ("u2", 3)),
    request=REQUEST,
    capacity_type="spot",
    reservations={},
    written_at=datetime(2026, 1, 1, tzinfo=UTC),
)


async def test_an_intent_survives_and_its_answer_takes_its_place(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "new")
    settled = replace(INTENT, assigned={"u1": Launched("i-1", "m5.large", "z", "spot")})

    empty = await journal.load()
    await journal.put(INTENT)
    first = await FileJournal(tmp_path / "new").load()
    await journal.put(settled)

    assert list(empty) == []
    assert first == [INTENT]
    assert await journal.load() == [settled]


async def test_the_oldest_comes_first_and_what_was_dropped_is_gone(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    older = replace(INTENT, token="t-2", written_at=datetime(2025, 1, 1, tzinfo=UTC))
    await journal.put(INTENT)
    await journal.put(older)

    listed = await journal.load()
    await journal.drop(["t-1", "unknown"])

    assert [each.token for each in listed] == ["t-2", "t-1"]
    assert [each.token for each in await journal.load()] == ["t-2"]


async def test_a_half_written_draft_is_no_intent(tmp_path: Path) -> None:
    (tmp_path / "t-9.draft").write_text("{")

    assert list(await FileJournal(tmp_path).load()) == []


async def test_a_journal_that_cannot_be_read_or_written_stops_launches(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "t-1.json").write_text("{")

    with pytest.raises(JournalError, match="launch journal"):
        await FileJournal(tmp_path).load()
    with pytest.raises(JournalError) as refused:
        await FileJournal(tmp_path / "file").put(INTENT)

    assert "survives a restart" in refused.value.hint


def test_the_zones_of_subnets_are_read_from_the_request() -> None:
    assert subnet_zones(REQUEST) == {"s": "z"}
